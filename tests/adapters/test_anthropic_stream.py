from __future__ import annotations

import json
from typing import Any

import pytest

from harness.adapters.anthropic import ADAPTER
from harness.model import errors
from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    Finish,
    Message,
    Opaque,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from tests.adapters.streamed import Pieces, Player, Server, cut, response, until_error

MODEL = "claude-sonnet-4-6"
ASKED = ChatRequest(MODEL, (Message.user("hi"),))
STOP = {"type": "message_stop"}


def sse(*events: Any) -> bytes:
    """Return events as bytes; `bytes` stay as they are."""
    return b"".join(
        event
        if isinstance(event, bytes)
        else f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for event in events
    )


def begin(**fields: Any) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6-20260101",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 2, "output_tokens": 1},
    }
    return {"type": "message_start", "message": {**message, **fields}}


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def settle(reason: str | None = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [
        start(index, type="text", text=""),
        *(delta(index, "text_delta", text=each) for each in pieces),
        stop(index),
    ]


def call(index: int, *fragments: str, name: str = "f", **fields: Any) -> list[dict[str, Any]]:
    return [
        start(index, **{"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}, **fields}),
        *(delta(index, "input_json_delta", partial_json=each) for each in fragments),
        stop(index),
    ]


def stream_events(*events: Any, cuts: tuple[int, ...] = ()) -> list[StreamEvent]:
    return Player(ADAPTER, MODEL).stream(*cut(sse(*events), cuts))


def answered(*events: Any, reason: str = "end_turn") -> list[StreamEvent]:
    return stream_events(begin(), *events, settle(reason), STOP)


def broken(*events: Any) -> tuple[list[StreamEvent], errors.ChatError]:
    """Return the events before the error, and the error."""
    server = Server(Pieces([sse(*events)]))
    return until_error(server.client(ADAPTER, MODEL).stream(ASKED))


# Events


def test_calls_end_when_the_next_block_starts() -> None:
    events = answered(*call(1, "{}"), *text(2, "and"), *call(4, "{}"), reason="tool_use")
    assert events[:-1] == [
        ToolCallStart(0, "toolu_1", "f"),
        ArgumentsDelta(0, "{}"),
        ToolCallEnd(0),
        TextDelta("and"),
        ToolCallStart(1, "toolu_4", "f"),
        ArgumentsDelta(1, "{}"),
        ToolCallEnd(1),
    ]


def test_several_blocks_may_be_open_at_once() -> None:
    first, second = call(0, '{"a":', "1}"), call(1, '{"b":', "2}")
    mixed = [first[0], second[0], first[1], second[1], first[2], second[2], second[3], first[3]]
    assert [each.arguments for each in response(answered(*mixed, reason="tool_use")).tool_calls] == [{"a": 1}, {"b": 2}]


def test_arguments_that_come_with_the_start_of_a_call() -> None:
    events = answered(*call(0, input={"city": "Köln"}), reason="tool_use")
    assert events[1] == ArgumentsDelta(0, '{"city":"Köln"}')
    assert response(events).tool_calls[0].arguments == {"city": "Köln"}


def test_text_that_comes_with_the_start_of_a_block() -> None:
    started = [start(0, type="text", text="Hi"), delta(0, "text_delta", text="!"), stop(0)]
    assert response(answered(*started)).text == "Hi!"


def test_a_signature_replaces_and_thinking_grows() -> None:
    events = answered(
        start(0, type="thinking", thinking="", signature="draft"),
        delta(0, "thinking_delta", thinking="Let "),
        delta(0, "thinking_delta", thinking="me"),
        delta(0, "signature_delta", signature="one"),
        delta(0, "signature_delta", signature="sig=="),
        stop(0),
        *text(1, "Hi"),
    )
    assert events[:2] == [ThinkingDelta("Let "), ThinkingDelta("me")]
    assert response(events).message.parts[0] == Thinking("Let me", {"anthropic": {"signature": "sig=="}})


@pytest.mark.parametrize("fields", [{}, {"citations": None}, {"citations": []}])
def test_citations_are_collected(fields: dict[str, Any]) -> None:
    block = [
        start(0, type="text", text="", **fields),
        delta(0, "citations_delta", citation={"cited_text": "a"}),
        delta(0, "text_delta", text="A"),
        delta(0, "citations_delta", citation={"cited_text": "b"}),
        stop(0),
    ]
    cited = {"citations": [{"cited_text": "a"}, {"cited_text": "b"}]}
    assert response(answered(*block)).message.parts == (Text("A", {"anthropic": cited}),)


def test_unknown_blocks_are_kept_without_events() -> None:
    events = answered(
        *call(0, '{"query":', '"x"}', type="server_tool_use", name="web_search"),
        start(1, type="brand_new", text="not text", list=[1], count=1),
        delta(1, "text_delta", text="!"),
        delta(1, "brand_new_delta", blob="a"),
        delta(1, "brand_new_delta", blob="b", list=[2], count=2),
        stop(1),
        {"type": "brand_new_event", "index": 7},
        {"type": "ping"},
        *text(2, "Hi"),
    )
    assert events[:-1] == [TextDelta("Hi")]
    searched, new, _ = response(events).message.parts
    assert isinstance(searched, Opaque)
    assert isinstance(searched.raw, dict)
    assert searched.raw["input"] == {"query": "x"}
    kept = {"type": "brand_new", "text": "not text!", "list": [1, 2], "count": 2, "blob": "ab"}
    assert new == Opaque("anthropic", kept)


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"output_tokens": 5}, Usage(9, 5, 2)),
        ({"input_tokens": 8, "cache_read_input_tokens": 0, "output_tokens": 5}, Usage(8, 5, 0)),
        ({"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 5}, Usage(9, 5, 2)),
        ({}, Usage(9, 1, 2)),
    ],
)
def test_usage_of_the_end_overrides_that_of_the_start(counts: dict[str, Any], usage: Usage) -> None:
    finish = stream_events(begin(), *text(0, "Hi"), settle(output_tokens=4), settle(**counts), STOP)[-1]
    assert isinstance(finish, Finish)
    assert finish.response.usage == (usage if counts else Usage(9, 4, 2))


# Streams that break


@pytest.mark.parametrize(
    "event",
    [
        b'event: error\ndata: {"message": "No."}\n\n',
        b'data: {"error": {"message": "No."}}\n\n',
        b'event: error\ndata: {"type": "error", "error": "No."}\n\n',
    ],
)
def test_an_error_in_another_shape(event: bytes) -> None:
    _, error = broken(begin(), event, STOP)
    assert isinstance(error, errors.ServerError)
    assert "No." in error.message
    assert error.code is None


@pytest.mark.parametrize(
    "events",
    [
        (begin(), begin(), STOP),
        ({"type": "message_start"}, STOP),
        (settle(), begin(), STOP),
        (begin(), {**settle(), "delta": None}, STOP),
        (begin(), delta(0, "text_delta", text="Hi"), STOP),
        (begin(), stop(0), STOP),
        (begin(), *text(0, "Hi"), delta(0, "text_delta", text="Hi"), STOP),
        (begin(), *text(0, "Hi"), *text(0, "Hi"), STOP),
        (begin(), *text(1, "Hi"), *text(0, "Hi"), STOP),
        (begin(), {"type": "content_block_start", "content_block": {}}, STOP),
        (begin(), start(0, type="text", text=""), delta(0, "text_delta", text=5), STOP),
        (begin(), *call(0)[:1], delta(0, "input_json_delta"), STOP),
        (begin(), *text(0, "Hi"), STOP, b"data: [DONE\n\n"),
    ],
)
def test_other_streams_are_malformed(events: tuple[Any, ...]) -> None:
    seen, error = broken(*events)
    assert isinstance(error, errors.MalformedResponse)
    assert not any(isinstance(event, Finish) for event in seen)
