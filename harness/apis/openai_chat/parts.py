"""Parts of messages in requests and responses: text, media, calls, and parts that have no neutral type."""

from __future__ import annotations

import mimetypes
from typing import TypeAlias

from harness.apis.jsonvalue import is_blank, join, loads, string
from harness.apis.view import CallView, MediaView, OpaqueView, TextView, WireError
from harness.model.messages import JSON

ContentView: TypeAlias = TextView | MediaView | OpaqueView

_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields in which compatible servers return the model's reasoning."""

_TYPED = frozenset({"role", "content", "tool_calls", "function_call", "tool_call_id"})
"""Fields with a neutral type. Every other field becomes an `OpaqueView` under its own name."""


def content_views(content: JSON, pointer: str) -> list[ContentView]:
    """Return the parts of a message's content. A string is treated as one text part; empty text has no parts."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [TextView(content, pointer)]
    if isinstance(content, list):
        views = (_part_view(part, join(pointer, index)) for index, part in enumerate(content))
        return [view for view in views if not (isinstance(view, TextView) and not view.text)]
    return [OpaqueView("content", content, pointer)]


def assistant_views(message: dict[str, JSON], pointer: str) -> list[TextView | MediaView | CallView | OpaqueView]:
    """Return the parts of an assistant message: reasoning, content, calls, and other fields."""
    content = content_views(message.get("content"), join(pointer, "content"))
    fields = other_fields(message, pointer)
    thought = [field for field in fields if field.kind in _REASONING]
    rest = [field for field in fields if field.kind not in _REASONING]
    return [*thought, *content, *_call_views(message, pointer), *rest]


def other_fields(message: dict[str, JSON], pointer: str) -> list[OpaqueView]:
    """Return the fields of a message that have no neutral type, sorted by name."""
    return [
        OpaqueView(key, value, join(pointer, key))
        for key, value in sorted(message.items())
        if key not in _TYPED and not is_blank(value)
    ]


def _call_views(message: dict[str, JSON], pointer: str) -> list[CallView | OpaqueView]:
    views: list[CallView | OpaqueView] = []
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        place = join(pointer, "tool_calls")
        views += [_call_view(call, join(place, index)) for index, call in enumerate(calls)]
    elif not is_blank(calls):
        views.append(OpaqueView("tool_calls", calls, join(pointer, "tool_calls")))
    legacy = message.get("function_call")
    if isinstance(legacy, dict) and not is_blank(legacy):
        views.append(_function_view({"function": legacy}, legacy, join(pointer, "function_call"), within=""))
    elif not is_blank(legacy):
        views.append(OpaqueView("function_call", legacy, join(pointer, "function_call")))
    return views


def _call_view(call: JSON, pointer: str) -> CallView | OpaqueView:
    if not isinstance(call, dict):
        return OpaqueView("tool_call", call, pointer)
    function = call.get("function")
    if isinstance(function, dict) and isinstance(function.get("name"), str):
        return _function_view(call, function, pointer, within="function")
    custom = call.get("custom")
    if isinstance(custom, dict) and isinstance(custom.get("name"), str):
        return CallView(
            id=_call_id(call),
            name=str(custom["name"]),
            arguments=custom.get("input"),
            pointer=pointer,
            id_pointer=join(pointer, "id") if "id" in call else pointer,
            arguments_pointer=join(pointer, "custom", "input") if "input" in custom else join(pointer, "custom"),
        )
    return OpaqueView(str(call.get("type") or "tool_call"), call, pointer)


def _function_view(
    call: dict[str, JSON], function: dict[str, JSON], pointer: str, *, within: str
) -> CallView | OpaqueView:
    name = function.get("name")
    if not isinstance(name, str):
        return OpaqueView("function_call", function, pointer)
    arguments, malformed = _arguments(function.get("arguments"))
    place = join(pointer, within) if within else pointer
    state = {
        key: value
        for key, value in call.items()
        if key not in {"id", "type", "function", "index"} and not is_blank(value)
    }
    return CallView(
        id=_call_id(call),
        name=name,
        arguments=arguments,
        pointer=pointer,
        id_pointer=join(pointer, "id") if "id" in call else pointer,
        arguments_pointer=join(place, "arguments") if "arguments" in function else place,
        malformed=malformed,
        opaque=state or None,
    )


def _call_id(call: dict[str, JSON]) -> str | None:
    """Return the id. An empty id, as sent by Gemini's compatible endpoint, becomes `None`."""
    value = call.get("id")
    return value if isinstance(value, str) and value else None


def _arguments(raw: JSON) -> tuple[JSON, str | None]:
    """Return the parsed arguments, and the raw text if it is not JSON. Empty text means no arguments
    (openai-chat-no-arguments)."""
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}, None
    if not isinstance(raw, str):
        return raw, None
    try:
        return loads(raw), None
    except WireError:
        return None, raw


def _part_view(part: JSON, pointer: str) -> ContentView:
    if not isinstance(part, dict):
        return TextView(part, pointer) if isinstance(part, str) else OpaqueView("content", part, pointer)
    kind = part.get("type")
    text = part.get("text")
    if kind == "text" and isinstance(text, str):
        return TextView(text, join(pointer, "text"))
    if kind in ("image_url", "input_audio", "file"):
        media = _media_view(part, kind, pointer)
        if media is not None:
            return media
    labels = frozenset({"cache_control"})  # sent by servers that forward to Anthropic
    return OpaqueView(kind if isinstance(kind, str) else "content", part, pointer, labels=labels)


def _media_view(part: dict[str, JSON], kind: str, pointer: str) -> MediaView | None:
    held = part.get(kind)
    if kind == "image_url" and isinstance(held, str):  # Mistral's short form
        return _by_url(held, pointer)
    if not isinstance(held, dict):
        return None
    url, data, file_id = held.get("url"), held.get("data"), held.get("file_id")
    file_data, audio = held.get("file_data"), held.get("format")
    if isinstance(url, str):
        return _by_url(url, pointer)
    if isinstance(data, str):
        return MediaView.inline(f"audio/{audio}" if isinstance(audio, str) else None, pointer, data)
    if isinstance(file_data, str):
        bare = not file_data.startswith("data:")
        name = string(held.get("filename"))
        media_type = mimetypes.guess_type(name)[0] if name else None
        return MediaView.inline(media_type, pointer, file_data) if bare else _by_url(file_data, pointer)
    return MediaView(None, pointer, uri=file_id) if isinstance(file_id, str) else None


def _by_url(url: str, pointer: str) -> MediaView | None:
    if not url.startswith("data:"):
        return MediaView(None, pointer, uri=url)
    head, _, data = url.removeprefix("data:").partition(",")
    return MediaView.inline(head.partition(";")[0] or None, pointer, data)
