"""How Anthropic streams: what the reference server says, and what is read of streams that break off."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.anthropic import API
from harness.apis.eventstream import events
from harness.apis.view import ModelStep, ResponseView
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason, Usage
from harness.scenarios.schema import Provocation
from tests.apis.samples import steps

RAW: list[JSON] = [
    {"type": "redacted_thinking", "data": "c2VjcmV0"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "18 °C"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    {"type": "text", "text": "It is 18 °C.", "citations": [{"type": "memo", "n": 1}, {"type": "memo", "n": 2}]},
]
WORDS = [
    StopReason.END_TURN,
    StopReason.TOOL_USE,
    StopReason.MAX_TOKENS,
    StopReason.STOP_SEQUENCE,
    StopReason.REFUSAL,
    StopReason.PAUSE,
]
STREAMED = API.view(
    HttpRequest(
        "POST", "/v1/messages", {}, b'{"model": "claude-opus-5", "max_tokens": 1, "messages": [], "stream": true}'
    )
)
CALL = ModelStep(text="I look.", thinking="Hm.", calls=(("get_weather", {"city": "Paris", "at": 'the "station"'}),))


def built(step: ModelStep, seed: str = "seed", model: str = "claude-opus-5") -> HttpResponse:
    return API.build_stream(step, seed, model, registry.api("anthropic").profile_for(model), STREAMED)


def spelled(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events(body)]


def known(body: bytes) -> list[dict[str, Any]]:
    return [event for event in spelled(body) if event["type"] not in ("ping", "of_another_day")]


def variety(step: ModelStep, number: int = 60) -> Iterator[list[dict[str, Any]]]:
    for seed in range(number):
        yield spelled(built(step, str(seed)).body)


def streamed(*said: dict[str, Any]) -> ResponseView:
    body = b"".join(b"event: %s\ndata: %s\n\n" % (str(e.get("type")).encode(), json.dumps(e).encode()) for e in said)
    return API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body))


START = {"type": "message_start", "message": {"model": "m", "content": [], "usage": {"input_tokens": 7}}}


@settings(deadline=None)
@given(steps(RAW, WORDS), st.text(max_size=4))
def test_events_come_in_their_order(step: ModelStep, seed: str) -> None:
    said = known(built(step, seed).body)
    kinds = [event["type"].removeprefix("content_") for event in said]
    blocks = "".join(f"{kind} " for kind in kinds[1:-2])
    assert (kinds[0], kinds[-2:]) == ("message_start", ["message_delta", "message_stop"])
    assert re.fullmatch("(block_start (block_delta )*block_stop )*", blocks)
    indices = [event["index"] for event in said[1:-2]]
    assert indices == sorted(indices)
    for one, other in pairwise(said):
        delta = other.get("delta", {})
        if delta.get("type") == "input_json_delta" and one["type"] == "content_block_start":
            assert delta["partial_json"] == ""
        if one.get("delta", {}).get("type") == "signature_delta":
            assert other["type"] == "content_block_stop"


def test_some_streams_have_pings_after_events_of_blocks() -> None:
    assert {any(event["type"] == "ping" for event in said) for said in variety(CALL)} == {True, False}
    before = {one["type"] for said in variety(CALL, 200) for one, other in pairwise(said) if other["type"] == "ping"}
    assert before == {"content_block_start", "content_block_delta", "content_block_stop"}


def test_unknown_events_are_sent_only_if_provoked() -> None:
    provoked = replace(CALL, provocations=frozenset({Provocation.UNKNOWN_EVENTS}))
    assert {Counter(event["type"] for event in said)["of_another_day"] for said in variety(CALL)} == {0}
    for said in variety(provoked):
        kinds = [event["type"] for event in said if event["type"] != "ping"]
        places = [place for place, kind in enumerate(kinds) if kind == "of_another_day"]
        assert [kinds[place - 1] for place in places] == ["content_block_start", "content_block_stop"]
        assert [kinds[place + 1] for place in places] == ["content_block_delta", "message_delta"]


def test_fragments_fall_anywhere_in_arguments_and_text() -> None:
    arguments: dict[str, JSON] = {"a": 'é"\n', "b": "👨‍👩‍👧"}
    step = ModelStep(text="👨‍👩‍👧 family", calls=(("f", arguments),))
    pieces: set[str] = set()
    for said in variety(step, 200):
        deltas = [event["delta"] for event in said if event["type"] == "content_block_delta"]
        pieces.update(delta.get("partial_json") or delta.get("text") for delta in deltas)
    ends = {piece[-1] for piece in pieces if piece}
    assert "\\" in ends  # an escape in two
    assert "\u200d" in ends  # one picture of several code points in two
    assert any(re.search(r"\\u[0-9a-f]{0,3}$", piece) for piece in pieces if piece)
    assert any("é" in piece for piece in pieces if piece)


@pytest.mark.parametrize("name", [b"", b"event: data\n"])
def test_the_end_of_another_api_s_streams_is_skipped(name: bytes) -> None:
    body = built(CALL).body + name + b"data: [DONE]\n\n"
    assert API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body)) == API.read(built(CALL))


def test_null_changes_nothing() -> None:
    view = streamed(
        {**START, "message": {**START["message"], "container": {"id": "c"}}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "container": None},
            "usage": {"input_tokens": None, "output_tokens": 3, "cache_read_input_tokens": None},
        },
        {"type": "message_stop"},
    )
    assert view.usage == Usage(7, 3)
    assert isinstance(view.body, dict)
    assert view.body["container"] == {"id": "c"}


def test_fields_next_to_the_delta_are_kept() -> None:
    edits = {"applied_edits": [{"type": "clear_tool_uses_20250919"}]}
    view = streamed(START, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "context_management": edits})
    assert isinstance(view.body, dict)
    assert view.body["context_management"] == edits
