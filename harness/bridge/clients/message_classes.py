"""Messages, calls and tools as instances of the third-party classes in annotations."""

from __future__ import annotations

import inspect
import json
import re
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import chain, groupby
from typing import Any, cast

from harness.bridge.clients.annotations import (
    classes_among,
    hints_of,
    is_enum,
    is_list,
    item_class,
    members_of,
    own_classes,
    subclasses_of,
)
from harness.bridge.clients.content_blocks import (
    block_arguments,
    block_field,
    blocks_of_message,
    lists_dictionaries,
    required_parameters,
)
from harness.bridge.clients.message_dictionaries import is_result_message
from harness.bridge.clients.names import (
    ERROR_FLAG,
    FIELD_ALIASES,
    OTHER_ERROR_FLAGS,
    TEXTS_BESIDE_CALLS,
    call_id_field,
    first_known,
)
from harness.bridge.clients.own_keys import NO_PARAMETERS, SCHEMA_KEYS, Declaration
from harness.bridge.clients.signature_reading import attributes_read
from harness.bridge.clients.sources import MethodCode, classes_with_imports
from harness.bridge.clients.values import plain_fields, result_object, snake_case
from harness.model.errors import RECOGNISED_CLIENT, Unsupported


def as_annotated(value: object, hint: object) -> Any:
    """Return JSON as instances of the classes in an annotation. JSON that fits none of them is returned unchanged."""
    members = [hint, *typing.get_args(hint)]
    if isinstance(value, list):
        if str in members and list not in members and not any(map(is_list, members)):
            return _as_one_text(cast("list[object]", value))
        inner = item_class(hint)
        listed = _results_in_own_field(cast("list[object]", value), inner)
        made = [as_annotated(each, inner) for each in _join_results(listed, inner)]
        return tuple(made) if typing.get_origin(hint) is tuple else made
    if isinstance(value, dict) and (made := _as_instance(cast("dict[str, Any]", value), members)) is not None:
        return made
    enums = (each for each in members if is_enum(each))
    if isinstance(value, str):
        named = (each for kind in enums for each in cast("type[Enum]", kind) if each.value == value)
        return next(named, value)
    return "" if value is None and hint is str else cast("object", value)


def _as_instance(value: dict[str, Any], members: Sequence[object]) -> object | None:
    """Return a JSON object as an instance of the first class that fits it, or `None`."""
    if isinstance(role := value.get("role"), str):
        is_result = role == "tool" or is_result_message(value)
        members = _classes_for_role([each for each in members if is_result or not _is_for_results(each)], role)
        classes = [*_own_classes_among(members)]
        if role == "assistant" and len(classes) > 1 and not any(_tells_role(each) for each in classes):
            raise Unsupported(RECOGNISED_CLIENT, "a history", "which class has the messages of the model is not clear")
    elif "type" in value and (block := _content_block(value, members)) is not None:
        return block
    made = (_instance_of(value, each) for each in _own_classes_among(members))
    typed = (_typed_dictionary(value, each) for each in members if typing.is_typeddict(each))
    return next((each for each in chain(made, typed) if each is not None), None)


def _typed_dictionary(value: Mapping[str, Any], kind: Any) -> object | None:
    """Return a message, a call or a tool with the keys of a `TypedDict`.

    Return `None` if it has these keys already, or lacks a required one. A message is also converted if the class has a
    key for each of its fields, and at least one key has another name than its field.
    """
    hints, required = hints_of(kind), cast("frozenset[str]", kind.__required_keys__)
    known = {**value}
    is_tool = "role" not in value and bool({"function", *SCHEMA_KEYS} & value.keys())
    if len(alone := value.get("functionDeclarations", ())) == 1 and not value.keys() & hints.keys():
        return _typed_dictionary(alone[0], kind)
    if is_tool:
        inner = value.get("function", value)
        schemas = [inner[name] for name in SCHEMA_KEYS if name in inner]
        known.update(parameters=schemas[0] if schemas else {})
    elif not _has_other_keys(value, hints) and (not required or required <= value.keys()):
        return None
    if is_tool and "function" in hints and "name" in known and "function" not in known:
        known |= {"type": "function", "function": value}
    known = _known_fields(known, hints)
    fits = required <= known.keys() and (not is_tool or {"name", "function", *FIELD_ALIASES["name"]} & hints.keys())
    return {name: as_annotated(known[name], hint) for name, hint in hints.items() if name in known} if fits else None


