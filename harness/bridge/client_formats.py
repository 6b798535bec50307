"""Conversion of requests to the arguments of third-party clients. `client_answers` converts their results.

A client accepts the message format of its own API, that of OpenAI, or a single prompt. A `Form` builds the arguments
under the names of the provider's SDK, and `SYNONYMS` lists other names that clients use. Messages and tools are
converted to the classes in the annotations of the client's method.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from types import UnionType
from typing import Any, cast

from harness.adapters.anthropic.requests import encode as encode_for_anthropic
from harness.adapters.gemini.requests import encode as encode_for_gemini
from harness.adapters.openai_responses import SDK
from harness.bridge.openai_messages import Memory, completion_request
from harness.model.errors import RECOGNISED_CLIENT, MissingDependency, Unsupported
from harness.model.messages import ChatRequest, NamedTool, Role, Text, ToolChoice
from harness.platform.environment import importing_sdk

_SAID = ("text", "what", "body")
"""Names of the content of a message that is no result of a tool."""

_ALIASES = {
    "arguments": ("args", "input"),
    "parameters": ("schema", "input_schema", "json_schema"),
    "tool_call_id": ("call_id", "tool_use_id"),
    "content": (*_SAID, "result", "output", "value"),
    "tool_calls": ("calls", "function_calls", "tool_uses"),
    "role": ("who", "author", "speaker", "sender"),
    "id": ("call_id", "tool_call_id"),
    "name": ("tool", "tool_name", "function_name"),
    "answered_call": ("call", "tool_call", "function_call", "tool_use"),
}
"""Fields of OpenAI's messages, calls and tools → names of the same fields in third-party classes."""


_OWN_MODULES = ("builtins", "typing", "collections.abc")
"""Modules with built-in classes. JSON is not converted to these classes."""


def hints_of(value: object) -> Mapping[str, object]:
    """Return the annotations of a function, or of a class and its constructor; `{}` if they cannot be resolved."""
    try:
        own = typing.get_type_hints(value)
        return {**own, **typing.get_type_hints(value.__init__)} if inspect.isclass(value) else own
    except Exception:  # noqa: BLE001 - annotations of the user's code
        return {}


def as_annotated(value: object, hint: object) -> Any:
    """Return JSON as instances of the classes in an annotation. JSON that fits none of them is returned unchanged."""
    members = [hint, *typing.get_args(hint)]
    if isinstance(value, dict) and isinstance(role := cast("dict[str, Any]", value).get("role"), str):
        members = _for_role(members, role)
    if isinstance(value, list):
        if str in members and list not in members and not any(map(_is_list, members)):
            return joined_texts(cast("list[object]", value))
        inner = item_class(hint)
        return [as_annotated(each, inner) for each in _with_joined_results(cast("list[object]", value), inner)]
    for each in members:
        if not inspect.isclass(each) or each.__module__ in _OWN_MODULES:
            continue
        if issubclass(each, Enum) and isinstance(value, str) and value in {member.value for member in each}:
            return each(value)
        if isinstance(value, dict) and not issubclass(each, Mapping):
            made = _instance(cast("dict[str, Any]", value), each)
            if made is not None:
                return made
    if value is None and hint is str:
        return ""
    return cast("object", value)


def with_joined_texts(request: ChatRequest, memory: Memory) -> ChatRequest:
    """Return the request with the texts of each message joined into one, for a client that accepts only one. Messages
    with other parts, and those that the client made itself, stay unchanged.
    """
    made = [
        replace(each, parts=(Text("\n".join(part.text for part in each.parts if isinstance(part, Text))),))
        if len(each.parts) > 1 and all(isinstance(part, Text) for part in each.parts) and not memory.own(place, each)
        else each
        for place, each in enumerate(request.messages)
    ]
    return replace(request, messages=tuple(made))


def joined_texts(parts: list[object]) -> object:
    """Return content parts as one text, for a field that takes only text. Parts with images are returned unchanged."""
    texts = [cast("dict[str, Any]", each).get("text") for each in parts if isinstance(each, dict)]
    return "\n".join(map(str, texts)) if None not in texts and len(texts) == len(parts) else parts


