"""Signatures of third-party methods and constructors: the parameters, and the argument that each one takes."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import takewhile
from types import SimpleNamespace
from typing import Any, cast

from harness.bridge.call_log import call
from harness.bridge.clients.annotations import classes_among, hints_of, item_class, members_of, own_classes_in
from harness.bridge.clients.checked_options import accepted_options, delegate_of_options
from harness.bridge.clients.decorated_functions import decorated_function, is_decorated
from harness.bridge.clients.example_objects import example_maker, is_usual_object
from harness.bridge.clients.filled_objects import filled_parameter
from harness.bridge.clients.format_records import format_record
from harness.bridge.clients.forms import ANTHROPIC, Form
from harness.bridge.clients.names import (
    FIELD_ALIASES,
    KNOWN_PARAMETERS,
    METHODS,
    MODELS,
    PROVIDERS,
    SYNONYMS,
    TOOL_PARAMETERS,
    first_known,
    is_naming,
)
from harness.bridge.clients.option_dictionaries import OptionDictionary, option_dictionary
from harness.bridge.clients.prompt_records import record_class
from harness.bridge.clients.sent_tools import names_converted_to_tools
from harness.bridge.clients.sources import MethodCode, classes_with_imports, modules_of_package, source_of

_OPENAI_PARAMETERS = ("tools", "tool_choice", "response_format", "max_tokens", "temperature", "top_p", "stop", "stream")

_SDK_CALL = (
    r"(?:await\s+)?[\w.]+\.(?:(?:messages|completions|responses)(?:\.with_raw_response)?\.create"
    r"|models\.generate_content)\("
)
"""Start of code that calls an official SDK's method for requests."""

_ANTHROPIC_SETTINGS = frozenset({"max_tokens", "temperature", "top_p"})