def _has_other_keys(message: Mapping[str, Any], hints: Mapping[str, object]) -> bool:
    """Return whether a class has a key for each field of a message, and at least one key has another name."""
    keys = {name: first_known((name, *FIELD_ALIASES.get(name, ())), frozenset(hints)) for name in message}
    roles = typing.get_args(hints.get("role"))
    is_of_role = "role" in message and (not roles or message["role"] in roles)
    return is_of_role and None not in keys.values() and [*keys] != [*keys.values()]


def _own_classes_among(members: Iterable[object]) -> list[type[Any]]:
    """Return the third-party classes among the members of an annotation, except mappings."""
    return [each for each in classes_among(members) if not issubclass(each, Mapping)]


def _content_block(value: Mapping[str, Any], members: Sequence[object]) -> object | None:
    """Return a content block, such as `{"type": "text", ...}`, as an instance of the class that has all its fields.

    The fields of the class may have other names. A class whose only field is a dictionary holds a block of any type.
    Return `None` if there is no such class.
    """
    hints = {each: hints_of(each) for each in _own_classes_among(members)}
    for kind, fields in hints.items():
        is_of_type = value["type"] in typing.get_args(fields.get("type")) or "type" not in fields
        if is_of_type and value.keys() - {"type"} <= fields.keys() and required_parameters(kind) <= value.keys():
            names = value.keys() & inspect.signature(kind).parameters.keys()
            return kind(**{name: as_annotated(value[name], fields[name]) for name in names})
    if (found := block_arguments(value, [*hints])) is not None:
        kind, given = found
        return kind(**{name: as_annotated(each, hints[kind].get(name)) for name, each in given.items()})
    kept = (kind for kind, fields in hints.items() if [dict] == [*members_of(_only_field(fields))])
    return next((kind(value) for kind in kept), None)


def _only_field(fields: Mapping[str, object]) -> object:
    """Return the annotation of the only field of a class, or `None`."""
    own = [each for name, each in fields.items() if name != "return"]
    return own[0] if len(own) == 1 else None


def _as_one_text(parts: list[object]) -> object:
    """Return content parts as one text, for a field that takes only text. Parts with images are returned unchanged."""
    texts = [cast("dict[str, Any]", each).get("text") for each in parts if isinstance(each, dict)]
    return "\n".join(map(str, texts)) if None not in texts and len(texts) == len(parts) else parts


_ROLE_PATTERNS = {
    "system": "system|developer",
    "user": "user|human|prompt|question",
    "assistant": "assistant|ai(?![a-z])|model|bot|completion|answer|reply",
    "tool": "tool|function|result",
}
"""Maps each role to a pattern for the names of message classes of this role."""


def _tells_role(kind: type) -> bool:
    """Return whether a class has a field for the role of a message, or a name that shows it."""
    names = {snake_case(each) for each in hints_of(kind)}
    return bool(names & {"role", "type", "kind", "author", "sender", "speaker"}) or _has_role(kind, "assistant")


def _classes_for_role(members: Sequence[object], role: str) -> list[object]:
    """Return the classes and subclasses among `members` whose names match a role.

    For the role `tool`, classes with a field for the id of a call also count. If no class matches, return all members.
    """
    found = [each for every in classes_among(members) for each in (every, *subclasses_of(every))]
    named = [each for each in found if _has_role(each, role)]
    if role == "tool":
        named = [each for each in named or found if _is_class_for_results(each)] or named
        named = named or [each for each in found if call_id_field(hints_of(each))]
    return [*named] or [*members]


def dispatched_classes(method: MethodCode) -> list[type]:
    """Return the message classes that a client's code distinguishes.

    The list is empty if the code reads roles from dictionaries. It is also empty unless there is a class for messages
    of the user and one for messages of the model.
    """
    code = method.with_imports
    if _READS_ROLE.search(code):
        return []
    names = {name for found in _TESTED_CLASSES.findall(code) for name in re.findall(r"\w+", "".join(found))}
    classes = [each for name, each in classes_with_imports(method.module_name).items() if name in names]
    found = [each for each in classes if any(_has_role(each, role) for role in _ROLE_PATTERNS) and hints_of(each)]
    has_both = all(any(_has_role(each, role) for each in found) for role in ("user", "assistant"))
    return found if has_both else []