_ROLE_NAMES = {
    "system": "system|developer",
    "user": "user|human|prompt|question",
    "assistant": "assistant|ai(?![a-z])|model|bot|completion|answer|reply",
    "tool": "tool|function|result",
}
"""Maps each role to a pattern for the names of message classes of this role."""


def _for_role(members: Sequence[object], role: str) -> list[object]:
    """Return the classes and subclasses among `members` whose names match a role, or that have the id of a call if the
    role is `tool`. If there are none, return all members.
    """
    classes = [each for each in members if inspect.isclass(each) and each.__module__ not in _OWN_MODULES]
    found = [each for every in classes for each in (every, *_subclasses(every))]
    named = [each for each in found if _has_role(each, role)]
    if not named and role == "tool":
        named = [each for each in found if _CALL_IDS & hints_of(each).keys()]
    return [*named] or [*members]


ERROR_FLAG = "is_error"
"""Field of a class for messages or results that marks a result as an error."""


TOOL_MESSAGES = "tool_messages"
"""Pseudo parameter name for a method that takes Anthropic's messages, but each result as a message with the role
`tool`.
"""


def marks_errors(hint: object) -> bool:
    """Return whether the messages or results in an annotation have a field that marks errors."""
    item = item_class(hint)
    names = hints_of(item)
    inner = (hints_of(each) for each in (*map(item_class, names.values()), *_subclasses(item)))
    return any(_error_field(each) for each in (names, *inner))


def _error_field(hints: Mapping[str, object]) -> str | None:
    return next((name for name in (ERROR_FLAG, "error", "failed") if hints.get(name) in (bool, bool | None)), None)


def _subclasses(kind: object) -> list[type]:
    return kind.__subclasses__() if isinstance(kind, type) and kind.__module__ not in _OWN_MODULES else []


def _with_joined_results(values: list[object], kind: object) -> list[object]:
    """Merge consecutive results into one message if the message class `kind` has a field with a list of results.

    Also merge them if one of its classes maps the ids of calls to results.
    """
    hints = hints_of(kind)
    classes = [hints, *map(hints_of, _for_role([*members_of(kind)], "tool"))]
    fields = [(name, each) for every in classes for name, each in every.items()]
    listing = next((name for name, each in fields if _is_result_class(item_class(each))), None)
    mapping = _results_by_id(kind)
    if (listing is None or _CALL_IDS & hints.keys()) and mapping is None:
        return values
    found: list[object] = []
    for is_result, run in groupby(values, _is_result):
        joined = [*run]
        if is_result and mapping is not None:
            results = {each["tool_call_id"]: each.get("content") for each in cast("list[dict[str, Any]]", joined)}
            found.append({"role": "tool", mapping: results})
        else:
            found += [{"role": "tool", "content": "", listing: joined}] if is_result else joined
    return found


def _is_result_class(kind: object) -> bool:
    """Return whether a class is one for results: it has the id of a call, or a content and the call itself."""
    hints = hints_of(kind)
    calls = [each for name in _ALIASES["answered_call"] for each in members_of(hints.get(name))]
    has_call = any({"name", *_ALIASES["name"]} & hints_of(each).keys() for each in calls)
    return bool(_CALL_IDS & hints.keys()) or (has_call and bool({"content", *_ALIASES["content"]} & hints.keys()))


def _results_by_id(kind: object) -> str | None:
    """Return the field of a class for results that maps the ids of calls to results, if there is such a class."""
    classes = [each for each in members_of(kind) if inspect.isclass(each) and each.__module__ not in _OWN_MODULES]
    named = [each for each in classes if len(classes) > 1 and _has_role(each, "tool")]
    fields = [(name, each) for kind in named for name, each in hints_of(kind).items()]
    return next((name for name, each in fields if typing.get_origin(each) in (dict, Mapping)), None)


def _has_role(kind: type, role: str) -> bool:
    return re.match(_ROLE_NAMES.get(role, role), snake(kind.__name__).lstrip("_")) is not None


