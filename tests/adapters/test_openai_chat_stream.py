from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapters.openai_chat import ADAPTER
from harness.adapters.openai_chat.api import RECEIVED
from harness.apis.openai_chat import API as WITNESS
from harness.contract import errors
from harness.contract.model import (
    SYNTHESISED_ID,
    ArgumentsDelta,
    ChatResponse,
    Message,
    Opaque,
    Refusal,
    Role,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from harness.contract.protocols import Capability, Endpoint, StreamingChatClient
from harness.kit.partial import PartialArguments
from tests.adapters.openai_fake import KEY, Provider, server
from tests.adapters.openai_streams import (
    DONE,
    HELLO,
    Player,
    altered,
    cut,
    cuts,
    ended,
    event,
    finish,
    random_cut,
    response,
    rewritings,
    started,
    text,
    thinking,
    twisted,
)
from tests.traffic import Recorded, needs_traffic, recorded

API = "openai-chat"
USAGE = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}


@pytest.fixture
def play() -> Player:
    return Player(ADAPTER)


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
        play(*chunks, **options)
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


def test_text_arrives_in_its_pieces(play: Player) -> None:
    body = stream(
        chunk(role="assistant", content="", refusal=None), chunk(content="Hel"), chunk(content="lo."), end="stop"
    )
    events = play(body)
    assert events[:-1] == [TextDelta("Hel"), TextDelta("lo.")]
    assert finish(events) == ChatResponse(
        Message(Role.ASSISTANT, (Text("Hello."),)), StopReason.END_TURN, Usage(), "gpt-5.6-x", "stop"
    )


def test_calls_arrive_with_their_arguments(play: Player) -> None:
    events = play(PARALLEL)
    assert events[:-1] == [
        ToolCallStart(0, "call_a", "get_weather"),
        ArgumentsDelta(0, '{"city":"São'),
        ArgumentsDelta(0, ' Paulo \\u00e9\u2028😀"}'),
        ToolCallStart(1, "call_b", "now"),
        ArgumentsDelta(1, "{}"),
        ToolCallEnd(0),
        ToolCallEnd(1),
    ]
    answer = finish(events)
    assert answer.tool_calls == (
        ToolCall("call_a", "get_weather", {"city": "São Paulo é\u2028😀"}),
        ToolCall("call_b", "now", {}),
    )
    assert answer.stop_reason is StopReason.TOOL_USE
    assert answer.usage == Usage(9, 5, cache_read_tokens=4)


def test_events_arrive_while_the_answer_does(play: Player) -> None:
    asked: list[int] = []

    def chunks() -> Any:
        for number, one in enumerate(PARALLEL.split(b"\n\n")):
            asked.append(number)
            yield one + b"\n\n"

    play.provider.respond = lambda: httpx2.Response(200, stream=_Lazy(chunks()))
    client = play.provider.client(ADAPTER, HELLO.model)
    assert isinstance(client, StreamingChatClient)
    arrived = PartialArguments()
    for one in client.stream(HELLO):
        if isinstance(one, ArgumentsDelta):
            arrived.add(one.text)
            break
    assert arrived.value == {"city": "São"}
    assert asked == [0, 1, 2]
    assert len(play.provider.requests) == 1


class _Lazy(httpx2.SyncByteStream):
    def __init__(self, chunks: Any) -> None:
        self._chunks = chunks

    def __iter__(self) -> Any:
        return self._chunks