@dataclass(frozen=True, slots=True)
class Method(MethodCode):
    """A client's method, as a path of attribute names from the client, with the names of its parameters.

    The path of a plain function is empty. `is_open` is set if the method accepts any keyword argument. `required` holds
    the parameters without a default, and `preset` the defaults that are non-empty texts. `hints` holds the
    annotations. If the method has a parameter for the provider, `keys` holds the keys of the module's dictionaries.

    If the method takes a single object that holds the messages or one text, `packed` is its parameter and the class of
    that object. The names are then the fields of the class. If it takes an object for options beside the messages, such
    as `options: Options`, the names include the fields of its class, and `options` is its parameter, its class and
    these fields. `annotations` holds the source of the annotations, which `hints` lacks if they name something that
    only type checkers import. `variadic` is the name of `*values` in the signature,
    and `switches` holds the parameters that are `True` or `False`, by their defaults or annotations. `fixed` holds the
    arguments that a method sets itself where it passes its `**options` on, so that they cannot be among the options.
    `is_decorated` is set for a function that a decorator of another file replaced by its own, which may send anything.
    A constructor that takes its options in a `dictionary` has their names in snake case as further parameters.
    `delegated` holds the parameters that only the signature shows, because the code passes its `**options` on.
    `filled` is a further parameter for an object that the method fills with its answer, and the class of that object.
    """

    path: tuple[str, ...]
    names: frozenset[str]
    is_open: bool
    required: frozenset[str] = frozenset()
    preset: Mapping[str, str] = field(default_factory=dict[str, str])
    hints: Mapping[str, object] = field(default_factory=dict[str, object])
    keys: tuple[str, ...] = ()
    packed: tuple[str, type] | None = None
    options: tuple[str, type, frozenset[str]] | None = None
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    variadic: str = ""
    switches: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    is_decorated: bool = False
    dictionary: OptionDictionary | None = None
    delegated: frozenset[str] = frozenset()
    filled: tuple[str, type] | None = None

    def parameter(self, name: str, form: Form) -> str | None:
        """Return the name of the parameter for an argument of this message format, or `None` if the method has none."""
        known = SYNONYMS["contents" if name == form.messages == "contents" else name] if name in SYNONYMS else (name,)
        if name == "prompt":
            return self.prompt or (known[0] if self.is_open else None)
        found = first_known(known, self.names - self.delegated) or first_known(known, self.names)
        found = found or self._parameter_by_use(name, form)
        usual = name if form is ANTHROPIC else known[0]
        return found or (usual if self.is_open and usual not in self.fixed else None)

    def _parameter_by_use(self, name: str, form: Form) -> str | None:
        """Return the parameter with an unusual name for the messages, the tools, the tool choice or the schema."""
        if name == form.messages:
            return self.only_list or self.text_or_list
        if name == "messages":
            return self.text_pairs
        if name == "tools":
            return next((each for each in sorted(self.names) if _lists_tools(self.hints.get(each))), self._sent_tools)
        if name == "json_schema":
            return self.format_parameter
        if name in ("tool_choice", "tool_config"):
            return next((each for each in _TESTED_CHOICE.findall(self.with_imports) if each in self.names), None)
        return None

    @property
    def takes_body(self) -> bool:
        """Return whether the method takes the whole body of a request. See `body_method`."""
        return self.is_open and not self.names

    @property
    def format_class(self) -> str | None:
        """The required parameter for a class that is the format of the answer, such as a Pydantic model."""
        classes = {name for name in self.required if _CLASS_ANNOTATION.fullmatch(self.annotations.get(name, ""))}
        return next(iter(classes)) if len(classes) == 1 else None

    @property
    def format_parameter(self) -> str | None:
        """The parameter for the format of the answer, as a class or as an object that holds its schema."""
        return self.format_class or next(filter(self.format_kind, sorted(self.names)), None)

    def format_kind(self, name: str) -> type[Any] | None:
        """Return the class of a parameter for an object that holds the schema of the answer, or `None`."""
        return format_record(self.hints.get(name))

    @property
    def _sent_tools(self) -> str | None:
        """The only parameter with an unusual name whose value the code sends as the tools of a request."""
        known = {*KNOWN_PARAMETERS, *SYNONYMS["prompt"], *SYNONYMS["messages"]}
        found = names_converted_to_tools(self.source) & (self.names - known)
        return next(iter(found)) if len(found) == 1 else None

    @property
    def tools_parameter(self) -> str | None:
        """The parameter for tools, by its name, its annotation or its use. Tools among `**options` have none."""
        return first_known(SYNONYMS["tools"], self.names) or self._parameter_by_use("tools", ANTHROPIC)

    def packed_arguments(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Return arguments as the method takes them: all of them in one object, or the options in one."""
        if self.dictionary is not None:
            return self.dictionary.pack(arguments)
        if self.packed is not None:
            name, kind = self.packed
            own = arguments.keys() if self.takes_body else _field_names(kind)
            packed = {each: value for each, value in arguments.items() if each in own}
            rest = {each: value for each, value in arguments.items() if each not in own}
            return {name: cast("object", kind(**packed)), **rest}
        if self.options is None:
            return arguments
        name, kind, fields = self.options
        options = {each: value for each, value in arguments.items() if each in fields}
        return {name: kind(**options), **{each: arguments[each] for each in arguments if each not in fields}}

    def without_open_parameters(self, api: str) -> Method:
        """Return the method without its `**params`, but with the parameters among them that its source mentions or that
        this API has as well.
        """
        if not self.is_open:
            return self
        mentioned = {name for name in _OPENAI_PARAMETERS if re.search(rf"[\"']{name}[\"']", self.source)}
        mentioned -= {"tools"} if self.tools_parameter is not None else set()
        same = _ANTHROPIC_SETTINGS if api == ANTHROPIC.name else frozenset[str]()
        return replace(self, names=self.names | mentioned | same, is_open=False)

    @property
    def prompt(self) -> str | None:
        """The parameter for the text of the user.

        If none has a usual name, it is the only required parameter of a method that sends a request.
        """
        usual = first_known(SYNONYMS["prompt"], self.required) or first_known(SYNONYMS["prompt"], self._text_names)
        usual = usual or self._texts_by_place
        unknown = self.required - KNOWN_PARAMETERS - {*filter(is_naming, self.required)}
        unknown -= {"self", *SYNONYMS["messages"], *SYNONYMS["json_schema"], *TOOL_PARAMETERS, self.format_class or ""}
        if usual is not None or len(unknown) != 1:
            return usual
        name = next(iter(unknown))
        is_text = str in members_of(self.hints.get(name, str)) or item_class(self.hints.get(name)) is str
        is_text = is_text and re.search(r"\bstr\b|_empty", self.annotations.get(name, "str")) is not None
        is_list = _LIST_NAMES.search(name) or re.search(rf"\bfor \w+ in {name}\b(?!\.)", self.source)
        is_text = is_text and (name in self.hints or not is_list)
        is_text = is_text or record_class(self.hints.get(name)) is not None
        return name if is_text and (self.sends_requests or self.is_decorated) else None

    @property
    def _text_names(self) -> frozenset[str]:
        """The parameters that may hold any text. One that is annotated with a choice of words or a switch may not."""
        return frozenset(each for each in self.names if not _NO_TEXT_ANNOTATION.match(self.annotations.get(each, "")))

    @property
    def _texts_by_place(self) -> str | None:
        """The parameter `*values`, if the method takes its texts by place, as in `chat(*content: str)`."""
        is_text = re.search(r"\bstr\b", self.annotations.get(self.variadic, "")) is not None
        is_chat = bool(self.path) and self.path[-1].removesuffix("_async") in (*METHODS, "stream", "__call__")
        return self.variadic if is_text and is_chat and not self.required - {"self"} else None

    def without_unused(self, names: Iterable[str]) -> Method:
        """Return the method without those of these parameters that have a default and that its code never reads."""
        try:
            tree = ast.parse(textwrap.dedent(self.source))
        except SyntaxError:
            return self
        read = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
        is_known = any(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in tree.body)
        if not is_known or read & {"locals", "vars"}:
            return self
        fields = self.options[2] if self.options is not None else frozenset[str]()
        fields |= _field_names(self.packed[1]) if self.packed is not None else fields
        return replace(self, names=self.names - ({*names} - self.required - read - fields))

    @property
    def example_names(self) -> frozenset[str]:
        """The required parameters that name something, such as the user of a message, or take an object of the
        application or of the conversation.
        """
        return self._naming_parameters | self._object_makers.keys()

    @property
    def examples(self) -> dict[str, object]:
        """Values for these parameters. Objects, such as one that holds the conversation, are new ones."""
        makers, integers = self._object_makers, {name for name, each in self.hints.items() if each is int}
        named: dict[str, object] = {name: 1 if name in integers else "example" for name in self._naming_parameters}
        return named | {name: call(make) for name, make in makers.items()}

    @property
    def holds_conversation(self) -> bool:
        """Return whether one of `examples` holds the conversation, so that the same one is given in each turn."""
        return bool(self._conversation_makers)

    @property
    def _naming_parameters(self) -> frozenset[str]:
        """The required parameters that name something. `user` is one if there is another parameter for the prompt."""
        users = {"user"} if self.prompt != "user" else set[str]()
        threads = {"thread"} if self.hints.get("thread") is str else set[str]()
        return self.required & {*filter(is_naming, self.required), *users, *threads} - self._object_makers.keys()

    @property
    def _object_makers(self) -> dict[str, Callable[[], object]]:
        """The required parameters that take an object of the application or of the conversation, with its makers."""
        free = (
            self.required
            - KNOWN_PARAMETERS
            - TOOL_PARAMETERS
            - {"self", str(first_known(SYNONYMS["prompt"], self.required))}
        )
        hints = {name: self.hints[name] for name in free & self.hints.keys()}
        outer = SimpleNamespace(__module__=self.module_name)
        usual = (name for name, each in hints.items() if is_usual_object(name, each))
        made = {name: maker for name in usual if (maker := example_maker(name, hints[name], outer, {})) is not None}
        return {**made, **self._conversation_makers}

    @property
    def _conversation_makers(self) -> dict[str, Callable[[], object]]:
        """The required parameters that hold the conversation, each with what makes it without arguments: its class, or
        a function of the module, such as `new_state` for `state`.
        """
        kinds = {name: classes_among(members_of(self.hints.get(name))) for name in self.required - TOOL_PARAMETERS}
        own = {name: each[0] for name, each in kinds.items() if len(each) == 1 and _keeps_conversation(each[0])}
        members = vars(sys.modules[self.module_name]) if self.module_name in sys.modules else {}
        named = {name: members.get(f"new_{name}") or members.get(f"make_{name}") for name in self.required & _STATES}
        made = {name: each for name, each in named.items() if callable(each) and _makes_conversation(each)}
        return {**made, **own}

    @property
    def has_usual_prompt(self) -> bool:
        """Return whether the parameter for the text of the user has a usual name."""
        return first_known(SYNONYMS["prompt"], self._text_names) is not None or self._texts_by_place is not None

    @property
    def returns_only_objects(self) -> bool:
        """Return whether the result is never a text.

        That is so if its annotation names only third-party classes, and none for texts, or if the method returns what
        an SDK's method returns.
        """
        found = [*members_of(self.hints.get("return"))]
        classes = classes_among(found)
        is_annotated = bool(found) and len(classes) == len(found) and not any(issubclass(each, str) for each in classes)
        return is_annotated or self._returns_sdk_objects

    @property
    def _returns_sdk_objects(self) -> bool:
        """Return whether each `return` of the method has what an SDK's method for requests returns, unchanged."""
        results = re.findall(r"^[ \t]*return\b[ \t]*(.*)", self.source, re.MULTILINE)
        kept = "|".join(re.findall(rf"^\s*(\w+)(?::[^=\n]+)?\s*=\s*{_SDK_CALL}", self.source, re.MULTILINE)) or "(?!)"
        return bool(results) and all(re.match(rf"{_SDK_CALL}|(?:{kept})(?:\.parse\(\))?$", each) for each in results)

    @property
    def prompt_list(self) -> str | None:
        """The parameter for a list of texts, if the method takes several prompts or other texts at once."""
        name = first_known(("prompts", "questions"), self.names)
        if name is not None and item_class(self.hints.get(name)) in (None, str):
            return name
        hint = self.hints.get(name := self.prompt or "")
        return name if item_class(hint) is str and str not in members_of(hint) else None

    @property
    def prompt_record(self) -> type[Any] | None:
        """The class of the object that holds the text of the user, if the method takes one in place of a text."""
        return record_class(self.hints.get(self.prompt or ""))

    @property
    def text_or_list(self) -> str | None:
        """The parameter for a text of the user that may get a list instead, such as messages, by its annotation."""
        hint = self.hints.get(name := self.prompt or "")
        members = [*members_of(hint)]
        takes_lists = any(inspect.isclass(each) and issubclass(list, each) for each in members)
        return name if str in members and takes_lists and item_class(hint) is not str else None

    @property
    def text_pairs(self) -> str | None:
        """The parameter for earlier turns that are pairs of two texts, by its annotation."""
        items = {name: item_class(each) for name, each in self.hints.items() if name in self.names}
        return next((name for name, each in items.items() if typing.get_args(each) == (str, str)), None)

    @property
    def takes_conversations(self) -> bool:
        """Return whether the parameter for messages is annotated as a list of lists, for several conversations."""
        name = first_known(SYNONYMS["messages"], self.names)
        return name is not None and _LIST_OF_LISTS.match(self.annotations.get(name, "")) is not None

    @property
    def only_list(self) -> str | None:
        """The only required parameter that has no known name, if its annotation is a list or the method takes tools."""
        unknown = self.required - KNOWN_PARAMETERS
        name = next(iter(unknown)) if len(unknown) == 1 else None
        is_list = name is not None and item_class(self.hints.get(name)) not in (None, str)
        return name if is_list or first_known(SYNONYMS["tools"], self.names) else None


def _keeps_conversation(kind: type) -> bool:
    """Return whether the objects of a class hold a conversation, by its name. They are made without arguments."""
    is_concrete = not inspect.isabstract(kind) and not getattr(kind, "_is_protocol", False)
    is_named = re.search(_CONVERSATION_CLASS, kind.__name__) is not None
    return is_named and is_concrete and not typing.is_typeddict(kind) and not method_of((), kind).required


_STATES = frozenset({"state", "session", "conversation", "context", "ctx", "chat", "thread", "memory"})
"""Names of parameters for an object that holds the conversation."""


def _makes_conversation(function: Callable[..., object]) -> bool:
    """Return whether a function needs no arguments, and its code names the messages of what it makes. A `new_session`
    may also make the session of an HTTP library.
    """
    words = re.findall(r"\w+", source_of(function))
    return not method_of((), function).required and not {*SYNONYMS["messages"]}.isdisjoint(words)


def _lists_tools(hint: object) -> bool:
    """Return whether an annotation is a list of third-party objects that have a name and a schema."""
    fields = hints_of(item_class(hint))
    return all(fields.keys() & {each, *FIELD_ALIASES[each]} for each in ("name", "parameters"))


_TESTED_CHOICE = re.compile(r"\b(\w+) (?:not )?in [(\[{][\"'](?:auto|none|any|required)[\"']")
"""Code that tests a tool choice for one of its words."""

_CONVERSATION_CLASS = re.compile("(Thread|Session|Conversation|Chat|Dialog(ue)?|History|Memory|State|Context)$")
"""Names of classes of objects that hold a conversation."""

_LIST_NAMES = re.compile(r"(^|_)(items|inputs|entries|parts|contents|dialogue)$")
"""Names of parameters that are lists of messages, unless an annotation says otherwise."""

_NO_TEXT_ANNOTATION = re.compile(r"(?:typing\.)?(?:Optional\[)?(?:(?:typing\.)?Literal\[|bool\b|<class 'bool'>)")
"""Start of the annotation of a parameter that takes no text of the user."""

_LIST_OF_LISTS = re.compile(r"(?:[\w.]*\.)?(?:list|List|Sequence|Iterable)\[(?:[\w.]*\.)?(?:list|List|Sequence)\[")


def method_of(path: tuple[str, ...], value: object) -> Method:
    """Return a method, or the constructor of a class, with the parameters in its signature and source."""
    value = decorated_function(value, path[-1] if path else "")
    try:
        parameters = inspect.signature(cast("Callable[..., object]", value)).parameters.values()
    except (TypeError, ValueError):
        return Method(path, frozenset(), is_open=False)
    named = [each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    required, hints = [each.name for each in named if each.default is each.empty], _hints_of_method(value)
    if inspect.isclass(value) and (delegates := _constructor_delegates(value)):
        own = method_of(path, value.__init__)
        for other in (method_of((), each) for each in delegates):
            own = replace(
                own,
                names=(own.names | other.names) - {"self"},
                is_open=other.is_open and not _PASSES_UP.search(other.source),  # `object` takes no options
                required=own.required - {"self"},
                preset={**other.preset, **own.preset},
                hints={**other.hints, **own.hints, **hints},
                source="",
                class_source=source_of(value),
            )
        return own
    unpacked = _unpacked_fields(parameters, hints) | accepted_options(value)
    if not unpacked and (passed := delegate_of_options(value)) is not None:
        unpacked, hints = passed[1], {**_hints_of_method(passed[0]), **hints}
    has_provider = any(each.name in (*PROVIDERS, "name") for each in named)
    needed = [each for each in required if each != "self"]
    kind = hints.get(needed[0]) if len(needed) == 1 else None
    if inspect.isclass(kind) and _is_packed(kind, fields := frozenset(hints_of(kind))):
        own = method_of(path, kind)
        own = replace(own, names=fields, is_open=False) if typing.is_typeddict(kind) else own
        beside = [each for each in named if each.name not in (needed[0], *fields)]
        return replace(
            own,
            names=(own.names & fields) | {each.name for each in beside},
            hints={**hints, **(own.hints or hints_of(kind)), "return": hints.get("return")},
            source=source_of(value),
            class_source=own.module,
            annotations={**own.annotations, **{each.name: str(each.annotation) for each in beside}},
            packed=(needed[0], kind),
        )
    found = Method(
        path,
        frozenset(each.name for each in named if not _takes_class(each)) | unpacked,
        not unpacked and any(each.kind is each.VAR_KEYWORD for each in parameters),
        frozenset(required),
        {each.name: text for each in named if (text := _text_of_default(each.default))},
        hints,
        _keys_of_dictionaries(inspect.getmodule(value)) if has_provider else (),
        source="" if inspect.isclass(value) else source_of(value),
        class_source=source_of(type(value.__self__) if inspect.ismethod(value) else value),
        module=source_of(inspect.getmodule(value)),
        module_name=getattr(inspect.getmodule(value), "__name__", ""),
        annotations={each.name: str(each.annotation) for each in parameters},
        switches=frozenset(
            each.name for each in named if isinstance(each.default, bool) or hints.get(each.name) is bool
        ),
        variadic=next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), ""),
        is_decorated=is_decorated(value),
        delegated=_delegated_parameters(value),
    )
    if inspect.isclass(value):
        return _with_dictionary(found, value)
    return _with_filled(_with_options(_with_messages_by_place(found)))


