from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx2
import pytest

from harness.adapters.openai_chat import ADAPTER, RECEIVED
from harness.model.messages import (
    SYNTHESISED_ID,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from tests.adapters.streamed import Player, response, started, thinking
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import asked

API = "openai-chat"
DONE = b"data: [DONE]\n\n"
event = WIRES[API].event

USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}


@pytest.fixture
def player() -> Player:
    return Player(ADAPTER, "gpt-5.6")


def chunk(finish_reason: str | None = None, usage: Any = None, **delta: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-5.6-x",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}],
        "usage": usage,
        "obfuscation": "aBcD",
    }


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return chunk(tool_calls=list(pieces))


def piece(
    index: int | None = 0, call_id: str | None = None, name: str | None = None, arguments: str | None = None
) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields: dict[str, Any] = {"index": index} if index is not None else {}
    return fields | ({"id": call_id, "type": "function"} if call_id is not None else {}) | {"function": function}


def stream(*chunks: dict[str, Any], end: str | None = "tool_calls", done: bool = True) -> bytes:
    last = [chunk(end)] if end else []
    return b"".join(map(event, [*chunks, *last])) + (DONE if done else b"")


# --- what arrives -----------------------------------------------------------------------------------------------------


def test_options_of_the_stream_are_merged_with_that_for_usage(player: Player) -> None:
    metadata = {API: {"stream_options": {"include_obfuscation": False}}}
    player.stream(stream(chunk(content="Hi")), request=asked(provider_metadata=metadata))
    assert player.server.body["stream_options"] == {"include_usage": True, "include_obfuscation": False}


def test_reasoning_refusals_and_fields_of_another_day_are_kept(player: Player) -> None:
    events = player.stream(
        stream(
            chunk(reasoning_content="Let me ", role="assistant"),
            chunk(reasoning_content="see.", content=""),
            chunk(reasoning_details=[{"type": "reasoning.text", "text": "Let me ", "index": 0, "format": "f"}]),
            chunk(reasoning_details=[{"type": "reasoning.text", "text": "see.", "index": 0, "format": "f"}]),
            chunk(reasoning_details=[{"type": "reasoning.text", "signature": "Eq==", "index": 0, "format": "f"}]),
            chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "x", "index": 0}, {"type": "other"}]),
            chunk(annotations=[{"type": "url_citation"}]),
            chunk(annotations=[{"type": "url_citation"}]),
            chunk(refusal="I can"),
            chunk(refusal="not.", brand_new={"a": "b"}),
            end="stop",
        )
    )
    assert thinking(events) == "Let me see."
    details = [
        {"type": "reasoning.text", "text": "Let me see.", "index": 0, "format": "f", "signature": "Eq=="},
        {"type": "reasoning.encrypted", "data": "x", "index": 0},
        {"type": "other"},
    ]
    shown = {"annotations": [{"type": "url_citation"}] * 2, "brand_new": {"a": "b"}}
    assert response(events).message.parts == (
        Opaque(API, {"reasoning_details": details}),
        Opaque(RECEIVED, shown),
        Thinking("Let me see.", {API: {"reasoning_content": "Let me see."}}),
        Refusal("I cannot."),
    )


def detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"reasoning.{kind}", **fields, "format": "f", "index": 0}


DETAILS = {
    "a summary and what is encrypted, under one index": (
        [detail("summary", summary="So "), detail("summary", summary="it is."), detail("encrypted", data="x", id="rs")],
        [detail("summary", summary="So it is."), detail("encrypted", data="x", id="rs")],
    ),
    "two encrypted blocks": ([detail("encrypted", data="x", id="a"), detail("encrypted", data="y", id="b")],) * 2,
    "a summary behind what is encrypted": (
        [detail("summary", summary="A"), detail("encrypted", data="x"), detail("summary", summary="B")],
    )
    * 2,
    "summaries of two items": ([detail("summary", summary="A", id="a"), detail("summary", summary="B", id="b")],) * 2,
    "text behind a signature": (
        [detail("text", text="A"), detail("text", signature="s"), detail("text", text="B"), detail("text", text="C")],
        [detail("text", text="A", signature="s"), detail("text", text="BC")],
    ),
    "a signature that is said twice": (
        [detail("text", text="A", signature="s"), detail("text", text=None, signature="s")],
        [detail("text", text="A", signature="s")],
    ),
    "two blocks that are open at once": (
        [{**detail("text", text="A"), "index": 0}, {**detail("text", text="B"), "index": 1}, detail("text", text="C")],
        [detail("text", text="AC"), {**detail("text", text="B"), "index": 1}],
    ),
    "no index": ([{"type": "reasoning.text", "text": "A"}, {"type": "reasoning.text", "text": "B"}],) * 2,
}
"""Entries of a stream, one in each chunk, and their sum."""


