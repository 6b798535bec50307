from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.adapters.anthropic import ADAPTER, eventstream
from harness.apis.anthropic import API
from harness.contract import errors
from harness.contract.model import (
    ArgumentsDelta,
    ChatRequest,
    Finish,
    Message,
    Opaque,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from harness.contract.protocols import Capability
from tests.adapters.streamed import Pieces, Player, Server, cut, random_cuts, response, until_error
from tests.traffic import needs_traffic, recorded

MODEL = "claude-sonnet-4-6"
ASKED = ChatRequest(MODEL, (Message.user("hi"),))
STOP = {"type": "message_stop"}
JSON_OBJECTS = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    ),
    max_size=3,
)


def sse(*events: Any) -> bytes:
    """Events in the API's grammar; `str` and `bytes` stand for themselves."""
    return b"".join(
        event
        if isinstance(event, bytes)
        else f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for event in events
    )


def begin(**fields: Any) -> dict[str, Any]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-6-20260101",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 7, "cache_read_input_tokens": 2, "output_tokens": 1},
    }
    return {"type": "message_start", "message": {**message, **fields}}


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def settle(reason: str | None = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    return [
        start(index, type="text", text=""),
        *(delta(index, "text_delta", text=each) for each in pieces),
        stop(index),
    ]


def call(index: int, *fragments: str, name: str = "f", **fields: Any) -> list[dict[str, Any]]:
    return [
        start(index, **{"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}, **fields}),
        *(delta(index, "input_json_delta", partial_json=each) for each in fragments),
        stop(index),
    ]


def played(*events: Any, cuts: tuple[int, ...] = ()) -> list[StreamEvent]:
    return Player(ADAPTER, MODEL).stream(*cut(sse(*events), cuts))


def answered(*events: Any, reason: str = "end_turn") -> list[StreamEvent]:
    return played(begin(), *events, settle(reason), STOP)


def broken(*events: Any) -> tuple[list[StreamEvent], errors.ChatError]:
    """What came before the error, and the error."""
    server = Server(Pieces([sse(*events)]))
    return until_error(server.client(ADAPTER, MODEL).stream(ASKED))


# The request


def test_the_adapter_streams() -> None:
    assert Capability.STREAMING in ADAPTER.capabilities


def test_a_streamed_request_is_the_same_but_for_the_switch() -> None:
    request = ChatRequest(
        MODEL,
        (Message.user("hi"),),
        system="Be brief.",
        tools=(Tool("f", "", {}),),
        provider_metadata={"anthropic": {"future": 1}},
    )
    whole = Server(json.dumps(begin()["message"]).encode())
    whole.client(ADAPTER, MODEL).chat(request)
    streamed = Server(sse(begin(), *text(0, "hi"), settle(), STOP))
    response(list(streamed.client(ADAPTER, MODEL).stream(request)))
    assert streamed.body == {**whole.body, "stream": True}
    assert streamed.requests[0].url == whole.requests[0].url


def test_nothing_is_sent_before_the_first_event_is_asked_for_nor_if_the_request_cannot_be_made() -> None:
    server = Server(sse(begin(), settle(), STOP))
    stream = server.client(ADAPTER, MODEL).stream(ChatRequest(MODEL, (Message.user("hi"),), temperature=1.0))
    with pytest.raises(errors.Unsupported):
        next(stream)
    server.client(ADAPTER, MODEL).stream(ASKED)
    assert server.requests == []


# Events


def test_text_arrives_in_its_pieces() -> None:
    events = answered(*text(0, "Grüß ", "", "dich"))
    assert events[:-1] == [TextDelta("Grüß "), TextDelta("dich")]
    assert response(events).message.parts == (Text("Grüß dich"),)


def test_events_come_while_the_body_arrives() -> None:
    body = Pieces([sse(begin(), start(0, type="text", text="")), sse(delta(0, "text_delta", text="a")), sse(STOP)])
    stream = Server(body).client(ADAPTER, MODEL).stream(ASKED)
    assert next(stream) == TextDelta("a")
    assert body.taken == 2


def test_a_call_arrives_in_fragments() -> None:
    events = answered(*text(0, "So"), *call(1, "", '{"ci', 'ty": "Par', 'is"}'), reason="tool_use")
    assert events[:-1] == [
        TextDelta("So"),
        ToolCallStart(0, "toolu_1", "f"),
        ArgumentsDelta(0, '{"ci'),
        ArgumentsDelta(0, 'ty": "Par'),
        ArgumentsDelta(0, 'is"}'),
        ToolCallEnd(0),
    ]
    answer = response(events)
    assert answer.message.parts == (Text("So"), ToolCall("toolu_1", "f", {"city": "Paris"}))
    assert answer.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize("fragments", [(), ("",), ("", ""), ("{}",), ("", "{}")])
def test_a_call_without_arguments(fragments: tuple[str, ...]) -> None:
    answer = response(answered(*call(0, *fragments), *call(1, '{"a":1}'), reason="tool_use"))
    assert [each.arguments for each in answer.tool_calls] == [{}, {"a": 1}]


def test_calls_are_counted_apart_from_blocks_and_end_once_the_next_block_starts() -> None:
    events = answered(*call(1, "{}"), *text(2, "and"), *call(4, "{}"), reason="tool_use")
    assert events[:-1] == [
        ToolCallStart(0, "toolu_1", "f"),
        ArgumentsDelta(0, "{}"),
        ToolCallEnd(0),
        TextDelta("and"),
        ToolCallStart(1, "toolu_4", "f"),
        ArgumentsDelta(1, "{}"),
        ToolCallEnd(1),
    ]


def test_several_blocks_may_be_open_at_once() -> None:
    first, second = call(0, '{"a":', "1}"), call(1, '{"b":', "2}")
    mixed = [first[0], second[0], first[1], second[1], first[2], second[2], second[3], first[3]]
    assert [each.arguments for each in response(answered(*mixed, reason="tool_use")).tool_calls] == [{"a": 1}, {"b": 2}]


def test_arguments_that_come_with_the_start_of_a_call() -> None:
    events = answered(*call(0, input={"city": "Köln"}), reason="tool_use")
    assert events[1] == ArgumentsDelta(0, '{"city":"Köln"}')
    assert response(events).tool_calls[0].arguments == {"city": "Köln"}


def test_text_that_comes_with_the_start_of_a_block() -> None:
    started = [start(0, type="text", text="Hi"), delta(0, "text_delta", text="!"), stop(0)]
    assert response(answered(*started)).text == "Hi!"


def test_fields_of_a_call_are_kept() -> None:
    (part,) = response(answered(*call(0, "{}", caller={"type": "direct"}), reason="tool_use")).message.parts
    assert part == ToolCall("toolu_0", "f", {}, {"anthropic": {"caller": {"type": "direct"}}})


def test_a_signature_replaces_and_thinking_grows() -> None:
    events = answered(
        start(0, type="thinking", thinking="", signature="draft"),
        delta(0, "thinking_delta", thinking="Let "),
        delta(0, "thinking_delta", thinking="me"),
        delta(0, "signature_delta", signature="one"),
        delta(0, "signature_delta", signature="sig=="),
        stop(0),
        *text(1, "Hi"),
    )
    assert events[:2] == [ThinkingDelta("Let "), ThinkingDelta("me")]
    assert response(events).message.parts[0] == Thinking("Let me", {"anthropic": {"signature": "sig=="}})


def test_thinking_that_is_not_shown_keeps_its_signature() -> None:
    block = [start(0, type="thinking", thinking=""), delta(0, "signature_delta", signature="s"), stop(0)]
    assert response(answered(*block)).message.parts == (Thinking("", {"anthropic": {"signature": "s"}}),)


@pytest.mark.parametrize("fields", [{}, {"citations": None}, {"citations": []}])
def test_citations_are_collected(fields: dict[str, Any]) -> None:
    block = [
        start(0, type="text", text="", **fields),
        delta(0, "citations_delta", citation={"cited_text": "a"}),
        delta(0, "text_delta", text="A"),
        delta(0, "citations_delta", citation={"cited_text": "b"}),
        stop(0),
    ]
    cited = {"citations": [{"cited_text": "a"}, {"cited_text": "b"}]}
    assert response(answered(*block)).message.parts == (Text("A", {"anthropic": cited}),)


def test_what_has_no_type_here_is_kept_in_its_place_and_says_nothing() -> None:
    events = answered(
        *call(0, '{"query":', '"x"}', type="server_tool_use", name="web_search"),
        start(1, type="brand_new", text="not text", list=[1], count=1),
        delta(1, "text_delta", text="!"),
        delta(1, "brand_new_delta", blob="a"),
        delta(1, "brand_new_delta", blob="b", list=[2], count=2),
        stop(1),
        {"type": "brand_new_event", "index": 7},
        {"type": "ping"},
        *text(2, "Hi"),
    )
    assert events[:-1] == [TextDelta("Hi")]
    searched, new, _ = response(events).message.parts
    assert isinstance(searched, Opaque)
    assert isinstance(searched.raw, dict)
    assert searched.raw["input"] == {"query": "x"}
    kept = {"type": "brand_new", "text": "not text!", "list": [1, 2], "count": 2, "blob": "ab"}
    assert new == Opaque("anthropic", kept)


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"output_tokens": 5}, Usage(9, 5, 2)),
        ({"input_tokens": 8, "cache_read_input_tokens": 0, "output_tokens": 5}, Usage(8, 5, 0)),
        ({"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 5}, Usage(9, 5, 2)),
        ({}, Usage(9, 1, 2)),
    ],
)
def test_usage_of_the_end_lies_over_that_of_the_start(counts: dict[str, Any], usage: Usage) -> None:
    finish = played(begin(), *text(0, "Hi"), settle(output_tokens=4), settle(**counts), STOP)[-1]
    assert isinstance(finish, Finish)
    assert finish.response.usage == (usage if counts else Usage(9, 4, 2))


def test_no_content_at_all() -> None:
    assert response(answered()).message.parts == ()


# Calls that are cut


@pytest.mark.parametrize("fragments", [('{"city": "Par',), ('{"city":', '"Paris"}'), ()])
def test_a_call_cut_by_max_tokens_has_no_end(fragments: tuple[str, ...]) -> None:
    events = answered(*call(0, '{"a":1}'), *call(1, *fragments), reason="max_tokens")
    assert [event for event in events if isinstance(event, ToolCallEnd)] == [ToolCallEnd(0)]
    answer = response(events)
    assert [each.id for each in answer.tool_calls] == ["toolu_0"]
    assert isinstance(answer.message.parts[-1], Opaque)
    assert answer.stop_reason is StopReason.MAX_TOKENS


@pytest.mark.parametrize("arguments", ['{"city": "Par', "[]", '"Paris"', "{'city': 1}", '{"a": NaN}', "[" * 5000])
def test_arguments_that_are_no_object_have_no_end(arguments: str) -> None:
    events = answered(*call(0, arguments), *text(1, "So"), reason="tool_use")
    assert ToolCallEnd(0) not in events
    answer = response(events)
    assert (answer.tool_calls, answer.stop_reason) == ((), StopReason.MALFORMED_CALL)


# Streams that break


WHOLE = (begin(), *text(0, "Hi"), *call(1, '{"a":', "1}"), settle("tool_use", output_tokens=5), STOP)


def test_every_cut_before_the_end_is_an_error() -> None:
    body = sse(*WHOLE)
    player = Player(ADAPTER, MODEL)
    whole = player.stream(body)
    for length in range(len(body)):
        stream = Server(Pieces([body[:length]])).client(ADAPTER, MODEL).stream(ASKED) if length % 40 == 0 else None
        with pytest.raises(errors.MalformedResponse):
            player.stream(body[:length])
        if stream:
            seen, _ = until_error(stream)
            assert seen == whole[: len(seen)]
            assert not any(isinstance(event, (ToolCallEnd, Finish)) for event in seen)


@pytest.mark.parametrize("failure", [httpx2.ReadError("reset"), httpx2.ReadTimeout("slow"), OSError("reset")])
def test_a_connection_that_breaks_in_mid_stream(failure: Exception) -> None:
    server = Server(Pieces([sse(*WHOLE[:-1])], failure))
    seen, error = until_error(server.client(ADAPTER, MODEL).stream(ASKED))
    assert isinstance(error, errors.ConnectionFailed)
    assert seen[0] == TextDelta("Hi")
    assert not any(isinstance(event, (ToolCallEnd, Finish)) for event in seen)
    assert len(server.requests) == 1


def test_errors_of_our_tree_pass_from_the_transport() -> None:
    failure = errors.CassetteError("c.yaml", "cut")
    stream = Server(Pieces([sse(begin())], failure)).client(ADAPTER, MODEL).stream(ASKED)
    with pytest.raises(errors.CassetteError) as caught:
        list(stream)
    assert caught.value is failure


@pytest.mark.parametrize(
    ("kind", "expected", "status"),
    [
        ("overloaded_error", errors.Overloaded, 529),
        ("rate_limit_error", errors.RateLimited, 429),
        ("invalid_request_error", errors.InvalidRequest, 400),
        ("api_error", errors.ServerError, 500),
        ("brand_new_error", errors.ServerError, 500),
    ],
)
def test_an_error_in_mid_stream(kind: str, expected: type[errors.ProviderError], status: int) -> None:
    failure = {"type": "error", "error": {"type": kind, "message": "No."}, "request_id": "req_1"}
    seen, error = broken(*WHOLE[:-2], failure, *WHOLE[-2:])
    assert error == expected(status, "No.", kind)
    assert not any(isinstance(event, (ToolCallEnd, Finish)) for event in seen)


@pytest.mark.parametrize(
    "event",
    [
        b'event: error\ndata: {"message": "No."}\n\n',
        b'data: {"error": {"message": "No."}}\n\n',
        b'event: error\ndata: {"type": "error", "error": "No."}\n\n',
    ],
)
def test_an_error_in_another_shape(event: bytes) -> None:
    _, error = broken(begin(), event, STOP)
    assert isinstance(error, errors.ServerError)
    assert "No." in error.message
    assert error.code is None


@pytest.mark.parametrize(
    "events",
    [
        (),
        (STOP,),
        (b"<html>Bad gateway</html>\n\n",),
        (b"data: <html>\n\n",),
        (b"data: []\n\n",),
        (b"data: \xff\n\n",),
        (b"data: [DONE]\n\n",),
        (json.dumps(begin()["message"]).encode(),),
        (begin(), begin(), STOP),
        ({"type": "message_start"}, STOP),
        (settle(), begin(), STOP),
        (begin(), {**settle(), "delta": None}, STOP),
        (begin(), delta(0, "text_delta", text="Hi"), STOP),
        (begin(), stop(0), STOP),
        (begin(), *text(0, "Hi"), delta(0, "text_delta", text="Hi"), STOP),
        (begin(), *text(0, "Hi"), *text(0, "Hi"), STOP),
        (begin(), *text(1, "Hi"), *text(0, "Hi"), STOP),
        (begin(), {"type": "content_block_start", "content_block": {}}, STOP),
        (begin(), start(0, type="text", text=""), delta(0, "text_delta", text=5), STOP),
        (begin(), *call(0)[:1], delta(0, "input_json_delta"), STOP),
    ],
)
def test_what_is_no_stream_of_this_api(events: tuple[Any, ...]) -> None:
    seen, error = broken(*events)
    assert isinstance(error, errors.MalformedResponse)
    assert not any(isinstance(event, Finish) for event in seen)


def test_refusals_come_as_they_do_without_streaming() -> None:
    refusal = {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow."}}
    server = Server(httpx2.Response(429, headers={"retry-after": "7"}, json=refusal))
    _, error = until_error(server.client(ADAPTER, MODEL).stream(ASKED))
    assert error == errors.RateLimited(429, "Slow.", "rate_limit_error", 7.0)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "answer", [httpx2.Response(307, headers={"location": "http://elsewhere.invalid/"}), httpx2.ConnectError("refused")]
)
def test_no_answer(answer: Any) -> None:
    server = Server(answer)
    _, error = until_error(server.client(ADAPTER, MODEL).stream(ASKED))
    assert isinstance(error, errors.ConnectionFailed)
    assert len(server.requests) == 1


def test_a_stream_that_is_left_early_gives_its_connection_back() -> None:
    body = Pieces([sse(each) for each in WHOLE])
    stream = Server(body).client(ADAPTER, MODEL).stream(ASKED)
    assert next(stream) == TextDelta("Hi")
    assert not body.closed
    stream.close()  # type: ignore[attr-defined]
    assert body.closed


# Bytes


SPOKEN = (
    begin(),
    *text(0, "a\u2028b\u0085c\u2029 – 日本 😀"),
    *call(1, '{"a":"\\u00e4\u2028"', ',"b":1}'),
    settle(),
    STOP,
)


def test_line_ends_comments_and_cuts_make_no_difference() -> None:
    body = sse(*SPOKEN)
    player = Player(ADAPTER, MODEL)
    expected = player.stream(body)
    assert response(expected).text == "a\u2028b\u0085c\u2029 – 日本 😀"
    spelled = [
        body,
        body.replace(b"\n", b"\r\n"),
        body.replace(b"\n", b"\r"),
        b"\xef\xbb\xbf" + body,
        body.replace(b"event:", b": keep-alive\n\ndata:\n\nid: 1\nretry: 5\nevent:"),
        body.replace(b"data: ", b"data:").replace(b"event: ", b"event:"),
        body.replace(b"data: {", b"data: {\ndata: "),
        body.replace(b"data: {", b"data: {\ndata: ").replace(b"\n", b"\r\n"),
        b"".join(line for line in body.splitlines(keepends=True) if not line.startswith(b"event")),
    ]
    for spelling in spelled:
        assert player.stream(spelling) == expected
        assert player.stream(*(spelling[place : place + 1] for place in range(len(spelling)))) == expected
    crlf = spelled[1]
    for place in range(len(crlf)):
        assert player.stream(crlf[:place], crlf[place:]) == expected


def test_empty_pieces_make_no_difference() -> None:
    body = sse(*WHOLE).replace(b"\n", b"\r\n")
    pieces = [piece for place in range(len(body)) for piece in (b"", body[place : place + 1])]
    assert list(eventstream.events(pieces)) == list(eventstream.events([body]))
    assert len(list(eventstream.events([body]))) == len(WHOLE)


def test_an_event_does_not_wait_for_the_byte_behind_its_end() -> None:
    body = sse(begin(), *text(0, "a")[:2]).replace(b"\n", b"\r")
    pieces = Pieces([body, b"\r"])
    assert next(Server(pieces).client(ADAPTER, MODEL).stream(ASKED)) == TextDelta("a")
    assert pieces.taken == 1


def _fragments(draw: st.DrawFn, written: str) -> list[str]:
    places = draw(st.lists(st.integers(0, len(written)), max_size=4))
    borders = [0, *sorted(places), len(written)]
    return [written[begin:end] for begin, end in pairwise(borders)]


@st.composite
def spoken(draw: st.DrawFn) -> tuple[bytes, dict[str, Any], list[int]]:
    """A stream, the message that it says, and places to cut it at."""
    events: list[Any] = [begin()]
    content: list[dict[str, Any]] = []
    for index in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            written = draw(st.text(min_size=1))
            events += text(index, *_fragments(draw, written))
            content.append({"type": "text", "text": written})
        else:
            arguments = draw(JSON_OBJECTS)
            written = json.dumps(arguments, ensure_ascii=draw(st.booleans())) if arguments else ""
            events += call(index, *_fragments(draw, written))
            content.append({"type": "tool_use", "id": f"toolu_{index}", "name": "f", "input": arguments})
        events += draw(st.lists(st.just({"type": "ping"}), max_size=1))
    reason = draw(st.sampled_from(["end_turn", "tool_use", "max_tokens", "new"]))
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\r"]))
    body = sse(*events, settle(reason, output_tokens=3), STOP).replace(b"\n", end)
    usage = {**begin()["message"]["usage"], "output_tokens": 3}
    message = {**begin()["message"], "content": content, "stop_reason": reason, "usage": usage}
    return body, message, draw(st.lists(st.integers(0, len(body)), max_size=20))


PLAYER = Player(ADAPTER, MODEL)


@settings(deadline=None, max_examples=150)
@given(spoken())
def test_streamed_equals_whole_however_it_is_cut(case: tuple[bytes, dict[str, Any], list[int]]) -> None:
    body, message, places = case
    events = PLAYER.stream(body)
    assert response(events) == PLAYER.chat(message)
    assert PLAYER.stream(*cut(body, places)) == events


TOKENS = st.sampled_from(
    [sse(each) for each in WHOLE] + [b"data: ", b"event: error\n", b"\n", b"\r", b"{}", b'"', b":"]
)


@settings(deadline=None, max_examples=300)
@given(st.lists(TOKENS | st.binary(max_size=12)))
def test_arbitrary_bytes_give_events_or_an_error(pieces: list[bytes]) -> None:
    def outcome(*cuts: bytes) -> Any:
        try:
            return PLAYER.stream(*cuts)
        except errors.ChatError as error:
            return error

    result = outcome(*pieces)
    assert outcome(b"".join(pieces)) == result
    if isinstance(result, list):
        response(result)


@needs_traffic
def test_recorded_streams_end_as_they_would_whole() -> None:
    count = 0
    for exchange in recorded("anthropic-messages"):
        view = API.read(exchange.response)
        if not view.streamed:
            continue
        count += 1
        events = PLAYER.stream(exchange.response.body)
        assert response(events) == PLAYER.chat(view.body), exchange.path
        for pieces in random_cuts(exchange.response.body, 50):
            assert PLAYER.stream(*pieces) == events, exchange.path
    assert count > 30
