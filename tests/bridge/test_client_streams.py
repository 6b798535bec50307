"""Streams that clients return as objects, and answers whose fields are properties or members of a tuple."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pytest

from harness.bridge.clients.answer_fields import as_completion
from harness.bridge.clients.answers import read_answer, read_stream
from harness.bridge.clients.shape_recognition import recognise_shape
from harness.bridge.clients.shaped_client import ShapedClient
from harness.bridge.clients.stream_objects import final_answer, keeps_answer, pieces_method
from harness.bridge.openai_messages import Memory
from harness.model.messages import ChatRequest, Finish, Message, Role, StopReason, Text, TextDelta, ToolCall, Usage
from harness.model.protocols import Endpoint

REQUEST = ChatRequest("gpt", (Message(Role.USER, (Text("Hello"),)),))
HERE = Endpoint("http://127.0.0.1:9/v1", "no-key")
CALL = {"id": "call_1", "name": "look", "arguments": "{}"}


class Stream:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def text(self) -> Iterator[str]:
        yield "Hel"
        yield "lo"
        self.calls = [CALL]


class Iterable(Stream):
    def __iter__(self) -> Iterator[str]:
        return self.text()


class Asynchronous:
    def __init__(self) -> None:
        self.calls = [CALL]

    async def chunks(self) -> AsyncIterator[str]:
        yield "Hel"
        yield "lo"


class Entered:
    async def __aenter__(self) -> Asynchronous:
        return Asynchronous()

    async def __aexit__(self, *_: object) -> None: ...


class Finishing:
    """A stream of texts that returns the whole answer when it is asked for it."""

    left = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        Finishing.left += 1

    async def __aiter__(self) -> AsyncIterator[str]:
        yield "Hel"
        yield "lo"

    async def final(self) -> dict[str, Any]:
        return {"text": "Hello", "calls": [CALL]}


class Gathered:
    def __iter__(self) -> Iterator[str]:
        yield "Hel"
        yield "lo"

    def get_final_message(self) -> dict[str, Any]:
        return {"text": "Hello", "calls": [CALL]}


class Filled:
    completion: dict[str, Any] | None = None

    def __iter__(self) -> Iterator[str]:
        yield "Hel"
        yield "lo"
        self.completion = {"text": "Hello", "calls": [CALL]}


def fill(messages: list[Any], stream: bool = True) -> Filled:
    _ = {"stream": True}
    return Filled()


def finish(messages: list[Any], stream: bool = True) -> Finishing:
    return Finishing()


def gather(messages: list[Any], stream: bool = True) -> Gathered:
    _ = {"stream": True}
    return Gathered()


@contextmanager
def open_stream(messages: list[Any]) -> Iterator[Stream]:
    yield Stream()


def iterate(messages: list[Any], stream: bool = True) -> Stream:
    _ = {"stream": True}
    return Iterable()


def enter(messages: list[Any], stream: bool = True) -> Entered:
    return Entered()


@pytest.mark.parametrize("function", [open_stream, iterate, enter, finish, gather, fill])
def test_a_stream_may_be_an_object_that_has_the_whole_answer_at_its_end(function: Any) -> None:
    client = ShapedClient(recognise_shape(function, "mine:function"), HERE, "gpt")

    *texts, last = client.stream(REQUEST)
    whole = client.chat(REQUEST)
    client.close()

    assert [each.text for each in texts if isinstance(each, TextDelta)] == ["Hel", "lo"]
    assert isinstance(last, Finish)
    for answer in (last.response, whole):
        assert (answer.text, [each.name for each in answer.tool_calls]) == ("Hello", ["look"])


def test_an_asynchronous_stream_is_left_in_the_end() -> None:
    Finishing.left = 0
    client = ShapedClient(recognise_shape(finish, "mine:finish"), HERE, "gpt")

    assert [*client.stream(REQUEST)]
    client.close()

    assert Finishing.left == 1


def test_the_whole_answer_comes_from_a_method_without_parameters_or_an_empty_field() -> None:
    class Answer:
        response = object()  # of HTTP

        def result(self, call: str) -> str:
            return call

        def messages(self) -> list[str]:
            return []

    assert final_answer(Answer()) is None
    assert final_answer(Gathered()) is not None


def test_only_a_generator_with_a_usual_name_has_the_pieces() -> None:
    class Answer:
        def __init__(self) -> None:
            self.text = "Hello"

        def blocks(self) -> Iterator[str]:
            yield "Hel"

        def chunks(self, size: int) -> Iterator[str]:
            yield "Hel"

    assert pieces_method(Answer()) is None
    assert pieces_method(Stream()) is not None
    assert [keeps_answer(each) for each in (Answer(), "Hello", iter([]), object())] == [True, False, False, False]


@dataclass
class View:
    body: dict[str, Any]

    @property
    def text(self) -> str:
        return self.body["text"]

    @property
    def incomplete_reason(self) -> str:
        return self.body["why"]

    @property
    def usage(self) -> dict[str, int]:
        return {"input_tokens": 3, "output_tokens": 4}

    @property
    def refusal(self) -> str:
        raise ValueError("there is none")


def test_the_fields_of_an_answer_may_be_properties() -> None:
    answer = read_answer(View({"text": "Hi", "why": "max_output_tokens"}), REQUEST, Memory(), "openai-responses")

    assert (answer.text, answer.stop_reason) == ("Hi", StopReason.MAX_TOKENS)
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (3, 4)


def test_a_stop_reason_beside_a_message_is_no_text() -> None:
    made: Any = as_completion(({"role": "assistant", "tool_calls": [CALL]}, [CALL], "tool_calls"))
    text: Any = as_completion(("stop", [CALL]))

    assert made["choices"][0]["message"]["content"] == ""
    assert made["choices"][0]["finish_reason"] == "tool_calls"
    assert text["choices"][0]["message"]["content"] == "stop"


def test_an_event_may_be_a_tuple_of_its_kind_and_several_values() -> None:
    own = {"role": "assistant", "content": "Hello"}
    events = [("text", "Hello"), ("tool", "call_1", "look", {"at": "sky"}), ("end", "tool_use", own)]
    short = [("text", "Hello"), ("tool", "look", {"at": "sky"}), ("done", "tool_use", {"input_tokens": 3})]
    untagged = [("text", "Hello"), ("The tool is done", "look", {})]

    found, other, third = (
        read_answer(iter(each), REQUEST, Memory(), "anthropic") for each in (events, short, untagged)
    )

    assert [(each.id, each.name, each.arguments) for each in found.tool_calls] == [("call_1", "look", {"at": "sky"})]
    assert (found.text, found.stop_reason) == ("Hello", StopReason.TOOL_USE)
    assert [each.name for each in other.tool_calls] == ["look"]
    assert (other.stop_reason, other.usage.input_tokens) == (StopReason.TOOL_USE, 3)
    assert not third.tool_calls


@dataclass
class PartialReply:
    text: str = ""
    finish_reason: str | None = None


def _call_so_far(arguments: str) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": arguments}}


HE, HELLO = {"role": "assistant", "content": "He"}, {"role": "assistant", "content": "Hello"}
SNAPSHOTS: dict[str, list[Any]] = {
    "messages": [{"role": "assistant", "content": None}, HE, HELLO, HELLO, {**HELLO, "finish_reason": "stop"}],
    "one piece": [HELLO, HELLO, {**HELLO, "finish_reason": "stop"}],
    "a class that says so": [PartialReply("He"), PartialReply("Hello"), PartialReply("Hello", "stop")],
    "a field that says so": [{"text_so_far": "He", "text": "He"}, {"text_so_far": "Hello", "text": "Hello"}],
    "pieces with a role": [HE, {"role": "assistant", "content": "llo"}, {"role": "assistant", "content": ""}],
    "the whole at the end": [{"text": "He"}, {"text": "llo"}, {"text": "Hello", "finish_reason": "stop"}],
}


@pytest.mark.parametrize("kind", SNAPSHOTS)
def test_the_items_of_a_stream_may_be_the_whole_message_so_far(kind: str) -> None:
    *texts, last = read_stream(SNAPSHOTS[kind], REQUEST, Memory())

    assert isinstance(last, Finish)
    assert last.response.text == "Hello"
    assert "".join(each.text for each in texts if isinstance(each, TextDelta)) == "Hello"


def test_the_calls_of_snapshots_grow() -> None:
    pieces = ["", '{"a"', '{"a": 1}']
    items = [{"role": "assistant", "content": "I look.", "tool_calls": [_call_so_far(each)]} for each in pieces]

    *_, last = read_stream(items, REQUEST, Memory())

    assert isinstance(last, Finish)
    assert last.response.message.parts == (Text("I look."), ToolCall("call_1", "look", {"a": 1}))


@pytest.mark.parametrize(
    ("source", "text"),
    [("Yields the answer so far.", "Hello"), ("import gradio as gr", "Hello"), ("Yields pieces.", "HeHello")],
)
def test_texts_are_snapshots_only_if_the_code_says_so(source: str, text: str) -> None:
    *_, last = read_stream(["He", "Hello"], REQUEST, Memory(), source=source)

    assert isinstance(last, Finish)
    assert last.response.text == text


def test_pieces_that_repeat_a_text_by_mistake_are_no_snapshots() -> None:
    items = [{"role": "assistant", "content": each} for each in ("He", "Hello", "!")]

    *_, last = read_stream(items, REQUEST, Memory())

    assert isinstance(last, Finish)
    assert last.response.text == "HeHello!"


def test_snapshots_that_break_off_end_with_their_exception() -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield HE
        yield HELLO
        raise ConnectionResetError

    events = read_stream(broken(), REQUEST, Memory())

    assert [next(events), next(events)] == [TextDelta("He"), TextDelta("llo")]
    with pytest.raises(ConnectionResetError):
        next(events)


@dataclass
class Done:
    stop_reason: str
    tokens_in: int = 0
    tokens_out: int = 0


@pytest.mark.parametrize(("done", "usage"), [(Done("end_turn", 7, 3), Usage(7, 3)), (Done("end_turn"), Usage())])
def test_the_last_event_may_have_the_token_counts_in_fields_of_its_own(done: Done, usage: Usage) -> None:
    *_, last = read_stream(["Hello", done], REQUEST, Memory())

    assert isinstance(last, Finish)
    assert (last.response.text, last.response.stop_reason, last.response.usage) == ("Hello", StopReason.END_TURN, usage)


GEMINI_CALL = {"id": "call_1", "name": "look", "args": {"a": 1}}
SIGNED = {"functionCall": GEMINI_CALL, "thoughtSignature": "c2lnbmVk"}


@pytest.mark.parametrize(("part", "is_kept"), [(SIGNED, True), ({**SIGNED, "functionCall": {"name": "other"}}, False)])
def test_the_native_content_may_come_before_the_usage_and_the_stop_reason(
    part: dict[str, Any], *, is_kept: bool
) -> None:
    content = {"role": "model", "parts": [part]}
    items = [("call", GEMINI_CALL), ("content", content), ("usage", {"promptTokenCount": 3}), ("finish", "STOP")]

    *_, last = read_stream(items, REQUEST, Memory(), "gemini")

    assert isinstance(last, Finish)
    (call,) = last.response.tool_calls
    assert ("gemini" in call.provider_metadata) is is_kept
    assert last.response.raw_stop_reason == "STOP"
