"""Whether a wire result carries what a tool answered."""

from __future__ import annotations

from harness.model import JSON, File, Image, Opaque, Text, ToolResult
from harness.wire.jsonvalue import equal, loads
from harness.wire.view import JsonView, MediaView, OpaqueView, RequestView, ResultView, TextView, WireError


def carries(view: ResultView, result: ToolResult, request: RequestView) -> bool:
    """The payload is the tool's answer: text to the code point, JSON as an equal value, media to the byte.

    An API without an error flag says in the payload that it is an error, and one whose payload must be an object wraps
    what is none: a single key around the content is therefore allowed (GM-7). Media that an API does not take inside a
    result may stand in a user turn instead (OC-8).
    """
    if isinstance(result.content, tuple):
        return _carries_parts(view, result.content, request)
    return _carries_value(view, result.content, is_error=result.is_error)


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


def _carries_value(view: ResultView, content: JSON, *, is_error: bool) -> bool:
    if (content is None or content == "") and not view.payload:
        return True
    if any(isinstance(part, MediaView | OpaqueView) for part in view.payload):
        return False
    values = [part.value for part in view.payload if isinstance(part, JsonView)]
    if values:
        return len(values) == 1 and _is_or_wraps(values[0], content)
    text = "".join(part.text for part in view.payload if isinstance(part, TextView))
    if isinstance(content, str) and text == content:
        return True
    try:
        value = loads(text)
    except WireError:
        return is_error and isinstance(content, str) and text.endswith(content)
    if isinstance(content, str) and not is_error:
        return False  # a string travels as it is, without quotes around it
    return _is_or_wraps(value, content) if is_error else equal(value, content)


def _is_or_wraps(value: JSON, content: JSON) -> bool:
    if equal(value, content):
        return True
    return isinstance(value, dict) and len(value) == 1 and equal(next(iter(value.values())), content)


def _carries_parts(view: ResultView, content: tuple[Text | Image | File | Opaque, ...], request: RequestView) -> bool:
    inside = [part for part in view.payload if isinstance(part, MediaView)]
    outside = [part for turn in request.turns for part in turn.parts if isinstance(part, MediaView)]
    wanted = [part for part in content if isinstance(part, Image | File)]
    if not all(any(same_medium(medium, part) for medium in inside or outside) for part in wanted):
        return False
    given = "".join(part.text for part in content if isinstance(part, Text))
    sent = "".join(_texts(view))
    # where the media had to leave, a note may say so behind the result's own text
    return sent.startswith(given) if wanted and not inside else sent == given


def _texts(view: ResultView) -> list[str]:
    """The texts of a payload; those of an object that wraps them count as well."""
    texts: list[str] = []
    for part in view.payload:
        if isinstance(part, TextView):
            texts.append(part.text)
        elif isinstance(part, JsonView):
            texts.extend(_strings(part.value))
    return texts


def _strings(value: JSON) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    if isinstance(value, dict):
        return [text for key, item in value.items() if key != "$ref" for text in _strings(item)]
    return []


def same_medium(view: MediaView, part: Image | File) -> bool:
    """The medium on the wire is the given one: to the byte and of its type, or by its address."""
    if part.data is not None:
        return view.data == part.data and view.media_type == part.media_type
    return view.uri == part.uri