def test_the_request_asks_for_a_stream_with_usage() -> None:
    whole, streamed = (
        Provider({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
        Provider(PARALLEL),
    )
    whole.client(ADAPTER, HELLO.model).chat(HELLO)
    client = streamed.client(ADAPTER, HELLO.model)
    assert isinstance(client, StreamingChatClient)
    list(client.stream(HELLO))
    assert streamed.body() == {**whole.body(), "stream": True, "stream_options": {"include_usage": True}}
    streamed.requests.clear()
    metadata = {API: {"stream_options": {"include_obfuscation": False}}}
    list(client.stream(replace(HELLO, provider_metadata=metadata)))
    assert streamed.body()["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert Capability.STREAMING in ADAPTER.capabilities


def test_reasoning_refusals_and_fields_of_another_day_are_kept(play: Player) -> None:
    events = play(
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
    assert finish(events).message.parts == (
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
    events = play(stream(*(chunk(reasoning_details=[piece]) for piece in pieces), end="stop"))
    assert finish(events).message.parts == (Opaque(API, {"reasoning_details": whole}),)


def test_lists_of_other_fields_only_grow(play: Player) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}, "index": 0}
    events = play(stream(chunk(images=[image]), chunk(images=[image]), end="stop"))
    assert finish(events).message.parts == (Opaque(RECEIVED, {"images": [image, image]}),)


def test_content_may_turn_from_text_to_parts_and_back(play: Player) -> None:
    other = {"type": "reference", "reference_ids": [1]}
    events = play(
        stream(
            chunk(content="A"), chunk(content=[other, {"type": "text", "text": "B"}]), chunk(content="C"), end="stop"
        )
    )
    assert finish(events).message.parts == (Text("A"), Opaque(API, other), Text("B"), Text("C"))


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
    events = play(stream(*map(calls, pieces)))
    finish(events)
    assert ended(events) == wanted
    assert finish(play(stream(calls(*pieces)))).tool_calls == finish(events).tool_calls


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize("indexes", [(0, 1, 2), (0, 0, 0), (None, None, None)])
def test_calls_without_an_id_get_one(play: Player, empty: str | None, indexes: Sequence[int | None]) -> None:
    first, second, third = indexes
    events = play(
        stream(
            calls(piece(first, empty, "now", '{"zone":')),
            calls(piece(first, empty, "now", '"UTC"}')),
            calls(piece(second, empty, "now", '{"zone":"CET"}')),
            calls(piece(third, empty, "then", "")),
        )
    )
    answer = finish(events)
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
    events = play(body, request=replace(HELLO, messages=history))
    ids = [call_id for call_id, _ in started(events)]
    assert len({"call_1", *ids}) == 4
    answer = finish(events)
    assert [one.id for one in answer.tool_calls] == ids[1:]
    assert answer.stop_reason is StopReason.MALFORMED_CALL


def test_an_id_that_comes_too_late_changes_nothing(play: Player) -> None:
    events = play(stream(calls(piece(0, None, "now", "{")), calls(piece(0, "call_late", "now", "}"))))
    ((call_id, _),) = started(events)
    assert call_id != "call_late"
    assert [one.id for one in finish(events).tool_calls] == [call_id]


def test_calls_of_other_kinds_stay_opaque(play: Player) -> None:
    custom = {"index": 0, "id": "call_c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    events = play(stream(calls(custom), calls(piece(1, "call_a", "now", ""))))
    answer = finish(events)
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
    usage = finish(play(b"".join(map(event, chunks)) + DONE)).usage
    assert usage == (Usage() if where == "never" else Usage(9, 5, cache_read_tokens=4))


def test_other_choices_and_chunks_without_any_are_no_part_of_the_answer(play: Player) -> None:
    other = chunk("length", content="no")
    other["choices"][0]["index"] = 1
    bare = {"model": None, "choices": None, "prompt_filter_results": []}
    answer = finish(play(event(bare) + event(other) + stream(chunk(content="yes"), other, end="stop")))
    assert (answer.text, answer.raw_stop_reason, answer.model) == ("yes", "stop", "gpt-5.6-x")


# --- how streams end --------------------------------------------------------------------------------------------------


CALL = [calls(piece(0, "call_a", "now", '{"a":')), calls(piece(0, arguments="12}"))]


def test_a_finish_reason_or_the_sentinel_is_an_end(play: Player) -> None:
    assert finish(play(stream(*CALL, done=False))).tool_calls[0].arguments == {"a": 12}
    unsaid = finish(play(stream(*CALL, end=None)))
    assert (unsaid.tool_calls[0].arguments, unsaid.stop_reason) == ({"a": 12}, StopReason.UNKNOWN)


def test_what_stands_behind_the_sentinel_is_not_read(play: Player) -> None:
    assert finish(play(stream(*CALL) + b"data: nonsense\n\n", failure=httpx2.ReadError("reset"))).tool_calls


@pytest.mark.parametrize("number", range(5))
def test_a_cut_stream_is_an_error(play: Player, number: int) -> None:
    chunks = [chunk(role="assistant"), chunk(content="A"), *CALL]
    error = failed(play, stream(*chunks[:number], end=None, done=False))
    assert isinstance(error, errors.MalformedResponse)
    assert error.status == 200


def test_a_stream_cut_at_any_byte_is_an_error_or_whole(play: Player) -> None:
    wanted = finish(play(PARALLEL))
    reason = PARALLEL.index(b'"finish_reason": "tool_calls"')
    known = PARALLEL.index(b"\n\n", reason) + 2
    for place in range(0, known, 3):
        assert isinstance(failed(play, PARALLEL[:place]), errors.MalformedResponse)
    for place in range(known, len(PARALLEL), 3):
        assert finish(play(PARALLEL[:place])).message == wanted.message


@pytest.mark.parametrize(
    "failure", [httpx2.ReadError("reset"), httpx2.RemoteProtocolError("incomplete"), httpx2.ReadTimeout("late")]
)
def test_a_connection_that_breaks_off_is_an_error(play: Player, failure: Exception) -> None:
    error = failed(play, stream(chunk(content="A"), *CALL, done=False), failure=failure)
    assert isinstance(error, errors.ConnectionFailed)
    assert text(play.seen) == "A"
    assert len(play.provider.requests) == 1


@pytest.mark.parametrize(
    ("wire", "kind", "code", "message"),
    [
        (
            event({"error": {"message": "Bad.", "code": "tool_use_failed", "status_code": 400}}, "error"),
            errors.InvalidRequest,
            "tool_use_failed",
            "Bad.",
        ),
        (event({"error": {"message": "Boom.", "type": "server_error"}}), errors.ServerError, "server_error", "Boom."),
        (
            event({"error": {"message": "S.", "code": "rate_limit_exceeded"}}),
            errors.RateLimited,
            "rate_limit_exceeded",
            "S.",
        ),
        (event({**chunk(), "error": {"code": 502, "message": "Host."}}), errors.ServerError, "502", "Host."),
        (event({"object": "error", "message": "M.", "code": 429}), errors.RateLimited, "429", "M."),
        (event({"error": "out of memory"}), errors.ServerError, None, "out of memory"),
        (event({"error": ["?"]}), errors.ServerError, None, "an error without a message"),
        (
            event({"choices": [{"index": 0, "delta": {}, "error": {"code": 503, "message": "C."}}]}),
            errors.Overloaded,
            "503",
            "C.",
        ),
    ],
)
def test_an_error_inside_the_stream_is_the_providers(
    play: Player, wire: bytes, kind: type[errors.ProviderError], code: str | None, message: str
) -> None:
    for before in (b"", stream(chunk(content="A"), *CALL, done=False)):
        error = failed(play, before + wire + DONE)
        assert type(error) is kind
        assert (error.code, error.message) == (code, message)
    assert (text(play.seen), started(play.seen)) == ("A", [("call_a", "now")])


@pytest.mark.parametrize("bad", [b"{", b"[]", b"7", b"NaN", b"<html>", b"\xff", b"[" * 100_000])
def test_an_event_that_is_no_chunk_is_malformed(play: Player, bad: bytes) -> None:
    assert isinstance(failed(play, b"data: " + bad + b"\n\n" + stream(*CALL)), errors.MalformedResponse)


@pytest.mark.parametrize("depth", [100, 300, 400, 450, 900])
def test_deep_nesting_gives_an_error_or_an_answer(depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    chunk_of = b'data: {"choices":[{"index":0,"delta":{"content":"A","brand_new":%b}}]}\n\n'
    tolerated(chunk_of % deep * 2 + DONE)


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", "text/event-stream"),
        (b"<html>bad gateway</html>", "text/html"),
        (b"\n\n: ping\n\n", None),
        (DONE, "text/event-stream"),
        (event({**chunk(), "choices": []}) + DONE, "text/event-stream"),
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


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503])
def test_a_refusal_by_status_is_that_of_chat(play: Player, status: int) -> None:
    body = {"error": {"message": "No.", "type": "some_type", "code": None}}
    provider = Provider(body, status, {"retry-after": "2", "content-type": "application/json"})
    client = provider.client(ADAPTER, HELLO.model)
    assert isinstance(client, StreamingChatClient)
    with pytest.raises(errors.ProviderError) as streamed:
        list(client.stream(HELLO))
    with pytest.raises(errors.ProviderError) as whole:
        client.chat(HELLO)
    assert (type(streamed.value), streamed.value) == (type(whole.value), whole.value)
    assert streamed.value.retry_after == 2
    assert len(provider.requests) == 2


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


@pytest.mark.parametrize(
    ("arguments", "end", "stop"),
    [
        ('{"a": 12', "length", StopReason.MAX_TOKENS),
        ("", "length", StopReason.MAX_TOKENS),
        ('{"a": 12', "tool_calls", StopReason.MALFORMED_CALL),
        ("[1]", "stop", StopReason.MALFORMED_CALL),
        ('{"a": NaN}', "tool_calls", StopReason.MALFORMED_CALL),
    ],
)
def test_a_call_that_cannot_run_never_ends(play: Player, arguments: str, end: str, stop: StopReason) -> None:
    events = play(stream(calls(piece(0, "call_a", "now", "{}")), calls(piece(1, "call_b", "then", arguments)), end=end))
    answer = finish(events)
    assert started(events) == [("call_a", "now"), ("call_b", "then")]
    assert ended(events) == [("call_a", "now", {})]
    assert answer.stop_reason is stop
    raw = {"id": "call_b", "type": "function", "function": {"name": "then", "arguments": arguments}}
    assert answer.message.parts[-1] == Opaque(API, raw)


def test_a_call_without_a_name_is_none(play: Player) -> None:
    events = play(stream(calls(piece(0, "call_a", "", "{}")), calls(piece(1, "call_b", "now", "{}"))))
    assert started(events) == [("call_b", "now")]
    assert finish(events).stop_reason is StopReason.MALFORMED_CALL


# --- any cut, any bytes -----------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(cuts(PARALLEL))
def test_any_cut_gives_the_same_events(chunks: list[bytes]) -> None:
    play = Player(ADAPTER)
    assert play(*chunks) == play(PARALLEL)


def test_every_byte_alone_and_every_place_give_the_same_events(play: Player) -> None:
    wanted = play(PARALLEL)
    for body in (PARALLEL, *rewritings(PARALLEL)):
        assert play(body) == wanted
        assert play(*cut(body, range(len(body)))) == wanted
    windows = PARALLEL.replace(b"\n", b"\r\n")
    for place in range(len(windows)):
        assert play(*cut(windows, [place])) == wanted


@settings(deadline=None)
@given(altered(PARALLEL))
def test_altered_bytes_give_an_error_or_an_answer(body: bytes) -> None:
    tolerated(body)


@settings(deadline=None)
@given(st.binary(max_size=60).map(lambda line: b"data:" + line + b"\n\n" + DONE) | st.binary(max_size=200))
def test_arbitrary_bytes_give_an_error_or_an_answer(body: bytes) -> None:
    tolerated(body)


TWISTED = [
    chunk(role="assistant", content="A", reasoning="B", reasoning_details=[{"type": "t", "text": "B", "index": 0}]),
    calls(piece(0, "call_a", "now", '{"a":'), piece(1, "", "then", "")),
    calls(piece(0, "call_a", "now", "12}"), piece(1, arguments="{}")),
    chunk(
        content=[{"type": "text", "text": "C"}], refusal="D", reasoning_details=[{"type": "t", "text": "B", "index": 0}]
    ),
    {**chunk("tool_calls", USAGE), "error": None},
]


@settings(max_examples=300, deadline=None)
@given(twisted(TWISTED), st.booleans())
def test_twisted_chunks_give_an_error_or_an_answer(body: bytes, done: bool) -> None:
    tolerated(body + (DONE if done else b""))


def tolerated(body: bytes) -> None:
    play = Player(ADAPTER)
    try:
        finish(play(body))
    except errors.ChatError:
        ended(play.seen)


# --- real streams -----------------------------------------------------------------------------------------------------


def streams() -> list[Recorded]:
    folders = ("openai-chat", "openai-compat-chat", "errors/openai-compat-chat")
    return [
        one
        for one in recorded(*folders)
        if one.response.headers.get("content-type", "").startswith("text/event-stream")
    ]


@needs_traffic
def test_real_streams_give_the_whole_answer(play: Player) -> None:
    good = broken = 0
    for one in streams():
        view = WITNESS.read(response(one.response.body))
        if view.error:
            error = failed(play, one.response.body)
            assert isinstance(error, errors.ProviderError), one.path
            assert (error.message, error.code) == (view.error.message, view.error.code)
            broken += 1
        else:
            events = play(one.response.body)
            assert finish(events) == play.whole(view.body), one.path
            good += 1
    assert (good >= 80, broken >= 4) == (True, True)


@needs_traffic
def test_real_streams_in_any_cut_give_the_same_events(play: Player) -> None:
    for one in streams():
        body = one.response.body
        wanted = outcome(play, body)
        for seed in range(50):
            assert outcome(play, *random_cut(body, seed)) == wanted, (one.path, seed)


def outcome(play: Player, *chunks: bytes) -> Any:
    try:
        return play(*chunks)
    except errors.ChatError as error:
        return play.seen, type(error), str(error)
