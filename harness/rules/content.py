"""What a tool answered and what a wire result says, as evidence in a finding."""

from __future__ import annotations

from harness.apis.jsonvalue import equal, loads
from harness.apis.view import JsonView, MediaView, OpaqueView, ResultView, TextView, WireError
from harness.contract.model import JSON, Text, ToolResult


def is_verbatim(view: ResultView, result: ToolResult) -> bool:
    """The payload is the tool's answer with nothing around it."""
    if isinstance(result.content, tuple) or len(view.payload) != 1:
        return False
    match view.payload[0]:
        case JsonView(value):
            return equal(value, result.content)
        case TextView(text):
            return text == result.content or _parsed_equal(text, result.content)
        case _:
            return False


def _parsed_equal(text: str, content: JSON) -> bool:
    try:
        return equal(loads(text), content)
    except WireError:
        return False


def shown(view: ResultView) -> JSON:
    """The payload as evidence in a finding."""
    values = [_shown_part(part) for part in view.payload]
    return values[0] if len(values) == 1 else values


def _shown_part(part: TextView | MediaView | JsonView | OpaqueView) -> JSON:
    match part:
        case TextView():
            return part.text
        case JsonView():
            return part.value
        case MediaView():
            size = f", {len(part.data)} bytes" if part.data is not None else ""
            return f"<{part.media_type}{size}>"
        case OpaqueView():
            return part.raw


def content_shown(result: ToolResult) -> JSON:
    """A tool's answer as evidence in a finding."""
    if not isinstance(result.content, tuple):
        return result.content
    return [part.text if isinstance(part, Text) else f"<{type(part).__name__.lower()}>" for part in result.content]
