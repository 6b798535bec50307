"""Streamed responses, for every adapter that sends HTTP.

Bodies arrive in many cuts and spellings. The response of a stream must equal the same response sent whole.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import operator
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.model import errors
from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    Finish,
    Message,
    Opaque,
    StopReason,
    TextDelta,
    Thinking,
    ThinkingDelta,
    Tool,
    ToolCallEnd,
    ToolCallStart,
)
from harness.model.protocols import Capability
from harness.rules.response_diff import IssuedValues, response_differences
from tests.adapters.streamed import BASE, Pieces, Player, Server, cut, random_cuts, response, until_error
from tests.adapters.values import JSON_OBJECTS, JSON_VALUES
from tests.adapters.wires import WIRES
from tests.adapters.wires.wire import Said, Wire, calls, says
from tests.traffic import needs_traffic, recorded

HI = ChatRequest(messages=(Message.user("hi"),))
SAID = (
    says("H\u2028ä", "", "\u0085!"),
    calls("call_1", "f", '{"city": "Kö', 'ln \\\\ \\" } ] {"}'),
    calls("call_2", "g"),
)
PLAYERS = {name: Player(wire.adapter, wire.model) for name, wire in WIRES.items()}
DONE = b"data: [DONE]\n\n"
"""End mark of Chat Completions."""


@pytest.fixture
def player(wire: Wire) -> Player:
    return PLAYERS[wire.adapter.name]


def body(wire: Wire, *said: Said, **options: Any) -> bytes:
    return wire.stream(*(said or SAID), **options)


def broken(player: Player, *pieces: bytes, failure: Exception | None = None) -> errors.ChatError:
    """The error that a stream ends in, before which no answer has come."""
    with pytest.raises(errors.ChatError) as caught:
        player.stream(*pieces, failure=failure)
    assert not any(isinstance(event, Finish) for event in player.seen)
    return caught.value


# --- the request ------------------------------------------------------------------------------------------------------


def test_the_request_is_the_same_but_for_the_switch(wire: Wire) -> None:
    assert Capability.STREAMING in wire.adapter.capabilities
    request = ChatRequest(
        messages=HI.messages,
        system="Be brief.",
        tools=(Tool("f", "", {}),),
        provider_metadata={wire.adapter.api: {"future": 1}},
    )
    whole, streamed = Server(json.dumps(wire.whole(says("Hi"))).encode()), Server(body(wire))
    wire.ask(whole, request)
    response(list(streamed.client(wire.adapter, wire.model).stream(request)))
    assert streamed.body == {**whole.body, **wire.streamed}
    (sent,) = streamed.requests
    assert str(sent.url) == BASE + wire.stream_url
    assert {name: sent.headers[name] for name in wire.headers} == wire.headers


def test_a_stream_sends_its_request_with_the_first_event(wire: Wire) -> None:
    server = Server(body(wire))
    client = server.client(wire.adapter, wire.model)
    client.stream(HI)
    with pytest.raises(errors.Unsupported):
        next(client.stream(ChatRequest(messages=HI.messages, tool_choice="required")))
    assert server.requests == []


def test_the_callers_http_client_sends_and_stays_open(wire: Wire) -> None:
    server = Server(body(wire))
    server.http.headers["x-of-the-caller"] = "yes"
    client = server.client(wire.adapter, wire.model)
    response(list(client.stream(HI)))
    client.close()
    assert server.requests[0].headers["x-of-the-caller"] == "yes"
    assert not server.http.is_closed


# --- what arrives -----------------------------------------------------------------------------------------------------


def test_text_and_arguments_arrive_in_their_pieces(wire: Wire, player: Player) -> None:
    events = player.stream(body(wire))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["H\u2028ä", "\u0085!"]
    assert [event for event in events if isinstance(event, ToolCallStart)] == [
        ToolCallStart(0, "call_1", "f"),
        ToolCallStart(1, "call_2", "g"),
    ]
    pieces = [event.text for event in events if isinstance(event, ArgumentsDelta) and event.index == 0]
    whole = '{"city":"Köln \\\\ \\" } ] {"}'
    assert pieces == ([whole] if wire.adapter.name == "gemini" else list(SAID[1].pieces))
    assert [event.index for event in events if isinstance(event, ToolCallEnd)] == [0, 1]
    answer = response(events)
    assert answer == player.chat(wire.whole(*SAID))
    assert (answer.stop_reason, answer.tool_calls[0].arguments) == (StopReason.TOOL_USE, {"city": 'Köln \\ " } ] {'})


def test_no_content_at_all(wire: Wire, player: Player) -> None:
    assert response(player.stream(wire.stream())).message.parts == ()


@pytest.mark.parametrize("pieces", [("",), ("", ""), ("{}",), ("", "{}"), ("{", "}")])
def test_a_call_without_arguments(wire: Wire, player: Player, pieces: tuple[str, ...]) -> None:
    events = player.stream(body(wire, calls("call_1", "f", *pieces), calls("call_2", "f", '{"a":1}')))
    assert [call.arguments for call in response(events).tool_calls] == [{}, {"a": 1}]


def test_the_last_usage_counts(wire: Wire, player: Player) -> None:
    usage, counted = wire.counted
    assert response(player.stream(body(wire, says("Hi"), usage=usage))).usage == counted


@pytest.mark.parametrize("number", range(3))
def test_events_come_while_the_body_arrives(wire: Wire, number: int) -> None:
    """The first piece of text, with the event that brings it, be that cut in itself or not."""
    events = [wire.event(payload) for payload in wire.payloads(*SAID)]
    place = next(place for place, event in enumerate(events) if b"H\\u2028" in event or "H\u2028".encode() in event)
    first, rest = b"".join(events[: place + 1]), b"".join(events[place + 1 :])
    pieces = Pieces([*cut(first, [len(first) // 3, len(first) // 2][:number]), rest])
    stream = Server(pieces).client(wire.adapter, wire.model).stream(HI)
    assert next(stream) == TextDelta("H\u2028ä")
    assert pieces.taken == number + 1


def test_an_event_does_not_wait_for_the_byte_after_its_end(wire: Wire) -> None:
    events = [wire.event(payload) for payload in wire.payloads(says("a", "b"))]
    place = next(place for place, event in enumerate(events) if b'"a"' in event)
    pieces = Pieces([b"".join(events[: place + 1]).replace(b"\n", b"\r"), b"\r", b"".join(events[place + 1 :])])
    assert next(Server(pieces).client(wire.adapter, wire.model).stream(HI)) == TextDelta("a")
    assert pieces.taken == 1


def test_a_stream_that_is_left_early_gives_its_connection_back(wire: Wire) -> None:
    pieces = Pieces([wire.event(payload) for payload in wire.payloads(*SAID)])
    stream = Server(pieces).client(wire.adapter, wire.model).stream(HI)
    assert next(stream) == TextDelta("H\u2028ä")
    assert not pieces.closed
    stream.close()  # type: ignore[attr-defined]
    assert pieces.closed


# --- calls that cannot run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in WIRES if name != "gemini"])  # whose calls come whole or not at all
@pytest.mark.parametrize("pieces", [('{"city": "Par',), ("",), ('{"city"', ':"Paris"}')])
def test_a_call_cut_short_never_ends(name: str, pieces: tuple[str, ...]) -> None:
    """Not even if the provider closed its JSON, as Anthropic and Responses do."""
    wire, player = WIRES[name], PLAYERS[name]
    if name == "openai-chat" and pieces[-1].endswith("}"):
        return
    raw = next(raw for raw, reason in wire.stops.items() if reason is StopReason.MAX_TOKENS)
    said = (calls("call_1", "f", '{"a":1}'), calls("call_2", "g", *pieces))
    events = player.stream(body(wire, *said, stop=raw))
    assert [event.index for event in events if isinstance(event, ToolCallEnd)] == [0]
    answer = response(events)
    assert [call.id for call in answer.tool_calls] == ["call_1"]
    assert isinstance(answer.message.parts[-1], Opaque)
    assert (answer.stop_reason, answer.raw_stop_reason) == (StopReason.MAX_TOKENS, raw)


BROKEN = [(name, text) for name, wire in WIRES.items() for text in wire.broken_arguments]


@pytest.mark.parametrize(("name", "text"), BROKEN)
def test_arguments_that_are_no_object_have_no_end(name: str, text: str) -> None:
    wire, player = WIRES[name], PLAYERS[name]
    events = player.stream(body(wire, calls("call_1", "f", text), says("So"), calls("call_2", "g")))
    assert len([event for event in events if isinstance(event, ToolCallEnd)]) == 1
    answer = response(events)
    assert [call.id for call in answer.tool_calls] == ["call_2"]
    assert answer.stop_reason is StopReason.MALFORMED_CALL


# --- streams that break -----------------------------------------------------------------------------------------------


def test_a_stream_that_is_cut_is_an_error(wire: Wire, player: Player) -> None:
    """Wherever it is cut, until it has said why the model stopped; no call has ended that was not whole by then."""
    whole = body(wire)
    expected = player.stream(whole)
    events = [wire.event(payload) for payload in wire.payloads(*SAID)]
    ends = (b'"message_stop"', b'"STOP"', b'"finish_reason": "tool_calls"', b'"response.completed"')
    last = max(place for place, event in enumerate(events) if any(end in event for end in ends))
    known = len(b"".join(events[: last + 1]))
    borders = {len(b"".join(events[:number])) + off for number in range(last + 1) for off in (-2, -1, 0, 1)}
    for place in sorted({*range(0, known - 1, 29), *(border for border in borders if 0 <= border < known - 1)}):
        error = broken(player, whole[:place])
        assert isinstance(error, errors.MalformedResponse), place
        assert player.seen == expected[: len(player.seen)]


@pytest.mark.parametrize(
    "failure",
    [httpx2.ReadError("reset"), httpx2.RemoteProtocolError("incomplete"), httpx2.ReadTimeout("slow"), OSError("reset")],
)
def test_a_connection_that_breaks_in_mid_stream(wire: Wire, failure: Exception) -> None:
    events = [wire.event(payload) for payload in wire.payloads(*SAID)]
    server = Server(Pieces(events[:-2], failure))
    seen, error = until_error(server.client(wire.adapter, wire.model).stream(HI))
    assert isinstance(error, errors.ConnectionFailed)
    assert seen[0] == TextDelta("H\u2028ä")
    assert not any(isinstance(event, Finish) for event in seen)
    assert len(server.requests) == 1


def test_errors_of_our_tree_pass_from_the_transport(wire: Wire) -> None:
    ours = errors.CassetteError("c.yaml", "cut")
    first = wire.event(wire.payloads(*SAID)[0])
    for answer in (Pieces([first], ours), ours):
        with pytest.raises(errors.CassetteError) as caught:
            list(Server(answer).client(wire.adapter, wire.model).stream(HI))
        assert caught.value is ours


FAILURES = [(name, event, error) for name, wire in WIRES.items() for event, error in wire.failures]


@pytest.mark.parametrize(("name", "event", "error"), FAILURES)
def test_an_error_inside_the_stream_is_the_providers(name: str, event: bytes, error: errors.ProviderError) -> None:
    wire, player = WIRES[name], PLAYERS[name]
    events = [wire.event(payload) for payload in wire.payloads(*SAID)]
    for before in ([], events[:2], events[:-2]):
        caught = broken(player, b"".join(before) + event + body(wire))
        assert (type(caught), caught) == (type(error), error)


NO_STREAMS = [
    (name, none)
    for name, wire in WIRES.items()
    for none in (*wire.no_streams, b"", b"\n\n: ping\n\n", b"<html>Bad gateway</html>\n\n", b"{}", b'{"a": "b"}')
]
NO_EVENTS = [b"{", b"[]", b"7", b"NaN", b"<html>", b"\xff", b"[" * 100_000]


@pytest.mark.parametrize(("name", "none"), NO_STREAMS)
def test_other_bodies_are_malformed_streams(name: str, none: bytes) -> None:
    assert isinstance(broken(PLAYERS[name], none), errors.MalformedResponse)


@pytest.mark.parametrize("bad", NO_EVENTS)
def test_an_event_without_a_json_object_is_malformed(wire: Wire, player: Player, bad: bytes) -> None:
    for mark in (b"", b"\xef\xbb\xbf"):
        assert isinstance(broken(player, mark + b"data: " + bad + b"\n\n" + body(wire)), errors.MalformedResponse)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 413, 429, 500, 502, 503])
def test_a_refusal_by_status_is_the_same_as_of_chat(wire: Wire, status: int) -> None:
    headers = {"retry-after": "7", "content-type": "application/json"}
    server = Server(httpx2.Response(status, headers=headers, json=wire.refusal(status)))
    client = server.client(wire.adapter, wire.model)
    _, streamed = until_error(client.stream(HI))
    with pytest.raises(errors.ProviderError) as whole:
        client.chat(HI)
    assert (type(streamed), streamed) == (type(whole.value), whole.value)
    assert whole.value.retry_after == 7
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "answer", [httpx2.Response(307, headers={"location": "http://elsewhere.invalid/"}), httpx2.ConnectError("refused")]
)
def test_no_answer(wire: Wire, answer: Any) -> None:
    server = Server(answer)
    _, error = until_error(server.client(wire.adapter, wire.model).stream(HI))
    assert isinstance(error, errors.ConnectionFailed)
    assert len(server.requests) == 1


# --- any cut, any spelling, any bytes ---------------------------------------------------------------------------------


def spellings(stream: bytes) -> list[bytes]:
    """The same events in other bytes: other line ends, comments, keep-alives, a byte order mark, no space."""
    return [
        stream.replace(b"\n", b"\r\n"),
        stream.replace(b"\n", b"\r"),
        b"\xef\xbb\xbf" + stream,
        stream.replace(b"\n\n", b"\n\n: keep-alive\n\n"),
        stream.replace(b"data:", b": comment\ndata:"),
        stream.replace(b"\n\n", b"\n\nid: 7\nretry: 10\nother\n\n"),
        stream.replace(b"data: ", b"data:"),
        stream.replace(b"data: {", b"data: {\r\ndata: "),
    ]


def test_spelling_and_cuts_make_no_difference(wire: Wire, player: Player) -> None:
    stream = body(wire)
    expected = player.stream(stream)
    for spelled in (stream, *spellings(stream)):
        assert player.stream(spelled) == expected
        assert player.stream(*cut(spelled, range(len(spelled)))) == expected
    windows = stream.replace(b"\n", b"\r\n")
    ends = {place for place, byte in enumerate(windows) if byte in b"\r\n\\" or byte > 127}
    for place in sorted(ends | {place + 1 for place in ends}):
        assert player.stream(windows[:place], b"", windows[place:]) == expected


@pytest.mark.parametrize("name", WIRES)
def test_events_without_data_or_names_make_no_difference(name: str) -> None:
    wire, player = WIRES[name], PLAYERS[name]
    stream = body(wire)
    nameless = b"".join(line for line in stream.splitlines(keepends=True) if not line.startswith(b"event"))
    assert player.stream(nameless) == player.stream(stream)
    if name != "gemini":  # whose lines of data always hold a chunk
        assert player.stream(stream.replace(b"\n\n", b"\n\ndata:\n\n")) == player.stream(stream)


@st.composite
def answers(draw: st.DrawFn, wire: Wire) -> tuple[list[Said], str | None, list[int]]:
    """Draw the content of a response, its stop reason, and places to cut it at (per mille)."""
    said: list[Said] = []
    for number in range(draw(st.integers(0, 4))):
        talks = draw(st.booleans()) and not (said and hasattr(said[-1], "name") and wire.adapter.name == "openai-chat")
        if talks and not (said and not hasattr(said[-1], "name")):
            said.append(says(*_pieces(draw, draw(st.text(min_size=1)))))
        else:
            written = json.dumps(draw(JSON_OBJECTS), ensure_ascii=draw(st.booleans()))
            said.append(calls(f"call_{number}", "f", *_pieces(draw, written)))
    stop = draw(st.sampled_from(["", *(raw for raw in wire.stops if raw in {"end_turn", "STOP", "stop", "completed"})]))
    return said, stop, draw(st.lists(st.integers(0, 1000), max_size=20))


def _pieces(draw: st.DrawFn, written: str) -> list[str]:
    places = draw(st.lists(st.integers(0, len(written)), max_size=4))
    return [written[begin:end] for begin, end in pairwise([0, *sorted(places), len(written)])]


@pytest.mark.parametrize("name", WIRES)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_streamed_equals_whole_however_it_is_cut(name: str, data: st.DataObject) -> None:
    wire, player = WIRES[name], PLAYERS[name]
    said, stop, places = data.draw(answers(wire))
    stream = wire.stream(*said, stop=stop).replace(b"\n", data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))
    events = player.stream(stream)
    assert response(events) == player.chat(wire.whole(*said, stop=stop))
    assert player.stream(*cut(stream, [place * len(stream) // 1000 for place in places])) == events


def tolerated(player: Player, *pieces: bytes) -> None:
    """Check that only events and errors of the tree result, in any cut, and that a response is consistent."""
    seen, error = outcome = player.outcome(*pieces)
    assert player.outcome(b"".join(pieces)) == outcome
    assert bool(error) == (not (seen and isinstance(seen[-1], Finish)))
    started = {event.index for event in seen if isinstance(event, ToolCallStart)}
    assert {event.index for event in seen if isinstance(event, (ToolCallEnd, ArgumentsDelta))} <= started


@pytest.mark.parametrize("name", WIRES)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_arbitrary_bytes_give_events_or_an_error(name: str, data: st.DataObject) -> None:
    wire, player = WIRES[name], PLAYERS[name]
    tokens = [encode(payload) for payload in wire.payloads(*SAID) for encode in (wire.event, _bare)]
    signs = [b"data: ", b"event: error\n", b"\n", b"\r", b"{}", b'"', b":", b"[", b"]", b"{", b"}", b",", b"\\", DONE]
    tolerated(player, *data.draw(st.lists(st.sampled_from([*tokens, *signs]) | st.binary(max_size=12))))


def _bare(payload: dict[str, Any]) -> bytes:
    return json.dumps(payload).encode()


@pytest.mark.parametrize("name", WIRES)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_twisted_events_give_events_or_an_error(name: str, data: st.DataObject) -> None:
    wire = WIRES[name]
    payloads, edits = twists(name)
    payloads = copy.deepcopy(payloads)
    for path, value in data.draw(edits):
        with contextlib.suppress(LookupError, TypeError):  # an earlier edit has taken the place away
            _at(payloads, path[:-1])[path[-1]] = value
    events = [wire.event(payload) if isinstance(payload, dict) else b"data: 1\n\n" for payload in payloads]
    tolerated(PLAYERS[name], *events, *data.draw(st.sampled_from([(), (DONE,)])))


@functools.cache
def twists(name: str) -> tuple[list[Any], st.SearchStrategy[list[tuple[Any, ...]]]]:
    """The events of a stream, and changes of a few values in them: where, and to what."""
    *payloads, last = WIRES[name].payloads(*SAID)
    payloads += [*WIRES[name].twistable, last]
    paths = [path for path in _paths(payloads) if path]
    words = sorted({value for path in paths if isinstance(value := _at(payloads, path), str)})
    values = JSON_VALUES | st.sampled_from(words) | st.integers(0, 2)
    return payloads, st.lists(st.tuples(st.sampled_from(paths), values), min_size=1, max_size=4)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from _paths(inner, (*path, key))


def _at(value: Any, path: Sequence[Any]) -> Any:
    return functools.reduce(operator.getitem, path, value)


@pytest.mark.parametrize("depth", [100, 300, 400, 450, 900])
def test_deep_nesting_gives_events_or_an_error(wire: Wire, player: Player, depth: int) -> None:
    deep = b'{"a":' * depth + b"1" + b"}" * depth
    events = [wire.event(payload) for payload in wire.payloads(says("a"), calls("call_1", "f"))]
    for number, event in enumerate(events):
        for key in (b'"brand_new"', b'"type"', b'"id"'):
            nested = event.replace(b"{", b"{" + key + b": " + deep + b", ", 1)
            tolerated(player, b"".join([*events[:number], nested * 2, *events[number:]]))


# --- real streams -----------------------------------------------------------------------------------------------------


@needs_traffic
def test_real_streams_come_to_the_whole_answer_in_any_cut(wire: Wire, player: Player) -> None:
    """In four cuts each: grammar and cuts have tests of their own above."""
    api = registry.api(wire.adapter.api)
    ends = {"answer": 0, "error": 0}
    for one in recorded(*wire.traffic):
        if one.response.status != 200 or one.response.body.lstrip().startswith(b"{"):
            continue
        view = api.read(one.response)
        seen, error = expected = player.outcome(one.response.body)
        if error:
            assert view.error, one.path
            assert view.error.message in error, one.path
        else:
            answer = response(seen)
            whole = player.chat(view.body)
            # in one body, Gemini's signature of an empty text moves to the text before it
            assert wire.adapter.name == "gemini" or answer == whole, one.path
            assert not [*response_differences(answer, whole, IssuedValues())], one.path
            thought = "".join(event.text for event in seen if isinstance(event, ThinkingDelta))
            thoughts = [part.text for part in answer.message.parts if isinstance(part, Thinking)]
            assert thought == "".join(thoughts), one.path
        ends["error" if error else "answer"] += 1
        for pieces in random_cuts(one.response.body, 4):
            assert player.outcome(*pieces) == expected, one.path
    assert ends["answer"] > 30
    assert ends["error"] >= (4 if wire.adapter.name == "openai-chat" else 0)
