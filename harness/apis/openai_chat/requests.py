"""Conversion of request bodies to neutral views."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

from harness.apis.jsonvalue import (
    as_object,
    cached_per_element,
    canonical,
    join,
    objects,
    parsed,
    parsed_object,
    string,
)
from harness.apis.openai_chat.parts import assistant_views, content_views, other_fields
from harness.apis.openai_common import allowed_tools, error_mark
from harness.apis.view import (
    ChoiceView,
    FormatView,
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
    body = parsed(request.body)
    if not isinstance(body, dict):
        raise WireError("the body is no JSON object")
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
    asked = isinstance(options, dict) and options.get("include_usage") is True
    return "/stream_options/include_usage" if asked else None


def _conversation(messages: JSON) -> tuple[tuple[SystemView, ...], tuple[TurnView, ...]]:
    if not isinstance(messages, list):
        raise WireError("messages is no list", "/messages")
    return split_system(_turns(messages, "/messages"), _SYSTEM_ROLES)


def _said_by_system(message: dict[str, JSON], pointer: str) -> list[PartView]:
    place = join(pointer, "content")
    views = content_views(message.get("content"), place)
    if not views:  # an empty system message is kept
        views = [TextView("", place if "content" in message else pointer)]
    return [*views, *other_fields(message, pointer)]


@cached_per_element
def _turns(message: JSON, pointer: str) -> TurnView:
    if not isinstance(message, dict):
        raise WireError("a message is no object", pointer)
    role = message.get("role")
    if role in _SYSTEM_ROLES:
        return TurnView("user", tuple(_said_by_system(message, pointer)), pointer, str(role))
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
    """Return the requested reasoning, from OpenAI's field or a compatible server's."""
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
