from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis import registry
from harness.apis.eventstream import ServerSentEvent, events, is_event_stream
from harness.cassettes.rechunk import BYTE_BY_BYTE, recut
from harness.model.http import Delivery, Ending, HttpResponse
from tests.traffic import FOLDERS, needs_traffic, recorded

EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}

BODY = 'event: a\ndata: {"text": "18 °C\u2028\\u0085\\\\u2028 €"}\n\ndata: {"n": 1}\r\n\r\ndata: [DONE]\n\n'.encode()
ARRAY = '[{"text": "18 °C, [or]\\"\\u2028"},\r\n{"n": 1}\n]'.encode()


def stream(body: bytes, delivery: Delivery | None = None) -> HttpResponse:
    return HttpResponse(200, EVENTS, body, delivery or Delivery())


def pieces(response: HttpResponse) -> list[bytes]:
    return response.delivery.pieces(response.body)


def recut_named(response: HttpResponse, way: str) -> HttpResponse:
    """The response in the way that has these words."""
    for number in range(12):
        again, words = recut(response, number, "seed")
        if words == way:
            return again
    pytest.fail(f"no number is {way!r}")


def meant(body: bytes) -> list[ServerSentEvent | tuple[str | None, Any]]:
    """The events, with JSON as what it means."""
    return [_meant(event) for event in events(body)]


def _meant(event: ServerSentEvent) -> ServerSentEvent | tuple[str | None, Any]:
    try:
        return event.name, json.loads(event.data, parse_constant=repr)
    except (ValueError, RecursionError):
        return event


def test_the_first_numbers_go_through_the_ways_of_an_event_stream() -> None:
    ways = [recut(stream(BODY), number, "seed")[1] for number in range(11)]
    assert [way.partition(" (")[0] for way in ways] == [
        "each byte by itself",
        "cut inside every multi-byte character",
        "CRLF line ends, each cut in two",
        "each event by itself",
        "at random",  # at once it is already
        "keep-alive comments between the events, each by itself",
        "CR line ends, cut behind each",
        "U+2028, U+2029 and U+0085 raw where they were escaped, and the other way round",
        "a byte order mark in front, in three pieces",
        "data in several lines with CRLF line ends, each cut in two",
        "at random",
    ]
    assert recut(stream(BODY, Delivery((3,))), 4, "seed") == (stream(BODY), "all at once")


def test_each_way_does_what_its_words_say() -> None:
    body = stream(BODY)
    assert pieces(recut_named(body, "each byte by itself")) == [bytes([byte]) for byte in BODY]
    inside = recut_named(body, "cut inside every multi-byte character")
    assert inside.body == BODY
    assert inside.delivery.cuts == tuple(at for at, byte in enumerate(BODY) if byte & 0xC0 == 0x80)
    crlf = recut_named(body, "CRLF line ends, each cut in two")
    assert crlf.body == BODY.replace(b"\r", b"").replace(b"\n", b"\r\n")
    assert all(piece.startswith(b"\n") for piece in pieces(crlf)[1:])
    assert len(pieces(crlf)) == 8
    assert [list(events(piece)) for piece in pieces(recut_named(body, "each event by itself"))] == [
        [event] for event in events(BODY)
    ]
    assert pieces(recut_named(body, "keep-alive comments between the events, each by itself"))[::2] == [
        b": keep-alive\n\n",
        b": keep-alive\n\n",
        b": keep-alive\n\n",
    ]
    cr = recut_named(body, "CR line ends, cut behind each")
    assert cr.body == BODY.replace(b"\r\n", b"\n").replace(b"\n", b"\r")
    assert all(piece.endswith(b"\r") for piece in pieces(cr))
    marked = recut_named(body, "a byte order mark in front, in three pieces")
    assert pieces(marked) == [b"\xef", b"\xbb", b"\xbf" + BODY]
    lines = recut_named(body, "data in several lines with CRLF line ends, each cut in two")
    assert lines.body == crlf.body.replace(b"data: {", b"data: {\r\ndata: ")
    assert len(pieces(lines)) == 10


def test_only_separators_change_their_spelling_and_only_in_json() -> None:
    way = "U+2028, U+2029 and U+0085 raw where they were escaped, and the other way round"
    body = 'data: {"t": "\\u2028 \\\\u2028 \\\\\\u2029 \u0085 \\n \\u00e9"}\n\ndata: \\u2028\n\n: "\\u2028"\n\n'
    assert recut_named(stream(body.encode()), way).body.decode() == (
        'data: {"t": "\u2028 \\\\u2028 \\\\\u2029 \\u0085 \\n \\u00e9"}\n\ndata: \\u2028\n\n: "\\u2028"\n\n'
    )


def test_an_error_that_stands_bare_behind_the_events_is_not_torn_by_comments() -> None:
    body = b'data: {"n": 1}\n\n{"error":\n\n{"code": 503}}\n\n'
    assert recut_named(stream(body), "keep-alive comments between the events, each by itself").body == (
        b": keep-alive\n\n" + body
    )