def class_with_attributes(method: MethodCode, parameter: str, *parts: str) -> list[type]:
    """Return the only class of a module that has all these parts of a message or a tool.

    The code must read the parts as attributes of the values of a parameter. Return an empty list without such a class.
    """
    if "role" in parts and _READS_ROLE.search(method.with_imports):
        return []
    read = attributes_read(method.with_imports, parameter)
    names = [{each, *FIELD_ALIASES[each]} & read for each in parts]
    known = classes_with_imports(method.module_name).values() if all(names) else ()
    found = [kind for kind in known if all(each & hints_of(kind).keys() for each in names)]
    return found if len(found) == 1 and not _lists_any_results(found[0]) else []


def _lists_any_results(kind: type) -> bool:
    """Return whether a class has a field that lists results, and does not say of which class they are."""
    return any(_RESULTS.search(name) and (hint is list or hint is tuple) for name, hint in _with_results(kind).items())


_TESTED_CLASSES = re.compile(r"isinstance\(\w+, \(?([\w.,\s|]+)\)|\bcase ([\w.]+)\(|\btype\(\w+\) (?:is|==) ([\w.]+)")
"""Code that tests for the class of a message."""

_READS_ROLE = re.compile(r"((?<!-1\])\[|\.get\(|\.pop\()[\"']role[\"']|case \{[^}\n]*[\"']role[\"']")
"""Code that reads the role of a message that is a dictionary, except the last one of a request that it makes."""


def marks_errors(hint: object) -> bool:
    """Return whether the messages or results in an annotation have a field that marks errors."""
    item = item_class(hint)
    names = hints_of(item)
    items = [each for hint in names.values() for each in members_of(item_class(hint))]
    inner = (hints_of(each) for each in (*items, *subclasses_of(item), *members_of(item)))
    return any(_error_field(each) or _statuses(each) for each in (names, *inner))


def _error_field(hints: Mapping[str, object]) -> str | None:
    return next((name for name in (ERROR_FLAG, *OTHER_ERROR_FLAGS) if hints.get(name) in (bool, bool | None)), None)


