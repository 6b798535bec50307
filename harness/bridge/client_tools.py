"""Conversion of tools to arguments of third-party classes that run their tools: functions, objects or registries."""

from __future__ import annotations

import inspect
import json
import re
import sys
import typing
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from keyword import iskeyword
from typing import Any, TypeAlias, cast

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.client_answers import own_calls
from harness.bridge.client_formats import (
    FORMS,
    GEMINI,
    OPENAI,
    SYNONYMS,
    Declaration,
    first,
    hints_of,
    item_class,
)
from harness.bridge.client_methods import Method, method_of, source_of
from harness.bridge.openai_messages import Memory
from harness.model.errors import RECOGNISED_CLIENT, Unsupported
from harness.model.messages import ChatRequest, Message, Role, Text, Tool, ToolResult
from harness.model.protocols import ConversationTool

_Tools: TypeAlias = Sequence[ConversationTool]

ToolArgument: TypeAlias = Callable[[_Tools, str], object]
"""Function that makes the value of a parameter for tools, from the tools and the name of the API."""


def public_methods(value: type) -> list[Method]:
    """Return the methods of a class whose names have no leading underscore, and `__call__`."""
    named = inspect.getmembers(value, inspect.isfunction)
    return [method_of((name,), each) for name, each in named if name == "__call__" or not name.startswith("_")]


# How a class gets the tools that it runs


@dataclass(frozen=True, slots=True)
class ClassSource:
    """The code in which a class is defined: the class, its source and the source of its module."""

    owner: type
    source: str
    module: str

    @property
    def classes(self) -> list[type]:
        """The classes that the module of the class defines."""
        members = vars(sys.modules[self.owner.__module__]).values()
        return [each for each in members if inspect.isclass(each) and each.__module__ == self.owner.__module__]

    @property
    def runs_tools(self) -> bool:
        """Return whether the class passes the arguments of a call to a function. Code outside the class is ignored,
        because the caller may use it to run the tools.
        """
        return runs_tools(self.source)

    @property
    def reads_signatures(self) -> bool:
        """Return whether the module describes functions by their names and signatures."""
        return _READS_SIGNATURES.search(self.module) is not None


def runs_tools(source: str) -> bool:
    """Return whether code passes the arguments of a call to a function."""
    return _RUNS_TOOLS.search(source) is not None


_ARGUMENTS = r"(arguments|args|input|inputs|params|parameters|parsed|tool_args|tool_input)\b"

_RUNS_TOOLS = re.compile(
    rf"\*\*\(?((json\.)?loads\(|[\w.]*\b{_ARGUMENTS}|\w+(\[|\.get\()[\"']{_ARGUMENTS})"
    rf"|\b(fn|func|function|handler|callback|run|call|execute|invoke|tool)[\"'\])]*\((\w+\.)?{_ARGUMENTS}"
)
"""Code that calls a tool: `fn(**args)`, `tool.run(**call.input)`, `handlers[name](**json.loads(text))`, `fn(args)`."""

_READS_SIGNATURES = re.compile(
    r"inspect\.signature|get_type_hints|(?<![\w.)])(?!(type|cls|kind|klass|self)\b)\w+\.__name__"
)
"""Code that describes a function. `type(error).__name__` is not such code."""

EXECUTORS = re.compile(
    r"(execute|run|call|invoke|handle|dispatch)_(tool|function)(_call)?$|(tool_|function_)?(executor|dispatcher|runner)$"
    r"|(tool|function)_(handler|callback)$|dispatch$|on_(tool_|function_)?call$"
)
"""Names of parameters for one function that executes all calls, given a name and arguments."""

_FUNCTION_MAPS = (
    *("functions", "handlers", "tool_functions", "tool_handlers", "callables", "implementations", "tool_map"),
    *("function_map", "tools_map", "tool_impls", "impls", "available_functions", "fns", "funcs"),
)
"""Names of parameters for functions by their names, next to a parameter for declarations."""

_REGISTRIES = ("registry", "tool_registry", "toolkit", "tool_box", "tool_set", "skills", "actions", "abilities")

TOOL_PARAMETERS = frozenset({*SYNONYMS["tools"], *_FUNCTION_MAPS, *_REGISTRIES})


