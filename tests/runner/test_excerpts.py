"""What findings show of requests and responses: excerpts, raw streams, and the right request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.model.errors import MalformedResponse
from harness.model.http import Delivery, HttpResponse
from harness.model.messages import ChatRequest, ChatResponse, Message, Role, Text
from harness.model.protocols import Adapter
from harness.results import CellResult, FindingBody
from harness.rules.evidence import Evidence
from harness.runner.excerpts import (
    RawStream,
    excerpt,
    raw_stream,
    raw_stream_title,
    side_by_side,
)
from harness.scenarios.schema import Variant
from tests.broken.fault import Wrap, answers, asks
from tests.broken.running import run_cell as run_broken
from tests.rules.transcripts import transcript_for

BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]}],
}


def test_a_value_is_marked_in_what_stands_around_it() -> None:
    assert excerpt(BODY, "/messages/1/tool_calls/1/id") == (
        "/messages/1/tool_calls/1:",
        "  {",
        '>   "id": "b"',
        "  }",
    )


def test_what_is_missing_is_marked_where_it_would_stand() -> None:
    shown = excerpt(BODY, "/messages/0/name")

    assert shown[0] == "/messages/0:"
    assert [line for line in shown if line.startswith(">")] == ["> {"]


def test_of_the_whole_body_there_is_no_piece() -> None:
    assert excerpt(BODY, "") == ()
    assert excerpt(BODY, "/nowhere") == excerpt(BODY, "/nowhere")


def test_lines_far_from_the_place_are_counted() -> None:
    shown = excerpt({"list": {f"key-{number}": "x" * 40 for number in range(30)}}, "/list/key-20")

    assert [line for line in shown if line.startswith("> ")] == ['>   "key-20": "' + "x" * 40 + '",']
    assert shown[1] == "  (17 lines above)"
    assert shown[-1] == "  (6 lines below)"


def test_long_texts_lose_their_middle() -> None:
    (line,) = (each for each in excerpt({"a": {"text": "b" * 500}}, "/a/text") if each.startswith(">"))

    assert "...340 more..." in line


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
    transcript = transcript_for("call-single", target, variant)
    parsed = Evidence(transcript).parsed_exchanges[0]

    stream = raw_stream(transcript.api, parsed)

    assert (stream is not None) is (variant == "stream")
    if stream is not None:
        assert b"".join(stream.frames) == stream.response.body
        assert stream.ending == ""
        short = replace(stream.response, body=b"".join(stream.frames[:-1]))
        assert len(RawStream(stream.api, short).frames) == len(stream.frames) - 1


def named(wrap: Wrap, name: str = "mine") -> Wrap:
    """An adapter of its own name: one that is called as the shipped adapter is the shipped adapter."""

    def wrapped(adapter: Adapter) -> Adapter:
        return replace(wrap(adapter), name=name)

    return wrapped


def says_it_as_the_user(request: ChatRequest) -> ChatRequest:
    said = Message(Role.USER, (Text(request.system or ""),))
    return replace(request, system=None, messages=(said, *request.messages))


def without_text(response: ChatResponse) -> ChatResponse:
    return replace(response, message=replace(response.message, parts=(Text("something else"),)))


def right(cell: CellResult) -> list[FindingBody]:
    """The right requests among what the findings show."""
    return [
        body for each in cell.findings for body in each.exhibits if body.end.startswith("the request of the shipped")
    ]


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ("anthropic", '"system": ['),
        ("openai-chat", '"role": "developer"'),
        ("openai-responses", '"instructions": "'),
        ("gemini-4", '"systemInstruction": {'),
    ],
)
def test_the_right_request_has_what_is_missing_in_the_wrong_one(target: str, field: str) -> None:
    cell = run_broken("system-plain", target, named(asks(says_it_as_the_user)))

    shown = right(cell)

    assert any(line.startswith(">") and field in line for line in shown[0].piece), shown[0].piece
    assert "the same" in "".join(shown[0].piece)
    assert json.loads(shown[0].text)
    assert all(each.follows is None for each in cell.findings if right(replace(cell, findings=(each,))))


def test_findings_about_an_answer_show_the_stream_and_no_request() -> None:
    cell = run_broken("stream-empty-text", "anthropic", named(answers(without_text)), variant="stream")

    assert cell.findings
    assert right(cell) == []
    assert {body.end for each in cell.findings for body in each.exhibits} == {raw_stream_title(0), raw_stream_title(1)}


def test_where_the_shipped_adapter_sends_nothing_there_is_nothing_to_show() -> None:
    def declines(_: object) -> Any:
        raise MalformedResponse("never")

    cell = run_broken("system-plain", "anthropic", named(asks(declines)))

    assert cell.findings
    assert right(cell) == []


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"model": "m", "content": None, "arguments": '{"a": 1}'}, False),
        ({"model": "m", "arguments": '{"a":1}'}, False),
        ({"model": "m", "arguments": '{"a":2}'}, True),
        ({"model": "m", "arguments": '{"a":1}', "system": "s"}, True),
    ],
)
def test_what_means_the_same_is_no_difference(other: dict[str, Any], differs: bool) -> None:
    signed = {"signature": f"{'AbC1' * 12}-_"}
    assert side_by_side(signed, {"signature": f"{'AbC1' * 12}+/"}) == ((), ())
    shown = side_by_side({"model": "m", "arguments": '{"a":1}'}, other)

    assert any(shown) is differs


def test_only_lines_that_differ_are_marked_and_others_are_left_out() -> None:
    sent = {"model": "m", "messages": [{"role": "user", "content": "x"}, {"role": "tool", "id": "call_0"}], "n": 1}
    sent |= {"tools": [{"a": 1, "b": 2, "c": 3}]}
    first, *rest = sent["messages"]  # type: ignore[misc]
    right = {
        "n": 1,
        "messages": [{"role": "system"}, first, {**rest[0], "id": "call_1"}],
        "model": "m",
        "tools": sent["tools"],
    }

    wrong_lines, right_lines = side_by_side(sent, right)  # type: ignore[arg-type]

    assert [line for line in wrong_lines if line.startswith(">")] == ['>       "id": "call_0"']
    assert [line.split() for line in right_lines if line.startswith(">")] == [
        [">", "{"],
        [">", '"role":', '"system"'],
        [">", "},"],
        [">", '"id":', '"call_1"'],
    ]
    assert "lines the same" in wrong_lines[-1]