def _is_result(message: object) -> bool:
    return isinstance(message, dict) and "tool_call_id" in message


_CALL_IDS = {"tool_call_id", *_ALIASES["tool_call_id"]}


def item_class(hint: object) -> object:
    """Return the class of the items of a list, or `None`."""
    members = [hint, *typing.get_args(hint)]
    return next((typing.get_args(each)[0] for each in members if _is_list(each)), None)


def members_of(hint: object) -> Iterator[object]:
    """Yield the classes and the literal values in an annotation, without `None`. A generic class is yielded without its
    arguments.
    """
    hint = getattr(hint, "__value__", hint)  # of an alias: `type Arguments = dict | str`
    origin = typing.get_origin(hint)
    if origin in (typing.Union, UnionType, typing.Literal, typing.Annotated):
        for each in typing.get_args(hint):
            yield from members_of(each)
    elif hint not in (None, type(None)):
        yield origin or hint


def is_enum(value: object) -> bool:
    """Return whether a value is an enumeration class."""
    return inspect.isclass(value) and issubclass(value, Enum)


def own_classes(hint: object) -> tuple[type, ...]:
    """Return the third-party classes in the annotation of a list, except mappings such as `TypedDict`."""
    item = item_class(hint)
    classes = [each for each in (item, *typing.get_args(item)) if inspect.isclass(each)]
    return tuple(each for each in classes if each.__module__ not in _OWN_MODULES and not issubclass(each, Mapping))


class Declaration(dict[str, Any]):
    """A tool in an API's format. A client may also read the name, the description and the schema as keys of its own.

    Copies and JSON contain only the fields of the API's format. `as_read` is a plain dictionary with the keys that the
    client reads, for `harness reproduce`.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.as_read = {**fields}

    def __missing__(self, key: str) -> Any:
        alone = dict[str, Any].get(self, "functionDeclarations", ())
        enclosed = alone[0] if len(alone) == 1 else self
        inner = cast("dict[str, Any]", dict[str, Any].get(self, "function", enclosed))
        keys = _SCHEMA_KEYS if key in _SCHEMA_KEYS else (key,)
        found = next((each for each in keys if each in inner), None)
        if found is None and (keys is not _SCHEMA_KEYS or "name" not in inner):
            raise KeyError(key)
        value: Any = inner.get(found or "", _NO_PARAMETERS)
        for unread in ("type", "function", *_SCHEMA_KEYS):
            self.as_read.pop(unread, None)
        self.as_read[key] = value
        return value

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of the API's format, or of a key that means the same."""
        try:
            return default if key == "function" and key not in self else self[key]
        except KeyError:
            return default


_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_SCHEMA_KEYS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")
"""Keys that hold the schema of a tool in the formats of the APIs. A tool of Gemini without parameters has none."""


class UnknownKeyError(KeyError):
    """A client reads a key that no usual message has."""