def tool_arguments(method: Method, place: ClassSource, *, only_if_clear: bool) -> dict[str, ToolArgument]:
    """Return a function for each parameter of a method that takes tools to run. The function builds the argument.

    With `only_if_clear`, the annotations must show that the method runs the tools. Without them, it may be a client
    that returns its calls to the caller.
    """
    names = sorted({*method.names, method.variadic} - {"self", ""})
    executors = [each for each in names if EXECUTORS.fullmatch(each) and _may_call(method, each)]
    found = {name: made for name in names if (made := _clear_argument(name, method, place))}
    if not found and executors:
        found = dict.fromkeys(method.names & {*SYNONYMS["tools"]}, _declarations_of(place.module))
        found |= {name: _ExecutorArgument(own_classes_in(method.hints.get(name))) for name in executors[:1]}
    if not found and not only_if_clear:
        found = {
            name: made for name in names if name in TOOL_PARAMETERS and (made := _likely_argument(name, method, place))
        }
    functions = {name: made for name, made in found.items() if isinstance(made, _FunctionsArgument)}
    declared = method.names & {*SYNONYMS["tools"]} - functions.keys()
    if functions and len(declared) == 1:
        found = {name: replace(made, is_by_signature=False) for name, made in functions.items()}
        found |= dict.fromkeys(declared, _declarations_of(place.module))
    return found


def _may_call(method: Method, name: str) -> bool:
    """Return whether a parameter takes a function or an object that executes calls, not one that only observes them."""
    hint = method.hints.get(name)
    returned = next(
        (typing.get_args(each)[-1] for each in (hint, *typing.get_args(hint)) if _is_function_type(each)), 0
    )
    if name.startswith("on_") and (returned is type(None) or (returned == 0 and name not in method.required)):
        return False
    return hint is None or "Callable" in str(hint) or any(map(_executing_method, own_classes_in(hint)))


def _is_function_type(hint: object) -> bool:
    return typing.get_origin(hint) is cast("object", Callable) and bool(typing.get_args(hint))


def _executing_method(kind: type) -> str | None:
    """Return the method of a class that executes a call, if it has one."""
    names = (each.path[0] for each in public_methods(kind))
    return next((each for each in names if each in _RUNNING_METHODS or EXECUTORS.fullmatch(each)), None)


def _clear_argument(name: str, method: Method, place: ClassSource) -> ToolArgument | None:
    """Return the function that makes an argument whose annotation, or default class, holds tools to run."""
    hint = method.hints.get(name)
    for kind in own_classes_in(hint) or _replacements(name, place):
        if (registrar := _registrar_method(kind)) is not None:
            return _RegistryArgument(kind, registrar)
    if name not in TOOL_PARAMETERS:
        return None
    for kind in own_classes_in(hint):
        if (maker := _tool_maker(kind, place)) is not None:
            return _ObjectsArgument(maker, _is_mapping(name, hint, place))
    if "Callable" not in str(hint):
        return None
    return _pairs_argument(name, hint, place) or _FunctionsArgument(
        str(hint), is_mapping=_is_mapping(name, hint, place)
    )


def _likely_argument(name: str, method: Method, place: ClassSource) -> ToolArgument | None:
    """Return the function that builds an argument whose annotation is too general, if the source shows that it runs
    tools.
    """
    hint = method.hints.get(name)
    if (unpacked := _unpacked_argument(name, place)) is not None:
        return unpacked
    is_mapping, of_dicts = _is_mapping(name, hint, place), re.search(r"\[.*\b[dD]ict|Mapping\[.*\]\]", str(hint))
    if place.runs_tools and (pairs := _pairs_argument(name, hint, place)) is not None:
        return pairs
    if name in _FUNCTION_MAPS and is_mapping and place.runs_tools:
        return _FunctionsArgument(str(hint), is_mapping=True)
    each = re.search(rf"\bfor (\w+) in (?:self\.)?_?{name}\b", place.source)
    reads_name = each is not None and re.search(rf"\b{each[1]}\.name\b", place.source)
    if not of_dicts and place.reads_signatures and not reads_name:
        return _FunctionsArgument(str(hint), is_mapping=is_mapping)
    kinds = [each for each in place.classes if re.search("Tool|Function|Skill|Action", each.__name__)]
    makers = [maker for each in kinds if (maker := _tool_maker(each, place)) is not None]
    if not of_dicts and len(makers) == 1:
        return _ObjectsArgument(makers[0], is_mapping)
    return _ObjectsArgument(None, is_mapping) if place.runs_tools else None


def _unpacked_argument(name: str, place: ClassSource) -> _UnpackedArgument | None:
    """Return the function that makes an argument with dictionaries which the class unpacks into a method of its own."""
    found = re.search(rf"\bfor (\w+) in \(?(?:self\.)?_?{name}\b[^:\n]*:\s+self\.(\w+)\(\*\*\1\)", place.source)
    method = getattr(place.owner, found[2], None) if found else None
    named = tool_parameters(method_of((), method)) if method is not None else {}
    return _UnpackedArgument(named) if {"name", "handler"} <= named.keys() else None


