"""What the provider refuses in `text.format`."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.apis.openai_responses import limits
from harness.apis.openai_responses.limits.refusals import MISSING, WRONG_TYPE, WRONG_VALUE
from harness.apis.openai_responses.limits.schemas import invalid, strict_faults
from harness.apis.openai_responses.limits.shapes import name_limits
from harness.apis.openai_responses.requests import state
from harness.apis.openai_responses.requests.items import item_kind
from harness.contract.model import JSON

_POINTER = "/text/format"
_TYPES = ("text", "json_object", "json_schema")
_SCHEMA_CODE = "invalid_json_schema"


def format_limits(body: dict[str, JSON]) -> Iterator[Violation]:
    """What is refused in the way that a request asks for JSON."""
    text = body.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    if wanted is None:
        return
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if not isinstance(wanted, dict) or kind not in _TYPES:
        message = f"Invalid 'text.format.type': {kind!r}. Supported values: 'json_object', 'json_schema' and 'text'."
        yield limits.FORMAT_SHAPE.broken(message, _POINTER, code=WRONG_VALUE, actual=wanted)
    elif kind == "json_object" and state(body) is None and not _says_json(body.get("input")):
        message = "The input has to contain the word 'json' in some form, to use 'text.format' of type 'json_object'."
        yield limits.FORMAT_WORD.broken(message, _POINTER)
    elif kind == "json_schema":
        yield from _schema(wanted)


def _schema(wanted: dict[str, JSON]) -> Iterator[Violation]:
    for key, kind in (("name", str), ("schema", dict)):
        value = wanted.get(key)
        if value is None:
            message = f"Missing required parameter: 'text.format.{key}'."
            yield limits.FORMAT_SHAPE.broken(message, _POINTER, code=MISSING, actual=wanted)
        elif not isinstance(value, kind):
            message = f"Invalid type for 'text.format.{key}'."
            yield limits.FORMAT_SHAPE.broken(message, join(_POINTER, key), code=WRONG_TYPE, actual=value)
    yield from name_limits(wanted.get("name"), join(_POINTER, "name"), limits.FORMAT_NAME)
    for where, reason in invalid(wanted.get("schema"), join(_POINTER, "schema")):
        message = f"Invalid schema for response_format '{wanted.get('name')}': {reason}."
        source = "openai-responses-schema-valid"
        yield limits.FORMAT_SHAPE.broken(message, where, code=_SCHEMA_CODE, source=source)
    if wanted.get("strict") is True:
        for where, sentence in strict_faults(wanted.get("schema"), join(_POINTER, "schema")):
            message = f"Invalid schema for response_format '{wanted.get('name')}': {sentence}"
            yield limits.FORMAT_STRICT_SCHEMA.broken(message, where, code=_SCHEMA_CODE)


def _says_json(entries: JSON) -> bool:
    """Only input counts, not instructions (openai-responses-word-json): the text of messages and of tool outputs."""
    if isinstance(entries, str):
        return "json" in entries.lower()
    items = [item for item in entries if isinstance(item, dict)] if isinstance(entries, list) else []
    return any(
        "json" in text.lower()
        for item in items
        if item_kind(item) in ("message", "function_call_output")
        for text in _texts(item.get("content") if item_kind(item) == "message" else item.get("output"))
    )


def _texts(content: JSON) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str):
            yield text
