"""Calls of tools about which only their declarations are known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness.apis.view import ToolView
from harness.model.messages import JSON


def ends_conversation(tool: ToolView) -> bool:
    """Return whether a tool ends the conversation, such as `submit_answer`, by its name or its description."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|-", "_", tool.name).lower()
    return bool(_ENDING_NAME.search(name) or _ENDING_DESCRIPTION.search(tool.description or ""))


_ENDING_NAME = re.compile(
    r"(^|_)(final|finali[sz]e|finish|finished|submit|done|conclude|terminate|end|stop|exit)(_|$)"
    r"|^(respond|reply|answer|return|report|give|deliver|provide|present|output|complete)"
    r"(_\w*(answer|result|response|user|report|output|summary|task|verdict|decision)s?)?$"
)

_ENDING_DESCRIPTION = re.compile(
    r"\bfinal (answer|result|response|output)|\bends? the (conversation|task|run|loop|dialog)"
    r"|\bwhen (you are|you're|all is|everything is)? ?(done|finished|ready)",
    re.IGNORECASE,
)


def example_value(schema: JSON, definitions: Mapping[str, JSON], depth: int = 0, *, other: bool = False) -> JSON:
    """Return a simple value that fits a schema, or with `other`, a second one. Only common keywords are considered."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    known: Mapping[str, JSON] = {**definitions, **cast("dict[str, JSON]", schema.get("$defs") or {})}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return example_value(known.get(reference.rpartition("/")[2], {}), known, depth + 1, other=other)
    given = [schema[key] for key in ("const", "default") if schema.get(key) is not None]
    lists = (cast("Sequence[JSON]", schema.get(key) or ()) for key in ("enum", "examples"))
    listed = [values[-1 if other and values[-1] is not None else 0] for values in lists if values]
    if given or listed:
        return [*given, *listed][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if choices := cast("Sequence[JSON]", schema.get(key) or ()):
            return example_value(choices[0], known, depth + 1, other=other)
    return _value_of_type(schema, known, depth, other=other)


def _value_of_type(schema: Mapping[str, Any], known: Mapping[str, JSON], depth: int, *, other: bool) -> JSON:
    kind: Any = schema.get("type") or "object"
    word = str(kind if isinstance(kind, str) else kind[0]).lower()
    if word == "object":
        properties: Mapping[str, JSON] = schema.get("properties") or {}
        required: Sequence[str] = schema.get("required") or ()
        return {name: example_value(properties.get(name, {}), known, depth + 1, other=other) for name in required}
    if word == "array":
        return [example_value(schema.get("items") or {}, known, depth + 1, other=other)] * schema.get("minItems", 0)
    if word in ("integer", "number"):
        least: float = schema.get("minimum", 1)
        return min(least + 1, schema.get("maximum", least + 1)) if other else least
    if word == "string":
        text = _OTHER_TEXT if other else _TEXT
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
    return True if word == "boolean" else None


_MAX_DEPTH = 6

_TEXT, _OTHER_TEXT = "example", "exämple 2 of 3 or 4"