_CONVERSATION_FIELDS = (*SYNONYMS["messages"], "input", "input_items", "items", "contents")
"""Names of the fields for the messages in an object that holds a whole request."""


def _is_packed(kind: type, fields: frozenset[str]) -> bool:
    """Return whether the objects of a class with these fields hold messages, or one message of a user: a text, with
    names of its sender and of its place.
    """
    if first_known(_CONVERSATION_FIELDS, fields):
        return True
    needed = method_of((), kind).required
    texts = needed & {*SYNONYMS["prompt"]}
    return len(texts) == 1 and needed <= fields and all(map(is_naming, needed - texts))


def _field_names(kind: type) -> frozenset[str]:
    """Return the names of the arguments from which an object of a class is made."""
    return frozenset(hints_of(kind) if typing.is_typeddict(kind) else inspect.signature(kind).parameters)


def body_method(method: Method) -> Method | None:
    """Return a method that takes the whole body of a request, as a dictionary or as `**body`, with any parameters.
    Return `None` for other methods.
    """
    if method.is_open and not method.names and method.sends_requests:
        return method
    name = next(iter(method.required)) if len(method.required) == 1 else ""
    is_sent = re.search(rf"\bjson=(dict\(|\{{\*\*)?{name}\b|\bdumps\({name}\b", method.source) is not None
    kinds = {each for each in members_of(method.hints.get(name, dict)) if each is not Any}
    if not name or not is_sent or not kinds <= {dict, Mapping} or not method.sends_requests:
        return None
    return replace(method, names=frozenset(), required=frozenset(), hints={}, is_open=True, packed=(name, dict))


