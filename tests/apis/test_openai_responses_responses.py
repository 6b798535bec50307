"""OpenAI Responses: bodies and event streams → neutral views, model steps → bodies, violations → refusals."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.apis.openai_responses import API
from harness.apis.view import OpaqueView, ResponseView, TextView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import StopReason, Usage
from tests.apis.samples import resolve

JSON_TYPE = {"content-type": "application/json"}
STREAM_TYPE = {"content-type": "text/event-stream; charset=utf-8"}
MODEL = "gpt-6-sol"


def whole(**body: Any) -> ResponseView:
    full = {"object": "response", "status": "completed", "model": MODEL, "output": [], **body}
    return API.read(HttpResponse(200, JSON_TYPE, json.dumps(full).encode()))


def stream(*payloads: dict[str, Any], end: bytes = b"") -> HttpResponse:
    body = b"".join(
        b"event: %s\ndata: %s\n\n" % (payload.get("type", "").encode(), json.dumps(payload).encode())
        for payload in payloads
    )
    return HttpResponse(200, STREAM_TYPE, body + end)


def call(index: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{index}",
        "call_id": f"call_{index}",
        "name": "get_weather",
        "arguments": "{}",
        "status": "completed",
        **fields,
    }


def message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


CREATED = {"type": "response.created", "response": {"status": "in_progress", "model": MODEL, "output": []}}


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def arguments_delta(index: int, delta: str) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta}


def completed(*output: dict[str, Any]) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 4}
    body = {"status": "completed", "model": MODEL, "output": list(output), "usage": usage}
    return {"type": "response.completed", "response": body}


# whole bodies


@pytest.mark.parametrize(
    ("body", "stop", "word"),
    [
        ({"output": [message("Hi")]}, StopReason.END_TURN, "completed"),
        ({"output": [message("Hi"), call(1)]}, StopReason.TOOL_USE, "completed"),
        ({"output": [{"type": "custom_tool_call", "call_id": "c"}]}, StopReason.TOOL_USE, "completed"),
        ({"output": [{"type": "web_search_call"}, message("Hi")]}, StopReason.END_TURN, "completed"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            StopReason.MAX_TOKENS,
            "max_output_tokens",
        ),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            StopReason.REFUSAL,
            "content_filter",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "steered"}}, StopReason.PAUSE, "steered"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_messages"}},
            StopReason.MAX_TOKENS,
            "max_messages",
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "tired"}}, StopReason.UNKNOWN, "tired"),
        ({"status": "incomplete"}, StopReason.UNKNOWN, "incomplete"),
        ({"status": "queued"}, StopReason.PAUSE, "queued"),
        ({"status": "cancelled"}, StopReason.ERROR, "cancelled"),
        ({"status": "brand_new"}, StopReason.UNKNOWN, "brand_new"),
    ],
)
def test_the_stop_reason_is_derived_from_status_and_items(body: Any, stop: StopReason, word: str) -> None:
    seen = whole(**body)
    assert (seen.stop_reason, seen.raw_stop_reason) == (stop, word)


def test_parts_keep_their_order_and_their_pointers() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    seen = whole(output=[reasoning, {**message("Let me see."), "phase": "commentary"}, call(1), {"type": "brand_new"}])
    first, text, one, last = seen.parts
    assert first == OpaqueView("reasoning", reasoning, "/output/0")
    assert text == TextView("Let me see.", "/output/1/content/0/text", {"phase": "commentary"})
    assert one == seen.calls[0]
    assert resolve(seen.body, seen.calls[0].id_pointer) == "call_1"
    assert last == OpaqueView("brand_new", {"type": "brand_new"}, "/output/3")


def test_a_refusal_in_words() -> None:
    content = [{"type": "refusal", "refusal": "I cannot."}]
    seen = whole(output=[{**message(""), "content": content}])
    assert seen.stop_reason is StopReason.REFUSAL
    assert seen.parts == (OpaqueView("refusal", content[0], "/output/0/content/0"),)


def test_usage_is_gross() -> None:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 8},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 20},
    }
    assert whole(usage=usage).usage == Usage(100, 30, 64, 8, 20)
    assert whole(usage=None).usage == Usage()
    assert whole(usage={"input_tokens": 1}).usage == Usage(input_tokens=1)


def test_a_failed_response_inside_http_200() -> None:
    seen = whole(status="failed", error={"code": "server_error", "message": "Sorry."})
    assert seen.stop_reason is StopReason.ERROR
    assert seen.error is not None
    assert (seen.error.status, seen.error.code, seen.error.message) == (200, "server_error", "Sorry.")


def test_a_call_that_was_cut_off_is_malformed() -> None:
    details = {"reason": "max_output_tokens"}
    output = [call(1, arguments='{"city":"Pa', status="incomplete"), call(2, arguments="", status="incomplete")]
    first, second = whole(status="incomplete", incomplete_details=details, output=output).calls
    assert (first.arguments, first.malformed) == (None, '{"city":"Pa')
    assert (second.arguments, second.malformed) == (None, "")


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b'{"error": {"message": "No.", "type": "invalid_request_error", "param": null, "code": "c"}}', "c", "No."),
        (b'{"error": {"message": "No.", "code": 42}}', "42", "No."),
        (b'{"error": "No."}', None, "No."),
        (b'{"message": "No."}', None, "No."),
        (b"<html>Bad gateway</html>", None, "<html>Bad gateway</html>"),
    ],
)
def test_a_refusal_by_status(body: bytes, code: str | None, text: str) -> None:
    seen = API.read(HttpResponse(502, {}, body))
    assert seen.error is not None
    assert (seen.error.status, seen.error.code, seen.error.message) == (502, code, text)
    assert seen.stop_reason is StopReason.ERROR


@pytest.mark.parametrize(
    "body", [b"[]", b"{}", b'{"error": null}', b'{"choices": []}', b"no json", b'{"output": ["x"]}']
)
def test_other_bodies_are_wire_errors(body: bytes) -> None:
    with pytest.raises(WireError):
        API.read(HttpResponse(200, JSON_TYPE, body))


# streams


def test_texts_refusals_and_reasoning_are_put_together() -> None:
    def delta(kind: str, text: str, **place: int) -> dict[str, Any]:
        return {"type": f"response.{kind}.delta", "output_index": 0, "delta": text, **place}

    reasoning = {"type": "reasoning", "id": "rs_1", "summary": []}
    seen = API.read(
        stream(
            CREATED,
            added(0, reasoning),
            delta("reasoning_summary_text", "Thin", summary_index=0),
            delta("reasoning_summary_text", "king", summary_index=0),
            added(1, {**message(""), "content": []}),
            {**delta("output_text", "18\u2028", content_index=0), "output_index": 1},
            {**delta("output_text", "°C", content_index=0), "output_index": 1},
            {**delta("refusal", "No.", content_index=1), "output_index": 1},
            completed(),
        )
    )
    assert seen.text == "18\u2028°C"
    thinking, _, refusal = seen.parts
    assert isinstance(thinking, OpaqueView)
    assert isinstance(refusal, OpaqueView)
    assert resolve(thinking.raw, "/summary/0/text") == "Thinking"
    assert refusal.raw == {"type": "refusal", "refusal": "No."}


def test_a_cut_stream_is_not_complete() -> None:
    seen = API.read(
        stream(
            CREATED,
            added(0, call(1, arguments="", status="in_progress")),
            arguments_delta(0, '{"city":'),
            end=b'event: response.function_call_arguments.delta\ndata: {"delta":"',
        )
    )
    assert not seen.complete
    assert (seen.stop_reason, seen.raw_stop_reason) == (StopReason.UNKNOWN, None)
    assert [(one.arguments, one.malformed) for one in seen.calls] == [(None, '{"city":')]
    assert seen.error is None


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "overloaded", "message": "Busy.", "param": None, "sequence_number": 3},
        {"type": "error", "error": {"type": "server_error", "code": "overloaded", "message": "Busy."}},
        {"error": {"code": "overloaded", "message": "Busy."}},
    ],
)
def test_an_error_event_inside_http_200(event: dict[str, Any]) -> None:
    for events in ((CREATED, event), (event,)):
        seen = API.read(stream(*events))
        assert seen.error is not None
        assert (seen.error.status, seen.error.code, seen.error.message) == (200, "overloaded", "Busy.")
        assert seen.stop_reason is StopReason.ERROR
        assert not seen.complete


def test_a_stream_that_fails() -> None:
    failed = {"status": "failed", "error": {"code": "server_error", "message": "Sorry."}, "output": []}
    seen = API.read(stream(CREATED, {"type": "response.failed", "response": failed}))
    assert seen.complete
    assert seen.error is not None
    assert seen.error.code == "server_error"


def test_a_stream_that_ends_at_the_token_limit() -> None:
    ended = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": [message("18")]}
    seen = API.read(stream(CREATED, {"type": "response.incomplete", "response": ended}))
    assert (seen.complete, seen.stop_reason) == (True, StopReason.MAX_TOKENS)


@pytest.mark.parametrize(
    "body", [b"[]", b"data: [DONE]\n\n", b"data: 7\n\n", b"data: {\n\n", b': ping\n\ndata: {"type":"x"}\n\n']
)
def test_other_streams_are_wire_errors(body: bytes) -> None:
    with pytest.raises(WireError):
        API.read(HttpResponse(200, STREAM_TYPE, body))


# building


# refusing
