"""What a detail says of one request and its answer, at both ends."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.apis import registry
from harness.checks.gateway_exchange import ApiPair, DetailOutcome, DetailResult, GatewayExchange, client_side, side
from harness.checks.gateway_findings import DETAILS
from harness.model.http import EXHAUSTED, HttpRequest, HttpResponse
from harness.results import Exchange, Severity

CHAT = registry.api("openai-chat")
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def outcome(detail: str, asked: Exchange, arrived: Exchange) -> list[DetailResult]:
    exchange = GatewayExchange(ApiPair(CHAT, CHAT), 0, side(CHAT, asked), (side(CHAT, arrived),))
    return [each for known in DETAILS if known.id == detail for each in known.check(exchange)]


def raw_exchange(said: str | None = None, /, *, made_up: bool = False, **body: Any) -> Exchange:
    chat = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **body}
    request = HttpRequest("POST", "http://x/v1/chat/completions", {}, json.dumps(chat).encode())
    if said is None:
        return Exchange(request, None)
    error = json.dumps({"error": {"message": said}}).encode()
    return Exchange(request, HttpResponse(400, {EXHAUSTED: "1"} if made_up else {}, error))


@pytest.mark.parametrize(
    ("given", "lost"),
    [
        ({"tools": [TOOL], "reasoning_effort": "none"}, False),  # which a model wants that takes no tools otherwise
        ({"tools": [TOOL], "reasoning_effort": "high"}, True),
        ({"reasoning_effort": "none"}, True),
    ],
)
def test_reasoning_disabled_for_tools_is_no_made_up_setting(given: dict[str, Any], lost: bool) -> None:
    assert bool(outcome("gateway-thinking", raw_exchange(), raw_exchange(**given))) is lost


def test_error_text_is_found_within_other_words_and_escapes() -> None:
    theirs = "no 'x' in \"y\""
    for text in (theirs, f"upstream: {theirs}", "b'no \\'x\\' in \"y\"'", json.dumps({"message": theirs})):
        assert [each.outcome for each in outcome("gateway-error-text", raw_exchange(text), raw_exchange(theirs))] != [
            DetailOutcome.LOST
        ]
    assert [
        each.outcome for each in outcome("gateway-error-text", raw_exchange("it failed"), raw_exchange(theirs))
    ] == [DetailOutcome.LOST]


@pytest.mark.parametrize(("failed", "lost"), [("it is down", True), (None, False)])
def test_a_success_after_the_last_attempt_failed_is_a_loss(failed: str | None, lost: bool) -> None:
    """The harness has no answer left for a gateway that asks once more: the attempt before that one counts."""
    asked = raw_exchange()
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]}
    whole = replace(asked, response=HttpResponse(200, {}, json.dumps(answer).encode()))
    attempts = (raw_exchange(failed) if failed else whole, raw_exchange("nothing is left", made_up=True))
    exchange = GatewayExchange(ApiPair(CHAT, CHAT), 0, side(CHAT, whole), tuple(side(CHAT, each) for each in attempts))

    found = [each for known in DETAILS if known.id == "gateway-error" for each in known.check(exchange)]

    assert [(each.outcome, each.severity) for each in found] == ([(DetailOutcome.LOST, Severity.ERROR)] if lost else [])


@pytest.mark.parametrize(
    ("start", "content", "lost"),
    [
        (b"{", "Hello.", []),
        (b'{"timing": NaN, ', "Hello.", ["gateway-answer"]),
        (b'{"timing": NaN, ', "Hell", ["gateway-answer-text", "gateway-answer"]),
    ],
)
def test_the_rest_of_an_answer_that_is_no_json_is_judged(start: bytes, content: str, lost: list[str]) -> None:
    asked = raw_exchange()
    choices = [{"index": 0, "message": {"role": "assistant", "content": "Hello."}, "finish_reason": "stop"}]
    body = json.dumps({"id": "c", "model": "m", "choices": choices}).encode()
    changed = body.replace(b"Hello.", content.encode()).replace(b"{", start, 1)
    ours, theirs = (replace(asked, response=HttpResponse(200, {}, each)) for each in (changed, body))
    exchange = GatewayExchange(ApiPair(CHAT, CHAT), 0, client_side(CHAT, ours), (side(CHAT, theirs),))

    found = [known.id for known in DETAILS for each in known.check(exchange) if each.outcome is DetailOutcome.LOST]

    assert found == lost


_THOUGHT = "They ask for the weather, so I look it up."
_MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "usage": {}}
_TEXT = {"type": "text", "text": "It is sunny."}
_THINKING = {"type": "thinking", "thinking": _THOUGHT, "signature": "c2lnbmF0dXJlIG9mIHRoaXM="}
_SEARCH = {"type": "server_tool_use", "id": "srvtoolu_01", "name": "web_search", "input": {"query": "weather"}}


def _messages(*content: Any) -> Any:
    return {**_MESSAGE, "content": content}


def _chat(**message: Any) -> Any:
    arrived = {"role": "assistant", "content": "It is sunny.", **message}
    return {"id": "c", "model": "m", "choices": [{"index": 0, "message": arrived, "finish_reason": "stop"}]}


def _responses(*output: Any) -> Any:
    text = {"type": "output_text", "text": "It is sunny.", "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    return {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [*output, message]}


def _gemini(*parts: Any) -> Any:
    content = {"role": "model", "parts": [*parts, {"text": "It is sunny."}]}
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


@pytest.mark.parametrize(
    ("upstream", "theirs", "client", "ours", "unsent"),
    [
        ("anthropic", _messages(_THINKING, _TEXT), "openai-chat", _chat(reasoning_content=_THOUGHT), []),
        ("anthropic", _messages(_THINKING, _TEXT), "openai-chat", _chat(reasoning_content="I am a gateway."), [0]),
        ("openai-chat", _chat(reasoning_content=_THOUGHT), "anthropic", _messages(_THINKING, _TEXT), []),
        ("openai-chat", _chat(), "anthropic", _messages(_THINKING, _TEXT), [0]),
        ("openai-chat", _chat(), "anthropic", _messages(_SEARCH, _TEXT), [0]),
        ("anthropic", _messages(_SEARCH, _TEXT), "anthropic", _messages(_SEARCH, _TEXT), []),
        ("anthropic", _messages(_THINKING, _TEXT), "anthropic", _messages(_THINKING, _SEARCH, _TEXT), [1]),
        # an empty reasoning item says nothing, and what is encrypted may be the upstream's state in another form
        (
            "openai-chat",
            _chat(),
            "openai-responses",
            _responses({"type": "reasoning", "id": "rs_1", "summary": []}),
            [],
        ),
        (
            "anthropic",
            _messages(_THINKING, _TEXT),
            "openai-responses",
            _responses({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z2F0ZXdheQ=="}),
            [],
        ),
        (
            "openai-chat",
            _chat(),
            "openai-responses",
            _responses({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
            [0],
        ),
        # a gateway's stand-in for the signature, and fields of a message that no API has, are no part of the answer
        ("openai-chat", _chat(), "gemini", _gemini({"text": "", "thoughtSignature": "c2tpcA=="}), []),
        ("openai-chat", _chat(), "gemini", _gemini({"text": _THOUGHT, "thought": True}), [0]),
        ("anthropic", _messages(_TEXT), "openai-chat", _chat(annotations=[{"type": "gateway"}], provider="x"), []),
    ],
)
def test_parts_that_the_upstream_has_not_sent(
    upstream: str, theirs: Any, client: str, ours: Any, unsent: list[int]
) -> None:
    way, asked = ApiPair(registry.api(client), registry.api(upstream)), raw_exchange()
    ends = [
        side(api, Exchange(asked.request, HttpResponse(200, {}, json.dumps(body).encode())))
        for api, body in ((way.client, ours), (way.upstream, theirs))
    ]
    exchange = GatewayExchange(way, 0, ends[0], (ends[1],))

    found = [each for known in DETAILS if known.id == "gateway-answer-unsent" for each in known.check(exchange)]

    assert ends[0].response is not None
    assert [each.pointer for each in found] == [ends[0].response.parts[at].pointer for at in unsent]
