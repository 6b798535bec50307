"""Conversion of request bodies to neutral views, and of messages to parts: text, media, calls, and untyped fields."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import replace
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from harness.apis.jsonvalue import (
    as_object,
    cached_per_element,
    canonical,
    is_blank,
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

ContentView: TypeAlias = TextView | MediaView | OpaqueView

_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
"""Fields in which compatible servers return the model's reasoning."""

_TYPED = frozenset({"role", "content", "tool_calls", "function_call", "tool_call_id"})
"""Message fields that the neutral view covers. Every other field becomes an `OpaqueView` whose kind is the field's
name.
"""


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
    """Return the message fields that the neutral view does not cover, sorted by name. Blank fields are left out."""
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
        legacy_call = _function_view({"function": legacy}, legacy, join(pointer, "function_call"), within="")
        views.append(replace(legacy_call, id_pointer="") if isinstance(legacy_call, CallView) else legacy_call)
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
            free_form=True,
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


_SYSTEM_ROLES = ("system", "developer")

_SETTINGS = {
    "max_tokens": ("max_completion_tokens", "max_tokens"),
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "stop": ("stop",),
    "thinking": ("reasoning_effort", "reasoning", "thinking"),
}
"""Maps canonical settings to their fields: the documented one first, then those of compatible servers."""

_CHOICES: dict[str, Literal["none", "required"]] = {
    "none": "none",
    "required": "required",
    "any": "required",  # Mistral's name
}
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")


def recognises(request: HttpRequest) -> bool:
    """Return whether a request is a POST to …/chat/completions with messages or a model."""
    if request.method.upper() != "POST" or not urlsplit(request.url).path.endswith("/chat/completions"):
        return False
    body = parsed_object(request.body)
    return "messages" in body or "model" in body


def model_of(request: HttpRequest) -> str | None:
    """Return the model from the body, or the deployment from Azure's URL path."""
    model = parsed_object(request.body).get("model")
    if isinstance(model, str):
        return model
    deployment = _DEPLOYMENT.search(urlsplit(request.url).path)
    return deployment[1] if deployment else None


def view(request: HttpRequest) -> RequestView:
    """Return the neutral view of a request.

    Raises:
        WireError: the body is not a JSON object, or its messages are not a list of objects.
    """
    body = parse_body(request.body)
    if not isinstance(body, dict):
        raise WireError("the body is not a JSON object")
    system, turns = _conversation(body.get("messages"))
    return RequestView(
        api="openai-chat",
        model=model_of(request),
        system=system,
        turns=turns,
        tools=(*_tools(body.get("tools"), "/tools"), *_functions(body.get("functions"), "/functions")),
        tool_choice=_choice(body),
        response_format=_format(body.get("response_format")),
        settings=_settings(body),
        effort=_effort(body),
        stream=body.get("stream") is True,
        usage_pointer=_usage_pointer(body.get("stream_options")),
    )


def _usage_pointer(options: JSON) -> str | None:
    is_requested = isinstance(options, dict) and options.get("include_usage") is True
    return "/stream_options/include_usage" if is_requested else None


def _conversation(messages: JSON) -> tuple[tuple[SystemView, ...], tuple[TurnView, ...]]:
    if not isinstance(messages, list):
        raise WireError("messages is not a list", "/messages")
    return split_system(_turns(messages, "/messages"), _SYSTEM_ROLES)


def _system_parts(message: dict[str, JSON], pointer: str) -> list[PartView]:
    place = join(pointer, "content")
    views = content_views(message.get("content"), place)
    if not views:  # an empty system message is kept
        views = [TextView("", place if "content" in message else pointer)]
    return [*views, *other_fields(message, pointer)]


@cached_per_element
def _turns(message: JSON, pointer: str) -> TurnView:
    if not isinstance(message, dict):
        raise WireError("a message is not an object", pointer)
    role = message.get("role")
    if role in _SYSTEM_ROLES:
        return TurnView("user", tuple(_system_parts(message, pointer)), pointer, str(role))
    wire_role = role if isinstance(role, str) else ""
    if role == "assistant":
        return TurnView("assistant", tuple(assistant_views(message, pointer)), pointer, wire_role)
    if role in ("tool", "function"):
        return TurnView("user", tuple(_result(message, pointer)), pointer, wire_role)
    content = content_views(message.get("content"), join(pointer, "content"))
    return TurnView("user", (*content, *other_fields(message, pointer)), pointer, wire_role)


