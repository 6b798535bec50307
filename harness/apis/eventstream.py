"""Server-sent events: bytes → events, as the WHATWG grammar has it.

Lines end at LF, CR or CRLF and nowhere else: U+2028, U+2029 and U+0085 are legal inside the JSON of an event, so
`str.splitlines` must not be used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.apis.view import WireError
from harness.contract.model import JSON

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data", b"event", b"id", b"retry", b"")
"""What stands before the colon of a line; nothing, of a comment."""

DONE = "[DONE]"
"""The data of an event that is no JSON: the end of OpenAI's streams."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `name` is `None` without an `event:` line; `data` are the joined `data:` lines."""

    name: str | None
    data: str


def is_event_stream(headers_content_type: str, body: bytes) -> bool:
    """Whether a response body is an event stream, by its content type or, where that is missing or says no more than
    plain text, by its first line."""
    media_type = headers_content_type.partition(";")[0].strip().lower()
    if media_type not in ("", "text/plain"):
        return media_type == "text/event-stream"
    return starts_as_one(body)


def starts_as_one(body: bytes) -> bool:
    """Whether a response body is an event stream by its first line, whatever it is called."""
    return body.removeprefix(_BOM).lstrip().startswith((b"data:", b"event:", b":"))


def events(body: bytes) -> Iterator[Event]:
    """The events of a whole body. An event that the end of the body cuts off is dropped, as the grammar says."""
    name: str | None = None
    data: list[str] = []
    lines = _LINE_END.split(body.removeprefix(_BOM))
    for line in lines[:-1]:  # what follows the last line end is no line yet
        if not line:
            if data:
                yield Event(name, "\n".join(data))
            name, data = None, []
            continue
        key, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", errors="replace")
        if key == b"event":
            name = text
        elif key == b"data":
            data.append(text)


def events_of(body: bytes) -> list[Event]:
    """The events of a response body.

    Raises:
        WireError: it does not begin as an event stream does: it is a page, or plain JSON.
    """
    if not _begins(body):
        raise WireError("the body is no event stream")
    return [*events(body)]


def _begins(body: bytes) -> bool:
    """Whether the first line that is not blank may be one of an event stream, as far as it has come."""
    if _BOM.startswith(body):
        return True
    first, *behind = _LINE_END.split(body.removeprefix(_BOM).lstrip(), maxsplit=1)
    name, colon, _ = first.partition(b":")
    return name in _FIELDS if colon or behind else any(field.startswith(name) for field in _FIELDS)


def written(data: JSON, name: str | None = None) -> bytes:
    """One event that carries a JSON value. Text goes out as UTF-8, and half of a surrogate pair as its escape."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode(errors="backslashreplace")


_SEPARATORS = {separator.encode(): f"\\u{ord(separator):04x}".encode() for separator in "\u2028\u2029\u0085"}


def separators_escaped(stream: bytes) -> bytes:
    """A stream of JSON without a raw line separator of Unicode. They can only stand in its texts, and no provider was
    recorded sending one as it is."""
    for raw, escaped in _SEPARATORS.items():
        stream = stream.replace(raw, escaped)
    return stream