@pytest.mark.parametrize("name", DETAILS)
def test_reasoning_details_fold_to_what_a_whole_answer_has(player: Player, name: str) -> None:
    pieces, whole = DETAILS[name]
    events = player.stream(stream(*(chunk(reasoning_details=[piece]) for piece in pieces), end="stop"))
    assert response(events).message.parts == (Opaque(API, {"reasoning_details": whole}),)


def test_lists_of_other_fields_only_grow(player: Player) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}, "index": 0}
    events = player.stream(stream(chunk(images=[image]), chunk(images=[image]), end="stop"))
    assert response(events).message.parts == (Opaque(RECEIVED, {"images": [image, image]}),)


def test_content_may_turn_from_text_to_parts_and_back(player: Player) -> None:
    other = {"type": "reference", "reference_ids": [1]}
    events = player.stream(
        stream(
            chunk(content="A"), chunk(content=[other, {"type": "text", "text": "B"}]), chunk(content="C"), end="stop"
        )
    )
    assert response(events).message.parts == (Text("A"), Opaque(API, other), Text("B"), Text("C"))


# --- dialects of compatible servers -----------------------------------------------------------------------------------


ONE = [("call_a", "now", {"zone": "UTC"})]
TWO = [*ONE, ("call_b", "then", {})]


