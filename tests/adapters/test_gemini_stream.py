from __future__ import annotations

import json
from typing import Any

import pytest

from harness.adapters.gemini import ADAPTER
from harness.model import errors
from harness.model.messages import (
    SYNTHESISED_ID,
    ChatRequest,
    Finish,
    Image,
    Message,
    Opaque,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallStart,
    ToolResult,
)
from tests.adapters.streamed import Pieces, Player, Server, response, until_error

MODEL = "gemini-3.6-flash"
ASKED = ChatRequest(MODEL, (Message.user("hi"),))
CALL = {"functionCall": {"id": "c1", "name": "f", "args": {"city": "Köln"}}, "thoughtSignature": "a+/b"}


def chunk(*parts: Any, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-3.6-flash-001", "responseId": "r1", **fields}


def sse(*said: Any) -> bytes:
    """Return chunks as events; `bytes` stay as they are."""
    return b"".join(
        each if isinstance(each, bytes) else f"data: {json.dumps(each, ensure_ascii=False)}\r\n\r\n".encode()
        for each in said
    )


def array(*said: Any) -> bytes:
    """Chunks as the elements of an array, in the API's spelling."""
    return f"[{','.join(json.dumps(each, ensure_ascii=False, indent=2) + chr(10) for each in said)}]".encode()


def stream_events(*said: Any, encode: Any = sse) -> list[StreamEvent]:
    return Player(ADAPTER, MODEL).stream(encode(*said))


def broken(body: bytes) -> tuple[list[StreamEvent], errors.ChatError]:
    return until_error(Server(Pieces([body])).client(ADAPTER, MODEL).stream(ASKED))


# Events


@pytest.mark.parametrize("encode", [sse, array])
def test_text_arrives_in_its_pieces_and_is_one_part_in_the_end(encode: Any) -> None:
    events = stream_events(
        chunk({"text": "Grüß "}),
        chunk({"text": ""}),
        chunk({"text": "dich"}, {"text": "!"}, finish="STOP"),
        encode=encode,
    )
    assert events[:-1] == [TextDelta("Grüß "), TextDelta("dich"), TextDelta("!")]
    answer = response(events)
    assert answer.message.parts == (Text("Grüß dich!"),)
    assert (answer.stop_reason, answer.model) == (StopReason.END_TURN, "gemini-3.6-flash-001")


def test_calls_without_ids_are_named_alike_in_events_and_answer() -> None:
    history = (
        Message.user("hi"),
        Message(Role.ASSISTANT, (ToolCall("call_3_1", "f", {}),)),
        Message(Role.USER, (ToolResult("call_3_1", "f", 1),)),
    )
    parts = [{"functionCall": {"name": "f"}}, {"functionCall": {"name": "f", "id": ""}}]
    server = Server(sse(chunk(parts[0]), chunk(parts[1], finish="STOP")))
    events = list(server.client(ADAPTER, MODEL).stream(ChatRequest(MODEL, history)))
    assert [event.id for event in events if isinstance(event, ToolCallStart)] == ["call_3_0", "call_3_1_"]
    assert all(call.provider_metadata["harness"] == {SYNTHESISED_ID: True} for call in response(events).tool_calls)


def test_thoughts_are_apart_from_text() -> None:
    events = stream_events(
        chunk({"text": "Let ", "thought": True}),
        chunk({"text": "me", "thought": True}),
        chunk({"text": "So", "thought": False}, {"text": "!"}, finish="STOP"),
    )
    assert events[:-1] == [ThinkingDelta("Let "), ThinkingDelta("me"), TextDelta("So"), TextDelta("!")]
    assert response(events).message.parts == (
        Thinking("Let me", {"gemini": {"thought": True}}),
        Text("So!", {"gemini": {"thought": False}}),
    )


def test_a_signed_part_is_never_joined() -> None:
    events = stream_events(
        chunk({"text": "a"}, {"text": "b", "thoughtSignature": "s1"}),
        chunk({"text": "c"}),
        chunk({"text": "", "thoughtSignature": "s2"}, finish="STOP"),
    )
    assert events[:-1] == [TextDelta("a"), TextDelta("b"), TextDelta("c")]
    assert response(events).message.parts == (
        Text("a"),
        Text("b", {"gemini": {"thoughtSignature": "s1"}}),
        Text("c"),
        Text("", {"gemini": {"thoughtSignature": "s2"}}),
    )


def test_parts_without_a_delta_are_in_the_answer() -> None:
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    events = stream_events(chunk(picture), chunk(code, {"brandNew": 1}, finish="STOP"))
    assert events[:-1] == []
    assert response(events).message.parts == (
        Image("image/png", b"\x89PNG"),
        Opaque("gemini", code),
        Opaque("gemini", {"brandNew": 1}),
    )


def test_only_the_first_candidate_is_read() -> None:
    second = {"index": 1, "content": {"parts": [{"text": "no"}]}, "finishReason": "SAFETY"}
    first = chunk({"text": "yes"}, finish="STOP")["candidates"][0]
    events = stream_events({"candidates": [second, first]}, {"candidates": [second]})
    assert events[:-1] == [TextDelta("yes")]
    assert response(events).stop_reason is StopReason.END_TURN


@pytest.mark.parametrize("said", [[], [chunk({"text": "a"})]])
def test_a_block_ends_a_stream(said: list[Any]) -> None:
    finish = stream_events(*said, {"promptFeedback": {"blockReason": "OTHER"}})[-1]
    assert isinstance(finish, Finish)
    assert finish.response.stop_reason is StopReason.REFUSAL
    assert finish.response.raw_stop_reason == "OTHER"
    assert finish.response.text == "a" * len(said)


@pytest.mark.parametrize(
    "call",
    [
        {"name": "f", "willContinue": True},
        {"name": "f", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]},
        {"name": "f", "args": "{}"},
        {"args": {}},
    ],
)
def test_an_incomplete_call_is_malformed(call: dict[str, Any]) -> None:
    events = stream_events(chunk({"functionCall": call}, finish="STOP"))
    assert events[:-1] == []
    answer = response(events)
    assert answer.message.parts == (Opaque("gemini", {"functionCall": call}),)
    assert answer.stop_reason is StopReason.MALFORMED_CALL