def _pairs_argument(name: str, hint: object, place: ClassSource) -> _PairsArgument | _TuplesArgument | None:
    """Return the function that makes an argument with pairs of a declaration and a function, if there are such pairs.

    The annotation or the source shows them. The annotation may also have tuples of a function, texts and a schema.
    """
    is_mapping = _is_mapping(name, hint, place)
    kinds = next(_tuples_in(hint), ())
    if len(kinds) > _PAIR:
        return _tuples_argument(kinds, is_mapping)
    if any("Callable" in str(each) for each in kinds):
        return _PairsArgument(str(hint), is_mapping, "Callable" in str(kinds[:1]), place.module)
    read = re.search(rf"\bfor \(?(\w+), (\w+)\)? in (?:self\.)?_?{name}(\.values\(\))?(?![\w.])", place.source)
    if hint is not None or read is None or is_mapping is not bool(read[3]):
        return None
    is_function, is_declaration = (
        [each in (*_TOOL_PARTS[part], *others) for each in read.groups()[:2]]
        for part, others in (("handler", ()), ("declaration", ("schema", "decl", "tool")))
    )
    if not any(is_declaration) and not (any(is_function) and "_" in read.groups()[:2]):
        return None
    return _PairsArgument("", is_mapping, is_function[0] or is_declaration[1], place.module)


def _tuples_in(hint: object) -> Iterator[tuple[object, ...]]:
    """Yield the members of the tuples in an annotation."""
    inner = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and len(inner) >= _PAIR and ... not in inner:
        yield inner
    else:
        yield from chain.from_iterable(map(_tuples_in, inner))


def _tuples_argument(kinds: Sequence[object], is_mapping: bool) -> _TuplesArgument | None:
    """Return the argument for tuples of these types, if one is a function and the others are texts and a schema. Of two
    texts, the first is the name.
    """
    texts = iter(("name", "description") if [*kinds].count(str) == _PAIR else ("description",))
    parts = [
        "handler" if "Callable" in str(each) else next(texts, "") if each is str else "parameters" for each in kinds
    ]
    is_clear = "handler" in parts and "" not in parts and len({*parts}) == len(parts)
    return _TuplesArgument(parts, str(kinds[parts.index("handler")]), is_mapping) if is_clear else None


_PAIR = 2


def _is_mapping(name: str, hint: object, place: ClassSource) -> bool:
    """Return whether a parameter for tools is a dictionary by name, by its annotation or by how the class uses it."""
    if hint is not None and hint is not Any:
        return re.match(r"(<class '|typing\.\w+\[)?(\w+\.)*([dD]ict|Mapping|MutableMapping)\b", str(hint)) is not None
    is_kept = re.search(rf"self\.(\w+)(?::[^=\n]+)?\s*=\s*{name}\b(?!\.)", place.source)
    names = rf"((?<![\w.]){name}|self\.{is_kept[1]})" if is_kept else rf"(?<![\w.]){name}"
    return re.search(rf"{names}(\s+or\s+\{{\}}|\.get\(|\.items\(|\.values\(|\.keys\()", place.source) is not None


def own_classes_in(hint: object) -> list[type]:
    """Return the third-party classes in an annotation."""
    inner = [found for each in typing.get_args(hint) for found in own_classes_in(each)]
    is_own = inspect.isclass(hint) and hint.__module__ not in ("builtins", "typing", "collections.abc", "types")
    return [*([cast("type", hint)] if is_own and not typing.get_origin(hint) else []), *inner]


def _replacements(name: str, place: ClassSource) -> list[type]:
    """Return the class that a constructor instantiates if the argument is missing. If there is none, return the class
    of the module that has all methods which the class calls on the argument.
    """
    made = re.search(rf"\b{name}\s+(?:or|if\s+{name}\s+is\s+not\s+None\s+else)\s+(\w+)\(", place.source)
    made = made or re.search(rf"\b(\w+)\(\)\s+if\s+(?:{name}\s+is\s+None|not\s+{name})\b", place.source)
    if made:
        return [each for each in place.classes if each.__name__ == made[1]]
    used = {*re.findall(rf"\b_?{name}\.([a-zA-Z]\w*)\b", place.source)} - {*dir(dict), *dir(list)}
    return [each for each in place.classes if used and all(hasattr(each, one) for one in used)][:1]