UTC = '{"zone":"UTC"}'
DIALECTS = {
    "whole": (ONE, [piece(0, "call_a", "now", UTC)]),
    "no first arguments": (ONE, [piece(0, "call_a", "now"), piece(0, arguments=UTC)]),
    "name after id": (ONE, [piece(0, "call_a"), piece(0, name="now"), piece(0, arguments=UTC)]),
    "id after name": (ONE, [piece(0, name="now"), piece(0, "call_a"), piece(0, arguments=UTC)]),
    "another id and an empty name in each piece": (
        ONE,
        [piece(0, "call_a", "now", ""), piece(0, "x", "", UTC[:8]), piece(0, "y", "", UTC[8:])],
    ),
    "null arguments": (
        [("call_a", "now", {})],
        [{**piece(0, "call_a", "now"), "function": {"name": "now", "arguments": None}}, piece(0, arguments="{}")],
    ),
    "index from 1": (
        TWO,
        [piece(1, "call_a", "now", UTC[:8]), piece(1, arguments=UTC[8:]), piece(2, "call_b", "then", "{}")],
    ),
    "pieces alternate": (
        TWO,
        [
            piece(0, "call_a", "now", UTC[:8]),
            piece(1, "call_b", "then", "{"),
            piece(0, arguments=UTC[8:]),
            piece(1, arguments="}"),
        ],
    ),
    "no index": (
        TWO,
        [piece(None, "call_a", "now", UTC[:8]), piece(None, arguments=UTC[8:]), piece(None, "call_b", "then", "")],
    ),
    "no index, id in every piece": (
        TWO,
        [
            piece(None, "call_a", "now", UTC[:8]),
            piece(None, "call_b", "then", ""),
            piece(None, "call_a", "now", UTC[8:]),
        ],
    ),
    "id and name in every piece": (
        TWO,
        [
            piece(0, "call_a", "now", UTC[:8]),
            piece(0, "call_a", "now", UTC[8:]),
            piece(1, "call_b", "then", ""),
            piece(1, "call_b", "then", ""),
        ],
    ),
    "index always 0": (TWO, [piece(0, "call_a", "now", UTC), piece(0, "call_b", "then", "{}")]),
    "another id in each piece, index always 0": (
        TWO,
        [
            piece(0, "call_a", "now", ""),
            piece(0, "x", "", UTC),
            piece(0, "call_b", "then", ""),
            piece(0, "y", "", "{}"),
        ],
    ),
    "empty id and name later": (
        TWO,
        [piece(0, "call_a", "now", ""), piece(0, "", "", UTC), piece(1, "call_b", "then", "")],
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects_give_the_same_calls(player: Player, name: str) -> None:
    wanted, pieces = DIALECTS[name]
    events = player.stream(stream(*map(calls, pieces)))
    made = response(events).tool_calls
    assert [(one.id, one.name, one.arguments) for one in made] == wanted
    assert response(player.stream(stream(calls(*pieces)))).tool_calls == made


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize("indexes", [(0, 1, 2), (0, 0, 0), (None, None, None)])
def test_calls_without_an_id_get_one(player: Player, empty: str | None, indexes: Sequence[int | None]) -> None:
    first, second, third = indexes
    events = player.stream(
        stream(
            calls(piece(first, empty, "now", '{"zone":')),
            calls(piece(first, empty, "now", '"UTC"}')),
            calls(piece(second, empty, "now", '{"zone":"CET"}')),
            calls(piece(third, empty, "then", "")),
        )
    )
    answer = response(events)
    assert [(one.name, one.arguments) for one in answer.tool_calls] == [
        ("now", {"zone": "UTC"}),
        ("now", {"zone": "CET"}),
        ("then", {}),
    ]
    assert len({one.id for one in answer.tool_calls}) == 3
    assert all(one.provider_metadata["harness"] == {SYNTHESISED_ID: True} for one in answer.tool_calls)


def test_a_synthesised_id_equals_that_of_the_whole_response(player: Player) -> None:
    history = (Message.user("?"), Message(Role.ASSISTANT, (ToolCall("call_1", "now", {}),)), Message.user("!"))
    body = stream(
        calls(piece(0, "", "now", '{"cut')), calls(piece(1, "", "now", "{}")), calls(piece(2, "call_x", "now", "{}"))
    )
    events = player.stream(body, request=asked(*history))
    ids = [call_id for call_id, _ in started(events)]
    assert len({"call_1", *ids}) == 4
    answer = response(events)
    assert [one.id for one in answer.tool_calls] == ids[1:]
    assert answer.stop_reason is StopReason.MALFORMED_CALL


def test_an_id_that_comes_too_late_changes_nothing(player: Player) -> None:
    events = player.stream(stream(calls(piece(0, None, "now", "{")), calls(piece(0, "call_late", "now", "}"))))
    ((call_id, _),) = started(events)
    assert call_id != "call_late"
    assert [one.id for one in response(events).tool_calls] == [call_id]


def test_calls_of_other_kinds_stay_opaque(player: Player) -> None:
    custom = {"index": 0, "id": "call_c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    events = player.stream(stream(calls(custom), calls(piece(1, "call_a", "now", ""))))
    answer = response(events)
    assert started(events) == [("call_a", "now")]
    assert answer.message.parts[0] == Opaque(API, {key: value for key, value in custom.items() if key != "index"})
    assert [one.id for one in answer.tool_calls] == ["call_a"]


@pytest.mark.parametrize("where", ["first", "every", "last", "with choices", "in parts", "never"])
def test_usage_may_come_anywhere(player: Player, where: str) -> None:
    early = {"prompt_tokens": 9, "completion_tokens": 0}
    chunks = [chunk(content="A"), chunk(content="B"), chunk("stop")]
    match where:
        case "first":
            chunks[0]["usage"] = USAGE
        case "every":
            for one in chunks:
                one["usage"] = early
            chunks[2]["usage"] = {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}, "total_tokens": None}
        case "last":
            chunks.append({**chunk(), "choices": [], "usage": USAGE})
        case "in parts":
            chunks[0]["usage"] = {**USAGE, "completion_tokens": 1}
            chunks[2]["usage"] = {"prompt_tokens": None, "completion_tokens": 5}
        case "with choices":
            chunks.append(chunk("stop", USAGE, content=""))
        case _:
            pass
    usage = response(player.stream(b"".join(map(event, chunks)) + DONE)).usage
    assert usage == (Usage() if where == "never" else Usage(9, 5, cache_read_tokens=4))


def test_other_choices_are_ignored(player: Player) -> None:
    other = chunk("length", content="no")
    other["choices"][0]["index"] = 1
    bare = {"model": None, "choices": None, "prompt_filter_results": []}
    answer = response(player.stream(event(bare) + event(other) + stream(chunk(content="yes"), other, end="stop")))
    assert (answer.text, answer.raw_stop_reason, answer.model) == ("yes", "stop", "gpt-5.6-x")


# --- how streams end --------------------------------------------------------------------------------------------------


CALL = [calls(piece(0, "call_a", "now", '{"a":')), calls(piece(0, arguments="12}"))]


def test_a_finish_reason_or_the_sentinel_is_an_end(player: Player) -> None:
    assert response(player.stream(stream(*CALL, done=False))).tool_calls[0].arguments == {"a": 12}
    unsaid = response(player.stream(stream(*CALL, end=None)))
    assert (unsaid.tool_calls[0].arguments, unsaid.stop_reason) == ({"a": 12}, StopReason.UNKNOWN)


def test_nothing_is_read_after_the_sentinel(player: Player) -> None:
    assert response(player.stream(stream(*CALL) + b"data: nonsense\n\n", failure=httpx2.ReadError("reset"))).tool_calls


# --- arguments that are none ------------------------------------------------------------------------------------------


def test_a_call_without_a_name_is_malformed(player: Player) -> None:
    events = player.stream(stream(calls(piece(0, "call_a", "", "{}")), calls(piece(1, "call_b", "now", "{}"))))
    assert started(events) == [("call_b", "now")]
    assert response(events).stop_reason is StopReason.MALFORMED_CALL
