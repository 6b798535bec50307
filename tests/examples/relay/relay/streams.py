"""A stream as the answer that it spells out, and an answer as a stream."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.eventstream import events_of, serialize_event
from harness.apis.jsonvalue import loads
from harness.apis.profiles import Profile
from harness.apis.server import fragments
from harness.apis.view import RequestView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import JSON


def fold(stream: bytes) -> dict[str, JSON]:
    """The whole answer; one without `ended` is not whole. Raises `WireError`."""
    whole: dict[str, JSON] = {}
    parts: list[JSON] = []
    for each in events_of(stream):
        event = loads(each.data)
        match event:
            case {"more": str(text)} if parts:
                parts[-1] = _longer(parts[-1], text)
            case {"part": dict(part)}:
                parts.append(part)
            case dict():
                whole |= event
            case _:
                raise WireError("an event is not an object")
    return whole | {"parts": parts}


def _longer(part: JSON, text: str) -> JSON:
    match part:
        case {"call": {"arguments": str(begun), **call}}:
            return {"call": {**call, "arguments": begun + text}}
        case {"text": str(begun)}:
            return {"text": begun + text}
        case {"declined": str(begun)}:
            return {"declined": begun + text}
        case _:
            raise WireError("nothing that can go on")


def stream_of(body: dict[str, JSON], seed: str, _profile: Profile, _request: RequestView) -> HttpResponse:
    """A whole body as a stream."""
    stream = b"".join(map(serialize_event, _events(body, seed)))
    return HttpResponse(200, {"content-type": "text/event-stream"}, stream)


def _events(body: dict[str, JSON], seed: str) -> Iterator[dict[str, JSON]]:
    parts = body.get("parts")
    last = {key: body[key] for key in ("ended", "used", "error") if key in body}
    yield {key: value for key, value in body.items() if key != "parts" and key not in last}
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        match part:
            case {"call": {"arguments": str(text), **call}}:
                begun: JSON = {"call": {**call, "arguments": ""}}
            case {"text": str(text)}:
                begun = {"text": ""}
            case {"declined": str(text)}:
                begun = {"declined": ""}
            case _:
                begun, text = part, ""
        yield {"part": begun}
        yield from ({"more": piece} for piece in fragments(text, seed, f"part {index}"))
    yield last
