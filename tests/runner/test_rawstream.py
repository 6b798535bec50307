"""The raw stream of an answer: the events are marked that a finding is about, or the place where it was cut."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.model.http import Delivery, HttpResponse
from harness.rules.evidence import Evidence
from harness.runner.exhibits import RawStream, raw_stream
from harness.scenarios.schema import Variant
from tests.rules.transcripts import played

CHUNK = 'data: {{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{}]}}\n\n'
DELTA = '{{"index":0,"delta":{},"finish_reason":null}}'


def chat(*events: str, delivery: Delivery = Delivery()) -> RawStream:  # noqa: B008 - a value
    """A stream of the Chat API."""
    body = "".join(events).encode()
    return RawStream("openai-chat", HttpResponse(200, {"content-type": "text/event-stream"}, body, delivery))


def delta(text: str) -> str:
    return CHUNK.format(DELTA.format(f'{{"content":"{text}"}}'))


STOP = CHUNK.format('{"index":0,"delta":{},"finish_reason":"stop"}')
DONE = "data: [DONE]\n\n"
CONTENT = "/choices/0/message/content"


def marked(stream: RawStream, pointer: str = "") -> list[str]:
    marks = stream.marks(pointer)
    return [line for line, at in stream.lines(marks) if at in marks]


def test_the_events_are_marked_between_which_a_value_is_made() -> None:
    whole = chat(delta(""), delta("a"), delta("b"), delta("c"), STOP, DONE)

    assert whole.ending == ""
    assert ['"content":"a"' in line or '"content":"c"' in line for line in marked(whole, CONTENT)] == [True, True]
    assert '"finish_reason":"stop"' in marked(whole, "/choices/0/finish_reason")[0]


def test_the_end_is_marked_of_a_stream_that_is_cut_and_of_no_other() -> None:
    silent, whole = chat(delta("a"), delta("b")), chat(delta("a"), STOP, DONE)
    closed = chat(delta("a"), delivery=Delivery(ending="cut"))

    assert marked(silent) == ["(the stream ends here, without its last event)"]
    assert marked(closed) == ["(the connection is closed here)"]
    assert marked(whole) == ["data: [DONE]"]
    assert '"content":"a"' in marked(silent, CONTENT)[0]  # a value that has come is where it came


def test_an_error_and_an_event_that_cannot_be_read_are_marked_where_they_are() -> None:
    failed = chat(delta("a"), 'data: {"error": {"message": "overloaded", "code": 503}}\n\n', DONE)
    garbled = chat(delta("a"), "data: {oops\n\n", DONE)

    assert marked(failed) == ['data: {"error": {"message": "overloaded", "code": 503}}']
    assert marked(garbled) == ["data: {oops"]


def test_of_a_long_stream_the_events_around_the_mark_are_shown() -> None:
    long = chat(*(delta(f"{number:03}") for number in range(100)), STOP, DONE)
    at = next(number for number, frame in enumerate(long.frames) if b'"050"' in frame)

    lines = [line for line, _ in long.lines({at})]

    assert sum("050" in line or "053" in line or "047" in line for line in lines) == 3
    assert [line for line in lines if "left out" in line] == [
        "(43 events are left out)",
        "(44 events are left out)",
    ]
    assert len(chat(delta("a"), STOP, DONE).lines()) == 3


@pytest.mark.parametrize("target", ["anthropic", "openai-chat", "openai-responses", "gemini-4"])
@pytest.mark.parametrize("variant", ["whole", "stream"])
def test_every_api_has_its_streams_by_events(target: str, variant: Variant) -> None:
    transcript = played("call-single", target, variant)
    reading = Evidence(transcript).readings[0]

    stream = raw_stream(transcript.api, reading)

    assert (stream is not None) is (variant == "stream")
    if stream is not None:
        assert b"".join(stream.frames) == stream.response.body
        assert stream.ending == ""
        short = replace(stream.response, body=b"".join(stream.frames[:-1]))
        assert len(RawStream(stream.api, short).frames) == len(stream.frames) - 1
