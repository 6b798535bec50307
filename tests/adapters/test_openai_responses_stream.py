from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from harness.adapters.openai_responses import ADAPTER
from harness.model import errors
from harness.model.messages import (
    SYNTHESISED_ID,
    ArgumentsDelta,
    Finish,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from tests.adapters.streamed import Player, response, thinking
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import asked

API = "openai-responses"

USAGE = {"input_tokens": 9, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3}}
REASONING: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
    "encrypted_content": "gAAAAB+/=_-",
}


@pytest.fixture
def player() -> Player:
    return Player(ADAPTER, "gpt-5.6")


def call(call_id: str | None = "call_a", name: str = "now", arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{call_id}", "name": name, "arguments": arguments, "status": "completed"}
    return item | ({"call_id": call_id} if call_id else {}) | fields


def message(*content: Any, item_id: str = "msg_1", **fields: Any) -> dict[str, Any]:
    item = {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": list(content)}
    return item | fields


def output_text(said: str) -> dict[str, Any]:
    return {"type": "output_text", "text": said, "annotations": [], "logprobs": []}


def added(index: int, item: dict[str, Any]) -> dict[str, Any]:
    """The item as it begins."""
    empty: dict[str, Any] = {"arguments": "", "content": [], "summary": [], "status": "in_progress"}
    begun = item | {key: value for key, value in empty.items() if key in item}
    return {"type": "response.output_item.added", "output_index": index, "item": begun}


def done(index: int, item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def delta(kind: str, index: int, item: dict[str, Any], piece: str, **fields: Any) -> dict[str, Any]:
    place = {"output_index": index, "item_id": item.get("id"), "obfuscation": "aBcD"}
    return {"type": f"response.{kind}.delta", **place, "delta": piece, **fields}


def arguments(index: int, item: dict[str, Any], *pieces: str) -> list[dict[str, Any]]:
    return [delta("function_call_arguments", index, item, piece) for piece in pieces]


def end(*output: Any, kind: str = "completed", **fields: Any) -> dict[str, Any]:
    whole = {"id": "resp_1", "model": "gpt-5.6-x", "status": kind, "output": list(output), "usage": USAGE, **fields}
    return {"type": f"response.{kind}", "response": whole}


def stream(*payloads: dict[str, Any]) -> bytes:
    """The events of a stream, with its first two."""
    begun = {"id": "resp_1", "status": "in_progress", "output": [], "usage": None}
    first = [{"type": f"response.{step}", "response": begun} for step in ("created", "in_progress")]
    numbers = count()
    return b"".join(WIRES[API].event({**one, "sequence_number": next(numbers)}) for one in (*first, *payloads))


PARIS = call("call_a", "get_weather", '{"city":"São Paulo \\u00e9\u2028😀"}')
NOW = call("call_b", "now", "{}")
HI = message(output_text("Let me see."))
BEGUN = [
    added(0, HI),
    delta("output_text", 0, HI, "Let me ", content_index=0, logprobs=[]),
    delta("output_text", 0, HI, "see.", content_index=0, logprobs=[]),
    {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "Let me see."},
    {"type": "response.brand_new", "anything": [1]},
    done(0, HI),
    added(1, PARIS),
    *arguments(1, PARIS, "", '{"city":"São'),
    added(2, NOW),
    *arguments(1, PARIS, ' Paulo \\u00e9\u2028😀"}'),
    {"type": "response.function_call_arguments.done", "output_index": 1, "arguments": PARIS["arguments"]},
    done(2, NOW),
    done(1, PARIS),
]
PARALLEL = stream(*BEGUN, end(HI, PARIS, NOW))


# --- what arrives -----------------------------------------------------------------------------------------------------


def test_several_items_are_open_at_once(player: Player) -> None:
    events = player.stream(PARALLEL)
    assert events[:-1] == [
        TextDelta("Let me "),
        TextDelta("see."),
        ToolCallStart(0, "call_a", "get_weather"),
        ArgumentsDelta(0, '{"city":"São'),
        ToolCallStart(1, "call_b", "now"),
        ArgumentsDelta(0, ' Paulo \\u00e9\u2028😀"}'),
        ArgumentsDelta(1, "{}"),
        ToolCallEnd(1),
        ToolCallEnd(0),
    ]
    answer = response(events)
    assert answer == player.chat(end(HI, PARIS, NOW)["response"])
    assert answer.tool_calls[0].arguments == {"city": "São Paulo é\u2028😀"}
    assert (answer.stop_reason, answer.usage) == (StopReason.TOOL_USE, Usage(9, 5, reasoning_tokens=3))


def test_items_without_an_index_are_distinguished_by_id(player: Player) -> None:
    lines = [{key: value for key, value in one.items() if key != "output_index"} for one in BEGUN]
    events = player.stream(stream(*lines, end(HI, PARIS, NOW)))
    assert events[:-1] == player.stream(PARALLEL)[:-1]
    assert response(player.stream(stream(*lines, end()))).tool_calls[0].id == "call_a"


def test_ids_of_items_may_change_from_event_to_event(player: Player) -> None:
    names = (f"x{number}" for number in count())
    lines = [{**one, "item_id": next(names)} if "item_id" in one else one for one in BEGUN]
    renamed = [{**one, "item": {**one["item"], "id": next(names)}} if "item" in one else one for one in lines]
    wanted = player.stream(PARALLEL)
    assert player.stream(stream(*renamed, end(HI, PARIS, NOW)))[:-1] == wanted[:-1]


def test_reasoning_goes_back_as_its_last_event_has_it(player: Player) -> None:
    begun = {**REASONING, "encrypted_content": "incomplete"}
    repeated = {**REASONING, "encrypted_content": "encrypted anew"}
    events = player.stream(
        stream(
            added(0, begun),
            delta("reasoning_summary_text", 0, REASONING, "Fir", summary_index=0),
            delta("reasoning_summary_text", 0, REASONING, "st.", summary_index=0),
            delta("reasoning_summary_text", 0, REASONING, "Then.", summary_index=1),
            done(0, REASONING),
            added(1, HI),
            done(1, HI),
            end(repeated, HI),
        )
    )
    assert events[:-1] == [
        ThinkingDelta("Fir"),
        ThinkingDelta("st."),
        ThinkingDelta("\n\nThen."),
        TextDelta("Let me see."),
    ]
    assert response(events).message.parts[0] == Thinking("First.\n\nThen.", {API: REASONING})


def test_reasoning_in_plain_text_arrives_too(player: Player) -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    bare = {key: value for key, value in item.items() if key != "id"}
    for lines in (
        [added(0, item), delta("reasoning_text", 0, item, "Hm.", content_index=0), done(0, item)],
        [done(0, bare)],
    ):
        events = player.stream(stream(*lines, end()))
        assert thinking(events) == "Hm."
        assert response(events).message.parts[0] == Thinking("Hm.", {API: lines[-1]["item"]})


def test_refusals_and_unknown_items_are_kept(player: Player) -> None:
    refusal = message({"type": "refusal", "refusal": "No."})
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    events = player.stream(
        stream(
            added(0, search),
            {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
            done(0, search),
            added(1, refusal),
            delta("refusal", 1, refusal, "No.", content_index=0),
            done(1, refusal),
            end(search, refusal),
        )
    )
    answer = response(events)
    assert answer.message.parts[0] == Opaque(API, search)
    assert isinstance(answer.message.parts[1], Refusal)
    assert (answer.stop_reason, len(events)) == (StopReason.REFUSAL, 1)


# --- dialects ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([*BEGUN, end()], id="empty output at the end"),
        pytest.param([done(0, HI), done(1, PARIS), done(2, NOW), end()], id="items by their last event only"),
        pytest.param([end(HI, PARIS, NOW)], id="only the end"),
        pytest.param([added(0, HI), added(1, PARIS), end(HI, PARIS, NOW)], id="items without a last event"),
        pytest.param(
            [delta("output_text", 0, HI, "Let me "), *arguments(1, PARIS, "{"), end(HI, PARIS, NOW)],
            id="items without a first event",
        ),
        pytest.param(
            [added(0, HI), done(0, HI), added(1, PARIS), added(1, NOW), done(1, NOW), done(1, PARIS), end()],
            id="one index for several items",
        ),
    ],
)
def test_dialects_give_the_same_answer(player: Player, lines: list[dict[str, Any]]) -> None:
    answer = response(player.stream(stream(*lines) + b"data: [DONE]\n\n"))
    assert answer.text == "Let me see."
    assert sorted((one.id, one.name) for one in answer.tool_calls) == [("call_a", "get_weather"), ("call_b", "now")]
    assert answer.stop_reason is StopReason.TOOL_USE


def test_arguments_are_those_of_the_last_event(player: Player) -> None:
    item = call(arguments='{"a":12}')
    events = player.stream(stream(added(0, item), *arguments(0, item, '{"a":'), done(0, item), end()))
    assert response(events).tool_calls[0].arguments == {"a": 12}
    spaced = call(arguments='{"a": 12}')
    events = player.stream(stream(added(0, item), *arguments(0, item, '{"a":12}'), done(0, spaced), end()))
    assert response(events).tool_calls[0].arguments == {"a": 12}


def test_a_call_without_an_id_gets_that_of_the_whole_answer(player: Player) -> None:
    history = (Message.user("?"), Message(Role.ASSISTANT, (ToolCall("call_1", "now", {}),)))
    one, other = call(None, item_id="x"), call("", "then")
    events = player.stream(
        stream(added(0, one), *arguments(0, one, "{}"), done(0, one), added(1, other), done(1, other), end(one, other)),
        request=asked(*history),
    )
    answer = response(events)
    assert len({"call_1", *(made.id for made in answer.tool_calls)}) == 3
    assert all(made.provider_metadata["harness"] == {SYNTHESISED_ID: True} for made in answer.tool_calls)


# --- how streams end --------------------------------------------------------------------------------------------------


def test_an_item_without_any_end_is_a_cut_stream(player: Player) -> None:
    with pytest.raises(errors.MalformedResponse):
        player.stream(stream(added(0, HI), delta("output_text", 0, HI, "Let"), end()))
    assert not any(isinstance(one, Finish) for one in player.seen)


def test_a_failed_response_is_the_same_error_when_it_comes_whole(player: Player) -> None:
    with pytest.raises(errors.RateLimited) as caught:
        player.chat(end(kind="failed", error={"code": "rate_limit_exceeded", "message": "S."})["response"])
    assert (caught.value.code, caught.value.message) == ("rate_limit_exceeded", "S.")
