"""OpenAI Responses: answers as streams, and streams folded."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.eventstream import events
from harness.apis.openai_responses import API
from harness.apis.registry import Profile
from harness.apis.view import ModelStep, OpaqueView, RequestView, ResponseView
from harness.model.http import HttpResponse
from harness.model.messages import StopReason
from harness.scenarios.schema import Provocation

MODEL = "gpt-6-sol"
PROFILE = registry.api("openai-responses").profile_for(MODEL)
REQUEST = RequestView("openai-responses", MODEL, (), (), stream=True)
STREAM_TYPE = {"content-type": "text/event-stream; charset=utf-8"}

TWO_CALLS = ModelStep(text="Let me see.", calls=(("get_weather", {"city": "Zürich"}), ("now", {})))
SEEDS = [str(seed) for seed in range(20)]


def stream(step: ModelStep, seed: str = "a", profile: Profile = PROFILE) -> HttpResponse:
    return API.build_stream(step, seed, MODEL, profile, REQUEST)


def payloads(response: HttpResponse) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events(response.body) if event.data != "[DONE]"]


def of(response: HttpResponse, kind: str) -> list[dict[str, Any]]:
    return [payload for payload in payloads(response) if payload["type"] == f"response.{kind}"]


def written(*sent: dict[str, Any]) -> ResponseView:
    body = b"".join(b"event: %s\ndata: %s\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in sent)
    return API.read(HttpResponse(200, STREAM_TYPE, body))


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


def test_several_calls_are_open_at_once_only_if_provoked() -> None:
    def is_woven(step: ModelStep, seed: str) -> bool:
        indices = [one["output_index"] for one in payloads(stream(step, seed)) if one.get("output_index", 0) > 0]
        return sum(one != other for one, other in pairwise(indices)) > 2

    long = ModelStep(text="Hm.", calls=(("now", {"zone": "Europe/Zurich"}), ("now", {"zone": "Europe/Paris"})))
    provoked = replace(long, provocations=frozenset({Provocation.INTERLEAVED_CALLS}))
    assert {is_woven(long, seed) for seed in SEEDS} == {False}
    assert {is_woven(provoked, seed) for seed in SEEDS} == {True}


def test_a_cut_call_has_no_done_event() -> None:
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
def test_items_with_one_index_or_none_are_distinguished_by_id(place: dict[str, int]) -> None:
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


def test_changing_ids_do_not_matter_with_an_index() -> None:
    seen = written(
        event("output_item.added", output_index=0, item=item(1, "", id="x")),
        event("function_call_arguments.delta", output_index=0, item_id="y", delta='{"a":1}'),
        event("output_item.done", output_index=0, item=item(1, '{"a":1}', id="z")),
        completed(),
    )
    assert [(call.item_id, call.arguments) for call in seen.calls] == [("z", {"a": 1})]


# dialects


# traffic
