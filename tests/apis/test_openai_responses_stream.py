"""OpenAI Responses: answers as streams, and streams folded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.eventstream import events
from harness.apis.openai_responses import API
from harness.apis.openai_responses.mock import streamed
from harness.apis.openai_responses.responses import DIALECTS
from harness.apis.profiles import Profile
from harness.apis.view import ModelStep, OpaqueView, Provocation, RequestView, ResponseView, WireError
from harness.equivalence.view_differences import alike
from harness.model.http import HttpResponse
from harness.model.messages import StopReason
from tests.apis.steps import steps
from tests.traffic import Recorded, needs_traffic, recorded

MODEL = "gpt-6-sol"
PROFILE = registry.api("openai-responses").profile_for(MODEL)
REQUEST = RequestView("openai-responses", MODEL, (), (), stream=True)
CONVERSATIONS = ("openai-responses", "openai-compat-responses")
STREAM_TYPE = {"content-type": "text/event-stream; charset=utf-8"}

TWO_CALLS = ModelStep(text="Let me see.", calls=(("get_weather", {"city": "Zürich"}), ("now", {})))
SEEDS = [str(seed) for seed in range(20)]

_RAW: list[Any] = [
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_9", "name": "shell", "input": "ls -l"},
    {"type": "brand_new", "content": [{"type": "text", "text": "x"}]},
    {"type": "reasoning", "id": "rs_9", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm, 東京."}]},
]
STEPS = steps(_RAW, [StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.ERROR, StopReason.END_TURN])


def whole(step: ModelStep, seed: str = "a", profile: Profile = PROFILE) -> ResponseView:
    body = json.dumps(API.build(step, seed, MODEL, profile)).encode()
    return API.read(HttpResponse(200, {"content-type": "application/json"}, body))


def stream(step: ModelStep, seed: str = "a", profile: Profile = PROFILE) -> HttpResponse:
    return API.build_stream(step, seed, MODEL, profile, REQUEST)


def payloads(response: HttpResponse) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events(response.body) if event.data != "[DONE]"]


def of(response: HttpResponse, kind: str) -> list[dict[str, Any]]:
    return [payload for payload in payloads(response) if payload["type"] == f"response.{kind}"]


def written(*sent: dict[str, Any]) -> ResponseView:
    body = b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in sent)
    return API.read(HttpResponse(200, STREAM_TYPE, body))


@given(STEPS, st.text(max_size=3), st.sampled_from([None, *DIALECTS]))
def test_a_stream_folds_to_what_the_whole_body_says(step: ModelStep, seed: str, dialect: str | None) -> None:
    profile = replace(PROFILE, dialect=dialect)
    expected, folded = whole(step, seed, profile), API.read(stream(step, seed, profile))
    assert folded.complete
    assert folded.body == expected.body
    assert alike(replace(expected, streamed=True), folded)


@given(STEPS, st.text(max_size=3))
def test_deltas_alone_say_what_the_whole_body_says(step: ModelStep, seed: str) -> None:
    """Without any event that repeats what came in pieces; only a call without arguments may have come without one."""
    kept = [one for one in payloads(stream(step, seed)) if one["type"].endswith((".added", ".delta", ".created"))]
    seen, expected = written(*kept), whole(step, seed)
    assert not seen.complete
    assert seen.text == expected.text
    for one, other in zip(seen.calls, expected.calls, strict=True):
        assert (one.id, one.name, one.item_id) == (other.id, other.name, other.item_id)
        assert other.arguments in (one.arguments, {}) or one.malformed == other.malformed


@given(STEPS)
def test_a_stream_is_a_function_of_its_seed(step: ModelStep) -> None:
    assert stream(step, "a") == stream(step, "a")
    assert stream(step, "a") != stream(step, "b")


@settings(deadline=None)  # the SDK builds its types when they are first used
@given(steps([_RAW[0]], [StopReason.MAX_TOKENS, StopReason.REFUSAL, StopReason.ERROR]))
def test_every_event_is_the_sdks(step: ModelStep) -> None:
    types = pytest.importorskip("openai.types.responses")
    pydantic = pytest.importorskip("pydantic")
    adapter = pydantic.TypeAdapter(types.ResponseStreamEvent)
    for index, event in enumerate(events(stream(step).body)):
        payload = json.loads(event.data)
        parsed = adapter.validate_python(payload)
        assert type(parsed).model_fields["type"].annotation.__args__ == (payload["type"],)
        assert event.name == payload["type"]
        assert payload["sequence_number"] == index
        assert set(parsed.model_extra or ()) <= {"obfuscation"}


def test_the_life_of_an_item() -> None:
    kinds = [one["type"].removeprefix("response.") for one in payloads(stream(ModelStep(text="Hi.", thinking="Hm.")))]
    assert [kind for one, kind in enumerate(kinds) if kind != kinds[one - 1]] == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]


def test_items_begin_empty_and_reasoning_with_other_state_than_it_ends() -> None:
    sent = stream(replace(TWO_CALLS, thinking="Hm."))
    reasoning, message, *calls = (one["item"] for one in of(sent, "output_item.added"))
    assert (reasoning["summary"], message["content"]) == ([], [])
    assert [(call["arguments"], call["status"]) for call in calls] == [("", "in_progress")] * 2
    assert all(call["call_id"] and call["name"] for call in calls)
    (ended, *_) = (one["item"] for one in of(sent, "output_item.done"))
    assert ended["encrypted_content"] != reasoning["encrypted_content"]
    (thought,) = (part.raw for part in API.read(sent).parts if isinstance(part, OpaqueView))
    assert thought == ended


def test_several_calls_are_open_at_once_where_it_is_asked_for_and_nowhere_else() -> None:
    def is_woven(step: ModelStep, seed: str) -> bool:
        indices = [one["output_index"] for one in payloads(stream(step, seed)) if one.get("output_index", 0) > 0]
        return sum(one != other for one, other in pairwise(indices)) > 2

    long = ModelStep(text="Hm.", calls=(("now", {"zone": "Europe/Zurich"}), ("now", {"zone": "Europe/Paris"})))
    provoked = replace(long, provocations=frozenset({Provocation.INTERLEAVED_CALLS}))
    assert {is_woven(long, seed) for seed in SEEDS} == {False}
    assert {is_woven(provoked, seed) for seed in SEEDS} == {True}


def test_a_call_without_arguments_has_its_pieces_too() -> None:
    for seed in SEEDS:
        sent = stream(ModelStep(calls=(("now", {}),)), seed)
        assert "".join(one["delta"] for one in of(sent, "function_call_arguments.delta")) == "{}"
        assert of(sent, "function_call_arguments.done")[0]["arguments"] == "{}"


def test_a_call_that_is_cut_off_is_never_said_to_be_done() -> None:
    statuses: set[str] = set()
    for seed in SEEDS:
        sent = stream(ModelStep(calls=(("now", {}), ("now", {"zone": "UTC"})), truncated=True), seed)
        assert [one["output_index"] for one in of(sent, "function_call_arguments.done")] == [0]
        whole, cut = (one["item"]["status"] for one in of(sent, "output_item.done"))
        assert whole == "completed"
        statuses.add(cut)
        (ended,) = of(sent, "incomplete")
        assert ended["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert statuses == {"incomplete", "in_progress"}


def test_an_answer_that_pauses_has_no_end() -> None:
    assert not API.read(stream(ModelStep(text="a", stop=StopReason.PAUSE))).complete


@given(STEPS, st.data())
def test_a_stream_that_breaks_off_is_not_complete(step: ModelStep, data: st.DataObject) -> None:
    sent = stream(step).body
    ended = sent.rindex(b"event: ")
    cut = data.draw(st.integers(0, len(sent) - 1))
    seen = API.read(HttpResponse(200, STREAM_TYPE, sent[:cut]))
    assert not seen.complete
    assert seen.stop_reason is StopReason.UNKNOWN
    names = [one.name for one in whole(step).calls]
    assert [call.name for call in seen.calls] == names[: len(seen.calls)]
    assert cut < ended or len(seen.calls) == len(names)


# folding


def item(index: int, arguments: str, **fields: Any) -> dict[str, Any]:
    call = {"type": "function_call", "id": f"fc_{index}", "call_id": f"call_{index}", "name": "f"}
    return {**call, "arguments": arguments, "status": "completed" if arguments else "in_progress", **fields}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def completed(*output: dict[str, Any]) -> dict[str, Any]:
    return event("completed", response={"status": "completed", "output": list(output)})


def test_the_done_event_of_an_item_outranks_the_last_event() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    seen = written(
        event("output_item.added", output_index=0, item={**thought, "encrypted_content": "a"}),
        event("output_item.done", output_index=0, item={**thought, "encrypted_content": "b"}),
        event("output_item.done", output_index=1, item=item(1, '{"a":1}')),
        completed({**thought, "encrypted_content": "c"}, item(1, '{"a":2}'), item(2, '{"a":3}')),
    )
    assert isinstance(seen.parts[0], OpaqueView)
    assert seen.parts[0].raw == {**thought, "encrypted_content": "b"}
    assert [call.arguments for call in seen.calls] == [{"a": 1}, {"a": 3}]


@pytest.mark.parametrize("place", [{"output_index": 0}, {}])
def test_items_that_share_an_index_or_have_none_are_told_apart(place: dict[str, int]) -> None:
    delta = "function_call_arguments.delta"
    seen = written(
        event("output_item.added", item=item(1, ""), **place),
        event("output_item.added", item=item(2, ""), **place),
        event(delta, item_id="fc_1", delta='{"a":', **place),
        event(delta, item_id="fc_2", delta='{"b":2}', **place),
        event(delta, item_id="fc_1", delta="1}", **place),
        event("output_item.done", item=item(1, '{"a":1}'), **place),
        completed(),
    )
    assert [(call.id, call.arguments) for call in seen.calls] == [("call_1", {"a": 1}), ("call_2", {"b": 2})]


def test_ids_that_change_from_event_to_event_do_not_matter_where_there_is_an_index() -> None:
    seen = written(
        event("output_item.added", output_index=0, item=item(1, "", id="x")),
        event("function_call_arguments.delta", output_index=0, item_id="y", delta='{"a":1}'),
        event("output_item.done", output_index=0, item=item(1, '{"a":1}', id="z")),
        completed(),
    )
    assert [(call.item_id, call.arguments) for call in seen.calls] == [("z", {"a": 1})]


def test_items_that_begin_out_of_order_stand_in_the_order_of_the_output() -> None:
    seen = written(
        event("output_item.added", output_index=1, item=item(2, "{}")),
        event("output_item.added", output_index=0, item=item(1, "{}")),
        completed(),
    )
    assert [call.id for call in seen.calls] == ["call_1", "call_2"]


_ANY: st.SearchStrategy[Any] = st.sampled_from([None, True, -7, 0, 1, 1.5, "", "x", "{}", [], ["x"], {}, {"text": 1}])
_ITEM = st.dictionaries(
    st.sampled_from(["id", "content", "summary", "arguments", "call_id", "name", "status"]), _ANY, max_size=4
)
_EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from(["error", "", *(event["type"] for event in payloads(stream(TWO_CALLS)))]) | _ANY},
    optional={
        "item": st.builds(
            lambda kind, item: {"type": kind, **item}, st.sampled_from(["message", "function_call"]), _ITEM
        ),
        "response": st.dictionaries(st.sampled_from(["output", "status", "error", "usage"]), _ANY) | _ANY,
        **dict.fromkeys(("output_index", "content_index", "summary_index", "item_id", "part", "delta", "text"), _ANY),
    },
)


@given(st.lists(_EVENT, max_size=6))
def test_any_events_are_read_or_said_to_be_none_of_a_response(sent: list[dict[str, Any]]) -> None:
    body = b"".join(b"data: %s\n\n" % json.dumps(one).encode() for one in sent)
    with suppress(WireError):
        assert API.read(HttpResponse(200, STREAM_TYPE, body)).streamed


@given(st.binary() | st.lists(st.sampled_from([b"data: ", b"{", b"}", b'"', b"\r", b"\n", b"\xff"])).map(b"".join))
def test_any_bytes_are_read_or_said_to_be_none_of_a_response(body: bytes) -> None:
    with suppress(WireError):
        assert API.read(HttpResponse(200, STREAM_TYPE, body)).streamed


# dialects


def spoken(name: str, seed: str = "a") -> HttpResponse:
    return stream(TWO_CALLS, seed, replace(PROFILE, dialect=name))


def test_ids_can_be_used_again_in_every_response() -> None:
    for seed in ("a", "b"):
        assert [call.id for call in API.read(spoken("reused-ids", seed)).calls] == ["call_0", "call_1"]


def test_events_can_do_without_numbers() -> None:
    assert not any("sequence_number" in one for one in payloads(spoken("no-numbers")))


def test_the_last_event_can_leave_the_items_out() -> None:
    assert payloads(spoken("bare-end"))[-1]["response"]["output"] == []
    assert len(API.read(spoken("bare-end")).calls) == 2


def test_the_sentinel_of_chat_can_come_last() -> None:
    assert spoken("sentinel").body.endswith(b"\n\ndata: [DONE]\n\n")


# traffic


def streams() -> list[Recorded]:
    found = [item for item in recorded(*CONVERSATIONS) if API.read(item.response).streamed]
    assert len(found) > 50
    return found


@needs_traffic
def test_a_recorded_stream_that_is_written_again_folds_to_the_same_body() -> None:
    for one in streams():
        body: Any = API.read(one.response).body
        assert API.read(HttpResponse(200, STREAM_TYPE, streamed(body, one.path))).body == body, one.path


@needs_traffic
def test_the_items_of_a_recorded_stream_are_those_of_its_done_events() -> None:
    for one in streams():
        body: Any = API.read(one.response).body
        assert body["output"] == [event["item"] for event in of(one.response, "output_item.done")], one.path


def _paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield f"{path}.{key}"
            yield from _paths(member, f"{path}.{key}")
    elif isinstance(value, list):
        for member in value:
            yield from _paths(member, path)


@needs_traffic
def test_what_a_stream_that_is_written_again_does_not_give_back() -> None:
    for one in streams():
        body: Any = API.read(one.response).body
        again = HttpResponse(200, STREAM_TYPE, streamed(body, one.path))
        kept = {(sent["type"], path) for sent in payloads(again) for path in _paths(sent)}
        lost = {
            sent["type"] for sent in payloads(one.response) for path in _paths(sent) if (sent["type"], path) not in kept
        }
        if lost:  # a call without arguments may do without pieces
            assert lost == {"response.function_call_arguments.delta"}, one.path
            assert {item["arguments"] for item in body["output"] if item["type"] == "function_call"} == {"{}"}, one.path