def source_of_class(value: type) -> str:
    """Return the source of a class and of its base classes, as far as it is known."""
    return "\n".join(filter(None, map(source_of, value.__mro__[:-1])))


# Arguments for tools


@dataclass(frozen=True, slots=True)
class _RegistryArgument:
    """A registry of a third-party class with all tools."""

    kind: type
    registrar: Registrar

    @property
    def is_by_signature(self) -> bool:
        """Return whether the registry describes each tool by its signature."""
        return self.registrar.is_by_signature

    def __call__(self, tools: _Tools, api: str) -> object:
        registry = call(self.kind)
        for each in tools:
            self.registrar(registry, each, api)
        return registry


@dataclass(frozen=True, slots=True)
class _ObjectsArgument:
    """Tools as objects of a third-party class, or as declarations that can also be called, in a list or by name."""

    make: _ToolMaker | None
    is_mapping: bool

    @property
    def is_by_signature(self) -> bool:
        """Return whether each object describes its tool by the signature of a function."""
        return getattr(self.make, "is_by_signature", False)

    def __call__(self, tools: _Tools, api: str) -> object:
        made = (
            [*map(self.make, tools)] if self.make else [_CallableTool(each, _declaration(each, api)) for each in tools]
        )
        return {each.name: one for each, one in zip(tools, made, strict=True)} if self.is_mapping else made


@dataclass(frozen=True, slots=True)
class _UnpackedArgument:
    """Tools as a list of dictionaries. `named` maps the parts of a tool to their keys."""

    named: Mapping[str, str]

    def __call__(self, tools: _Tools, _api: str) -> object:
        return [{name: _parts_of(tool)[part] for part, name in self.named.items()} for tool in tools]


@dataclass(frozen=True, slots=True)
class _FunctionsArgument:
    """Tools as functions, in a list or by name."""

    hint: str
    is_mapping: bool
    is_by_signature: bool = True

    def __call__(self, tools: _Tools, _api: str) -> object:
        make = _as_function if self.is_by_signature else _as_handler
        made = {each.name: make(each, self.hint) for each in tools}
        return made if self.is_mapping else [*made.values()]


@dataclass(frozen=True, slots=True)
class _PairsArgument:
    """Tools as pairs of a declaration and a function, in a list or by name."""

    hint: str
    is_mapping: bool
    starts_with_function: bool
    module: str

    def __call__(self, tools: _Tools, api: str) -> object:
        declared = declarations(tools, api, self.module)
        pairs = [*zip(declared, (_as_handler(each, self.hint) for each in tools), strict=True)]
        ordered = [(function, each) for each, function in pairs] if self.starts_with_function else pairs
        return dict(zip((each.name for each in tools), ordered, strict=True)) if self.is_mapping else ordered


@dataclass(frozen=True, slots=True)
class _TuplesArgument:
    """Tools as tuples of a function, texts and a schema, in a list or by name."""

    parts: Sequence[str]
    hint: str
    is_mapping: bool

    def __call__(self, tools: _Tools, _api: str) -> object:
        known = [_parts_of(each, self.hint) for each in tools]
        made = [tuple(each[part] for part in self.parts) for each in known]
        return dict(zip((each.name for each in tools), made, strict=True)) if self.is_mapping else made


def _declarations_of(module: str) -> ToolArgument:
    return lambda tools, api: declarations(tools, api, module)


@dataclass(frozen=True, slots=True)
class _ExecutorArgument:
    """A function that executes a call, or an object of a third-party class with such a method."""

    kinds: Sequence[type]

    def __call__(self, tools: _Tools, _api: str) -> object:
        known = {each.name: each for each in tools}

        def execute(*args: Any, **kwargs: Any) -> str:
            values = [*args, *kwargs.values()]
            if len(values) == 1:
                ((_, _, name, arguments),) = own_calls([values[0]])
                return _AwaitableText(known[name].text(arguments or {}))
            name = next(each for each in values if isinstance(each, str) and each in known)
            return _AwaitableText(known[name].text(_parse_arguments(next(each for each in values if each is not name))))

        for kind in self.kinds:
            if (name := _executing_method(kind)) is not None:
                return type(kind.__name__, (kind,), {name: _as_method(execute)})()
        return execute


def _declaration(tool: ConversationTool, api: str) -> dict[str, Any]:
    """Return a tool in the format of an API."""
    form, own = FORMS.get(api, OPENAI), Tool(tool.name, tool.description, tool.parameters)
    made = form.arguments(ChatRequest("", NO_MESSAGES, tools=(own,)), Memory(), "", frozenset())["tools"][0]
    return made.get("functionDeclarations", [made])[0]


