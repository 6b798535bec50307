"""How Anthropic streams: what the reference server says, and what is read of streams that break off."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.anthropic import API
from harness.apis.anthropic.mock import spell
from harness.apis.eventstream import events, is_event_stream
from harness.apis.view import ErrorView, ModelStep, Provocation, ResponseView, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, StopReason, Usage
from tests.apis.differing import differing
from tests.apis.hardened import validator
from tests.apis.steps import steps
from tests.traffic import Recorded, needs_traffic, recorded

MODELS = ("claude-opus-5", "claude-sonnet-4-5")
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


def whole(step: ModelStep, seed: str = "seed", model: str = "claude-opus-5") -> ResponseView:
    body = API.build(step, seed, model, registry.api("anthropic").profile_for(model))
    return API.read(HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode()))


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
@given(steps(RAW, [*StopReason]), st.text(max_size=4), st.sampled_from(MODELS))
def test_a_stream_folds_to_the_whole_answer(step: ModelStep, seed: str, model: str) -> None:
    view = API.read(built(step, seed, model))
    assert (view.streamed, view.complete) == (True, True)
    assert replace(view, streamed=False) == whole(step, seed, model)


@settings(deadline=None)
@given(steps([RAW[0], RAW[1]], WORDS), st.text(max_size=4), st.sampled_from(MODELS))
def test_every_event_is_one_of_the_sdk_s(step: ModelStep, seed: str, model: str) -> None:
    types = pytest.importorskip("anthropic.types")
    check = validator(types.RawMessageStreamEvent)
    for event in known(built(step, seed, model).body):
        check.validate_json(json.dumps(event), strict=True)


def test_the_sdk_folds_it_to_the_same_message() -> None:
    anthropic = pytest.importorskip("anthropic")
    httpx2 = pytest.importorskip("httpx2")
    for seed in map(str, range(12)):
        response = built(CALL, seed)

        def handler(request: Any, response: HttpResponse = response) -> Any:
            return httpx2.Response(response.status, headers=dict(response.headers), content=response.body)

        with (
            httpx2.Client(transport=httpx2.MockTransport(handler)) as http,
            anthropic.Anthropic(api_key="none", http_client=http, max_retries=0) as client,
            client.messages.stream(model="m", max_tokens=1, messages=[{"role": "user", "content": "Hi"}]) as stream,
        ):
            message = stream.get_final_message()
        body = whole(CALL, seed).body
        assert isinstance(body, dict)
        assert message.to_dict(exclude_none=True, mode="json") == without_nulls(body)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return value


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


def test_what_a_block_will_hold_is_not_there_when_it_starts() -> None:
    starts = [event["content_block"] for event in known(built(CALL).body) if event["type"] == "content_block_start"]
    call_id = whole(CALL).calls[0].id
    assert starts == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": call_id, "name": "get_weather", "input": {}, "caller": {"type": "direct"}},
    ]


def test_pings_come_in_some_streams_and_only_behind_events_of_blocks() -> None:
    assert {any(event["type"] == "ping" for event in said) for said in variety(CALL)} == {True, False}
    before = {one["type"] for said in variety(CALL, 200) for one, other in pairwise(said) if other["type"] == "ping"}
    assert before == {"content_block_start", "content_block_delta", "content_block_stop"}


def test_unknown_events_come_where_they_are_asked_for_and_nowhere_else() -> None:
    provoked = replace(CALL, provocations=frozenset({Provocation.UNKNOWN_EVENTS}))
    assert {Counter(event["type"] for event in said)["of_another_day"] for said in variety(CALL)} == {0}
    for said in variety(provoked):
        kinds = [event["type"] for event in said if event["type"] != "ping"]
        places = [place for place, kind in enumerate(kinds) if kind == "of_another_day"]
        assert [kinds[place - 1] for place in places] == ["content_block_start", "content_block_stop"]
        assert [kinds[place + 1] for place in places] == ["content_block_delta", "message_delta"]


def test_a_call_without_arguments_has_one_empty_fragment_or_none() -> None:
    fragments = {
        tuple(event["delta"]["partial_json"] for event in said if event["type"] == "content_block_delta")
        for said in variety(ModelStep(calls=(("now", {}),)))
    }
    assert fragments == {(), ("",)}


def test_the_end_repeats_the_counts_of_the_input() -> None:
    shapes = {frozenset(event["usage"]) for said in variety(CALL) for event in said if event["type"] == "message_delta"}
    output = {"output_tokens", "output_tokens_details"}
    inputs = {"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"}
    assert shapes == {frozenset(output | inputs)}


def test_counts_that_the_end_does_not_repeat_stay_as_they_were_at_the_start() -> None:
    end: dict[str, Any] = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
    assert streamed(START, end, {"type": "message_stop"}).usage == Usage(7, 3)


def test_counts_of_the_output_are_not_known_at_the_start() -> None:
    for seed in map(str, range(20)):
        first = spelled(built(CALL, seed).body)[0]["message"]
        assert first["usage"]["output_tokens"] < (whole(CALL, seed).usage.output_tokens or 0)
        assert "output_tokens_details" not in first["usage"]
        assert (first["content"], first["stop_reason"]) == ([], None)


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


def test_objects_are_padded_with_blanks_and_text_is_utf_8() -> None:
    body = built(ModelStep(text="18 °C\u2028")).body
    padding = {len(found) for found in re.findall(rb"( *)}\n\n", body)}
    assert len(padding) > 3
    assert max(padding) <= 15
    assert "°".encode() in body
    assert "\u2028".encode() in body


def test_half_of_a_surrogate_pair_goes_out_as_an_escape() -> None:
    step = ModelStep(text="\ud83d", calls=(("f", {"a": "\ud83d"}),))
    assert replace(API.read(built(step)), streamed=False) == whole(step)


def test_a_stream_is_a_function_of_its_seed() -> None:
    assert built(CALL) == built(CALL)
    assert built(CALL).body != built(CALL, "another").body


def test_a_stream_cut_anywhere_is_read_up_to_there_and_not_complete() -> None:
    body = built(CALL).body
    end = body.index(b"message_stop")
    for kept in range(len(body)):
        view = API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body[:kept]))
        assert not view.complete
        assert view.error is None
        if kept < end:
            assert view.text in ("I look.", *("I look."[:length] for length in range(7)))
    assert API.read(built(CALL)).complete


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_bytes_that_are_no_stream_are_read_or_refused(noise: bytes, place: int) -> None:
    body = built(CALL).body
    for broken in (noise, body[:place] + noise + body[place:]):
        try:
            view = API.read(HttpResponse(200, {"content-type": "text/event-stream"}, broken))
        except WireError:
            continue
        assert view.streamed


@pytest.mark.parametrize("name", [b"", b"event: data\n"])
def test_the_end_of_another_api_s_streams_is_skipped(name: bytes) -> None:
    body = built(CALL).body + name + b"data: [DONE]\n\n"
    assert API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body)) == API.read(built(CALL))


def test_null_says_nothing_new() -> None:
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


def test_fields_of_the_message_beside_the_delta_are_kept() -> None:
    edits = {"applied_edits": [{"type": "clear_tool_uses_20250919"}]}
    view = streamed(START, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "context_management": edits})
    assert isinstance(view.body, dict)
    assert view.body["context_management"] == edits


def test_an_error_without_a_type_is_an_error() -> None:
    view = streamed(START, {"error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert view.error == ErrorView(200, "Overloaded", "overloaded_error", 529)
    assert (view.stop_reason, view.complete) == (StopReason.ERROR, False)


def test_a_stream_cut_before_it_began_is_empty() -> None:
    for view in (streamed(), streamed({"type": "ping"})):
        assert (view.parts, view.complete, view.error) == ((), False, None)


def streams() -> list[Recorded]:
    exchanges = recorded("anthropic-messages")
    return [e for e in exchanges if is_event_stream(e.response.headers.get("content-type", ""), e.response.body)]


def outline(body: bytes) -> list[Any]:
    """What a stream says, wherever its deltas are cut: those of a block joined by kind, JSON read, nothing empty."""
    outlined: list[Any] = []
    for event in known(body):
        if event["type"] != "content_block_delta":
            outlined.append(event)
            continue
        delta = [event["delta"].pop("type"), *event["delta"].values()]
        kind = delta[0]
        if kind != "citations_delta" and isinstance(outlined[-1], list) and outlined[-1][0] == kind:
            outlined[-1][1] += delta[1]
        else:
            outlined.append(delta)
    return [_read(said) for said in outlined if said != ["input_json_delta", ""]]


def _read(event: Any) -> Any:
    if isinstance(event, list):
        return [event[0], json.loads(event[1])] if event[0] == "input_json_delta" else event
    return [event["type"], event]


@needs_traffic
def test_a_recorded_stream_that_is_folded_and_spelled_again_folds_to_the_same_body() -> None:
    assert len(streams()) >= 37
    for exchange in streams():
        view = API.read(exchange.response)
        assert isinstance(view.body, dict)
        for seed in ("a", "b", "c"):
            body = spell(view.body, seed)
            again = API.read(HttpResponse(200, {"content-type": "text/event-stream"}, body))
            assert again == view


@needs_traffic
def test_what_a_recorded_stream_loses_when_it_is_spelled_again() -> None:
    """Nothing but counts of the start, which the end outdates."""
    lost: set[str] = set()
    for exchange in streams():
        body = API.read(exchange.response).body
        assert isinstance(body, dict)
        for seed in ("a", "b", "c"):
            lost.update(differing(outline(exchange.response.body), outline(spell(body, seed))))
    assert lost == {".message.usage.input_tokens", ".message.usage.output_tokens"}


@needs_traffic
def test_a_recorded_stream_that_is_cut_is_not_complete() -> None:
    for number, exchange in enumerate(streams()):
        end = exchange.response.body.index(b"event: message_stop")
        for kept in Random(number).sample(range(1, end), 50):  # noqa: S311 - cuts, no secrets
            view = API.read(replace(exchange.response, body=exchange.response.body[:kept]))
            assert (view.streamed, view.complete, view.error) == (True, False, None)
