from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from harness.adapters.openai_chat import ADAPTER, RECEIVED
from harness.contract import errors
from harness.contract.model import (
    SYNTHESISED_ID,
    ArgumentsDelta,
    ChatRequest,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from harness.contract.protocols import Endpoint, StreamingChatClient
from tests.adapters.openai_fake import KEY, server
from tests.adapters.openai_streams import (
    DONE,
    ended,
    event,
    started,
    thinking,
)
from tests.adapters.streamed import Player, response

API = "openai-chat"
MODEL = "gpt-5.6"
HELLO = ChatRequest(MODEL, (Message.user("Hello"),))
USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}


@pytest.fixture
def play() -> Player:
    return Player(ADAPTER, MODEL)


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


def failed(play: Player, *chunks: bytes, **options: Any) -> errors.ChatError:
    """The error that a stream ends in. It has ended no call that was not complete, and nothing has finished."""
    with pytest.raises(errors.ChatError) as caught:
        play.stream(*chunks, **options)
    assert not [one for one in play.seen if isinstance(one, ToolCallEnd)]
    return caught.value


PARALLEL = (
    stream(
        chunk(role="assistant", content=None),
        calls(piece(0, "call_a", "get_weather", "")),
        calls(piece(0, arguments='{"city":"São')),
        calls(piece(0, arguments=' Paulo \\u00e9\u2028😀"}')),
        calls(piece(1, "call_b", "now", "")),
        calls(piece(1, arguments="{}")),
    ).removesuffix(DONE)
    + event({**chunk(), "choices": [], "usage": USAGE})
    + DONE
)


# --- what arrives -----------------------------------------------------------------------------------------------------


def test_calls_arrive_with_their_arguments(play: Player) -> None:
    events = play.stream(PARALLEL)
    assert events[:-1] == [
        ToolCallStart(0, "call_a", "get_weather"),
        ArgumentsDelta(0, '{"city":"São'),
        ArgumentsDelta(0, ' Paulo \\u00e9\u2028😀"}'),
        ToolCallStart(1, "call_b", "now"),
        ArgumentsDelta(1, "{}"),
        ToolCallEnd(0),
        ToolCallEnd(1),
    ]
    answer = response(events)
    assert answer.tool_calls == (
        ToolCall("call_a", "get_weather", {"city": "São Paulo é\u2028😀"}),
        ToolCall("call_b", "now", {}),
    )
    assert answer.stop_reason is StopReason.TOOL_USE
    assert answer.usage == Usage(9, 5, cache_read_tokens=4)


def test_options_of_the_stream_are_merged_with_that_for_usage(play: Player) -> None:
    metadata = {API: {"stream_options": {"include_obfuscation": False}}}
    play.stream(PARALLEL, request=replace(HELLO, provider_metadata=metadata))
    assert play.server.body["stream_options"] == {"include_usage": True, "include_obfuscation": False}


def test_reasoning_refusals_and_fields_of_another_day_are_kept(play: Player) -> None:
    events = play.stream(
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
"""What a stream brings, an entry in each chunk, and what it adds up to."""


@pytest.mark.parametrize("name", DETAILS)
def test_reasoning_details_fold_to_what_a_whole_answer_has(play: Player, name: str) -> None:
    pieces, whole = DETAILS[name]
    events = play.stream(stream(*(chunk(reasoning_details=[piece]) for piece in pieces), end="stop"))
    assert response(events).message.parts == (Opaque(API, {"reasoning_details": whole}),)


def test_lists_of_other_fields_only_grow(play: Player) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}, "index": 0}
    events = play.stream(stream(chunk(images=[image]), chunk(images=[image]), end="stop"))
    assert response(events).message.parts == (Opaque(RECEIVED, {"images": [image, image]}),)


def test_content_may_turn_from_text_to_parts_and_back(play: Player) -> None:
    other = {"type": "reference", "reference_ids": [1]}
    events = play.stream(
        stream(
            chunk(content="A"), chunk(content=[other, {"type": "text", "text": "B"}]), chunk(content="C"), end="stop"
        )
    )
    assert response(events).message.parts == (Text("A"), Opaque(API, other), Text("B"), Text("C"))


# --- dialects of compatible servers -----------------------------------------------------------------------------------


ONE = [("call_a", "now", {"zone": "UTC"})]
TWO = [*ONE, ("call_b", "then", {})]