class OwnFields(dict[str, Any]):
    """A message or a call in OpenAI's format. A client may also read its fields under names of its own.

    `own` holds the fields of the client's answer that the message or call comes from. Copies and JSON contain only the
    fields of OpenAI's format. `as_read` also has the other keys that the client reads, for `harness reproduce`.
    """

    def __init__(self, fields: Mapping[str, Any], own: Mapping[str, Any], flat: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self._known = {**flat, **own}
        others = {} if fields.get("role") == "tool" else {"content": _SAID}
        self._aliases: Mapping[str, tuple[str, ...]] = {**_ALIASES, **others}
        self.as_read = {name: _as_read(value) for name, value in fields.items()}

    def __missing__(self, key: str) -> Any:
        if key not in self:
            raise UnknownKeyError(key)
        names = (name for name, others in self._aliases.items() if key in others and name in self._known)
        value = self._known[key if key in self._known else next(names)]
        self.as_read[key] = _as_read(value)
        return value

    def __contains__(self, key: object) -> bool:
        names = (name for name, others in self._aliases.items() if key in others)
        return super().__contains__(key) or key in self._known or any(name in self._known for name in names)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key of OpenAI's format, or of a key of the client's own."""
        try:
            return self[key]
        except KeyError:
            return default

    def copy(self) -> OwnFields:
        """Return a copy that the client can read in the same way."""
        made = OwnFields(self, self._known, {})
        made.as_read = self.as_read
        return made


def _as_read(value: object) -> object:
    if isinstance(value, list):
        return [_as_read(each) for each in cast("list[object]", value)]
    return value.as_read if isinstance(value, OwnFields) else value


_COMPARES_ROLE = re.compile(r"role[\"']\]?\)?\s*==\s*[\"'](model|ai|bot|human)[\"']")
"""Code that compares the role of a message with a word other than OpenAI's."""


def with_own_fields(message: Mapping[str, Any], own: Mapping[str, Any], calls: Sequence[object], source: str) -> Any:
    """Return a message in OpenAI's format whose fields a client can also read under its own names.

    `own` has the fields of the client's answer that the message comes from, and `calls` the calls in it, as the client
    returned them. `source` is the code of the client. It shows whether arguments are a text or an object.
    """
    made: dict[str, Any] = {**message}
    if _COMPARES_ROLE.search(source):
        (made,) = with_own_roles([made], source)
    if made.get("tool_calls"):
        found = [cast("dict[str, Any]", each) if isinstance(each, dict) else dict[str, Any]() for each in calls]
        found = found if len(found) == len(made["tool_calls"]) else [dict[str, Any]() for _ in made["tool_calls"]]
        made["tool_calls"] = [
            OwnFields(each, given, {**each, **each["function"], "arguments": _own_arguments(each["function"], source)})
            for each, given in zip(made["tool_calls"], found, strict=True)
        ]
    flat = {**made, **({"id": made["tool_call_id"]} if "tool_call_id" in made else {})}
    known = {name: value for name, value in own.items() if name not in _ALIASES["tool_calls"]}
    return OwnFields(made, known, flat)


def _own_arguments(function: Mapping[str, Any], source: str) -> Any:
    """Return the arguments of a call as an object. Return them as a text if the client parses them, or passes them on
    to OpenAI.
    """
    keys = "|".join(("arguments", *_ALIASES["arguments"]))
    read = rf"\w+(\.get\(|\[)[\"']({keys})[\"']"
    is_object = re.search(rf"dumps\({read}", source) is not None
    is_text = re.search(rf"loads\({read}|[\"']arguments[\"']:\s*{read}", source) is not None
    return function["arguments"] if is_text and not is_object else json.loads(function["arguments"] or "{}")


def choice_as_text(choice: ToolChoice | None, hint: object, source: str, api: str) -> object:
    """Return a tool choice as the word or the name that a client takes, according to the annotation of its parameter
    or to its source.

    Raises:
        Unsupported: The annotation lists the words that it takes, and this is none of them. Or it is the name of a
            tool, and the source does not use the parameter as a name.
    """
    name = choice.name if isinstance(choice, NamedTool) else choice
    if isinstance(choice, NamedTool) and not _CHOICE_AS_NAME.search(source):
        raise Unsupported(RECOGNISED_CLIENT, "the choice of a named tool", "its source uses no tool choice as a name")
    own = ("required", "any") if api in _REQUIRED_APIS else ("any", "required")
    words = own if choice == "required" else (str(name),)
    members = [*members_of(hint)]
    enums = [cast("type[Enum]", each) for each in members if is_enum(each)]
    allowed: dict[str, object] = {str(each.value).lower(): each for kind in enums for each in kind}
    allowed |= {each.lower(): each for each in members if isinstance(each, str)}
    if allowed and str not in members:
        if (found := next((allowed[word] for word in words if word in allowed), None)) is None:
            raise Unsupported(RECOGNISED_CLIENT, f"the tool choice {name}", "its parameter takes other words")
        return found
    return next((word for word in words if re.search(rf"(?<!: )[\"']{word}[\"']", source)), words[0])


_CHOICE_AS_NAME = re.compile(r"name\w*[\"']?\s*[:=]\s*\[?\s*[\w.]*(choice|mode)\b", re.IGNORECASE)
"""Code that sends a parameter for the tool choice as the name of a tool."""

_REQUIRED_APIS = ("openai-chat", "openai-responses")
"""APIs that call the choice of any tool `required`. The other APIs call it `any`."""


def lists_calls(hint: object) -> bool:
    """Return whether the annotation of the messages is a list of third-party classes with calls or results, as in
    OpenAI's format.
    """
    names = {"tool_calls", *_ALIASES["tool_calls"], *_CALL_IDS}
    found = own_classes(hint)
    return any(names & hints_of(each).keys() for kind in found for each in (kind, *_subclasses(kind)))


def _is_list(hint: object) -> bool:
    origin = typing.get_origin(hint)
    is_iterable = inspect.isclass(origin) and issubclass(origin, Iterable) and not issubclass(origin, Mapping)
    return is_iterable and bool(typing.get_args(hint))


def _instance(value: dict[str, Any], kind: Callable[..., object]) -> object | None:
    """Return a message, a call or a tool as an instance of the class `kind`, or `None` if its fields do not fit the
    class.
    """
    hints = hints_of(kind)
    known: dict[str, Any] = {**value.get("function", {}), **value}
    for name, others in _ALIASES.items():
        known |= {other: known[name] for other in others if name in known and name not in hints and other not in known}
    if (field := _error_field(hints)) is not None and ERROR_FLAG in known:
        known[field] = known[ERROR_FLAG]
    for name in ("arguments", *_ALIASES["arguments"]):
        if isinstance(known.get(name), str) and str not in members_of(hints.get(name)):
            known[name] = json.loads(known[name])
    if isinstance(known.get("function"), dict) and hints.get("function") is str:
        known["function"] = known.get("name")
    if known.get("tool_calls"):
        hints = {**hints, **(lists := _lists_of_calls(hints, kind))}
        known |= dict.fromkeys(lists, known["tool_calls"])
    try:
        parameters = inspect.signature(kind).parameters.keys()
        names = parameters & known.keys()
        unknown = [each for each in parameters - names if hints.get(each) in (str, str | None)]
        if "tool_call_id" in known and not _CALL_IDS & names and len(unknown) == 1:
            known[unknown[0]] = known["tool_call_id"]
            names = {*names, *unknown}
        return kind(**{name: as_annotated(known[name], hints.get(name)) for name in names}) if names else None
    except (TypeError, ValueError):
        return None


def _lists_of_calls(hints: Mapping[str, object], kind: Callable[..., object]) -> Mapping[str, object]:
    """Return the annotated fields of a class that are lists of calls. They are recognised by their item class or by
    their name.
    """
    arguments = {"arguments", *_ALIASES["arguments"]}
    found = {name: each for name, each in hints.items() if arguments & hints_of(item_class(each)).keys()}
    named = {name for name in ("tool_calls", *_ALIASES["tool_calls"]) if name in hints and name not in found}
    own = _call_class(kind) if any(item_class(hints[name]) is None for name in named) else None
    return {**found, **({name: list[own] for name in named if item_class(hints[name]) is None} if own else {})}


def _call_class(kind: Callable[..., object]) -> type | None:
    """Return the class for calls in the module of a message class, if there is exactly one."""
    members = vars(sys.modules[kind.__module__]).values()
    classes = [each for each in members if inspect.isclass(each)]
    found = [each for each in classes if re.search(r"(^|_)(call|use)$", snake(each.__name__))]
    return found[0] if len(found) == 1 else None


def with_answered_calls(messages: Sequence[Any], request: ChatRequest) -> list[Any]:
    """Return messages in OpenAI's format, in which each result also has the call that it answers."""
    calls = {call.id: call for message in request.messages for call in message.tool_calls}
    found = list[Any]()
    for each in messages:
        call = calls.get(cast("dict[str, Any]", each).get("tool_call_id", "")) if isinstance(each, dict) else None
        answered = {"id": call.id, "name": call.name, "arguments": call.arguments} if call is not None else None
        found.append({**each, "answered_call": answered} if answered is not None else each)
    return found


def without_answered_calls(messages: object) -> object:
    """Return messages without the calls that `with_answered_calls` added to those that are still dictionaries."""
    if not isinstance(messages, list):
        return messages
    return [_without_answered_call(each) for each in cast("list[object]", messages)]


def _without_answered_call(message: object) -> object:
    if not isinstance(message, dict) or "answered_call" not in message:
        return cast("object", message)
    return without(cast("dict[str, Any]", message), "answered_call")


def with_joined_results(messages: Sequence[Any], request: ChatRequest, source: str) -> list[Any]:
    """Return messages in OpenAI's format, with the results of a turn in one message if the client's source reads them
    from a list: as pairs of a call and its result, or as dictionaries.
    """
    read = re.search(r"(for \(?\w+, \w+\)? in )?[\w.\[\]-]+(\[|\.get\()[\"']results[\"']", source)
    if read is None:
        return [*messages]
    found = list[Any]()
    for is_result, run in groupby(with_answered_calls(messages, request), _is_result):
        if not is_result:
            found += run
            continue
        results = cast("list[dict[str, Any]]", [*run])
        if read[1]:
            calls = [each.get("answered_call") or {"id": each["tool_call_id"]} for each in results]
            listed = [(OwnFields(call, {}, call), each["content"]) for call, each in zip(calls, results, strict=True)]
        else:
            listed = [OwnFields(each, {}, {**each, "id": each["tool_call_id"]}) for each in results]
        found.append({"role": "tool", "results": listed})
    return found


def with_own_roles(messages: Sequence[Any], source: str) -> list[Any]:
    """Return messages with OpenAI's roles replaced by those that the client's source code uses."""
    words = {role: re.search(rf"[\"']({other})[\"']", source) for role, other in _OTHER_ROLES.items()}
    own = {role: found[1] for role, found in words.items() if found and not re.search(rf"\b{role}\b", source)}
    dicts = [cast("dict[str, Any]", each) if isinstance(each, dict) else None for each in messages]
    roles = [each and {**each, "role": own.get(each["role"], each["role"])} for each in dicts]
    return [role or each for role, each in zip(roles, messages, strict=True)]


_OTHER_ROLES = {"assistant": "model|ai|bot", "user": "human", "tool": "function|tool_result"}

FUNCTION_LISTS = ("functions", "function_declarations")
"""Names of tool parameters that accept bare function declarations, without the enclosing object that has their type."""

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "messages": ("messages", "msgs", "conversation", "chat_history", "history", "turns", "dialog", "transcript"),
    "contents": ("contents", "messages", "history", "conversation", "turns"),
    "prompt": (
        *("prompt", "question", "text", "query", "user_message", "user_input", "message", "user", "content"),
        *("task", "goal", "prompts", "questions"),
    ),
    "system": ("system", "system_prompt", "system_instruction", "instructions", "system_message", "persona", "sp"),
    "tools": (
        *("tools", "tool_definitions", "tool_schemas", "tool_specs", "available_tools", "toolset", "toolbox"),
        *("tool_list", "tool_defs", "function_schemas", "schemas", "abilities", *FUNCTION_LISTS),
    ),
    "tool_choice": ("tool_choice", "tool_mode"),
    "tool_config": ("tool_config", "tool_choice", "tool_mode"),
    "max_tokens": ("max_completion_tokens", "max_tokens", "max_output_tokens", "maxtok"),
    "temperature": ("temperature", "temp"),
    "max_output_tokens": ("max_output_tokens", "max_tokens"),
    "stop": ("stop", "stop_sequences"),
    "stop_sequences": ("stop_sequences", "stop"),
    "json_mode": ("json_mode", "json_output", "as_json"),
    "json_schema": ("json_schema", "response_schema", "output_schema", "schema"),
}
"""Maps an argument to the parameter names that methods use for it, in order of preference."""