def declarations(tools: _Tools, api: str, module: str) -> list[dict[str, Any]]:
    """Return tools in the format that a class expects, according to the source of its module."""
    is_bare = _BARE_TOOLS.search(module) is not None
    if is_bare and api != GEMINI.name:
        bare = [{"name": each.name, "description": each.description, "parameters": each.parameters} for each in tools]
        return [*map(Declaration, bare)]
    is_read = not is_bare and re.search(r"\bfor \w+ in (self\.)?_?(tools|functions)\b", module)
    made = [_declaration(each, OPENAI.name if is_read else api) for each in tools]
    if api == GEMINI.name and not is_bare and not is_read:
        made = [{"functionDeclarations": [each]} for each in made]
    return [*map(Declaration, made)]


_BARE_TOOLS = re.compile(
    r"function_?[dD]eclarations[\"']?\s*[:=]\s*(?:list\(|\[\w+ for [\w, ()]+ in )?(?:self\.)?_?(?:tools|functions)\b"
    r"|\*\*(\w+)[^{}]*\}\s*for \1 in"
    r"|[\"']type[\"']:\s*[\"']function[\"'],\s*[\"']function[\"']:\s*\w+\s*\}"
)
"""Code that adds the enclosing object of the API to each tool."""

NO_MESSAGES = (Message(Role.USER, (Text("Hello"),)),)


