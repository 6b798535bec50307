"""Strict models for scenarios and fact files: field types, the base class, and readable error messages with hints for
common mistakes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, JsonValue, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from harness.documents.document import Path, YamlDocument
from harness.documents.json_schema import is_simple, lost_reference, schema_error
from harness.model.errors import FileError, UnknownName
from harness.model.messages import JSON


class Strict(BaseModel):
    """Base of models that are frozen, do not convert types and reject unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, serialize_by_alias=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, value: JSON) -> JSON:
        known = _keys(cls)
        for key in value if isinstance(value, dict) else ():
            if key not in known:
                raise model_error(str(UnknownName("key", key, [*known])), key)
        return value


@cache
def _keys(model: type[BaseModel]) -> dict[str, None]:
    return dict.fromkeys(field.alias or name for name, field in model.model_fields.items())


def model_error(reason: str, *at: str | int) -> PydanticCustomError:
    """Create an error from a complete sentence. `at` is the path from the validated value to the mistake."""
    return PydanticCustomError("misfit", "{reason}", {"reason": reason, "at": at})


TEXT, NUMBER, LIST, MAPPING = "<text>", "<number>", "<list>", "<mapping>"
"""Tags of union members, which differ by JSON type. The angle brackets mark them in error locations."""


def by_json_type(meant: str) -> Discriminator:
    """Return a discriminator that selects a union member by JSON type, so that errors refer only to that member.
    `meant` names the allowed values in error messages.
    """
    return Discriminator(_shape, custom_error_type="misfit", custom_error_message=f"must be {meant}.")


def _shape(value: object) -> str | None:
    if isinstance(value, str):
        return TEXT
    if isinstance(value, list):
        return LIST
    if isinstance(value, int | float) and not isinstance(value, bool):
        return NUMBER
    return MAPPING if isinstance(value, dict | BaseModel) else None


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise model_error(f"not a regular expression: {error}.") from None
    return pattern


Pattern = Annotated[str, AfterValidator(_compiles)]
"""A regular expression for Python's `re`."""


