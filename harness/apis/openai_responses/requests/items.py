"""Items, the entries of `input` and of `output`, and their content parts → neutral parts.

Total: whatever has no type of its own becomes an `OpaqueView` in its place.
"""

from __future__ import annotations

import base64
import mimetypes
import re

from harness.apis.jsonvalue import equal, join, loads
from harness.apis.view import (
    CallView,
    ErrorMark,
    JsonView,
    MediaView,
    OpaqueView,
    PartView,
    ResultView,
    TextView,
    WireError,
)
from harness.contract.model import JSON

NAME = "openai-responses"

_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,", re.IGNORECASE)
_UNFINISHED = ("in_progress", "incomplete")
_DIRECT: JSON = {"type": "direct"}
_MARKS = ("namespace", "caller")


def item_kind(item: dict[str, JSON]) -> str:
    """The item's type. It may be left out of messages and of references (S easy_input_message_param, ItemReference)."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if "role" in item:
        return "message"
    return "item_reference" if kind is None and "id" in item else ""


_LABELS = frozenset({"id", "status"})
"""Fields of a reasoning item that carry no state (openai-responses-reasoning-back)."""


def item_parts(item: dict[str, JSON], pointer: str) -> tuple[PartView, ...]:
    """The parts of one item: those of a message, or the one that any other item is."""
    match item_kind(item):
        case "message":
            return message_parts(item, pointer)
        case "function_call":
            return (_call(item, pointer),)
        case "function_call_output":
            return (_result(item, pointer),)
        case kind:
            return (OpaqueView(kind, item, pointer, labels=_LABELS if kind == "reasoning" else frozenset()),)


def message_parts(item: dict[str, JSON], pointer: str) -> tuple[TextView | MediaView | OpaqueView, ...]:
    """The content of a message. Its `phase` is state that has to go back (openai-responses-phase)."""
    content, place = item.get("content"), join(pointer, "content")
    opaque: JSON = {"phase": item["phase"]} if item.get("phase") is not None else None
    if content is None:
        return ()
    if isinstance(content, list):
        return tuple(_content_part(part, join(place, index), opaque) for index, part in enumerate(content))
    return (_content_part(content, place, opaque),)


def string(value: JSON) -> str | None:
    """The value if it is a string."""
    return value if isinstance(value, str) else None


def _content_part(part: JSON, pointer: str, opaque: JSON = None) -> TextView | MediaView | OpaqueView:
    if isinstance(part, str):
        return TextView(part, pointer, opaque)
    if not isinstance(part, dict):
        return OpaqueView("", part, pointer)
    kind, text = string(part.get("type")) or "", part.get("text")
    if kind in ("input_text", "output_text") and isinstance(text, str):
        return TextView(text, join(pointer, "text"), opaque)
    return _media(kind, part, pointer) or OpaqueView(kind, part, pointer)


def _media(kind: str, part: dict[str, JSON], pointer: str) -> MediaView | None:
    audio = part.get("input_audio")
    if kind == "input_audio" and isinstance(audio, dict):
        sound = string(audio.get("format"))
        return _inline(string(audio.get("data")) or "", f"audio/{sound}" if sound else None, pointer)
    if kind == "input_file" and isinstance(part.get("file_data"), str):
        name = string(part.get("filename"))  # which tells what it is where the data do not
        return _inline(str(part["file_data"]), mimetypes.guess_type(name)[0] if name else None, pointer)
    keys = {"input_image": ("image_url", "file_id"), "input_file": ("file_url", "file_id")}.get(kind, ())
    reference = next((value for key in keys if isinstance(value := part.get(key), str)), None)
    if reference is None:
        return None
    if _DATA_URL.match(reference):
        return _inline(reference, None, pointer)
    return MediaView(None, pointer, uri=reference)


def _inline(data: str, media_type: str | None, pointer: str) -> MediaView | None:
    head = _DATA_URL.match(data)
    if head:
        data, media_type = data[head.end() :], head[1] or None
    try:
        return MediaView(media_type, pointer, data=base64.b64decode(data, validate=True))
    except ValueError:  # binascii.Error, or text outside ASCII
        return None


def _call(item: dict[str, JSON], pointer: str) -> CallView:
    arguments, malformed = _arguments(item)
    marks: dict[str, JSON] = {key: item[key] for key in _MARKS if item.get(key) is not None}
    if equal(marks.get("caller"), _DIRECT):  # what an absent caller means
        del marks["caller"]
    return CallView(
        id=string(item.get("call_id")),
        name=string(item.get("name")) or "",
        arguments=arguments,
        pointer=pointer,
        id_pointer=join(pointer, "call_id"),
        arguments_pointer=join(pointer, "arguments"),
        malformed=malformed,
        item_id=string(item.get("id")),
        opaque=marks or None,
    )


def _arguments(item: dict[str, JSON]) -> tuple[JSON, str | None]:
    raw = item.get("arguments")
    if not isinstance(raw, str):
        return raw, None
    if not raw and item.get("status") not in _UNFINISHED:
        return {}, None
    try:
        return loads(raw), None
    except WireError:
        return None, raw


def _result(item: dict[str, JSON], pointer: str) -> ResultView:
    output, place = item.get("output"), join(pointer, "output")
    payload: tuple[TextView | MediaView | JsonView | OpaqueView, ...] = ()
    if isinstance(output, list):
        payload = tuple(_content_part(part, join(place, index)) for index, part in enumerate(output))
    elif isinstance(output, str):
        payload = (TextView(output, place),)
    elif output is not None:
        payload = (JsonView(output, place),)
    return ResultView(
        call_id=string(item.get("call_id")),
        name=string(item.get("name")),
        payload=payload,
        pointer=pointer,
        id_pointer=join(pointer, "call_id"),
        error_mark=_error_mark(payload),
    )


def _error_mark(payload: tuple[TextView | MediaView | JsonView | OpaqueView, ...]) -> ErrorMark | None:
    """The API has no flag for errors, so only the text can say so."""
    if len(payload) != 1 or not isinstance(payload[0], TextView):
        return None
    text = payload[0].text.strip()
    if text.startswith("{"):
        try:
            value = loads(text)
        except WireError:
            return None
        return (
            "error-key" if isinstance(value, dict) and next(iter(value), None) == "error" and value["error"] else None
        )
    return "error-text" if text.lower().startswith("error") else None