# Streams that break


WHOLE = (chunk({"text": "H\u2028ä"}), chunk(CALL), chunk({"text": '\\"{[', "thoughtSignature": "s"}, finish="STOP"))


@pytest.mark.parametrize("encode", [sse, array])
def test_a_cut_behind_the_finish_reason_is_an_error_too(encode: Any) -> None:
    body = encode(*WHOLE, {"usageMetadata": {"promptTokenCount": 3}})
    for length in range(body.index(b"STOP") + 10, len(body) - 1):
        if body[:length] not in (sse(*WHOLE), sse(*WHOLE)[:-1]):  # nothing says that an event is missing
            assert isinstance(broken(body[:length])[1], errors.MalformedResponse)


OVERLOADED = {"error": {"code": 503, "message": "Busy.", "status": "UNAVAILABLE"}}


@pytest.mark.parametrize(
    "body",
    [
        sse(WHOLE[0], OVERLOADED, *WHOLE[1:]),
        sse(WHOLE[0], OVERLOADED),
        array(WHOLE[0], OVERLOADED),
        array(OVERLOADED),
        json.dumps(OVERLOADED).encode(),
        sse(*WHOLE, OVERLOADED),
    ],
)
def test_an_error_in_mid_stream(body: bytes) -> None:
    seen, error = broken(body)
    assert error == errors.Overloaded(503, "Busy.", "UNAVAILABLE")
    assert not any(isinstance(event, Finish) for event in seen)


# Bytes
