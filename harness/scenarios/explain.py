"""pydantic's errors in the words of people who write scenarios: what is wrong, and the way out."""

from __future__ import annotations

import json
import re

from pydantic_core import ErrorDetails

from harness.contract.errors import FileError, UnknownName
from harness.contract.model import JSON
from harness.scenarios.document import Document, Path

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
    "missing": "required, and missing.",
    "too_short": "must not be empty.",
    "string_too_short": "must not be empty.",
    "string_too_long": "must have at most {max_length} characters.",
    "string_pattern_mismatch": "has to match {pattern}",
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


def explain(document: Document, details: ErrorDetails) -> FileError:
    """One of pydantic's errors at its place in the file."""
    path = path_of(details)
    return document.error(path, _reason(details, path), of_key="at" in details.get("ctx", {}))


def path_of(details: ErrorDetails) -> Path:
    """Where one of pydantic's errors is."""
    location = (*details["loc"], *details.get("ctx", {}).get("at", ()))
    return tuple(step for step in location if isinstance(step, int) or not step.startswith("<"))


def kind(value: JSON) -> str:
    """What a value is, for "must be a text, not …"."""
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
        quote = " Quote it if a text is meant." if name == "string_type" and isinstance(value, int | float) else ""
        return f"must be {_KINDS[name]}, not {kind(value)}.{quote}"
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
        return f"must be the number {word}, not {kind(value)}."
    return str(UnknownName(_VOCABULARIES.get(key, "value"), word, known))
