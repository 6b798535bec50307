from __future__ import annotations

import json
from typing import Any

import pytest

from harness.apis.openai_chat import API
from harness.apis.view import CallView, ErrorView, OpaqueView, ResponseView, TextView, WireError
from harness.model.http import HttpResponse
from harness.model.messages import StopReason, Usage
from tests.adapters.test_openai_chat_stream import DETAILS

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 32},
    "completion_tokens_details": {"reasoning_tokens": 8},
}


def whole(message: dict[str, Any], finish_reason: Any = "stop", **fields: Any) -> HttpResponse:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [choice]}
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(body | fields).encode())


def chunk(delta: dict[str, Any] | None = None, finish_reason: Any = None, **fields: Any) -> dict[str, Any]:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o", "obfuscation": "xy"}
    return head | {"choices": choices, "usage": None} | fields


def stream(*chunks: dict[str, Any] | str, done: bool = True) -> ResponseView:
    events = [one if isinstance(one, str) else f"data: {json.dumps(one)}\n\n" for one in chunks]
    body = "".join([*events, "data: [DONE]\n\n" if done else ""])
    return API.read(HttpResponse(200, {"content-type": "text/event-stream; charset=utf-8"}, body.encode()))


def piece(index: int | None, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    name = fields.pop("name", None)
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    entry = {"index": index, "function": function, **fields}
    return {"tool_calls": [{key: value for key, value in entry.items() if value is not None}]}


CALL = {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}


def test_a_whole_answer_is_read() -> None:
    seen = API.read(whole({"content": "Let me see.", "tool_calls": [CALL]}, "tool_calls", usage=USAGE))

    place = "/choices/0/message/tool_calls/0"
    assert seen.parts == (
        TextView("Let me see.", "/choices/0/message/content"),
        CallView("call_1", "get_weather", {"city": "Paris"}, place, f"{place}/id", f"{place}/function/arguments"),
    )
    assert (seen.stop_reason, seen.raw_stop_reason) == (StopReason.TOOL_USE, "tool_calls")
    assert seen.usage == Usage(100, 20, 64, 32, 8)
    assert seen.model == "gpt-4o"
    assert not seen.streamed
    assert seen.complete
    assert seen.error is None


@pytest.mark.parametrize(
    ("message", "word", "expected"),
    [
        ({"content": "hi"}, "stop", StopReason.END_TURN),
        ({"tool_calls": [CALL]}, "tool_calls", StopReason.TOOL_USE),
        ({"tool_calls": [CALL]}, "stop", StopReason.TOOL_USE),
        ({"function_call": {"name": "f", "arguments": "{}"}}, "function_call", StopReason.TOOL_USE),
        ({"content": "h"}, "length", StopReason.MAX_TOKENS),
        ({"tool_calls": [CALL]}, "length", StopReason.MAX_TOKENS),
        ({"content": None}, "content_filter", StopReason.REFUSAL),
        ({"refusal": "No."}, "stop", StopReason.REFUSAL),
        ({"refusal": None, "content": "hi"}, "stop", StopReason.END_TURN),
        ({"content": "hi"}, "a new one", StopReason.UNKNOWN),
        ({"content": "hi"}, None, StopReason.UNKNOWN),
    ],
)
def test_stop_reasons_follow_the_table(message: dict[str, Any], word: str | None, expected: StopReason) -> None:
    seen = API.read(whole(message, word))
    assert seen.stop_reason == expected
    assert seen.raw_stop_reason == word


def test_missing_usage_is_none() -> None:
    assert API.read(whole({"content": "hi"})).usage == Usage()
    assert API.read(whole({"content": "hi"}, usage={"prompt_tokens": 3})).usage == Usage(input_tokens=3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", ({}, None)),
        ("{}", ({}, None)),
        ("{}\n", ({}, None)),
        (None, ({}, None)),
        ({"a": 1}, ({"a": 1}, None)),
        ("[]", ([], None)),
        ('{"a": 12345678901234567890}', ({"a": 12345678901234567890}, None)),
        ('{"a', (None, '{"a')),
    ],
)
def test_arguments_are_read_as_they_come(arguments: Any, expected: tuple[Any, str | None]) -> None:
    broken = {"id": "a", "type": "function", "function": {"name": "f", "arguments": arguments}}
    (seen,) = API.read(whole({"tool_calls": [broken]})).calls
    assert (seen.arguments, seen.malformed) == expected


def test_reasoning_and_refusals_are_opaque_parts_in_their_place() -> None:
    message = {"content": "18", "reasoning_content": "hm", "refusal": "No.", "audio": {"id": "", "expires_at": 0}}
    assert API.read(whole(message)).parts == (
        OpaqueView("reasoning_content", "hm", "/choices/0/message/reasoning_content", returns=False),
        TextView("18", "/choices/0/message/content"),
        OpaqueView("refusal", "No.", "/choices/0/message/refusal", returns=False),
    )