def _text_of_default(default: object) -> str:
    """Return the text of a default: itself, or the value or the name of a member of an enumeration."""
    value: object = default.value if isinstance(default, Enum) else default
    if isinstance(default, Enum) and not isinstance(value, str):
        return default.name
    return value if isinstance(value, str) else ""


def _with_messages_by_place(method: Method) -> Method:
    """Return a method that takes each message by place, as in `chat(*messages)`, with a parameter for all of them."""
    name = method.variadic
    if name not in SYNONYMS["messages"] or method.hints.get(name) is str:
        return method
    hints = {name: list[cast("Any", method.hints[name])]} if name in method.hints else {}
    return replace(method, names=method.names | {name}, hints={**method.hints, **hints})


def _with_filled(method: Method) -> Method:
    """Return a method with its parameter for an object that it fills, if any, apart from the other ones."""
    hints = {name: each for name, each in method.hints.items() if name in method.names}
    filled = filled_parameter({**_default_classes(method), **hints}, method.source, method.module)
    if filled is None:
        return method
    own = {filled[0]}
    return replace(method, names=method.names - own, required=method.required - own, filled=filled)


def _default_classes(method: Method) -> dict[str, type]:
    """Return the parameters for which a method instantiates a class of its module if they are missing."""
    members = vars(sys.modules[method.module_name]) if method.module_name in sys.modules else {}
    made = {found[1]: members.get(found[2]) for found in _DEFAULT_INSTANCE.finditer(method.source)}
    return {name: kind for name, kind in made.items() if name in method.names and inspect.isclass(kind)}