def test_the_ways_of_a_json_array() -> None:
    array = HttpResponse(200, JSON, ARRAY)
    elements = [ARRAY[1 : ARRAY.index(b",\r\n")], b'{"n": 1}']
    crlf = recut_named(array, "CRLF between the elements, each cut in two")
    assert crlf.body == b"[\r\n" + elements[0] + b"\r\n,\r\n" + elements[1] + b"\r\n]"
    assert [piece[-1:] for piece in pieces(crlf)] == [b"\r"] * 4 + [b"]"]
    assert pieces(recut_named(array, "each element by itself")) == [b"[" + elements[0], b",\r\n" + elements[1], b"\n]"]
    assert (
        recut_named(array, "no white space between the elements").body == b"[" + elements[0] + b"," + elements[1] + b"]"
    )
    spaced = recut_named(array, "other white space between the elements")
    assert (spaced.body != ARRAY, json.loads(spaced.body)) == (True, json.loads(ARRAY))


@pytest.mark.parametrize("body", [b'{"a": 1}', b'[{"a": 1}, {"b"', b'[{"a": 1}] more', b"[]", b"", b"x", b"[" * 90_000])
def test_other_bodies_are_cut_and_not_spelled_anew(body: bytes) -> None:
    assert {recut(HttpResponse(200, JSON, body), number, "seed")[0].body for number in range(12)} == {body}


@pytest.mark.parametrize("ending", ["cut", "reset"])
def test_a_body_that_breaks_off_keeps_its_bytes_and_its_ending(ending: Ending) -> None:
    delivery = Delivery((3,), 5.0, ending)
    for number in range(20):
        again, way = recut(stream(BODY[:-30], delivery), number, "seed")
        assert (again.body, again.delivery.ending) == (BODY[:-30], ending)
        assert again.delivery != delivery, way


def test_nothing_waits_and_headers_that_no_longer_hold_are_gone() -> None:
    headers = {**EVENTS, "content-length": str(len(BODY)), "content-encoding": "gzip", "request-id": "r"}
    again, _ = recut(HttpResponse(200, headers, BODY, Delivery((3,), 5.0)), 0, "seed")
    assert again.delivery.pause == 0
    assert again.headers == {**EVENTS, "request-id": "r"}


def test_a_long_body_comes_in_small_pieces_and_not_byte_by_byte() -> None:
    body = b"data: " + b"x" * BYTE_BY_BYTE + b"\n\n"
    again, way = recut(stream(body), 0, "seed")
    assert way == "in small pieces"
    assert {len(piece) for piece in pieces(again)} == set(range(1, 33))
    assert recut(stream(body[-BYTE_BY_BYTE:]), 0, "seed")[1] == "each byte by itself"


def test_the_same_number_and_seed_tell_the_same_and_others_something_else() -> None:
    body = stream(BODY * 20)
    assert recut(body, 12, "a") == recut(body, 12, "a")
    assert len({recut(body, number, seed)[0].delivery for number in range(10, 31) for seed in "ab"}) == 42


def check(response: HttpResponse, number: int) -> HttpResponse:
    """What holds of every way: cuts that ascend and lie inside, so that the pieces are the body."""
    again, _ = recut(response, number, "seed")
    assert all(0 < cut < len(again.body) for cut in again.delivery.cuts)
    assert all(one < other for one, other in pairwise(again.delivery.cuts))
    assert b"".join(pieces(again)) == again.body
    return again


@given(st.binary(max_size=200), st.integers(0, 40), st.sampled_from([{}, JSON, {"content-type": "text/plain"}]))
def test_any_bytes_are_kept(body: bytes, number: int, headers: dict[str, str]) -> None:
    response = HttpResponse(200, headers, body)
    again = check(response, number)
    if not is_event_stream(headers.get("content-type", ""), body) and not body.lstrip().startswith(b"["):
        assert again.body == body


LINES = st.sampled_from(
    [
        b"",
        b"",
        b"event: a",
        b"data: 1",
        b"data:",
        b"data",
        b": c",
        b"id: 3",
        b'data: {"t": "\\u2028\\\\u2029\xe2\x80\xa9"}',
        b'data: "\xc2\x85',
        b'data:\t"\\u0085"',
        b"\xef\xbb\xbfdata: x",
        b'{"error": {}}',
        b"\xff",
    ]
)
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12).map(
    lambda lines: b"".join(line + end for line, end in lines)
)


@given(st.one_of(STREAMS, st.binary(max_size=60), st.tuples(STREAMS, LINES).map(b"".join)), st.integers(0, 60))
@settings(max_examples=300, deadline=None)
def test_any_event_stream_keeps_its_events(body: bytes, number: int) -> None:
    assert meant(check(stream(body), number).body) == meant(body)


VALUES = st.recursive(
    st.none() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=4), st.sampled_from([None, 2]), st.booleans(), st.integers(0, 30))
def test_any_json_array_keeps_its_value(values: list[Any], indent: int | None, ascii_only: bool, number: int) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert json.loads(check(HttpResponse(200, JSON, text), number).body) == values


@needs_traffic
@pytest.mark.parametrize("folder", FOLDERS)
def test_rechunked_real_streams_are_read_as_before(folder: str) -> None:
    wire = registry.api(FOLDERS[folder])
    streams = [each for each in recorded(folder) if _is_streamed(each.response)]
    if not streams:
        pytest.skip(f"no streams in {folder}")
    for each in streams[:: max(1, len(streams) // 4)]:
        view = wire.read(each.response)
        for number in range(12):
            again, way = recut(each.response, number, each.path)
            assert wire.read(again).body == view.body, (each.path, each.index, way)
            assert b"".join(pieces(again)) == again.body
            assert replace(again, headers={}, body=b"", delivery=Delivery()) == HttpResponse(each.response.status)


def _is_streamed(response: HttpResponse) -> bool:
    return is_event_stream(response.headers.get("content-type", ""), response.body) or response.body.startswith(b"[")
