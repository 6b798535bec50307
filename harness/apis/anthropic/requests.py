"""Conversion of request bodies to neutral views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from harness.apis.jsonvalue import (
    as_object,
    cached_per_element,
    equal,
    join,
    objects,
    parse_body,
    parsed_object,
    resolve,
    string,
)
from harness.apis.view import (
    CallView,
    ChoiceView,
    FormatView,
    JsonView,
    MediaView,
    MismatchView,
    OpaqueView,
    PartView,
    RequestView,
    ResultView,
    SettingView,
    SystemView,
    TextView,
    ToolView,
    TurnView,
    WireError,
    split_system,
)
from harness.model.http import HttpRequest
from harness.model.messages import JSON

_SETTINGS = {
    "max_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "stop_sequences": "stop",
    "thinking": "thinking",
}
_MODES = {"auto": "auto", "none": "none", "any": "required", "tool": "named"}
_DIRECT: JSON = {"type": "direct"}


_HOSTED = re.compile(
    r"/model/(?P<bedrock>[^/]+)/invoke(-with-response-stream)?|/models/(?P<vertex>[^/:]+):\w*[rR]awPredict"
)
"""URL paths of clouds that accept the same body. The path names the model; the body has the API version."""

_HOSTED_KEYS = frozenset({"anthropic_version", "anthropic_beta"})


def recognises(request: HttpRequest) -> bool:
    """Return whether the request is a chat of the Messages API, or of Bedrock or Vertex.

    The path ends in /v1/messages, and the body has at least two of the three required fields. A request that lacks one
    is therefore rejected for the missing field, not for its path.
    """
    path = urlsplit(request.url).path
    if request.method.upper() != "POST":
        return False
    body = parsed_object(request.body)
    if path.endswith("/v1/messages"):
        return sum(key in body for key in ("model", "messages", "max_tokens")) >= 2
    return _HOSTED.search(path) is not None and "anthropic_version" in body and "messages" in body


def is_invoked(request: HttpRequest) -> bool:
    """Return whether the request has Bedrock's format."""
    hosted = _HOSTED.search(urlsplit(request.url).path) if "/model/" in request.url else None
    return hosted is not None and hosted["bedrock"] is not None


def model_of(request: HttpRequest) -> str | None:
    """Return the model from the body, or from a cloud's URL path."""
    try:
        return string(as_object(body_of(request)).get("model"))
    except WireError:
        return None


def body_of(request: HttpRequest) -> JSON:
    """Return the body in the format of the Messages API. For clouds, the model and `stream` are read from the path.
    Raises `WireError`."""
    body = parse_body(request.body)
    if not isinstance(body, dict) or "anthropic_version" not in body:
        return body
    path = urlsplit(request.url).path
    hosted = _HOSTED.search(path)
    if hosted is None:
        return body
    own: dict[str, JSON] = {"model": unquote(hosted["bedrock"] or hosted["vertex"])}
    if "stream" in path:
        own["stream"] = True
    return own | {key: value for key, value in body.items() if key not in _HOSTED_KEYS}


def view(request: HttpRequest) -> RequestView:
    """Return the neutral view of a request. Raises `WireError` if messages, blocks or tools have the wrong JSON
    type."""
    body = _object(body_of(request), "")
    system = tuple(SystemView(text.text, "system", text.pointer) for text in _texts(body.get("system"), "/system"))
    # tool_addition and similar blocks change the tools during the conversation, so they stay in a turn
    inside, turns = split_system(_turns(_list(body.get("messages"), "/messages"), "/messages"), {"system"})
    return RequestView(
        api="anthropic",
        model=string(body.get("model")),
        system=(*system, *inside),
        turns=turns,
        tools=tuple(_tools(_list(body.get("tools"), "/tools"), "/tools")),
        tool_choice=_choice(body.get("tool_choice")),
        response_format=_format(body),
        settings=dict(_settings(body)),
        effort=_effort(body),
        prefix_mismatch=_prefix_mismatch(body),
        stream=body.get("stream") is True,
        stateful="container" if body.get("container") else "thread" if is_continued(body) else None,
        continues=string(as_object(body.get("thread")).get("previous_message_id")) if is_continued(body) else None,
        cache_marks=tuple(
            join(place, "cache_control")
            for key in ("tools", "system")
            for place, data in objects(body.get(key), join("", key))
            if data.get("cache_control") is not None
        ),
    )


def is_continued(body: dict[str, JSON]) -> bool:
    """Return whether a request continues a thread (anthropic-thread-continue).

    The server has stored the messages, the system prompt and the tools, so the request omits them.
    """
    thread = body.get("thread")
    return isinstance(thread, dict) and thread.get("type") == "continue"


def _settings(body: dict[str, JSON]) -> Iterator[tuple[str, SettingView]]:
    for key, name in _SETTINGS.items():
        if body.get(key) not in (None, []):
            yield name, SettingView(body[key], join("", key))
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("disable_parallel_tool_use") is True:
        yield "one_call", SettingView(value=True, pointer="/tool_choice/disable_parallel_tool_use")


def _effort(body: dict[str, JSON]) -> SettingView | None:
    """Return the requested amount of reasoning (anthropic-thinking-form)."""
    for outer, inner in (("output_config", "effort"), ("thinking", "budget_tokens")):
        holder = body.get(outer)
        if isinstance(holder, dict) and holder.get(inner) is not None:
            return SettingView(holder[inner], f"/{outer}/{inner}")
    return None


def _prefix_mismatch(body: dict[str, JSON]) -> MismatchView | None:
    """Return the requested treatment of reasoning after a changed prefix (anthropic-input-transformations)."""
    pointer = "/thinking/block_binding/prefix_mismatch_behavior"
    match resolve(body, pointer):
        case "error":
            return MismatchView("refuses", pointer)
        case "drop_block":
            return MismatchView("drops-reasoning", pointer)
        case _:
            return None