_DEFAULT_INSTANCE = re.compile(r"\b(\w+) (?:or|if \1 is not None else) (\w+)\(\)")
"""Code that instantiates a class if a parameter is missing, as in `answer or Answer()`."""


def _takes_class(parameter: inspect.Parameter) -> bool:
    """Return whether an optional parameter for the format of the answer takes only a class, which no caller of JSON
    has.
    """
    is_format = parameter.name in ("response_format", *SYNONYMS["json_schema"])
    is_optional = is_format and parameter.default is not parameter.empty
    return is_optional and _CLASS_ANNOTATION.fullmatch(str(parameter.annotation)) is not None


_CLASS_ANNOTATION = re.compile(r"(?:typing\.)?(?:Optional\[)?(?:typing\.)?[Tt]ype\[[^|]*\](?: \| None)?")
"""Annotation of a parameter for a class, as source or as Python shows it."""


def _with_dictionary(method: Method, kind: type) -> Method:
    """Return a constructor with the options that it reads of a dictionary, if any, as parameters."""
    dictionary = option_dictionary(kind)
    if dictionary is None:
        return method
    own = {dictionary.parameter}
    return replace(
        method,
        names=(method.names - own) | dictionary.keys.keys(),
        required=(method.required - own) | dictionary.required,
        preset={**dictionary.preset, **method.preset},
        dictionary=dictionary,
    )


