"""Request bodies → neutral views."""

from __future__ import annotations

from itertools import chain
from urllib.parse import urlsplit

from harness.apis.entries import entrywise, parsed
from harness.apis.jsonvalue import join
from harness.apis.openai_responses.requests.items import NAME, item_kind, item_parts, string
from harness.apis.view import (
    ChoiceView,
    FormatView,
    RequestView,
    SettingView,
    SystemView,
    TextView,
    ToolView,
    TurnView,
    WireError,
)
from harness.contract.http import HttpRequest
from harness.contract.model import JSON

_SETTINGS = {"max_output_tokens": "max_tokens", "temperature": "temperature", "top_p": "top_p"}
_STATE = ("previous_response_id", "conversation")
_STATE_ITEMS = ("item_reference", "compaction")
_SYSTEM_ROLES = ("system", "developer")
_HALLMARKS = ("model", "input", "prompt", *_STATE)


def recognises(request: HttpRequest) -> bool:
    """Whether this is a chat of the Responses API: POST to a path that ends in /responses, with one of its fields."""
    if request.method.upper() != "POST" or not urlsplit(request.url).path.endswith("/responses"):
        return False
    try:
        body = parsed(request.body)
    except WireError:
        return False
    return isinstance(body, dict) and any(key in body for key in _HALLMARKS)


def model_of(request: HttpRequest) -> str | None:
    """The model that the body names."""
    try:
        body = parsed(request.body)
    except WireError:
        return None
    return string(body.get("model")) if isinstance(body, dict) else None


def view(request: HttpRequest) -> RequestView:
    """The neutral view of a request. Raises `WireError` where input, items or tools are not of their JSON type."""
    body = _object(parsed(request.body), "")
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
        effort=_effort(body),
        stream=body.get("stream") is True,
        stateful=state(body),
    )


def state(body: dict[str, JSON]) -> str | None:
    """The field or kind of item by which a request leans on state that the server keeps.

    A compaction stands for a part of the conversation that only the server can read.
    """
    for key in _STATE:
        if body.get(key) is not None:
            return key
    kinds = _kinds(body.get("input"), "/input")
    return next((kind for kind in _STATE_ITEMS if kind in kinds), None)


@entrywise
def _kinds(item: JSON, _pointer: str) -> str | None:
    return item_kind(item) if isinstance(item, dict) else None


def _conversation(body: dict[str, JSON]) -> tuple[tuple[SystemView, ...], tuple[TurnView, ...]]:
    system: list[SystemView] = []
    turns: list[TurnView] = []
    instructions, entries = body.get("instructions"), body.get("input")
    if isinstance(instructions, str) and instructions:  # "" says as much as null
        system.append(SystemView(instructions, "instructions", "/instructions"))
    if isinstance(entries, str):  # short for one user message
        turns.append(TurnView("user", (TextView(entries, "/input"),), "/input", "user"))
    elif isinstance(entries, list):
        for turn in _turns(entries, "/input"):
            if turn.wire_role in _SYSTEM_ROLES:
                texts = [part for part in turn.parts if isinstance(part, TextView)]
                place = f"message:{turn.wire_role}"
                system.extend(SystemView(part.text, place, part.pointer, len(turns)) for part in texts)
                others = tuple(part for part in turn.parts if not isinstance(part, TextView))
                if others:  # no text, and not to be lost
                    turns.append(TurnView("user", others, turn.pointer, turn.wire_role))
            else:
                turns.append(turn)
    elif entries is not None:
        raise WireError("neither a string nor a list", "/input")
    return tuple(system), tuple(turns)


@entrywise
def _turns(entry: JSON, pointer: str) -> TurnView:
    item = _object(entry, pointer)
    kind = item_kind(item)
    wire_role = (string(item.get("role")) or "") if kind == "message" else kind
    spoken = wire_role == "assistant" or _by_model(kind)
    return TurnView("assistant" if spoken else "user", item_parts(item, pointer), pointer, wire_role)


def _by_model(kind: str) -> bool:
    return kind.endswith("_call") or kind in ("reasoning", "mcp_list_tools", "mcp_approval_request", "program")


@entrywise
def _tools(member: JSON, pointer: str) -> tuple[ToolView, ...]:
    """A tool, and those of a namespace behind it."""
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
        strict=strict if isinstance(strict, bool) else None,  # unsaid is not no (openai-responses-strict-default)
        kind=kind,
    )


def _choice(choice: JSON) -> ChoiceView | None:
    if choice is None or choice == "auto":  # auto is the documented default
        return None
    if choice in ("none", "required"):
        return ChoiceView("none" if choice == "none" else "required", "/tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        return ChoiceView("named", "/tool_choice", string(choice.get("name")))
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        return _subset(choice)
    return ChoiceView("other", "/tool_choice")


def _subset(choice: dict[str, JSON]) -> ChoiceView:
    """A choice among some of the tools."""
    tools = choice.get("tools")
    listed = tools if isinstance(tools, list) else []
    names = [name for tool in listed if isinstance(tool, dict) and isinstance(name := tool.get("name"), str)]
    if choice.get("mode") not in ("auto", "required"):
        return ChoiceView("other", "/tool_choice")
    return ChoiceView("auto" if choice["mode"] == "auto" else "required", "/tool_choice", allowed=(*names,))


def _format(text: JSON) -> FormatView | None:
    wanted = text.get("format") if isinstance(text, dict) else None
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
    reasoning = body.get("reasoning")
    asked = reasoning.get("effort") if isinstance(reasoning, dict) else None
    return None if asked is None else SettingView(asked, "/reasoning/effort")


def _settings(body: dict[str, JSON]) -> dict[str, SettingView]:
    settings = {
        name: SettingView(body[key], join("", key)) for key, name in _SETTINGS.items() if body.get(key) is not None
    }
    reasoning = body.get("reasoning")
    if isinstance(reasoning, dict):
        said: dict[str, JSON] = {key: value for key, value in reasoning.items() if value is not None}
        if said:
            settings["thinking"] = SettingView(said, "/reasoning")
    if body.get("parallel_tool_calls") is False:
        settings["one_call"] = SettingView(value=True, pointer="/parallel_tool_calls")
    return settings


def _object(value: JSON, pointer: str) -> dict[str, JSON]:
    if not isinstance(value, dict):
        raise WireError("not an object", pointer)
    return value