def content_parts(content: JSON, pointer: str) -> tuple[PartView, ...]:
    """Return the parts of a message's content. Raises `WireError`."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextView(content, pointer),)
    parts: list[PartView] = []
    for index, block in enumerate(_list(content, pointer)):
        place = join(pointer, index)
        parts.append(_part(_object(block, place), place))
    return tuple(parts)


@cached_per_element
def _turns(message: JSON, pointer: str) -> TurnView:
    entry = _object(message, pointer)
    role = entry.get("role")
    parts = content_parts(entry.get("content"), join(pointer, "content"))
    return TurnView("assistant" if role == "assistant" else "user", parts, pointer, string(role) or "")


def _part(block: dict[str, JSON], pointer: str) -> PartView:
    kind = block.get("type")
    if kind == "tool_use":
        return _call(block, pointer)
    if kind == "tool_result":
        return _result(block, pointer)
    return _plain(block, pointer)


def _plain(block: dict[str, JSON], pointer: str) -> TextView | MediaView | OpaqueView:
    kind, text, source = block.get("type"), block.get("text"), block.get("source")
    if kind == "text" and isinstance(text, str):
        return TextView(text, join(pointer, "text"), opaque=block.get("citations") or None)
    if kind in ("image", "document") and isinstance(source, dict):
        media = _media(source, pointer, "application/pdf" if kind == "document" else None)
        if media is not None:
            return media
    return OpaqueView(string(kind) or "", block, pointer, labels=frozenset({"cache_control"}))


def _media(source: dict[str, JSON], pointer: str, assumed: str | None) -> MediaView | None:
    kind, data = source.get("type"), source.get("data")
    media_type = string(source.get("media_type")) or assumed
    if kind == "base64" and isinstance(data, str):
        return MediaView.inline(media_type, pointer, data)
    if kind == "text" and isinstance(data, str):
        return MediaView(string(source.get("media_type")) or "text/plain", pointer, data=data.encode())
    uri = source.get("url") if kind == "url" else source.get("file_id") if kind == "file" else None
    return MediaView(media_type if kind == "url" else None, pointer, uri=uri) if isinstance(uri, str) else None


def _call(block: dict[str, JSON], pointer: str) -> CallView:
    arguments = block.get("input")
    marks: dict[str, JSON] = {key: block[key] for key in ("caller", "toolset_name") if block.get(key) is not None}
    if equal(marks.get("caller"), _DIRECT):  # the default if there is no caller
        del marks["caller"]
    return CallView(
        id=string(block.get("id")),
        name=string(block.get("name")) or "",
        arguments=None if isinstance(arguments, str) else arguments,
        pointer=pointer,
        id_pointer=join(pointer, "id"),
        arguments_pointer=join(pointer, "input"),
        malformed=string(arguments),
        opaque=marks or None,
    )


def _result(block: dict[str, JSON], pointer: str) -> ResultView:
    content, place = block.get("content"), join(pointer, "content")
    payload: list[TextView | MediaView | JsonView | OpaqueView] = []
    if isinstance(content, str):
        payload.extend(
            [TextView(content, place)] if content else ()
        )  # "" is equivalent to no content (anthropic-result-content)
    elif isinstance(content, list):
        for index, member in enumerate(content):
            payload.append(_plain(_object(member, join(place, index)), join(place, index)))
    elif content is not None:
        payload.append(JsonView(content, place))
    return ResultView(
        call_id=string(block.get("tool_use_id")),
        name=None,
        payload=tuple(payload),
        pointer=pointer,
        id_pointer=join(pointer, "tool_use_id"),
        error_mark="flag" if block.get("is_error") is True else None,
    )


def _texts(system: JSON, pointer: str) -> Iterator[TextView]:
    for part in content_parts(system, pointer):
        if isinstance(part, TextView):
            yield part


@cached_per_element
def _tools(member: JSON, pointer: str) -> ToolView:
    tool = _object(member, pointer)
    kind = string(tool.get("type")) or "custom"
    return ToolView(
        name=string(tool.get("name")) or "",
        description=string(tool.get("description")),
        parameters=tool.get("input_schema"),
        pointer=pointer,
        strict=True if tool.get("strict") is True else None,  # false is the documented default
        kind="function" if kind == "custom" else kind,
    )


def _choice(choice: JSON) -> ChoiceView | None:
    if choice is None or equal(choice, {"type": "auto"}):  # auto is the documented default
        return None
    if not isinstance(choice, dict):
        return ChoiceView("other", "/tool_choice")
    match _MODES.get(string(choice.get("type")) or ""):
        case "auto" | "none" | "required" as mode:
            return ChoiceView(mode, "/tool_choice")
        case "named":
            return ChoiceView("named", "/tool_choice", string(choice.get("name")))
        case _:
            return ChoiceView("other", "/tool_choice")


def _format(body: dict[str, JSON]) -> FormatView | None:
    places = [
        ("output_config.format", "/output_config/format", as_object(body.get("output_config")).get("format")),
        ("output_format", "/output_format", body.get("output_format")),  # its name during the beta
    ]
    for mechanism, pointer, value in places:
        if isinstance(value, dict):
            schema_pointer = join(pointer, "schema")
            return FormatView("json-schema", mechanism, pointer, value.get("schema"), schema_pointer, strict=True)
    return None


def _object(value: JSON, pointer: str) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise WireError("not an object", pointer)
    return value


def _list(value: JSON, pointer: str) -> list[JSON]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise WireError("not a list", pointer)
    return value