def _with_options(method: Method) -> Method:
    """Return a method that takes messages with the fields of its object for options, if any, as parameters."""
    if first_known(SYNONYMS["messages"], method.names) is None:
        return method
    given = ((name, kind) for name in method.names for kind in own_classes_in(method.hints.get(name)))
    for name, kind in given:
        hints, constructor = hints_of(kind), method_of((), kind)
        names = frozenset(hints) if typing.is_typeddict(kind) else constructor.names & hints.keys()
        required = frozenset[str](getattr(kind, "__required_keys__", constructor.required))
        if len(names & _OPTIONS) > 1 and required <= {*MODELS}:
            fields = names - method.names
            known = {each: hints[each] for each in fields}
            return replace(
                method, names=method.names | fields, hints={**known, **method.hints}, options=(name, kind, fields)
            )
    return method


_OPTIONS = frozenset(
    name
    for argument in ("system", "tools", "tool_choice", "max_tokens", "temperature", "stop", "json_mode", "json_schema")
    for name in SYNONYMS[argument]
)
"""Names of the fields of an object for options."""


def _delegated_parameters(value: object) -> frozenset[str]:
    """Return the parameters in the signature that a decorator gave to a function, but that its code takes as
    `**options`.
    """
    function = getattr(value, "__func__", value)
    code, signature = getattr(function, "__code__", None), getattr(function, "__signature__", None)
    if code is None or signature is None or not code.co_flags & inspect.CO_VARKEYWORDS:
        return frozenset()
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return frozenset(signature.parameters) - {*own}