def test_text_of_a_stream_is_joined_and_the_body_is_the_whole_one() -> None:
    seen = stream(
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"content": "18\u2028"}),
        chunk({"content": " °C"}),
        chunk({}, "stop"),
        chunk(None, usage=USAGE),
    )
    assert seen.text == "18\u2028 °C"
    assert seen.streamed
    assert seen.complete
    assert seen.usage == Usage(100, 20, 64, 32, 8)
    assert seen.body == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "18\u2028 °C", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": USAGE,
    }


@pytest.mark.parametrize("name", DETAILS)
def test_blocks_of_reasoning_differ_by_more_than_their_index(name: str) -> None:
    deltas, blocks = DETAILS[name]
    seen = stream(*(chunk({"reasoning_details": [delta]}) for delta in deltas), chunk({}, "stop"))
    assert seen.parts == (OpaqueView("reasoning_details", blocks, "/choices/0/message/reasoning_details"),)


def test_only_fields_that_a_dialect_accepts_must_be_sent_back() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "reasoning_opaque": "o",
        "padding": "abc",
        "provider_metadata": {"gateway": {}, "x": 1},
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "f", "arguments": "{}"},
                "extra_content": {"google": {"thought_signature": "s"}},
                "provider_metadata": {"y": 1},
            }
        ],
    }

    def returned(model: str) -> set[str]:
        body = {"model": model, "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
        seen = API.read(HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode()))
        assert [call.opaque for call in seen.calls] == [{"extra_content": {"google": {"thought_signature": "s"}}}]
        return {part.kind for part in seen.parts if isinstance(part, OpaqueView) and part.returns}

    assert returned("gpt-5") == {"reasoning_opaque"}
    assert returned("deepseek-v4-flash") == {"reasoning_opaque", "reasoning_content"}


def test_content_may_turn_from_text_into_parts_and_back() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    seen = stream(
        chunk({"content": "So. "}), chunk({"content": [thought]}), chunk({"content": "18"}), chunk({}, "stop")
    )
    assert [type(part).__name__ for part in seen.parts] == ["TextView", "OpaqueView", "TextView"]
    assert seen.text == "So. 18"


def test_a_stream_without_its_end_is_not_complete() -> None:
    seen = stream(chunk({"content": "18"}), chunk(piece(0, '{"ci', id="call_1", name="f")), done=False)
    assert not seen.complete
    assert seen.stop_reason == StopReason.UNKNOWN
    assert seen.text == "18"
    (cut,) = seen.calls
    assert cut.malformed == '{"ci'


@pytest.mark.parametrize(
    "event",
    [
        'event: error\ndata: {"error": {"message": "down", "type": "server_error", "code": null}}\n\n',
        'data: {"error": {"message": "down", "code": "server_error"}}\n\n',
        'data: {"object": "error", "message": "down", "type": "server_error", "code": null}\n\n',
        'event: error\ndata: {"message": "down", "code": "server_error"}\n\n',
    ],
)
def test_an_error_in_the_middle_of_a_stream_is_an_error(event: str) -> None:
    seen = stream(chunk({"content": "1"}), event, done=False)
    assert seen.error == ErrorView(200, "down", "server_error", 500)
    assert seen.stop_reason == StopReason.ERROR
    assert seen.text == "1"


def test_an_error_next_to_choices_is_an_error() -> None:
    seen = stream(chunk({"content": "1"}, "length"), chunk({}, error={"code": 400, "message": "limit"}))
    assert seen.error == ErrorView(200, "limit", "400", 400)
    assert seen.raw_stop_reason == "length"


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"error": {"message": "no", "type": "invalid_request", "code": None}}, ("no", "invalid_request", 400)),
        (429, {"error": {"message": "slow", "type": "tokens", "code": "rate_limit"}}, ("slow", "rate_limit", 429)),
        (200, {"error": {"message": "down", "code": 502}}, ("down", "502", 502)),
        (400, {"error": "no"}, ("no", None, 400)),
        (400, {"object": "error", "message": "no", "type": "invalid_call", "code": "3280"}, ("no", "3280", 400)),
        (200, {"object": "error", "message": "no", "code": 40303}, ("no", "40303", None)),
        (422, {"detail": "missing"}, ("missing", None, 422)),
        (200, {"choices": [{"error": {"message": "down", "code": 502}}]}, ("down", "502", 502)),
    ],
)  # fmt: skip
def test_an_error_is_read_in_every_shape(status: int, body: Any, expected: tuple[str, str | None, int | None]) -> None:
    seen = API.read(HttpResponse(status, {"content-type": "application/json"}, json.dumps(body).encode()))
    assert seen.error == ErrorView(status, *expected)
    assert seen.stop_reason == StopReason.ERROR


def test_an_error_without_json_is_an_error() -> None:
    seen = API.read(HttpResponse(502, {"content-type": "text/html"}, b"<h1>Bad gateway</h1>"))
    assert seen.error == ErrorView(502, "<h1>Bad gateway</h1>", meant=502)


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[]", b'{"choices": null}', b'{"content": []}'])
def test_a_body_of_something_else_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(WireError):
        API.read(HttpResponse(200, {"content-type": "application/json"}, body))


def test_an_event_of_something_else_is_a_wire_error() -> None:
    with pytest.raises(WireError):
        stream("data: [1]\n\n")