class _CallableTool(Declaration):
    """A declaration that is also a function. Its parts are keys, and attributes, under any usual name.

    Copies and JSON contain only the fields of the API's format.
    """

    def __init__(self, tool: ConversationTool, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.__dict__.update(_parts_of(tool))

    def __call__(self, *args: Any, **kwargs: Any) -> object:
        return self.__dict__["handler"](*args, **kwargs)

    def __missing__(self, key: str) -> Any:
        try:
            return super().__missing__(key)
        except KeyError:
            return _part(self.__dict__, key)

    def __getattr__(self, name: str) -> Any:
        try:
            return _part(self.__dict__, name)
        except KeyError:
            raise AttributeError(name) from None


def _part(parts: Mapping[str, Any], name: str) -> Any:
    """Return the part of a tool that the name of a parameter or key means.

    Raises:
        KeyError: the name means no part.
    """
    meaning = next((key for key, names in _TOOL_PARTS.items() if name in names), name)
    return parts[meaning]


def _parts_of(tool: ConversationTool, hint: str = "") -> dict[str, Any]:
    return {
        "name": tool.name,
        "handler": _as_handler(tool, hint),
        "description": tool.description,
        "parameters": tool.parameters,
        "properties": tool.parameters.get("properties") or {},
        "required": tool.parameters.get("required") or [],
        "declaration": Declaration(_declaration(tool, OPENAI.name)),
    }


_TOOL_PARTS: Mapping[str, tuple[str, ...]] = {
    "name": ("name", "tool_name", "function_name", "key"),
    "handler": (
        *("handler", "function", "fn", "func", "callback", "run", "callable", "f", "implementation", "impl", "execute"),
        *("call", "invoke", "executor", "action", "target", "coroutine", "method", "fun"),
    ),
    "description": ("description", "doc", "desc", "summary", "help"),
    "parameters": (
        *("parameters", "schema", "input_schema", "json_schema", "params", "parameters_schema", "args_schema"),
        *("parameters_json_schema", "arguments_schema"),
    ),
    "properties": ("properties", "props", "parameter_properties"),
    "required": ("required", "required_parameters"),
    "declaration": ("spec", "definition", "declaration", "tool_spec", "tool_definition"),
}
"""Maps the parts of a tool with its function to the names of parameters, fields and keys for them."""


def tool_parameters(method: Method) -> dict[str, str]:
    """Return the parameters of a method, or of a constructor, that take parts of a tool, by their meaning."""
    found = {part: name for part, names in _TOOL_PARTS.items() if (name := first(names, method.names))}
    if "handler" in found and not _is_of_functions(method.hints.get(found["handler"])):
        del found["handler"]
    return found


def _is_of_functions(hint: object) -> bool:
    return hint is None or hint is Any or "Callable" in str(hint) or "Function" in str(hint)


# Classes for a tool


_ToolMaker: TypeAlias = Callable[[ConversationTool], object]

_RUNNING_METHODS = ("run", "call", "execute", "invoke", "handle", "__call__", "use", "perform", "apply", "arun", "_run")


def _tool_maker(kind: type, place: ClassSource) -> _ToolMaker | None:
    """Return a function that makes a tool of a class, or of a class that implements it. Return `None` if it cannot."""
    has_name = "name" in {*hints_of(kind), *dir(kind)}
    running = [each for each in _RUNNING_METHODS if callable(vars(kind).get(each))]
    others = [each for each in place.classes if each is not kind and _implements(each, kind)] if running else []
    for each in (kind, *others):
        if {"name", "handler"} <= (named := tool_parameters(made := method_of((), each))).keys():
            is_whole = made.required <= {*named.values()} and {"parameters", "properties", "declaration"} & named.keys()
            in_part = not {"parameters", "declaration"} & named.keys()
            maker = _Constructed(each, named, str(made.hints.get(named["handler"])), is_by_signature=in_part)
            return _tested_maker(maker) if is_whole else None
        if named.keys() == {"handler"} and made.required <= {named["handler"]}:
            return _tested_maker(_Constructed(each, named, "", is_by_signature=True))
    return _tested_maker(_Derived(kind, running)) if has_name and running else None


def _implements(kind: type, protocol: type) -> bool:
    """Return whether a class is a subclass, or has the methods of a protocol."""
    if not getattr(protocol, "_is_protocol", False):
        return issubclass(kind, protocol)
    methods = [name for name, each in vars(protocol).items() if inspect.isfunction(each) and name[:1] != "_"]
    return all(callable(getattr(kind, each, None)) for each in methods)


def _tested_maker(make: _ToolMaker) -> _ToolMaker | None:
    """Return a function that makes tools, if it can make one."""
    sample = ConversationTool("look", "Looks.", {"type": "object", "properties": {}}, cast("Any", None))
    try:
        make(sample)
    except Exception:  # noqa: BLE001 - the user's constructor may fail in any way
        return None
    return make


@dataclass(frozen=True, slots=True)
class _Constructed:
    """Creates tools with a constructor whose parameters were recognised by their names."""

    kind: type
    named: Mapping[str, str]
    hint: str
    is_by_signature: bool = False

    def __call__(self, tool: ConversationTool) -> object:
        parts = _parts_of(tool, self.hint)
        parts["handler"] = _as_function(tool, self.hint) if self.is_by_signature else parts["handler"]
        return call(self.kind, **{name: parts[part] for part, name in self.named.items()})


@dataclass(frozen=True, slots=True)
class _Derived:
    """Creates tools as instances of a subclass. It has the parts of the tool as attributes, and a method that runs the
    tool.
    """

    kind: type
    running: Sequence[str]

    def __call__(self, tool: ConversationTool) -> object:
        members = dict[str, object]()
        parts = _parts_of(tool)
        for name in {*hints_of(self.kind), *dir(self.kind)}:
            with suppress(KeyError):
                value, own = _part(parts, name), inspect.getattr_static(self.kind, name, None)
                is_read = inspect.isfunction(own) and name not in self.running
                members[name] = _as_method(_returning(value)) if is_read else value
        for name in self.running:
            is_async = inspect.iscoroutinefunction(getattr(self.kind, name))
            members[name] = _as_method(_as_handler(tool, "Awaitable" if is_async else ""))
        named = tool_parameters(method_of((), self.kind))
        made = type(self.kind.__name__, (self.kind,), members)
        return made(**{name: parts[part] for part, name in named.items()})


def _as_method(handler: Callable[..., object]) -> Callable[..., object]:
    def method(_self: object, *args: Any, **kwargs: Any) -> object:
        return handler(*args, **kwargs)

    return method


def _returning(value: object) -> Callable[..., object]:
    return lambda: value


# Methods that register a tool


@dataclass(frozen=True, slots=True)
class Registrar:
    """A method that registers a tool: with its parts, as an object, as a function, or as a decorator.

    `path` leads from the client to the object that has the method. `named` maps parts of a tool to the method's
    parameters. `item` is the parameter for a tool as an object, and `make` makes it.
    """

    method: Method
    named: Mapping[str, str]
    is_decorator: bool = False
    item: str = ""
    make: _ToolMaker | None = None
    path: tuple[str, ...] = ()

    @property
    def is_by_signature(self) -> bool:
        """Return whether a tool is described by the signature of its function."""
        return self.make is None and not self.named.keys() & {"parameters", "declaration"}

    @property
    def _takes_types(self) -> bool:
        """Return whether the method takes the type of each parameter of the tool as a keyword argument."""
        return (
            self.is_by_signature
            and self.method.is_open
            and re.search(r"[\"']type[\"']", self.method.source) is not None
        )

    def __call__(self, client: object, tool: ConversationTool, api: str) -> None:
        """Register a tool with a client of an API."""
        register = BoundMethod(client, (*self.path, *self.method.path))
        if self.make is not None:
            call(register, **{self.item: self.make(tool)})
            return
        hint = str(self.method.hints.get(self.named.get("handler", "")))
        parts = _parts_of(tool, hint)
        function = _as_function(tool, hint) if self.is_by_signature else parts["handler"]
        parts |= {"handler": function, "declaration": declarations([tool], api, self.method.module)[0]}
        types = _types_of(tool) if self._takes_types else {}
        made = call(register, **{name: parts[part] for part, name in self.named.items()}, **types)
        if self.is_decorator:
            cast("Callable[..., object]", made)(function)


def _types_of(tool: ConversationTool) -> dict[str, object]:
    """Return the JSON type of each parameter of a tool."""
    properties = cast("dict[str, Any]", tool.parameters.get("properties") or {})
    return {name: schema["type"] for name, schema in properties.items() if isinstance(schema.get("type"), str)}


_REGISTERING = re.compile(
    r"_?(add|register|tool|use|function|define|declare|include|handle|bind|expose|action|skill|provide|attach|append"
    r"|equip|install|with_tool|on_tool|__call__)(?!.*(message|history|context|hook|callback|listener|middleware|event))"
)
"""Names of methods that register a tool."""


def _registrar_method(kind: type) -> Registrar | None:
    """Return the method of a class that registers a tool with its function. One that takes its schema is preferred."""
    methods = [each for each in public_methods(kind) if each.names]
    found = [made for each in methods if (made := registrar_by(each, kind)) is not None]
    return min(found, key=lambda each: (each.is_by_signature, each.is_decorator), default=None)


def registrar_by(method: Method, owner: type | None = None) -> Registrar | None:
    """Return a registrar that uses this method of a class, or this function, if it registers a tool."""
    if is_event_method(method):
        return None
    found = [made for find in _REGISTRATIONS if (made := find(method, owner)) is not None]
    return min(found, key=lambda each: (each.is_by_signature, each.is_decorator), default=None)


def is_event_method(method: Method) -> bool:
    """Return whether a method registers a callback for an event, as in `on_tool_result(callback)`."""
    return method.path[-1].startswith("on_") and bool(method.required & _CALLBACKS)


_CALLBACKS = frozenset({"callback", "cb", "listener", "hook", "observer"})


def _by_parts(method: Method, _kind: type | None) -> Registrar | None:
    named = tool_parameters(method)
    is_whole = "handler" in named and named.keys() & {"name", "declaration"}
    is_named = named.keys() & {"parameters", "declaration"} or _REGISTERING.match(method.path[0])
    is_fitting = is_whole and is_named and method.required <= {"self", *named.values()}
    return Registrar(method, named) if is_fitting else None


def _by_object(method: Method, kind: type | None) -> Registrar | None:
    required = [*(method.required - {"self"})]
    if len(required) != 1 or not _REGISTERING.match(method.path[0]):
        return None
    kinds = own_classes_in(method.hints.get(required[0]))
    makers = (_tool_maker(each, ClassSource(each, "", method.module)) for each in kinds if each is not kind)
    maker = next(filter(None, makers), None)
    if maker is None:
        return None
    is_list = item_class(method.hints.get(required[0])) is not None
    return Registrar(method, {}, item=required[0], make=(lambda tool: [maker(tool)]) if is_list else maker)


def _by_function(method: Method, _kind: type | None) -> Registrar | None:
    """Return a method that takes a function. Its other parameters have defaults."""
    named = tool_parameters(method)
    is_fitting = "handler" in named and (_REGISTERING.match(method.path[0]) or "description" in named)
    is_fitting = is_fitting and method.required <= {"self", *named.values()}
    return Registrar(method, named) if is_fitting else None


def _by_decorator(method: Method, _kind: type | None) -> Registrar | None:
    """Return a method that returns a decorator."""
    named = {part: name for part, name in tool_parameters(method).items() if part != "handler"}
    is_made = re.search(r"\n\s+(async )?def (\w+)\(.*\n(.*\n)*\s+return \2\b|return lambda \w+:", method.source)
    is_fitting = is_made and _REGISTERING.match(method.path[0]) and method.required <= {"self", *named.values()}
    is_fitting = is_fitting and not first(_TOOL_PARTS["handler"], method.names)
    return Registrar(method, named, is_decorator=True) if is_fitting else None


_REGISTRATIONS = (_by_parts, _by_object, _by_function, _by_decorator)


def registrar_of(value: type, place: ClassSource) -> Registrar | None:
    """Return the method that registers a tool with a class, or with an object that its constructor creates."""
    if (found := _registrar_method(value)) is not None:
        return found
    kinds = {each.__name__: each for each in place.classes if each is not value}
    for name, kind in re.findall(r"self\.(\w+)(?::[^=\n]+)?\s*=\s*(\w+)\(", place.source):
        if kind in kinds and name[0] != "_" and (found := _registrar_method(kinds[kind])) is not None:
            return replace(found, path=(name,))
    return None


# Functions


class _AwaitableText(str):
    """Result of a tool. A client may await it or not."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, str]:
        return self
        yield


def _parse_arguments(arguments: object) -> dict[str, Any]:
    return cast("dict[str, Any]", json.loads(arguments) if isinstance(arguments, str) else arguments)


def _as_handler(tool: ConversationTool, hint: str = "") -> Callable[..., object]:
    """Return a function that runs a tool, given its arguments by name or in a dictionary. It has the tool's signature
    if Python has such parameters. If its annotation is awaitable, it is asynchronous.
    """
    try:
        return _as_function(tool, hint)
    except Unsupported:
        return _with_name(_calling(tool, None), tool, hint)


class _ValueTool(ConversationTool):
    """A tool whose function returns JSON values, not their text."""

    __slots__ = ()


def with_values(tools: _Tools, module: str) -> _Tools:
    """Return tools whose functions return JSON values, if the source of a module converts such values to text.

    Code that awaits every result gets texts, which can be awaited.
    """
    awaits_all = "await " in module and not re.search("isawaitable|iscoroutine", module)
    takes_text = re.search(r"Callable\[[^=\n]*, (Awaitable\[)?str\]", module) is not None
    if awaits_all or takes_text or not _CONVERTS_VALUES.search(module):
        return tools
    return [_ValueTool(each.name, each.description, each.parameters, each.run) for each in tools]


_CONVERTS_VALUES = re.compile(
    r"isinstance\((\w+), str\) else (?:json\.)?dumps\(\1\b|not isinstance\((\w+), str\):\s+\2 = (?:json\.)?dumps\(\2\b"
)
"""Code that converts a result to JSON unless it is a text."""


def _result_of(tool: ConversationTool, arguments: Mapping[str, Any]) -> object:
    if not isinstance(tool, _ValueTool):
        return _AwaitableText(tool.text(arguments))
    content = tool.call(arguments)
    return ToolResult("", tool.name, content).text if isinstance(content, tuple) else content


def _calling(tool: ConversationTool, shape: inspect.Signature | None) -> Callable[..., object]:
    def function(*args: Any, **kwargs: Any) -> object:
        if len(args) == 1 and not kwargs and isinstance(args[0], Mapping):
            return _result_of(tool, cast("Mapping[str, Any]", args[0]))
        # a third-party class may give its tools a context in front of the arguments
        is_by_place = shape is not None and len(args) <= len(shape.parameters) and not kwargs
        found = shape.bind(*args).arguments if shape is not None and is_by_place else kwargs
        return _result_of(tool, found)

    return function


def _with_name(function: Callable[..., object], tool: ConversationTool, hint: str) -> Callable[..., object]:
    async def run(*args: Any, **kwargs: Any) -> object:
        return function(*args, **kwargs)

    made: Any = run if re.search("Awaitable|Coroutine", hint) else function
    made.__name__ = made.__qualname__ = tool.name
    made.__doc__ = tool.description
    return made


_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool}


def _is_parameter(name: str, schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return name.isidentifier() and not iskeyword(name) and isinstance(kind, str) and kind in _TYPES


def _as_function(tool: ConversationTool, hint: str = "") -> Callable[..., object]:
    """Return a Python function with the name, the parameters and the description of a tool."""
    fields = cast("Mapping[str, Any]", tool.parameters.get("properties") or {})
    required = cast("Sequence[str]", tool.parameters.get("required") or ())
    if not all(_is_parameter(name, each) for name, each in fields.items()):
        raise Unsupported(RECOGNISED_CLIENT, tool.name, "no Python function has such a parameter")
    types = {name: _TYPES[each["type"]] for name, each in fields.items()}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    ordered = sorted(types, key=lambda name: name not in required)
    defaults = {name: inspect.Parameter.empty if name in required else None for name in ordered}
    shape = inspect.Signature(
        [inspect.Parameter(name, kind, default=defaults[name], annotation=types[name]) for name in ordered]
    )
    made: Any = _with_name(_calling(tool, shape), tool, hint)
    made.__annotations__ = types
    made.__signature__ = shape
    return made
