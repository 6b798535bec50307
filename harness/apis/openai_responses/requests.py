"""Conversion of request bodies to neutral views, and of items (entries of `input` and `output`) to neutral parts.

Reading an item never fails. An item without a neutral type becomes an `OpaqueView`.
"""

from __future__ import annotations

import mimetypes
import re
from itertools import chain
from urllib.parse import urlsplit

from harness.apis.jsonvalue import (
    as_object,
    cached_per_element,
    equal,
    join,
    loads,
    objects,
    parse_body,
    parsed_object,
    string,
)
from harness.apis.openai_common import allowed_tools, error_mark
from harness.apis.view import (
    CallView,
    ChoiceView,
    FormatView,
    JsonView,
    MediaView,
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

NAME = "openai-responses"

_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,", re.IGNORECASE)
_UNFINISHED = ("in_progress", "incomplete")
_DIRECT: JSON = {"type": "direct"}
_MARKS = ("namespace", "caller", "async")


def item_kind(item: dict[str, JSON]) -> str:
    """Return the item's type. Messages and references may lack it (openai: `EasyInputMessageParam`)."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if "role" in item:
        return "message"
    return "item_reference" if kind is None and "id" in item else ""


_LABELS = frozenset({"id", "status"})
"""Fields of a reasoning item that clients may leave out when they send the item back (openai-responses-reasoning-back).
"""


def item_parts(item: dict[str, JSON], pointer: str) -> tuple[PartView, ...]:
    """Return the parts of a message item, or the single part of any other item."""
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
    """Return the content of a message. Its `phase` is state that must be sent back (openai-responses-phase)."""
    content, place = item.get("content"), join(pointer, "content")
    opaque: JSON = {"phase": item["phase"]} if item.get("phase") is not None else None
    if content is None:
        return ()
    if isinstance(content, list):
        return tuple(_content_part(part, join(place, index), opaque) for index, part in enumerate(content))
    return (_content_part(content, place, opaque),)


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
        name = string(part.get("filename"))  # used for the media type if the data do not name it
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
    return (
        MediaView.inline(head[1] or None, pointer, data[head.end() :])
        if head
        else MediaView.inline(media_type, pointer, data)
    )


def _call(item: dict[str, JSON], pointer: str) -> CallView:
    arguments, malformed = _arguments(item)
    marks: dict[str, JSON] = {key: item[key] for key in _MARKS if item.get(key) is not None}
    if equal(marks.get("caller"), _DIRECT):  # the default if there is no caller
        del marks["caller"]
    if marks.get("async") is False:
        del marks["async"]
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
        asynchronous=item.get("async") is True,
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
        error_mark=error_mark(payload[0].text) if len(payload) == 1 and isinstance(payload[0], TextView) else None,
    )


_SETTINGS = {"max_output_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
_STATE = ("previous_response_id", "conversation")
_STATE_ITEMS = ("item_reference", "compaction")
_SYSTEM_ROLES = ("system", "developer")
_TYPICAL_FIELDS = ("model", "input", "prompt", *_STATE)


def recognises(request: HttpRequest) -> bool:
    """Return whether it is a POST to `/responses` with a typical field in its body, such as `model` or `input`."""
    if request.method.upper() != "POST" or not urlsplit(request.url).path.endswith("/responses"):
        return False
    body = parsed_object(request.body)
    return any(key in body for key in _TYPICAL_FIELDS)


def model_of(request: HttpRequest) -> str | None:
    """Return the model from the body."""
    return string(parsed_object(request.body).get("model"))


def view(request: HttpRequest) -> RequestView:
    """Return the neutral view of a request. Raises `WireError` if input, items or tools have the wrong JSON type."""
    body = _object(parse_body(request.body), "")
    system, turns = _conversation(body)
    return RequestView(
        api=NAME,
        model=string(body.get("model")),
        system=system,
        turns=turns,
        tools=tuple(chain.from_iterable(_tools(_list(body.get("tools"), "/tools"), "/tools"))),
        tool_choice=_choice(body.get("tool_choice")),
        response_format=_format(body.get("text")),
        settings=_settings(body),
        included=frozenset(filter(None, map(string, _list(body.get("include"), "/include")))),
        effort=_effort(body),
        stream=body.get("stream") is True,
        stateful=state(body),
        continues=string(body.get("previous_response_id")),
    )


def state(body: dict[str, JSON]) -> str | None:
    """Return the field or item type that refers to state on the server.

    A compaction replaces part of the conversation with data that only the server can read.
    """
    for key in _STATE:
        if body.get(key) is not None:
            return key
    kinds = _kinds(body.get("input"), "/input")
    return next((kind for kind in _STATE_ITEMS if kind in kinds), None)


@cached_per_element
def _kinds(item: JSON, _pointer: str) -> str | None:
    return item_kind(item) if isinstance(item, dict) else None


def _conversation(body: dict[str, JSON]) -> tuple[tuple[SystemView, ...], tuple[TurnView, ...]]:
    system: list[SystemView] = []
    turns: list[TurnView] = []
    instructions, entries = body.get("instructions"), body.get("input")
    if isinstance(instructions, str) and instructions:  # "" is equivalent to null
        system.append(SystemView(instructions, "instructions", "/instructions"))
    if isinstance(entries, str):  # shorthand for one user message
        turns.append(TurnView("user", (TextView(entries, "/input"),), "/input", "user"))
    elif isinstance(entries, list):
        inside, others = split_system(_turns(entries, "/input"), _SYSTEM_ROLES)
        return (*system, *inside), others
    elif entries is not None:
        raise WireError("neither a string nor a list", "/input")
    return tuple(system), tuple(turns)


@cached_per_element
def _turns(entry: JSON, pointer: str) -> TurnView:
    item = _object(entry, pointer)
    kind = item_kind(item)
    wire_role = (string(item.get("role")) or "") if kind == "message" else kind
    spoken = wire_role == "assistant" or _by_model(kind)
    return TurnView("assistant" if spoken else "user", item_parts(item, pointer), pointer, wire_role)


def _by_model(kind: str) -> bool:
    return kind.endswith("_call") or kind in ("reasoning", "mcp_list_tools", "mcp_approval_request", "program")


@cached_per_element
def _tools(member: JSON, pointer: str) -> tuple[ToolView, ...]:
    """Return the view of a tool. For a namespace, also return the views of its tools."""
    tool, place = _object(member, pointer), join(pointer, "tools")
    held = _list(tool.get("tools"), place) if tool.get("type") == "namespace" else []
    places = [join(place, index) for index in range(len(held))]
    return (_tool(tool, pointer), *(_tool(_object(*inner), inner[1]) for inner in zip(held, places, strict=True)))


def _list(value: JSON, pointer: str) -> list[JSON]:
    if value is not None and not isinstance(value, list):
        raise WireError("not a list", pointer)
    return value or []


def _tool(tool: dict[str, JSON], pointer: str) -> ToolView:
    kind, strict = string(tool.get("type")) or "", tool.get("strict")
    return ToolView(
        name=string(tool.get("name")) or kind,
        description=string(tool.get("description")),
        parameters=tool.get("parameters") if kind == "function" else None,
        pointer=pointer,
        strict=strict if isinstance(strict, bool) else None,  # absent is not false (openai-responses-strict-default)
        kind=kind,
    )


def _choice(choice: JSON) -> ChoiceView | None:
    if choice is None or choice == "auto":  # auto is the documented default
        return None
    if choice in ("none", "required"):
        return ChoiceView("none" if choice == "none" else "required", "/tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        return ChoiceView("named", "/tool_choice", string(choice.get("name")))
    allowed = None
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        names = [string(tool.get("name")) for _, tool in objects(choice.get("tools"))]
        allowed = allowed_tools(choice.get("mode"), names, "/tool_choice")
    return allowed or ChoiceView("other", "/tool_choice")


def _format(text: JSON) -> FormatView | None:
    wanted = as_object(text).get("format")
    if not isinstance(wanted, dict):
        return None
    pointer, strict = "/text/format", wanted.get("strict")
    match wanted.get("type"):
        case "json_object":
            return FormatView("json", "text.format", pointer)
        case "json_schema":
            return FormatView(
                "json-schema",
                "text.format",
                pointer,
                wanted.get("schema"),
                join(pointer, "schema"),
                strict=strict if isinstance(strict, bool) else None,
            )
        case _:
            return None


def _effort(body: dict[str, JSON]) -> SettingView | None:
    effort = as_object(body.get("reasoning")).get("effort")
    return None if effort is None else SettingView(effort, "/reasoning/effort")


def _settings(body: dict[str, JSON]) -> dict[str, SettingView]:
    settings = {
        name: SettingView(body[key], join("", key)) for key, name in _SETTINGS.items() if body.get(key) is not None
    }
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict):
        reasoning_settings: dict[str, JSON] = {key: value for key, value in reasoning.items() if value is not None}
        if reasoning_settings:
            settings["thinking"] = SettingView(reasoning_settings, "/reasoning")
    if body.get("parallel_tool_calls") is False:
        settings["one_call"] = SettingView(value=True, pointer="/parallel_tool_calls")
    return settings


def _object(value: JSON, pointer: str) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise WireError("not an object", pointer)
    return value
