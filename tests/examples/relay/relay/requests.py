"""Requests → neutral views."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from harness.apis.jsonvalue import join, loads
from harness.apis.view import (
    CallView,
    ChoiceView,
    FormatView,
    JsonView,
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
)
from harness.model.http import HttpRequest
from harness.model.messages import JSON

SETTINGS = {"limit": "max_tokens", "temperature": "temperature", "top_p": "top_p", "stop": "stop"}


def recognises(request: HttpRequest) -> bool:
    """Return whether this is a chat: POST to a path that ends in /v1/turns, with turns."""
    if request.method.upper() != "POST" or not urlsplit(request.url).path.endswith("/v1/turns"):
        return False
    try:
        body = loads(request.body)
    except WireError:
        return False
    return isinstance(body, dict) and "turns" in body


def model_of(request: HttpRequest) -> str | None:
    """The model that a request names."""
    try:
        return text_of(members(loads(request.body), ""), "model") or None
    except WireError:
        return None


def view(request: HttpRequest) -> RequestView:
    """The neutral view. Raises `WireError`."""
    body = members(loads(request.body), "")
    system = body.get("system")
    return RequestView(
        api="relay",
        model=text_of(body, "model"),
        system=(SystemView(system, "system", "/system"),) if isinstance(system, str) else (),
        turns=tuple(turn(each, at) for at, each in entries(body.get("turns"), "/turns")),
        tools=tuple(tool(each, at) for at, each in entries(body.get("tools"), "/tools")),
        tool_choice=choice(body.get("calling")),
        response_format=answer(body.get("answer")),
        settings={name: SettingView(body[key], join("", key)) for key, name in SETTINGS.items() if key in body},
        stream=body.get("stream") is True,
    )


def turn(entry: dict[str, JSON], pointer: str) -> TurnView:
    """A turn of the conversation."""
    by = text_of(entry, "by")
    return TurnView("assistant" if by == "model" else "user", parts(entry, pointer), pointer, by)


def parts(entry: dict[str, JSON], pointer: str) -> tuple[PartView, ...]:
    """The parts of a turn, or of an answer."""
    return tuple(part(each, at) for at, each in entries(entry.get("parts"), join(pointer, "parts")))


def part(raw: dict[str, JSON], pointer: str) -> PartView:
    """Return a part, whose only key names its type."""
    match raw:
        case {"text": str(text)}:
            return TextView(text, join(pointer, "text"))
        case {"declined": str(words)}:
            return OpaqueView("refusal", words, join(pointer, "declined"))
        case {"call": dict(call)}:
            return called(call, join(pointer, "call"))
        case {"result": dict(result)}:
            at, value = join(pointer, "result"), result.get("value")
            place = join(at, "value")
            return ResultView(
                call_id=text_of(result, "of") or None,
                name=None,
                payload=(TextView(value, place) if isinstance(value, str) else JsonView(value, place),),
                pointer=at,
                id_pointer=join(at, "of"),
                error_mark="flag" if result.get("failed") is True else None,
            )
        case _:
            return OpaqueView(next(iter(raw), ""), raw, pointer)


def called(call: dict[str, JSON], pointer: str) -> CallView:
    """A call, with its arguments as JSON text."""
    text = text_of(call, "arguments")
    try:
        arguments, malformed = loads(text), None
    except WireError:
        arguments, malformed = None, text
    return CallView(
        id=text_of(call, "id") or None,
        name=text_of(call, "tool"),
        arguments=arguments,
        pointer=pointer,
        id_pointer=join(pointer, "id"),
        arguments_pointer=join(pointer, "arguments"),
        malformed=malformed,
    )


def tool(raw: dict[str, JSON], pointer: str) -> ToolView:
    """A declared tool."""
    return ToolView(text_of(raw, "name"), text_of(raw, "about"), raw.get("takes"), pointer)


def choice(calling: JSON) -> ChoiceView | None:
    """`free` (which is the default), `never`, `must`, or the name of the tool to call."""
    match calling:
        case None | "free":
            return None
        case "never":
            return ChoiceView("none", "/calling")
        case "must":
            return ChoiceView("required", "/calling")
        case {"tool": str(name)}:
            return ChoiceView("named", "/calling", name)
        case _:
            return ChoiceView("other", "/calling")


def answer(wanted: JSON) -> FormatView | None:
    """The form that the answer has to have."""
    match wanted:
        case {"schema": schema}:
            return FormatView("json-schema", "answer.schema", "/answer", schema, "/answer/schema")
        case {"json": True}:
            return FormatView("json", "answer.json", "/answer")
        case _:
            return None


def members(value: JSON, pointer: str) -> dict[str, JSON]:
    """An object. Raises `WireError`."""
    if not isinstance(value, dict):
        raise WireError("not an object", pointer)
    return value


def entries(value: JSON, pointer: str) -> Iterator[tuple[str, dict[str, JSON]]]:
    """The objects of a list, each with its pointer; nothing is an empty list. Raises `WireError`."""
    if not isinstance(value, list | None):
        raise WireError("not a list", pointer)
    for index, each in enumerate(value or ()):
        yield join(pointer, index), members(each, join(pointer, index))


def text_of(raw: dict[str, JSON], key: str) -> str:
    """A text, empty where there is none."""
    value = raw.get(key)
    return value if isinstance(value, str) else ""