def _result(message: dict[str, JSON], pointer: str) -> list[PartView]:
    payload = content_views(message.get("content"), join(pointer, "content"))
    call_id, name = message.get("tool_call_id"), message.get("name")
    result = ResultView(
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        name=string(name),
        payload=tuple(payload),
        pointer=pointer,
        id_pointer=join(pointer, "tool_call_id") if "tool_call_id" in message else pointer,
        error_mark=error_mark("".join(part.text for part in payload if isinstance(part, TextView))),
    )
    return [result, *(field for field in other_fields(message, pointer) if field.kind != "name")]


@cached_per_element
def _tools(tool: JSON, pointer: str) -> ToolView:
    if not isinstance(tool, dict):
        return ToolView("", None, None, pointer, kind="unknown")
    if isinstance(tool.get("function"), dict):
        return _function(tool["function"], pointer)
    kind = tool.get("type")
    custom = tool.get("custom")
    named = custom if isinstance(custom, dict) else tool
    name, description = named.get("name"), named.get("description")
    return ToolView(
        name if isinstance(name, str) else str(kind or ""),
        description if isinstance(description, str) and description else None,
        None,
        pointer,
        kind=kind if isinstance(kind, str) else "unknown",
    )


def _function(function: JSON, pointer: str) -> ToolView:
    if not isinstance(function, dict):
        return ToolView("", None, None, pointer, kind="unknown")
    name, description = function.get("name"), function.get("description")
    return ToolView(
        name if isinstance(name, str) else "",
        description if isinstance(description, str) and description else None,
        function.get("parameters"),
        pointer,
        strict=True if function.get("strict") is True else None,
    )


_functions = cached_per_element(_function)


def _choice(body: dict[str, JSON]) -> ChoiceView | None:
    field = "function_call" if body.get("tool_choice") is None else "tool_choice"
    choice, pointer = body.get(field), join("", field)
    if choice is None or choice == "auto":  # auto is the documented default
        return None
    if isinstance(choice, str) and choice in _CHOICES:
        return ChoiceView(_CHOICES[choice], pointer)
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        held = as_object(choice.get("allowed_tools"))
        names = [string(as_object(tool.get("function")).get("name")) for _, tool in objects(held.get("tools"))]
        other = ChoiceView("other", pointer, canonical(choice))
        return allowed_tools(held.get("mode"), names, pointer) or other
    named = choice.get("function", choice) if isinstance(choice, dict) else None
    name = as_object(named).get("name")
    if isinstance(name, str):
        return ChoiceView("named", pointer, name)
    return ChoiceView("other", pointer, canonical(choice))


def _format(wanted: JSON) -> FormatView | None:
    pointer = "/response_format"
    kind = as_object(wanted).get("type")
    if not isinstance(wanted, dict) or kind not in ("json_object", "json_schema"):
        return None
    if kind == "json_object":
        return FormatView("json", "response_format", pointer)
    described = as_object(wanted.get("json_schema"))
    return FormatView(
        "json-schema",
        "response_format",
        pointer,
        schema=described.get("schema"),
        schema_pointer=join(pointer, "json_schema", "schema") if "schema" in described else pointer,
        strict=True if described.get("strict") is True else None,
    )


def _effort(body: dict[str, JSON]) -> SettingView | None:
    """Return the requested reasoning effort, from OpenAI's field or from the field of a compatible server."""
    if body.get("reasoning_effort") is not None:
        return SettingView(body["reasoning_effort"], "/reasoning_effort")
    for outer, inner in (("reasoning", "effort"), ("reasoning", "max_tokens"), ("thinking", "budget_tokens")):
        holder = body.get(outer)
        if isinstance(holder, dict) and holder.get(inner) is not None:
            return SettingView(holder[inner], f"/{outer}/{inner}")
    return None


def _settings(body: dict[str, JSON]) -> dict[str, SettingView]:
    settings: dict[str, SettingView] = {}
    for name, fields in _SETTINGS.items():
        field = next((field for field in fields if body.get(field) is not None), None)
        if field is not None:
            value = body[field]
            one_stop = name == "stop" and isinstance(value, str)
            settings[name] = SettingView([value] if one_stop else value, join("", field))
    if body.get("n") not in (None, 1):
        settings["answers"] = SettingView(body["n"], "/n")
    if body.get("parallel_tool_calls") is False:
        settings["one_call"] = SettingView(value=True, pointer="/parallel_tool_calls")
    return settings