SETTINGS: Mapping[str, str] = {
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "stop": "stop",
    "stop_sequences": "stop",
    "reasoning": "thinking",
}
"""Maps arguments to the settings that they carry. Such an argument is left out if the method has no parameter for it.
"""


@dataclass(frozen=True, slots=True)
class Form:
    """A request format that clients accept. `messages` is the argument that holds the conversation.

    `arguments` builds the arguments from the request, the memory, the model and the names of the method's parameters.
    The names include `ERROR_FLAG` if the client's messages can mark errors. They include `TOOL_MESSAGES` if the method
    takes results as messages with the role `tool`. `capabilities` maps arguments to the capabilities of a method that
    accepts them; the key "" applies to every method. `settings` lists the arguments for settings.
    """

    name: str
    messages: str
    arguments: Callable[[ChatRequest, Memory, str, frozenset[str]], dict[str, Any]]
    capabilities: Mapping[str, tuple[str, ...]]
    settings: tuple[str, ...] = ("max_tokens", "temperature", "top_p", "stop")


_CHOICES = ("tool-choice", "forced-tool-choice", "named-tool-choice")
_TOOLS = {"tools": ("tools", "parallel-tool-calls"), "tool_choice": _CHOICES}
_CONVERSATION = ("history", "truncation")


def _openai(request: ChatRequest, memory: Memory, _model: str, names: frozenset[str]) -> dict[str, Any]:
    system = first(SYNONYMS["system"], names)
    failed = {ERROR_FLAG: True} if ERROR_FLAG in names else None
    made = completion_request(replace(request, system=None) if system else request, memory, failed=failed)
    if system and request.system:
        made["system"] = request.system
    wanted = made.get("response_format")
    if wanted is None or "response_format" in names:
        return made
    kind, schema = wanted["type"], wanted.get("json_schema", {}).get("schema")
    if kind == "json_object" and first(SYNONYMS["json_mode"], names):
        return {**without(made, "response_format"), "json_mode": True}
    if schema is not None and first(SYNONYMS["json_schema"], names):
        return {**without(made, "response_format"), "json_schema": schema}
    return made


