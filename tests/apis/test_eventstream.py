"""Server-sent events, against the grammar of the WHATWG."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.apis.eventstream import (
    ServerSentEvent,
    decode_frames,
    events,
    events_of,
    is_event_stream,
    sent_objects,
    serialize_event,
)
from harness.apis.view import WireError

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=12)


def read(body: bytes | str) -> list[ServerSentEvent]:
    return list(events(body.encode() if isinstance(body, str) else body))


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("data: a\n\n", [ServerSentEvent(None, "a")]),
        ("data:a\n\n", [ServerSentEvent(None, "a")]),
        ("data:  a \n\n", [ServerSentEvent(None, " a ")]),
        ("data\n\n", [ServerSentEvent(None, "")]),
        ("data:\n\n", [ServerSentEvent(None, "")]),
        ("data: a\ndata: b\n\n", [ServerSentEvent(None, "a\nb")]),
        ("data\ndata\n\n", [ServerSentEvent(None, "\n")]),
        ("event: x\ndata: a\n\ndata: b\n\n", [ServerSentEvent("x", "a"), ServerSentEvent(None, "b")]),
        ("data: a\nevent: x\n\n", [ServerSentEvent("x", "a")]),
        ("event: x\nevent: y\ndata: a\n\n", [ServerSentEvent("y", "a")]),
        (
            "event: x\n\ndata: a\n\n",
            [ServerSentEvent(None, "a")],
        ),  # without data there is no event, and its name is gone
        (": a comment\n\ndata: a\n\n", [ServerSentEvent(None, "a")]),
        ("data: a\n: a comment\ndata: b\n\n", [ServerSentEvent(None, "a\nb")]),
        ("id: 1\nretry: 3\nother: x\ndata: a\n\n", [ServerSentEvent(None, "a")]),
        ("Data: a\n\n data: b\n\n", []),  # field names are exact
        ("data: a: b\n\n", [ServerSentEvent(None, "a: b")]),
        ("\n\n\ndata: a\n\n\n\n", [ServerSentEvent(None, "a")]),
        ("\ufeffdata: a\n\n", [ServerSentEvent(None, "a")]),
        ("data: \ufeff\n\n", [ServerSentEvent(None, "\ufeff")]),
        ("\ufeff\ufeffdata: a\n\n", []),  # only the first one is a mark
        (
            "data: a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\n\n",
            [ServerSentEvent(None, "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg")],
        ),
        ("data: a\x00b\n\n", [ServerSentEvent(None, "a\x00b")]),
        ("", []),
        ("\ufeff", []),
    ],
)
def test_the_grammar(body: str, found: list[ServerSentEvent]) -> None:
    assert read(body) == found


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_lines_end_in_three_ways(end: str) -> None:
    assert read(f"event: x{end}data: a{end}data: b{end}{end}data: c{end}{end}") == [
        ServerSentEvent("x", "a\nb"),
        ServerSentEvent(None, "c"),
    ]


def test_line_ends_may_be_mixed() -> None:
    assert read("data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r") == [
        ServerSentEvent(None, "a\nb\nc"),
        ServerSentEvent(None, "d"),
    ]


def test_every_event_that_the_end_cuts_off_is_dropped() -> None:
    body = b"event: x\ndata: first\n\nevent: y\ndata: second\n\n"
    whole = read(body)
    first = len(b"event: x\ndata: first\n\n")
    for end in range(len(body) + 1):
        assert read(body[:end]) == whole[: (end >= first) + (end >= len(body))]


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert read(b"data: \xff\n\n") == [ServerSentEvent(None, "\ufffd")]


@given(
    st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), max_size=4), st.sampled_from(["\n", "\r", "\r\n"])
)
def test_what_is_written_is_read(written: list[tuple[str, list[str]]], end: str) -> None:
    blocks = [f"event: {name}{end}" + "".join(f"data: {line}{end}" for line in data) for name, data in written]
    assert read("".join(block + end for block in blocks)) == [
        ServerSentEvent(name, "\n".join(data)) for name, data in written
    ]


@given(st.binary() | st.lists(st.sampled_from([b"data", b"event", b":", b" ", b"\r", b"\n", b"\xff"])).map(b"".join))
def test_arbitrary_bytes_never_raise(body: bytes) -> None:
    for event in events(body):
        assert "\r" not in event.data
        assert event.name is None or "\n" not in event.name


@pytest.mark.parametrize(
    ("content_type", "body", "is_stream"),
    [
        ("text/event-stream", b"", True),
        ("Text/Event-Stream; charset=utf-8", b"{}", True),
        ("application/json", b"data: this is no stream", False),
        ("text/plain", b"event not found", False),
        ("text/plain; charset=utf-8", b"data: {}\n\n", True),
        ("", b"data: {}\n\n", True),
        ("", b"event: x\n", True),
        ("", b"\n: ping\n", True),
        ("", b"\xef\xbb\xbfdata: {}\n\n", True),
        ("", b"event not found", False),
        ("", json.dumps({"data": 1}).encode(), False),
        ("", b"", False),
    ],
)
def test_a_stream_is_recognised_by_its_type_or_its_start(content_type: str, body: bytes, is_stream: bool) -> None:
    assert is_event_stream(content_type, body) is is_stream


@given(st.dictionaries(st.text(), st.text()), st.none() | st.just("message_start"))
def test_what_is_written_is_read_again(data: dict[str, str], name: str | None) -> None:
    (event,) = events(serialize_event(data, name))
    assert (event.name, json.loads(event.data)) == (name, data)


def test_half_of_a_surrogate_pair_is_written_as_its_escape() -> None:
    assert serialize_event("\ud83d\u2028") == b'data: "\\ud83d\xe2\x80\xa8"\n\n'


@pytest.mark.parametrize(
    ("body", "begins"),
    [
        (b"", True),
        (b"\xef\xbb", True),
        (b"\xef\xbb\xbfdata: 1\n", True),
        (b"\n\r\ndata: 1\n", True),
        (b": comment", True),
        (b"ev", True),
        (b"event\n", True),
        (b"id: 7\n", True),
        (b"retry: 7", True),
        (b"ev\n", False),
        (b"evil", False),
        (b"data1: 1\n", False),
        (b"{", False),
        (b"\xff", False),
    ],
)
def test_how_an_event_stream_begins(body: bytes, begins: bool) -> None:
    if begins:
        events_of(body)
    else:
        with pytest.raises(WireError):
            events_of(body)


def test_frames_of_bedrock_are_read_up_to_the_last_whole_one() -> None:
    def frame(payload: Any) -> bytes:
        text, headers = json.dumps(payload).encode(), b"\x0b:event-type\x07\x00\x05chunk"
        return struct.pack(">III", 16 + len(headers) + len(text), len(headers), 0) + headers + text + bytes(4)

    sent = [{"type": "message_start", "n": 1}, {"type": "ping"}]
    frames = [frame({"bytes": base64.b64encode(json.dumps(each).encode()).decode(), "p": "abc"}) for each in sent]
    body = b"".join(frames) + frame({"message": "Too many tokens."})

    assert sent_objects(decode_frames(body)) == [
        *sent,
        {"type": "error", "error": {"type": "api_error", "message": "Too many tokens."}},
    ]
    assert sent_objects(decode_frames(body[: len(frames[0]) + 20])) == sent[:1]
    for wrong in (bytes(16), frame(1), frame({"bytes": "abc"})):
        with pytest.raises(WireError):
            decode_frames(wrong)
