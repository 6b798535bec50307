"""What Anthropic answers: read whole and streamed, built, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.apis.anthropic import API
from harness.apis.view import CallView, ErrorView, OpaqueView, ResponseView, TextView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import StopReason, Usage

USAGE = {
    "input_tokens": 10,
    "cache_creation_input_tokens": 200,
    "cache_read_input_tokens": 3000,
    "output_tokens": 50,
    "output_tokens_details": {"thinking_tokens": 20},
}
STREAM = {"content-type": "text/event-stream; charset=utf-8"}


def message(*content: Any, **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5",
        "content": list(content),
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
        **fields,
    }


def read(body: Any, status: int = 200) -> ResponseView:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return API.read(HttpResponse(status, {"content-type": "application/json"}, raw))


def stream(*events: Any, end: str = "\n\n") -> bytes:
    names = [event["type"] if isinstance(event, dict) else "message" for event in events]
    lines = (f"event: {name}\ndata: {json.dumps(event)}{end}" for name, event in zip(names, events, strict=True))
    return "".join(lines).encode()


def streamed(*events: Any) -> ResponseView:
    return API.read(HttpResponse(200, STREAM, stream(*events)))


def start(**fields: Any) -> dict[str, Any]:
    usage = {**USAGE, "output_tokens": 1, "output_tokens_details": None}
    return {"type": "message_start", "message": message(stop_reason=None, usage=usage, **fields)}


def block(index: int, content_block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content_block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *fragments: str) -> list[dict[str, Any]]:
    deltas = ({"type": "text_delta", "text": fragment} for fragment in fragments)
    return block(index, {"type": "text", "text": ""}, *deltas)


def call(index: int, call_id: str, *fragments: str) -> list[dict[str, Any]]:
    deltas = ({"type": "input_json_delta", "partial_json": fragment} for fragment in fragments)
    return block(index, {"type": "tool_use", "id": call_id, "name": "f", "input": {}}, *deltas)


def finish(reason: str = "end_turn") -> list[dict[str, Any]]:
    usage = {"output_tokens": 50, "output_tokens_details": {"thinking_tokens": 20}}
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


PING = {"type": "ping"}


def test_a_whole_message() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    body = message(
        thinking,
        {"type": "text", "text": "I look.", "citations": None},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"n": 1}, "caller": {"type": "direct"}},
        {"type": "of another day"},
        stop_reason="tool_use",
    )
    assert read(body) == ResponseView(
        api="anthropic",
        parts=(
            OpaqueView("thinking", thinking, "/content/0"),
            TextView("I look.", "/content/1/text"),
            CallView("toolu_1", "f", {"n": 1}, "/content/2", "/content/2/id", "/content/2/input"),
            OpaqueView("of another day", {"type": "of another day"}, "/content/3"),
        ),
        stop_reason=StopReason.TOOL_USE,
        raw_stop_reason="tool_use",
        usage=Usage(3210, 50, 3000, 200, 20),
        model="claude-opus-5",
        body=body,
    )


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("end_turn", StopReason.END_TURN),
        ("tool_use", StopReason.TOOL_USE),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.PAUSE),
        ("of another day", StopReason.UNKNOWN),
        (None, StopReason.UNKNOWN),
    ],
)
def test_stop_reasons(raw: str | None, canonical: StopReason) -> None:
    view = read(message(stop_reason=raw))
    assert (view.stop_reason, view.raw_stop_reason) == (canonical, raw)


def test_missing_usage_is_none() -> None:
    assert read(message(usage={"input_tokens": 7, "output_tokens": 2})).usage == Usage(7, 2)
    assert read(message(usage={"input_tokens": 7, "cache_read_input_tokens": None})).usage == Usage(7)
    assert read(message(usage=None)).usage == Usage()


def test_a_refusal_says_why() -> None:
    details = {"type": "refusal", "category": None, "explanation": "No."}
    view = read(message(stop_reason="refusal", stop_details=details))
    assert view.parts == (OpaqueView("refusal", details, "/stop_details"),)


def test_a_stream_folds_into_the_whole_message() -> None:
    view = streamed(
        start(),
        PING,
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "H"},
            {"type": "thinking_delta", "thinking": "m."},
            {"type": "signature_delta", "signature": "old"},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *text(1, "Line\u2028separator ", "and 18 °C"),
        *call(2, "a", "", '{"ci', 'ty": "Par', 'is"}'),
        PING,
        *call(3, "b"),
        *call(4, "c", ""),
        *finish("tool_use"),
    )
    assert view.body == message(
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Line\u2028separator and 18 °C"},
        {"type": "tool_use", "id": "a", "name": "f", "input": {"city": "Paris"}},
        {"type": "tool_use", "id": "b", "name": "f", "input": {}},
        {"type": "tool_use", "id": "c", "name": "f", "input": {}},
        stop_reason="tool_use",
    )
    assert (view.streamed, view.complete, view.error) == (True, True, None)
    assert view.stop_reason is StopReason.TOOL_USE
    assert view.usage == Usage(3210, 50, 3000, 200, 20)
    assert [item.arguments for item in view.calls] == [{"city": "Paris"}, {}, {}]


def test_citations_append_and_unknown_deltas_are_kept() -> None:
    citing = {"type": "text", "text": "", "citations": []}
    cites = [{"type": "citations_delta", "citation": {"n": n}} for n in (1, 2)]
    later = [{"type": "memo_delta", "memo": word} for word in ("a", "b")]
    view = streamed(start(), *block(0, citing, *cites), *block(1, {"type": "memo"}, *later), *finish())
    assert view.body["content"] == [
        {"type": "text", "text": "", "citations": [{"n": 1}, {"n": 2}]},
        {"type": "memo", "memo": "ab"},
    ]


def test_arguments_cut_by_max_tokens_are_malformed() -> None:
    view = streamed(start(), *call(0, "a", '{"city": "Par'), *finish("max_tokens"))
    assert (view.calls[0].arguments, view.calls[0].malformed) == (None, '{"city": "Par')
    assert view.complete


def test_usage_stays_where_the_end_says_nothing_new() -> None:
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert streamed(start(), end, {"type": "message_stop"}).usage == Usage(3210, 1, 3000, 200)


def test_an_error_in_a_stream() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    view = streamed(start(), *text(0, "a"), error)
    assert view.error == ErrorView(200, "Overloaded", "overloaded_error", 529)
    assert (view.text, view.stop_reason, view.complete) == ("a", StopReason.ERROR, False)
    assert streamed(error).error == ErrorView(200, "Overloaded", "overloaded_error", 529)


def test_errors() -> None:
    body = {"type": "error", "error": {"type": "not_found_error", "message": "model: x"}, "request_id": "req_1"}
    view = read(body, 404)
    assert (view.error, view.body) == (ErrorView(404, "model: x", "not_found_error", 404), body)
    assert read(body).error == ErrorView(200, "model: x", "not_found_error", 404)
    assert read({"message": "no"}, 400).error == ErrorView(400, "no", meant=400)
    assert read(b"<html>Bad gateway</html>", 502).error == ErrorView(502, "<html>Bad gateway</html>", meant=502)
    assert read([], 500).error == ErrorView(500, "[]", meant=500)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"content": "text"}', b'{"choices": []}'])
def test_other_bodies_are_wire_errors(body: bytes) -> None:
    with pytest.raises(WireError):
        read(body)


@pytest.mark.parametrize(
    "events",
    [
        [PING, {"type": "of another day"}],
        [start(), {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}],
        [start(), {"type": "content_block_start", "index": "0", "content_block": {}}],
        [{"type": "message_start", "message": None}],
        [["message_start"]],
    ],
)
def test_other_streams_are_wire_errors(events: list[Any]) -> None:
    with pytest.raises(WireError):
        streamed(*events)