@pytest.mark.parametrize(
    ("pieces", "wanted"),
    [
        pytest.param([piece(0, "call_a", "now", '{"zone":"UTC"}')], ONE, id="whole"),
        pytest.param([piece(0, "call_a", "now"), piece(0, arguments='{"zone":"UTC"}')], ONE, id="no first arguments"),
        pytest.param(
            [piece(1, "call_a", "now", '{"zone":'), piece(1, arguments='"UTC"}'), piece(2, "call_b", "then", "{}")],
            TWO,
            id="index from 1",
        ),
        pytest.param(
            [
                piece(0, "call_a", "now", '{"zone":'),
                piece(1, "call_b", "then", "{"),
                piece(0, arguments='"UTC"}'),
                piece(1, arguments="}"),
            ],
            TWO,
            id="pieces alternate",
        ),
        pytest.param(
            [
                piece(None, "call_a", "now", '{"zone":'),
                piece(None, arguments='"UTC"}'),
                piece(None, "call_b", "then", ""),
            ],
            TWO,
            id="no index",
        ),
        pytest.param(
            [
                piece(None, "call_a", "now", '{"zone":'),
                piece(None, "call_b", "then", ""),
                piece(None, "call_a", "now", '"UTC"}'),
            ],
            TWO,
            id="no index, id in every piece",
        ),
        pytest.param(
            [
                piece(0, "call_a", "now", '{"zone":'),
                piece(0, "call_a", "now", '"UTC"}'),
                piece(1, "call_b", "then", ""),
                piece(1, "call_b", "then", ""),
            ],
            TWO,
            id="id and name in every piece",
        ),
        pytest.param(
            [piece(0, "call_a", "now", '{"zone":"UTC"}'), piece(0, "call_b", "then", "{}")], TWO, id="index always 0"
        ),
        pytest.param(
            [piece(0, "call_a", "now", ""), piece(0, "x", "", '{"zone":'), piece(0, "y", "", '"UTC"}')],
            ONE,
            id="another id and an empty name in each piece",
        ),
        pytest.param(
            [
                piece(0, "call_a", "now", ""),
                piece(0, "x", "", '{"zone":"UTC"}'),
                piece(0, "call_b", "then", ""),
                piece(0, "y", "", "{}"),
            ],
            TWO,
            id="another id in each piece, index always 0",
        ),
        pytest.param(
            [piece(0, "call_a", "now", ""), piece(0, "", "", '{"zone":"UTC"}'), piece(1, "call_b", "then", "")],
            TWO,
            id="empty id and name later",
        ),
        pytest.param(
            [{**piece(0, "call_a", "now"), "function": {"name": "now", "arguments": None}}, piece(0, arguments="{}")],
            [("call_a", "now", {})],
            id="null arguments",
        ),
        pytest.param(
            [piece(0, "call_a"), piece(0, name="now"), piece(0, arguments='{"zone":"UTC"}')], ONE, id="name after id"
        ),
        pytest.param(
            [piece(0, name="now"), piece(0, "call_a"), piece(0, arguments='{"zone":"UTC"}')], ONE, id="id after name"
        ),
    ],
)
def test_dialects_give_the_same_calls(play: Player, pieces: list[dict[str, Any]], wanted: Any) -> None:
    events = play.stream(stream(*map(calls, pieces)))
    response(events)
    assert ended(events) == wanted
    assert response(play.stream(stream(calls(*pieces)))).tool_calls == response(events).tool_calls


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize("indexes", [(0, 1, 2), (0, 0, 0), (None, None, None)])
def test_calls_without_an_id_get_one(play: Player, empty: str | None, indexes: Sequence[int | None]) -> None:
    first, second, third = indexes
    events = play.stream(
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


def test_a_made_id_is_that_of_the_whole_answer_and_new_in_the_history(play: Player) -> None:
    history = (
        Message.user("?"),
        Message(Role.ASSISTANT, (ToolCall("call_1", "now", {}),)),
        Message.user("!"),
    )
    body = stream(
        calls(piece(0, "", "now", '{"cut')), calls(piece(1, "", "now", "{}")), calls(piece(2, "call_x", "now", "{}"))
    )
    events = play.stream(body, request=replace(HELLO, messages=history))
    ids = [call_id for call_id, _ in started(events)]
    assert len({"call_1", *ids}) == 4
    answer = response(events)
    assert [one.id for one in answer.tool_calls] == ids[1:]
    assert answer.stop_reason is StopReason.MALFORMED_CALL


def test_an_id_that_comes_too_late_changes_nothing(play: Player) -> None:
    events = play.stream(stream(calls(piece(0, None, "now", "{")), calls(piece(0, "call_late", "now", "}"))))
    ((call_id, _),) = started(events)
    assert call_id != "call_late"
    assert [one.id for one in response(events).tool_calls] == [call_id]


def test_calls_of_other_kinds_stay_opaque(play: Player) -> None:
    custom = {"index": 0, "id": "call_c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    events = play.stream(stream(calls(custom), calls(piece(1, "call_a", "now", ""))))
    answer = response(events)
    assert started(events) == [("call_a", "now")]
    assert answer.message.parts[0] == Opaque(API, {key: value for key, value in custom.items() if key != "index"})
    assert [one.id for one in answer.tool_calls] == ["call_a"]


@pytest.mark.parametrize("where", ["first", "every", "last", "with choices", "in parts", "never"])
def test_usage_may_come_anywhere(play: Player, where: str) -> None:
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
    usage = response(play.stream(b"".join(map(event, chunks)) + DONE)).usage
    assert usage == (Usage() if where == "never" else Usage(9, 5, cache_read_tokens=4))


def test_other_choices_and_chunks_without_any_are_no_part_of_the_answer(play: Player) -> None:
    other = chunk("length", content="no")
    other["choices"][0]["index"] = 1
    bare = {"model": None, "choices": None, "prompt_filter_results": []}
    answer = response(play.stream(event(bare) + event(other) + stream(chunk(content="yes"), other, end="stop")))
    assert (answer.text, answer.raw_stop_reason, answer.model) == ("yes", "stop", "gpt-5.6-x")


# --- how streams end --------------------------------------------------------------------------------------------------


CALL = [calls(piece(0, "call_a", "now", '{"a":')), calls(piece(0, arguments="12}"))]


def test_a_finish_reason_or_the_sentinel_is_an_end(play: Player) -> None:
    assert response(play.stream(stream(*CALL, done=False))).tool_calls[0].arguments == {"a": 12}
    unsaid = response(play.stream(stream(*CALL, end=None)))
    assert (unsaid.tool_calls[0].arguments, unsaid.stop_reason) == ({"a": 12}, StopReason.UNKNOWN)


def test_what_stands_behind_the_sentinel_is_not_read(play: Player) -> None:
    assert response(play.stream(stream(*CALL) + b"data: nonsense\n\n", failure=httpx2.ReadError("reset"))).tool_calls


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html>bad gateway</html>", "text/html"),
        (b"\n\n: ping\n\n", None),
        (b'{"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}', "application/json"),
    ],
)
def test_what_is_no_stream_is_malformed(play: Player, body: bytes, content_type: str | None) -> None:
    error = failed(play, body, content_type=content_type)
    assert isinstance(error, errors.MalformedResponse)


def test_an_error_in_place_of_the_stream_is_what_it_says(play: Player) -> None:
    body = b'{"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}'
    error = failed(play, body, content_type="application/json; charset=utf-8")
    assert isinstance(error, errors.RateLimited)
    assert error.message == "Slow down."


def test_an_unclean_end_on_a_real_connection_is_a_failed_connection() -> None:
    headers = {"content-length": str(len(PARALLEL) * 2), "content-type": "text/event-stream"}
    body = stream(chunk(content="A"), *CALL, end=None, done=False)
    with server(200, {**headers, "connection": "close"}, body) as (base_url, seen):
        client = ADAPTER.connect(Endpoint(base_url, KEY), HELLO.model)
        assert isinstance(client, StreamingChatClient)
        with pytest.raises(errors.ConnectionFailed):
            list(client.stream(HELLO))
        client.close()
    assert len(seen) == 1


# --- arguments that are none ------------------------------------------------------------------------------------------


def test_a_call_without_a_name_is_none(play: Player) -> None:
    events = play.stream(stream(calls(piece(0, "call_a", "", "{}")), calls(piece(1, "call_b", "now", "{}"))))
    assert started(events) == [("call_b", "now")]
    assert response(events).stop_reason is StopReason.MALFORMED_CALL