def _statuses(hints: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the words for a result and for a failed one in a class with the field `status`, as in LangChain. Return
    `None` for classes whose annotation lists no such words.
    """
    words = [*_words_of(hints.get("status"))]
    failed = [each for each in words if re.match("err|fail", each.lower())]
    others = [each for each in words if each not in failed]
    return (others[0], failed[0]) if failed and others else None


def _results_in_own_field(values: list[object], kind: object) -> list[object]:
    """Return Anthropic's messages with their results moved to the field that the message class `kind` has for results.

    Other content is not moved. If the class has no such field, the messages are unchanged.
    """
    field = next((name for name, each in _with_results(kind).items() if _is_class_for_results(item_class(each))), None)
    if field is None or field in ("content", *FIELD_ALIASES["content"]):
        return values
    return [_with_listed_results(each, field) for each in values]


def _with_listed_results(message: object, field: str) -> object:
    """Return a message whose `field` lists its results under OpenAI's names."""
    made = cast("dict[str, Any]", message) if isinstance(message, dict) else dict[str, Any]()
    blocks = cast("list[Any]", made["content"]) if isinstance(made.get("content"), list) else []
    results = [cast("dict[str, Any]", each) for each in blocks if isinstance(each, dict) and "tool_use_id" in each]
    if not results:
        return cast("object", message)
    rest = [each for each in blocks if each not in results]
    return {**made, "content": rest, field: [{**each, "tool_call_id": each["tool_use_id"]} for each in results]}


def _join_results(values: list[object], kind: object) -> list[object]:
    """Merge consecutive results into one message if the message class `kind` has a field with a list of results.

    Also merge them if one of its classes has a dictionary from the ids of calls to results, or if its only class lists
    content blocks of which one is for results.
    """
    hints = _with_results(kind)
    classes = [hints, *map(_with_results, _classes_for_role([*members_of(kind)], "tool"))]
    fields = [(name, each) for every in classes for name, each in every.items()]
    listing = next((name for name, each in fields if _is_class_for_results(item_class(each))), None)
    mapping = _results_by_id(kind)
    blocks = block_field(hints)
    kinds = members_of(item_class(hints.get(blocks or "")))
    blocks = blocks if any(each is dict or _is_class_for_results(each) for each in kinds) else None
    if (listing is None or call_id_field(hints)) and mapping is None and blocks is None:
        return values
    found: list[object] = []
    for is_result, run in groupby(values, is_result_message):
        joined = [*run]
        if is_result and blocks is not None:
            listed = [each for result in cast("list[dict[str, Any]]", joined) for each in blocks_of_message(result)]
            found.append({"role": _role_of(joined), "content": listed})
        elif is_result and mapping is not None:
            results = {each["tool_call_id"]: each.get("content") for each in cast("list[dict[str, Any]]", joined)}
            found.append({"role": "tool", mapping: results})
        else:
            found += [{"role": _role_of(joined), "content": "", listing: joined}] if is_result else joined
    return found


def _role_of(results: Sequence[object]) -> object:
    """Return the role of messages that are results."""
    return cast("Mapping[str, object]", results[0])["role"]


def _is_class_for_results(kind: object) -> bool:
    """Return whether a class is for results of calls.

    It has no arguments. It has the id of a call, or both a content and the call itself.
    """
    hints = hints_of(kind)
    if {"arguments", *FIELD_ALIASES["arguments"]} & hints.keys():
        return False
    has_content = bool({"content", *FIELD_ALIASES["content"]} & hints.keys())
    is_identified = call_id_field(hints) is not None or _content_of_identified_result(hints) is not None
    is_identified = is_identified or (has_content and bool({*FIELD_ALIASES["tool_call_id"]} & hints.keys()))
    return is_identified or (_answered_call_field(hints) is not None and has_content)


def _answered_call_field(hints: Mapping[str, object]) -> str | None:
    """Return the field of a class for the call that a result answers, by its name or by the class of its values."""
    named = {"name", *FIELD_ALIASES["name"]}
    full = {"arguments", *FIELD_ALIASES["arguments"]}
    fields = {name: [hints_of(each).keys() for each in members_of(hint)] for name, hint in hints.items()}
    usual = (name for name in FIELD_ALIASES["answered_call"] if any(named & each for each in fields.get(name, ())))
    others = (name for name, kinds in fields.items() if any(named & each and full & each for each in kinds))
    return next(chain(usual, others), None)


def _content_of_identified_result(hints: Mapping[str, object]) -> str | None:
    """Return the field for the content of a result in a class with the fields `id` and `name` of the call, such as
    Gemini's `FunctionResponse`. Without `name`, such a class has no further field. Return `None` for other classes.
    """
    others = {"role", *FIELD_ALIASES["role"], "arguments", *FIELD_ALIASES["arguments"]}
    is_identified = "id" in hints and not others & hints.keys() and call_id_field(hints) is None
    field = first_known(("response", "output", "result", "value"), frozenset(hints)) if is_identified else None
    beside = hints.keys() - {"id", field, "return", ERROR_FLAG, *OTHER_ERROR_FLAGS}
    return field if "name" in hints or not beside else None


def _fields_of_identified_result(result: Mapping[str, Any], hints: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a result for such a class. Return `{}` for other classes, and for what is no result."""
    field = _content_of_identified_result(hints)
    if field is None or "tool_call_id" not in result:
        return {}
    content, kind = result.get("content"), typing.get_origin(hints[field]) or hints[field]
    is_object = inspect.isclass(kind) and issubclass(kind, Mapping)
    answered = plain_fields(result.get("answered_call", {}))  # it may be an instance of the client's class
    named = {"id": result["tool_call_id"], "name": answered.get("name", "")}
    return {**named, field: result_object(content) if is_object else content}


def _is_for_results(kind: object) -> bool:
    """Return whether a class is for results and has no role."""
    return _is_class_for_results(kind) and not {"role", *FIELD_ALIASES["role"]} & hints_of(kind).keys()


def _results_by_id(kind: object) -> str | None:
    """Return the field of a class for results that is a dictionary from ids of calls to results, or `None`."""
    classes = classes_among(members_of(kind))
    named = [each for each in classes if len(classes) > 1 and _has_role(each, "tool")]
    fields = [(name, each) for kind in named for name, each in hints_of(kind).items()]
    return next((name for name, each in fields if typing.get_origin(each) in (dict, Mapping)), None)


def _has_role(kind: type, role: str) -> bool:
    return re.match(_ROLE_PATTERNS.get(role, role), snake_case(kind.__name__).lstrip("_")) is not None


def lists_calls(hint: object) -> bool:
    """Return whether the annotation of the messages is a list of third-party classes with calls or results, as in
    OpenAI's format.
    """
    names = {"tool_calls", *FIELD_ALIASES["tool_calls"]}
    fields = [hints_of(each) for kind in own_classes(hint) for each in (kind, *subclasses_of(kind))]
    return any(names & each.keys() or call_id_field(each) for each in fields)


def _instance_of(value: dict[str, Any], kind: Callable[..., object]) -> object | None:
    """Return a message, a call or a tool as an instance of the class `kind`. Return `None` if its fields do not fit."""
    hints = _with_results(kind)
    known = _known_fields(value, hints)
    if "role" in value and (field := block_field(hints)) is not None:
        known[field] = as_annotated(blocks_of_message(value), hints[field])
        if any(isinstance(each, dict) for each in known[field]) and not lists_dictionaries(hints[field]):
            return None  # the class has no place for a part of the message
    if isinstance(known.get("function", known), dict) and hints.get("function") is str and "name" in known:
        known["function"] = known["name"]
    if known.get("tool_calls"):
        hints = {**hints, **(lists := _lists_of_calls(hints, kind))}
        if "content" in lists and isinstance(known.get("content"), str):
            known |= {name: known["content"] for name in TEXTS_BESIDE_CALLS if name in hints}
        known |= dict.fromkeys(lists, known["tool_calls"])
    try:
        parameters = inspect.signature(kind).parameters.keys()
        names = parameters & known.keys()
        unknown = [each for each in parameters if each not in names and hints.get(each) in (str, str | None, Any)]
        required = [each for each in unknown if each in required_parameters(kind)]
        found = _fields_by_place(value, names, unknown) or _field_for_sender(value, names, required)
        known |= {name: known[meaning] for name, meaning in found.items() if meaning in known}
        names |= found.keys() & known.keys()
        return kind(**{name: as_annotated(known[name], hints.get(name)) for name in names}) if names else None
    except (TypeError, ValueError):
        return None


def _fields_by_place(value: Mapping[str, Any], names: AbstractSet[str], unknown: Sequence[str]) -> dict[str, str]:
    """Return what the text fields with unusual names mean, assuming that they are in the usual order.

    The usual meanings that `names` lacks must be as many as these fields. They are the id of a result, the id and the
    name of a call, or the description of a tool.
    """
    if "tool_call_id" in value:
        lacking = [] if call_id_field(names) else ["tool_call_id"]
    elif "function" in value and "id" in value:
        lacking = [each for each in ("id", "name") if not {each, *FIELD_ALIASES[each]} & names]
    else:
        lacking = ["description"] if {*SCHEMA_KEYS, "function"} & value.keys() and "description" not in names else []
    return dict(zip(unknown, lacking, strict=True)) if len(unknown) == len(lacking) else {}


def _field_for_sender(value: Mapping[str, Any], names: AbstractSet[str], required: Sequence[str]) -> dict[str, str]:
    """Return the only required text field of a message class that has an unusual name, with the meaning `role`.

    The class has no other field for the role, so this field can only name the sender.
    """
    is_lacking = "role" in value and not {"role", *FIELD_ALIASES["role"]} & names
    return {required[0]: "role"} if is_lacking and len(required) == 1 else {}


_SCHEMA_FIELD = "parameters_json_schema"
"""Field for a schema in JSON Schema, in a class whose field `parameters` takes an object of another class."""


def _known_fields(value: Mapping[str, Any], hints: Mapping[str, object]) -> dict[str, Any]:
    """Return the fields of a message, a call or a tool under the names that a class with these annotations has."""
    known: dict[str, Any] = {**value.get("function", {}), **value}
    schema = next((each for name in SCHEMA_KEYS if (each := known.get(name)) is not None), None)
    if schema is not None or isinstance(value, Declaration):
        known["parameters"] = NO_PARAMETERS if schema is None else schema
        if {"parameters", _SCHEMA_FIELD} <= hints.keys():  # one of them excludes the other
            known[_SCHEMA_FIELD] = known.pop("parameters")
    own, ids = call_id_field(hints), [known[name] for name in ("tool_call_id", "id") if name in known]
    if own is not None and ids and "id" not in hints:
        known.setdefault(own, ids[0])
    known |= _fields_of_identified_result(known, hints)
    if "answered_call" in known and (field := _answered_call_field(hints)) is not None:
        known[field] = known["answered_call"]
    for name, others in FIELD_ALIASES.items():
        known |= {other: known[name] for other in others if name in known and name not in hints and other not in known}
    known |= _marks_of_result(known, hints)
    for name in {"role", *FIELD_ALIASES["role"]} & hints.keys() & known.keys():
        known[name] = _role_among([*_words_of(hints[name])], known[name])
    for name in ("arguments", *FIELD_ALIASES["arguments"]):
        if isinstance(known.get(name), str) and str not in members_of(hints.get(name)):
            known[name] = json.loads(known[name])
    return known


def _marks_of_result(known: Mapping[str, Any], hints: Mapping[str, object]) -> dict[str, object]:
    """Return the fields of a class that say whether a result failed."""
    field, statuses = _error_field(hints), _statuses(hints)
    found: dict[str, object] = {field: known[ERROR_FLAG]} if field is not None and ERROR_FLAG in known else {}
    if "tool_call_id" in known and statuses is not None:
        found["status"] = statuses[bool(known.get(ERROR_FLAG))]
    return found


def listed_roles(kind: type) -> list[str]:
    """Return the words for the role of a message class that its annotation lists."""
    hints = hints_of(kind)
    return [word for name in ("role", *FIELD_ALIASES["role"]) for word in _words_of(hints.get(name))]


def has_role_for_results(kind: type) -> bool:
    """Return whether one of the words that are listed for the role of a message class is for results."""
    return any(re.match(_ROLE_PATTERNS["tool"], each.lower()) for each in listed_roles(kind))


def _words_of(hint: object) -> Iterator[str]:
    """Yield the texts that an annotation allows: its literals and the values of its enumerations."""
    for each in members_of(hint):
        words = [member.value for member in cast("type[Enum]", each)] if is_enum(each) else [each]
        yield from (word for word in words if isinstance(word, str))


def _role_among(words: Sequence[str], role: str) -> str:
    """Return the word among `words` for a role. If there is none for results, they are messages of the user. One other
    word than the model's is the user's.
    """
    if not words or role in words:
        return role
    own = next((each for each in words if re.match(_ROLE_PATTERNS.get(role, role), each.lower())), None)
    others = [each for each in words if not any(re.match(known, each.lower()) for known in _ROLE_PATTERNS.values())]
    user = "user" if "user" in words else others[0] if len(others) == 1 and len(words) == _TWO_ROLES else None
    return own or (user if user and role in {"user", "tool"} else role)


_TWO_ROLES = 2
"""Number of words for roles of which one is the model's. The other one is the user's, whatever it is."""


def _lists_of_calls(hints: Mapping[str, object], kind: Callable[..., object]) -> Mapping[str, object]:
    """Return the annotated fields of a class that are lists of calls. They are recognised by their item class or by
    their name.
    """
    arguments = {"arguments", *FIELD_ALIASES["arguments"]}
    found = {name: each for name, each in hints.items() if arguments & hints_of(item_class(each)).keys()}
    named = {name for name in ("tool_calls", *FIELD_ALIASES["tool_calls"]) if name in hints and name not in found}
    own = _class_named(kind, "call|use") if any(item_class(hints[name]) is None for name in named) else None
    return {**found, **({name: list[own] for name in named if item_class(hints[name]) is None} if own else {})}


def _with_results(kind: Any) -> Mapping[str, object]:
    """Return the annotations of a class. Its lists of results have the only class for results in its module."""
    hints = hints_of(kind)
    named = [name for name, hint in hints.items() if hint is list and _RESULTS.search(name)]
    own = _class_named(kind, "result|output") if named else None
    return {**hints, **(dict.fromkeys(named, list[own]) if own else {})}


_RESULTS = re.compile("result|output")


def _class_named(kind: Callable[..., object], words: str) -> type | None:
    """Return the class in the module of a message class whose name ends with one of the words, if there is only one."""
    classes = [each for each in vars(sys.modules[kind.__module__]).values() if inspect.isclass(each)]
    found = [each for each in classes if re.search(rf"(^|_)({words})$", snake_case(each.__name__))]
    return found[0] if len(found) == 1 else None
