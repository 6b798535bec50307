"""Server-sent events: bytes → events, by the WHATWG grammar. Bedrock's binary frames are converted to them.

Lines end at LF, CR or CRLF only: U+2028, U+2029 and U+0085 are legal inside the JSON of an event, so `str.splitlines`
must not be used.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.model.http import HttpResponse
from harness.model.messages import JSON

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data", b"event", b"id", b"retry", b"")
"""Field names of event stream lines. The name of a comment is empty."""

_FRAME_OVERHEAD = 16
"""Bytes of a frame besides its headers and its payload: two lengths and two checksums."""

DONE = "[DONE]"
"""The data of the event that ends OpenAI's streams."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """An event. `name` is `None` if there is no `event:` line. `data` holds the joined `data:` lines."""

    name: str | None
    data: str


def is_event_stream(headers_content_type: str, body: bytes) -> bool:
    """Return whether a body is an event stream, by its content type or, if that is inconclusive, by its first line."""
    media_type = headers_content_type.partition(";")[0].strip().lower()
    if media_type not in ("", "text/plain"):
        return media_type == "text/event-stream"
    return looks_like_event_stream(body)


def looks_like_event_stream(body: bytes) -> bool:
    """Return whether a body starts like an event stream."""
    return body.removeprefix(_BOM).lstrip().startswith((b"data:", b"event:", b":"))


def is_framed(headers_content_type: str) -> bool:
    """Return whether a content type announces the binary frames in which Bedrock streams."""
    return headers_content_type.partition(";")[0].strip().lower() == "application/vnd.amazon.eventstream"


def decode_frames(body: bytes) -> bytes:
    """Return Bedrock's binary frames as server-sent events. An incomplete frame at the end is dropped.

    Each frame has its length, the length of its headers, a checksum, the headers, a payload and a second checksum
    (https://docs.aws.amazon.com/lexv2/latest/dg/event-stream-encoding.html, 2026-11-27). In recordings, the payload of
    a chunk is `{"bytes": …}` with an event of the model in base64. That of an exception is `{"message": …}`.

    Raises:
        WireError: a length is impossible, or a payload is not such an object.
    """
    sent: list[bytes] = []
    at = 0
    while len(body) - at >= _FRAME_OVERHEAD:
        length, headers = struct.unpack_from(">II", body, at)
        if not _FRAME_OVERHEAD <= headers + _FRAME_OVERHEAD <= length:
            raise WireError("the body is not a sequence of event stream frames")
        if at + length > len(body):
            break
        payload = loads(body[at + 12 + headers : at + length - 4].decode("utf-8", errors="replace"))
        at += length
        match payload:
            case {"bytes": str(text)}:
                try:
                    sent.append(b"data: " + base64.b64decode(text) + b"\n\n")
                except ValueError:
                    raise WireError("the bytes of a frame are not base64") from None
            case {"message": str(text)}:
                sent.append(serialize_event({"type": "error", "error": {"type": "api_error", "message": text}}))
            case _:
                raise WireError("a frame has neither bytes nor a message")
    return b"".join(sent)


def events(body: bytes) -> Iterator[ServerSentEvent]:
    """Yield the events of a whole body. An incomplete event at the end is dropped."""
    name: str | None = None
    data: list[str] = []
    lines = _LINE_END.split(body.removeprefix(_BOM))
    for line in lines[:-1]:  # text after the last line end is not a complete line
        if not line:
            if data:
                yield ServerSentEvent(name, "\n".join(data))
            name, data = None, []
            continue
        key, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", errors="replace")
        if key == b"event":
            name = text
        elif key == b"data":
            data.append(text)


def events_of(body: bytes) -> list[ServerSentEvent]:
    """Return the events of a response body.

    Raises:
        WireError: the body does not start like an event stream.
    """
    if not _begins(body):
        raise WireError("the body is not an event stream")
    return [*events(body)]


def _begins(body: bytes) -> bool:
    """Return whether the first non-blank line may belong to an event stream."""
    if _BOM.startswith(body):
        return True
    first, *rest = _LINE_END.split(body.removeprefix(_BOM).lstrip(), maxsplit=1)
    name, colon, _ = first.partition(b":")
    return name in _FIELDS if colon or rest else any(field.startswith(name) for field in _FIELDS)


def serialize_event(data: JSON, name: str | None = None) -> bytes:
    """Serialize a JSON value as one event, with an `event:` line if `name` is given. Lone surrogates are escaped."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode(errors="backslashreplace")


def sent_objects(stream: bytes) -> list[dict[str, JSON]]:
    """Return the parsed data of all events that contain a JSON object. Other events are skipped."""
    read = (loads(event.data) for event in events(stream) if event.data.startswith("{"))
    return [event for event in read if isinstance(event, dict)]


def serialize_typed_events(objects: Iterable[dict[str, JSON]]) -> bytes:
    """Serialize events to a stream. The name of each event is its `type`."""
    return b"".join(serialize_event(event, str(event.get("type"))) for event in objects)


_SEPARATORS = {separator.encode(): f"\\u{ord(separator):04x}".encode() for separator in "\u2028\u2029\u0085"}


def separators_escaped(stream: bytes) -> bytes:
    """Escape Unicode line separators in a stream of JSON events. All recorded streams have them escaped."""
    for raw, escaped in _SEPARATORS.items():
        stream = stream.replace(raw, escaped)
    return stream


def without_invalid_json(response: HttpResponse, *, done: bool = True) -> HttpResponse:
    """Return the response without invalid JSON.

    Stream events that are not JSON objects are dropped, except `[DONE]` if `done` is set. Non-JSON numbers, raw control
    characters and trailing text are removed from values.
    """
    if not is_event_stream(response.headers.get("content-type", ""), response.body):
        value = _json_object(response.body.decode("utf-8", "replace"))
        headers = {**response.headers, "content-type": "application/json"}
        return response if value is None else replace(response, headers=headers, body=json.dumps(value).encode())
    kept = b""
    for event in events(response.body):
        value = _json_object(event.data)
        text = json.dumps(value) if value is not None else event.data if done and event.data == DONE else ""
        name = f"event: {event.name}\n" if event.name else ""
        kept += f"{name}data: {text}\n\n".encode() if text else b""
    return replace(response, body=kept)


def _json_object(text: str) -> JSON:
    """Parse the JSON object at the beginning of a text."""
    decoder = json.JSONDecoder(strict=False, parse_constant=lambda _name: None)
    value: JSON
    try:
        value, _ = decoder.raw_decode(text.lstrip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