def _anthropic(request: ChatRequest, _memory: Memory, model: str, names: frozenset[str]) -> dict[str, Any]:
    made = without(encode_for_anthropic(request, model), "model")
    if "thinking" in names and "output_config" not in names and made.get("output_config", {}).keys() == {"effort"}:
        del made["output_config"]
    if TOOL_MESSAGES in names:
        made["messages"] = [*_results_of_tools(made["messages"])]
    match made.get("system"):
        case [{"type": "text", "text": str(text), **rest}] if not rest:
            return {**made, "system": text}
        case _:
            return made


def _results_of_tools(messages: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield messages of Anthropic's format, with each result in a message of its own with the role `tool`."""
    for each in messages:
        content = each["content"]
        blocks = cast("list[dict[str, Any]]", content) if isinstance(content, list) else []
        results = [without(block, "type") for block in blocks if block["type"] == "tool_result"]
        yield from ({"role": "tool", **block} for block in results)
        others = [block for block in blocks if block["type"] != "tool_result"]
        if others or not results:
            yield {**each, "content": others or content}


def _gemini(request: ChatRequest, _memory: Memory, model: str, names: frozenset[str]) -> dict[str, Any]:
    made: dict[str, Any] = {snake(key): value for key, value in encode_for_gemini(request, model).items()}
    match made.pop("system_instruction", None):
        case {"parts": [{"text": str(text)}]}:
            made["system"] = text
        case None:
            pass
        case other:
            made["system"] = other
    settings = {snake(key): value for key, value in made.pop("generation_config", {}).items()}
    if "config" in names:
        system = {"system_instruction": made.pop("system")} if "system" in made else {}
        config = {**system, **settings, **without(made, "contents")}
        return {"contents": made["contents"], **({"config": config} if config else {})}
    if "generation_config" in names:
        return {**made, "generation_config": settings} if settings else made
    schema = settings.get("response_json_schema")
    if schema is not None and first(SYNONYMS["json_schema"], names):
        settings = {**without(settings, "response_mime_type", "response_json_schema"), "json_schema": schema}
    elif schema is None and "response_mime_type" in settings and first(SYNONYMS["json_mode"], names):
        settings = {**without(settings, "response_mime_type"), "json_mode": True}
    return {**made, **settings}


def _responses(request: ChatRequest, _memory: Memory, model: str, names: frozenset[str]) -> dict[str, Any]:
    try:
        with importing_sdk(RESPONSES.name, SDK, "openai"):
            from harness.adapters.openai_responses.requests import encode  # noqa: PLC0415 - imports the SDK
    except MissingDependency as error:
        raise Unsupported(RECOGNISED_CLIENT, "messages in the format of OpenAI Responses", str(error)) from error
    made = without(encode(request, model), "model")
    return made if "store" in names else without(made, "store", "include")


def _prompt(request: ChatRequest, memory: Memory, _model: str, names: frozenset[str]) -> dict[str, Any]:
    last = request.messages[-1]
    if last.role is not Role.USER or any(not isinstance(part, Text) for part in last.parts):
        raise Unsupported(
            RECOGNISED_CLIENT, "a message that is not a text of the user", "its method has a prompt, not messages"
        )
    before = replace(request, messages=request.messages[:-1])
    made = _openai(before, memory, "", names)
    history = first(SYNONYMS["messages"], names)
    if made["messages"] and history is None:
        raise Unsupported(RECOGNISED_CLIENT, "a conversation of several turns", "its method has a prompt, not messages")
    prompt = "".join(part.text for part in last.parts if isinstance(part, Text))
    return {**(made if history else without(made, "messages")), "prompt": prompt}


_OUTPUT = {
    "response_format": ("json-mode", "json-schema"),
    "json_mode": ("json-mode",),
    "json_schema": ("json-schema",),
}

OPENAI = Form("openai-chat", "messages", _openai, {"": ("system-prompt", *_CONVERSATION), **_TOOLS, **_OUTPUT})
ANTHROPIC = Form(
    "anthropic",
    "messages",
    _anthropic,
    {
        "": _CONVERSATION,
        "system": ("system-prompt", "json-mode"),
        **_TOOLS,
        "output_config": ("json-schema",),
        "thinking": ("thinking",),
    },
    ("max_tokens", "temperature", "top_p", "stop_sequences"),
)
GEMINI = Form(
    "gemini",
    "contents",
    _gemini,
    {
        "": _CONVERSATION,
        "system": ("system-prompt",),
        "tools": _TOOLS["tools"],
        "tool_config": _TOOLS["tool_choice"],
        "generation_config": ("json-mode", "json-schema"),
        "json_mode": ("json-mode",),
        "json_schema": ("json-schema",),
        "config": ("system-prompt", *_TOOLS["tools"], *_TOOLS["tool_choice"], "json-mode", "json-schema", "thinking"),
    },
    ("max_output_tokens", "temperature", "top_p", "stop_sequences"),
)
RESPONSES = Form(
    "openai-responses",
    "input",
    _responses,
    {"": ("system-prompt", *_CONVERSATION, "thinking"), **_TOOLS, "text": ("json-mode", "json-schema")},
    ("max_output_tokens", "temperature", "top_p", "reasoning"),
)
PROMPT = Form("prompt", "prompt", _prompt, {"system": ("system-prompt",), "messages": _CONVERSATION, **_OUTPUT})

FORMS = {each.name: each for each in (OPENAI, ANTHROPIC, GEMINI, RESPONSES, PROMPT)}


def first(known: tuple[str, ...], names: frozenset[str]) -> str | None:
    """Return the first of the known names that is among the names of a method's parameters."""
    return next((name for name in known if name in names), None)


def without(made: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the arguments without some of them."""
    return {name: value for name, value in made.items() if name not in names}


def snake(name: str) -> str:
    """Convert a name from camel case to snake case. An acronym is one word: `AIMessage` becomes `ai_message`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
