"""Answers that reach their bound in the middle of the last call: what the APIs send, and that nobody takes it for a
call."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.eventstream import events
from harness.apis.view import ModelStep, ResponseView
from harness.equivalence.view_differences import alike
from harness.model.http import HttpResponse
from harness.model.messages import StopReason
from tests.apis.samples import STREAMS, steps, streamed, whole

WEATHER: tuple[str, dict[str, Any]] = ("get_weather", {"city": "Paris", "unit": "celsius"})
CUT = ModelStep(text="I look.", calls=(("now", {}), WEATHER), truncated=True)
CALLING = (
    steps([None], [StopReason.END_TURN])
    .filter(lambda step: bool(step.calls))
    .map(lambda step: replace(step, raw=(), stop=None, refusal=None))
)
SEEDS = [str(seed) for seed in range(30)]


def read(api: str, response: HttpResponse) -> ResponseView:
    return registry.api(api).read(response)


@settings(deadline=None)
@given(CALLING, st.text(max_size=3))
@pytest.mark.parametrize("form", STREAMS)
def test_the_last_call_is_malformed_whole_and_streamed(form: str, step: ModelStep, seed: str) -> None:
    request = STREAMS[form]
    cut = replace(step, truncated=True)
    body, stream = (
        read(request.api, response) for response in (whole(request.api, cut, seed), streamed(request, cut, seed))
    )
    for view in (body, stream):
        assert (view.stop_reason, view.complete, view.error) == (StopReason.MAX_TOKENS, True, None)
        valid = [(call.name, call.arguments) for call in view.calls if call.malformed is None]
        assert [name for name, _ in valid] == [name for name, _ in step.calls[:-1]]
        assert all(isinstance(arguments, dict) for _, arguments in valid)
    assert alike(stream.calls, body.calls)


def test_anthropic_streams_json_that_parses_and_stops_the_block() -> None:
    for seed in SEEDS:
        sent: list[Any] = [json.loads(event.data) for event in events(streamed(STREAMS["anthropic"], CUT, seed).body)]
        last = max(event["index"] for event in sent if "index" in event)
        pieces = [
            event["delta"]["partial_json"]
            for event in sent
            if event["type"] == "content_block_delta" and event["index"] == last
        ]
        assert json.loads("".join(pieces)) == {"city": "Paris"}
        assert {"type": "content_block_stop", "index": last} in sent


def test_a_call_that_anthropic_leaves_open_is_malformed() -> None:
    """As with `eager_input_streaming` (anthropic-broken-arguments)."""
    said: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"content": []}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "a", "name": "f", "input": {}},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a": "b'}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in said)
    (call,) = read("anthropic", HttpResponse(200, {"content-type": "text/event-stream"}, body)).calls
    assert (call.arguments, call.malformed) == (None, '{"a": "b')


@pytest.mark.parametrize("word", ["max_tokens", "model_context_window_exceeded"])
def test_the_last_block_of_anthropic_at_its_bound_is_a_call_that_may_be_cut(word: str) -> None:
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {"a": 1}}
    for content, malformed in (
        ([call, {**call, "id": "b"}], [None, '{"a": 1}']),
        ([call, {"type": "text", "text": "And"}], [None]),
    ):
        body = json.dumps({"type": "message", "content": content, "stop_reason": word}).encode()
        assert [call.malformed for call in read("anthropic", HttpResponse(200, {}, body)).calls] == malformed


@pytest.mark.parametrize(
    ("arguments", "malformed"), [("", ""), ("{", "{"), ("{}", None), ('{"a": 1}', None), (None, "")]
)
def test_chat_at_its_bound_without_any_argument_of_the_last_call(arguments: str | None, malformed: str | None) -> None:
    first = {"id": "a", "type": "function", "function": {"name": "now", "arguments": ""}}
    last = {"id": "b", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [first, last]}
    body = {"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
    one, other = read("openai-chat", HttpResponse(200, {}, json.dumps(body).encode())).calls
    assert (one.arguments, one.malformed) == ({}, None)
    assert other.malformed == malformed


BROKEN: dict[str, dict[str, Any]] = {
    "anthropic": {"content": [{"type": "tool_use", "id": "a", "name": "f", "input": '{"a'}], "stop_reason": "tool_use"},
    "openai-chat": {
        "choices": [
            {
                "message": {"tool_calls": [{"id": "a", "function": {"name": "f", "arguments": '{"a'}}]},
                "finish_reason": "tool_calls",
            }
        ]
    },
    "openai-responses": {
        "status": "completed",
        "output": [{"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"a'}],
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": "a"}}]}, "finishReason": "STOP"}]
    },
}


@pytest.mark.parametrize("api", BROKEN)
def test_arguments_that_are_no_object_are_a_malformed_call_for_any_stop_reason(api: str) -> None:
    def read_as(body: Any) -> StopReason:
        return read(api, HttpResponse(200, {}, json.dumps(body).encode())).stop_reason

    assert read_as(BROKEN[api]) is StopReason.MALFORMED_CALL
    whole_ones = json.loads(json.dumps(BROKEN[api]).replace('"{\\"a"', '"{}"').replace('"args": "a"', '"args": {}'))
    if api == "anthropic":
        whole_ones["content"][0]["input"] = {}
    assert read_as(whole_ones) is StopReason.TOOL_USE


def test_a_custom_tool_takes_any_text() -> None:
    call = {"id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
    body = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    assert read("openai-chat", HttpResponse(200, {}, json.dumps(body).encode())).stop_reason is StopReason.TOOL_USE