def _constructor_delegates(kind: type) -> list[Callable[..., object]]:
    """Return the methods that get the `**options` of a constructor: one that it calls, or else the constructors of its
    base classes.
    """
    constructor = vars(kind).get("__init__")
    found = PASSES_OPTIONS.search(source_of(constructor)) if constructor is not None else None
    method = getattr(kind, found[1], None) if found else None
    if inspect.isfunction(method):
        return [method]
    chain = [each for base in kind.__mro__ if inspect.isfunction(each := vars(base).get("__init__"))]
    passing = [*takewhile(lambda each: _PASSES_UP.search(source_of(each)), chain)]
    return chain[1 : 1 + len(passing)]


_PASSES_UP = re.compile(r"\bsuper\(\)\.__init__\(\s*\*\*\w+\s*\)")
"""Code that passes all `**options` on to the constructor of the next base class, and nothing else."""

PASSES_OPTIONS = re.compile(r"\bself\.(\w+)\([^()]*\*\*")
"""Code that passes `**options` on to another method of the same object."""


def _keys_of_dictionaries(module: object) -> tuple[str, ...]:
    """Return the texts that are keys of the dictionaries of a module and of the modules of its package that define
    what it imports.
    """
    modules = [sys.modules.get(each) for each in modules_of_package(getattr(module, "__name__", ""))]
    members = [each for kind in modules for each in {**getattr(kind, "__dict__", {})}.values()]  # copies: it may import
    tables = [cast("dict[object, object]", each) for each in members if isinstance(each, dict)]
    return tuple(key for each in tables for key in [*each] if isinstance(key, str))


def _unpacked_fields(parameters: Iterable[inspect.Parameter], hints: Mapping[str, object]) -> frozenset[str]:
    """Return the keys of `options` in a signature with `**options: Unpack[Options]`."""
    kinds = (typing.get_args(hints.get(each.name)) for each in parameters if each.kind is each.VAR_KEYWORD)
    return frozenset(name for found in kinds for kind in found if hasattr(kind, "__total__") for name in hints_of(kind))


def _hints_of_method(value: object) -> Mapping[str, object]:
    """Return the annotations of a function, class or method. A method without any has those of the one that it
    overrides, or that a protocol of its module declares.
    """
    found = hints_of(value)
    if found or not inspect.ismethod(value):
        return found
    known = classes_with_imports(value.__module__).values()
    protocols = (each for each in known if getattr(each, "_is_protocol", False))
    bases = (vars(each).get(value.__name__) for each in (*type(value.__self__).__mro__, *protocols))
    return next((hints for each in bases if (hints := hints_of(each))), found)


def public_methods(value: type) -> list[Method]:
    """Return the methods of a class whose names have no leading underscore, and `__call__`."""
    named = inspect.getmembers(value, inspect.isfunction)
    return [method_of((name,), each) for name, each in named if name == "__call__" or not name.startswith("_")]