def _is_schema(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if is_simple(schema):
        return schema
    try:
        fault = schema_error(schema, formats=True)
        lost = None if fault else lost_reference(schema)
    except RecursionError:
        raise model_error("the schema is nested too deeply.") from None
    if fault is not None:
        at, reason = fault
        raise model_error(f"not a JSON Schema (draft 2020-12): {reason}.", *at) from None
    if lost is not None:
        at, reference = lost
        raise model_error(f"the reference {reference!r} has no target in this schema.", *at)
    return schema


SchemaObject = Annotated[dict[str, JsonValue], AfterValidator(_is_schema)]
"""A JSON Schema, draft 2020-12. Its references must stay inside the schema."""


def _takes_an_object(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if schema and schema.get("type") != "object":
        raise model_error(
            "the schema of arguments must have type: object at its root, or be {} for a tool without any."
        )
    return schema


ArgumentsSchema = Annotated[SchemaObject, AfterValidator(_takes_an_object)]
"""The JSON Schema of a tool's arguments; `{}` for a tool without parameters."""


_PLAIN_SCALAR = re.compile(r"[A-Za-z_][\w./-]*(?: [\w./-]+)*\.?")
_WORDS = frozenset({"null", "true", "false", "Null", "NULL", "True", "TRUE", "False", "FALSE"})
_MAX_CHARACTERS = 60


def one_line_yaml(value: JSON) -> str:
    """Return a value as YAML on one line, with long parts shortened."""
    match value:
        case dict():
            text = ", ".join(f"{one_line_yaml(key)}: {one_line_yaml(item)}" for key, item in value.items())
            return f"{{{text}}}" if len(text) <= _MAX_CHARACTERS else "{…}"
        case list():
            text = ", ".join(map(one_line_yaml, value))
            return f"[{text}]" if len(text) <= _MAX_CHARACTERS else "[…]"
        case str() if _PLAIN_SCALAR.fullmatch(value) and value not in _WORDS and len(value) <= _MAX_CHARACTERS:
            return value
        case str():
            return json.dumps(
                value if len(value) <= _MAX_CHARACTERS else f"{value[:_MAX_CHARACTERS]}…", ensure_ascii=False
            )
        case _:
            return json.dumps(value)


_ARGUMENTS = ("arguments", "args", "input", "parameters")
_SETTING_KEYS = ("tool_choice", "response_format", "max_tokens", "temperature", "top_p", "stop", "thinking", "cache")
_TEXT = ("equals", "contains", "not_contains", "matches")
_CHOICES = ("auto", "none", "required")
_FORCED = ("any", "force", "forced")

_PLACES: Mapping[tuple[str, ...], str] = {
    (): "scenario",
    ("settings",): "settings",
    ("tools",): "tool",
    ("tools", "results"): "result",
    ("turns",): "turn",
    ("turns", "settings"): "settings",
    ("turns", "model"): "answer",
    ("turns", "expect"): "expectation",
}
"""Kind of each mapping, by the keys on its path."""

_OTHER_NAMES: Mapping[str, Mapping[str, str]] = {
    "scenario": {"messages": "turns", "steps": "turns", "prompt": "turns", "name": "id", "description": "title"},
    "settings": {"stop_sequences": "stop", "max_output_tokens": "max_tokens", "reasoning": "thinking"},
    "tool": {"input_schema": "parameters", "inputSchema": "parameters", "schema": "parameters", "returns": "results",
             "return": "results"},
    "result": {"arguments": "when", "output": "return", "content": "return", "is_error": "error"},
    "turn": {"assistant": "model", "response": "model", "answer": "model", "role": "user", "content": "user",
             "prompt": "user", "expected": "expect"},
    "answer": {"tool_calls": "calls", "tool_call": "calls", "content": "text", "reasoning": "thinking",
               "stop_reason": "stop", "finish_reason": "stop"},
    "expectation": {"tool_calls": "calls", "stop": "stop_reason", "finish_reason": "stop_reason"},
}  # fmt: skip
"""Keys of other formats and the scenario keys that replace them, by kind of mapping."""


def hint(document: YamlDocument, path: Path, *, of_key: bool = False) -> FileError | None:
    """Return an error that shows the correct spelling if there is a common mistake at a path, or `None`.

    Called only for paths with an error. `of_key` is set if the key is wrong rather than its value.
    """
    for look in (_call, _arguments, _choice, _expectation, _tool, _model, _renamed_or_moved):
        found = look(document, path)
        if found is not None:
            at, sentence = found
            return document.error(at, sentence, of_key=of_key and at == path)
    return None


_Found = tuple[Path, str] | None


def _value_at(document: YamlDocument, path: Path) -> JSON:
    value = document.value
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _place(path: Path) -> str | None:
    return _PLACES.get(tuple(step for step in path if isinstance(step, str)))


def _tool_names(document: YamlDocument) -> set[str]:
    tools = _value_at(document, ("tools",))
    names = [each.get("name") for each in (tools if isinstance(tools, list) else ()) if isinstance(each, dict)]
    return {name for name in names if isinstance(name, str)}


def _name(value: JSON) -> str | None:
    """Return the tool's name from the format of another API."""
    if not isinstance(value, dict):
        return None
    named = value.get("function", value)
    name = named.get("name") if isinstance(named, dict) else named
    return name if isinstance(name, str) else None


def _object(value: JSON) -> dict[str, JSON] | None:
    """Return a mapping; a text is parsed as JSON first."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _call(document: YamlDocument, path: Path) -> _Found:
    end = path.index("calls") if "calls" in path else 0
    if not end or _place(path[:end]) != "answer":
        return None
    calls = _value_at(document, path[: end + 1])
    if isinstance(calls, dict):
        return path[: end + 1], f"calls is a list: write calls: {one_line_yaml([calls])}."
    at = path[: end + 2]
    call = _value_at(document, at)
    if isinstance(call, str):
        return at, f"a call is a pair of a tool and its arguments: write {one_line_yaml({call: {}})}."
    name = _name(call)
    if name is None or not isinstance(call, dict) or _tool_names(document) & call.keys():
        return None
    function = call.get("function")
    given = function if isinstance(function, dict) else call
    arguments = next((_object(given[key]) for key in _ARGUMENTS if key in given), None)
    return at, f"a call is a pair of a tool and its arguments: write {one_line_yaml({name: arguments or {}})}."


def _arguments(document: YamlDocument, path: Path) -> _Found:
    if len(path) < 3 or (path[-3] != "calls" and path[-1] != "arguments"):
        return None
    value = _value_at(document, path)
    arguments = _object(value) if isinstance(value, str) else None
    if arguments is None:
        return None
    return path, f"arguments are a mapping, not JSON in a text: write {path[-1]}: {one_line_yaml(arguments)}."


def _choice(document: YamlDocument, path: Path) -> _Found:
    end = path.index("tool_choice") if "tool_choice" in path else 0
    if not end or _place(path[:end]) != "settings" or (len(path) > end + 1 and path[end + 1] == "tool"):
        return None
    at = path[: end + 1]
    meant = _convert_choice(_value_at(document, at))
    if meant is None:
        return None
    return at, f"a choice is {', '.join(_CHOICES)} or {{tool: NAME}}: write tool_choice: {one_line_yaml(meant)}."


def _convert_choice(value: JSON) -> JSON:
    """Convert a tool choice from the format of another API."""
    kind = value.get("type") if isinstance(value, dict) else value
    if value in _CHOICES:
        return None
    if kind in _CHOICES:
        return kind
    if kind in _FORCED:
        return "required"
    name = _name(value) if isinstance(value, dict) else value
    return {"tool": name} if isinstance(name, str) else None


def _expectation(document: YamlDocument, path: Path) -> _Found:
    place, key = _place(path[:-1]), path[-1] if path else None
    if key == "expect" and place in ("scenario", "answer"):
        turn: Path = path[:2] if place == "answer" else ("turns", 0)
        column = document.key_marks.get((*turn, "model"), (0, 5))[1]
        return path, f"expect belongs to its turn: start it in column {column}, like the turn's model."
    if place == "turn" and key in ("user", "model"):
        turn = path[:-1]
        at = turn[-1]
        value = _value_at(document, turn)
        if isinstance(value, dict) and isinstance(at, int) and at and value.keys() == {"expect"}:
            column = document.key_marks.get((*turn[:-1], at - 1, "model"), (0, 5))[1]
            return turn, f"expect belongs to the turn above: remove the dash and start it in column {column}."
    if place == "expectation" and key in _TEXT:
        return path, f"{key} belongs under text: write text: {one_line_yaml({str(key): _value_at(document, path)})}."
    value = _value_at(document, path)
    if place == "expectation" and key == "text" and isinstance(value, str):
        return path, f"text is a mapping of conditions: write text: {one_line_yaml({'contains': value})}."
    return None


def _tool(document: YamlDocument, path: Path) -> _Found:
    value = _value_at(document, path)
    if path == ("tools",) and isinstance(value, dict):
        first = next(iter(value), "NAME")
        return path, f"tools is a list of mappings: write - name: {first}, and its other keys below."
    if len(path) == 2 and path[0] == "tools" and isinstance(value, str):
        return path, f"a tool is a mapping: write - name: {value}, with parameters and results."
    if path[-1:] == ("results",) and _place(path[:-1]) == "tool" and not isinstance(value, list):
        return path, f"results is a list: write results: {one_line_yaml([_result(value)])}."
    if _place(path[:-1]) == "result" and isinstance(path[-1], int) and not isinstance(value, dict):
        return path, f"a result is a mapping: write {one_line_yaml(_result(value))}."
    if path[-1:] == ("type",) and _place(path[:-1]) == "tool" and value == "function":
        return path, "every tool is a function: remove type."
    return None


def _result(value: JSON) -> JSON:
    known = {"return", "error", "raise", "parts"}
    return value if isinstance(value, dict) and value.keys() & known else {"return": value}


def _model(document: YamlDocument, path: Path) -> _Found:
    value = _value_at(document, path)
    if path[-1:] == ("model",) and _place(path[:-1]) == "turn" and isinstance(value, str | dict):
        answer: JSON = {"text": value} if isinstance(value, str) else value
        return path, f"model is a list of answers: write model: {one_line_yaml([answer])}."
    if _place(path[:-1]) == "answer" and isinstance(path[-1], int) and isinstance(value, str):
        return path, f"an answer is a mapping: write {one_line_yaml({'text': value})}."
    return None


def _renamed_or_moved(document: YamlDocument, path: Path) -> _Found:
    place, key = _place(path[:-1]), path[-1] if path else None
    if place is None or not isinstance(key, str):
        return None
    if place in ("scenario", "turn") and key in _SETTING_KEYS:
        value = _value_at(document, path)
        meant = _convert_choice(value) if key == "tool_choice" else None
        return path, f"{key} belongs under settings: write settings: {one_line_yaml({key: meant or value})}."
    called = _OTHER_NAMES.get(place, {}).get(key)
    if called is None:
        return None
    article = "an" if place[0] in "ae" else "a"
    return path, f"{article} {place} has no {key!r}: the key is named {called!r}."


_KINDS = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}

_BOUNDS = {
    "missing": "required, but missing.",
    "too_short": "must not be empty.",
    "string_too_short": "must not be empty.",
    "string_too_long": "must have at most {max_length} characters.",
    "string_pattern_mismatch": "must match {pattern}",
    "greater_than_equal": "must be at least {ge:g}.",
    "less_than_equal": "must be at most {le:g}.",
    "less_than": "must be below {lt:g}.",
    "value_error": "{error}",
}

_VOCABULARIES = {
    "version": "version",
    "covers": "subject",
    "requires": "capability",
    "role": "role",
    "stop": "stop reason",
    "stop_reason": "stop reason",
    "variants": "variant",
    "provocations": "provocation",
    "error": "error",
    "name": "error",
    "status": "status",
    "stream_error": "status",
    "media_type": "media type",
}


def explain(document: YamlDocument, details: ErrorDetails) -> FileError:
    """Convert one of pydantic's errors to an error at its position in the file."""
    path = path_of(details)
    return document.error(path, _reason(details, path), of_key="at" in details.get("ctx", {}))


def path_of(details: ErrorDetails) -> Path:
    """Return the path of one of pydantic's errors."""
    location = (*details["loc"], *details.get("ctx", {}).get("at", ()))
    return tuple(step for step in location if isinstance(step, int) or not step.startswith("<"))


def describe(value: JSON) -> str:
    """Describe a value, for messages such as "must be a text, not a list"."""
    match value:
        case None:
            return "null"
        case bool() | int() | float():
            return json.dumps(value)
        case str():
            return f"the text {value!r}"
        case list():
            return "a list"
        case dict():
            return "a mapping"


def _reason(details: ErrorDetails, path: Path) -> str:
    name, value, context = details["type"], details["input"], details.get("ctx", {})
    if name in _KINDS:
        quote = " Quote it to make it a text." if name == "string_type" and isinstance(value, int | float) else ""
        return f"must be {_KINDS[name]}, not {describe(value)}.{quote}"
    if name in _BOUNDS:
        return _BOUNDS[name].format_map(context)
    if name in ("enum", "literal_error"):
        return _unknown_word(value, context["expected"], path)
    return details["msg"]


def _unknown_word(value: JSON, expected: str, path: Path) -> str:
    key = next((step for step in reversed(path) if isinstance(step, str)), "")
    known = [quoted or number for quoted, number in re.findall(r"'([^']*)'|(\d+)", expected)]
    word = value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, str) and word in re.findall(r"\d+", expected):
        return f"must be the number {word}, not {describe(value)}."
    return str(UnknownName(_VOCABULARIES.get(key, "value"), word, known))
