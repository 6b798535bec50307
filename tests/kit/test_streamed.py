"""A file is shown while the model still writes it, and the thread knows nothing of that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.kit.handlers import PartialArguments, Streamed
from harness.kit.thread import Thread
from harness.model.errors import MalformedResponse
from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Role,
    StopReason,
    StreamEvent,
    TextDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    ToolResult,
    Usage,
)
from tests.kit.test_thread import says

WRITE = ToolCall("c1", "write_file", {"path": "a.ts", "content": "let x = 1;\nlet y = 2;"})
PIECES = ['{"path": "a.', 'ts", "content": "let x', " = 1;\\nlet y", ' = 2;"}']


class Writing:
    def __init__(self, *, finishes: bool = True) -> None:
        self.finishes = finishes
        self.closed = False
        self.asked = 0

    def chat(self, request: ChatRequest) -> ChatResponse:
        raise AssertionError("it streams")

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        self.asked += 1
        if self.asked > 1:
            yield TextDelta("Written.")
            yield Finish(says("Written."))
            return
        yield ToolCallStart(0, "c1", "write_file")
        for piece in PIECES:
            yield ArgumentsDelta(0, piece)
        yield ToolCallEnd(0)
        if self.finishes:
            yield Finish(ChatResponse(Message(Role.ASSISTANT, (WRITE,)), StopReason.TOOL_USE, Usage()))

    def close(self) -> None:
        self.closed = True


def test_the_content_of_a_file_is_seen_while_it_is_written() -> None:
    shown: list[object] = []
    partial = PartialArguments()

    def show(event: StreamEvent) -> None:
        if isinstance(event, ArgumentsDelta):
            partial.add(event.text)
            value = partial.value
            shown.append(value.get("content") if isinstance(value, dict) else None)

    ran: list[ToolCall] = []

    def run(call: ToolCall) -> ToolResult:
        ran.append(call)
        return ToolResult(call.id, call.name, "ok")

    client = Streamed(Writing(), show)
    answer = Thread(ChatRequest("m", ())).send(client, "Write a.ts", run)
    assert shown == [None, "let x", "let x = 1;\nlet y", "let x = 1;\nlet y = 2;"]
    assert (ran, answer.text) == ([WRITE], "Written.")


def test_a_stream_without_its_end_is_an_error() -> None:
    with pytest.raises(MalformedResponse, match="ended without its last event"):
        Streamed(Writing(finishes=False), lambda event: None).chat(ChatRequest("m", ()))


def test_closing_closes_the_client() -> None:
    inner = Writing()
    Streamed(inner, lambda event: None).close()
    assert inner.closed


# --- arguments that are not whole ---

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def read(text: str) -> dict[str, Any]:
    partial = PartialArguments()
    partial.add(text)
    return partial.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ("{", {}),
        ('{"path', {}),
        ('{"path": ', {}),
        ('{"path": "src/a', {"path": "src/a"}),
        ('{"path": "file12', {"path": "file12"}),
        ('{"path": "1e5', {"path": "1e5"}),
        ('{"path": "a\\', {"path": "a"}),
        ('{"path": "a\\"b', {"path": 'a"b'}),
        ('{"n": 12', {}),
        ('{"n": 1234, "m": -', {"n": 1234}),
        ('{"n": 12}', {"n": 12}),
        ('{"l": [1, 2', {"l": [1]}),
        ('{"a": {"b": "c", "d": [', {"a": {"b": "c", "d": []}}),
        ('{"ok": tru', {}),
        ("[1, 2]", {}),
        ("nonsense", {}),
    ],
)
def test_what_has_come_is_read_and_nothing_that_may_change(text: str, value: dict[str, Any]) -> None:
    assert read(text) == value


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=4), st.booleans())
def test_a_whole_text_reads_as_it_is(value: dict[str, Any], ascii_only: bool) -> None:
    assert read(json.dumps(value, ensure_ascii=ascii_only)) == value


def _grows(before: Any, after: Any) -> bool:
    """Values that were read before stay: strings go on, lists and objects get longer, the rest stays."""
    if isinstance(before, str):
        return isinstance(after, str) and after.startswith(before)
    if isinstance(before, dict):
        return isinstance(after, dict) and all(
            key in after and _grows(each, after[key]) for key, each in before.items()
        )
    if isinstance(before, list):
        return isinstance(after, list) and len(after) >= len(before) and all(map(_grows, before, after))
    return type(before) is type(after) and before == after


@given(st.dictionaries(st.text(alphabet='abc\\"é12{}', max_size=4), VALUES, max_size=3))
def test_a_shown_value_only_grows(value: dict[str, Any]) -> None:
    partial, shown = PartialArguments(), {}
    for character in json.dumps(value, ensure_ascii=False):
        partial.add(character)
        assert _grows(shown, partial.value), (shown, partial.value)
        shown = partial.value
    assert shown == value


@given(st.lists(st.text()))
def test_no_text_breaks_it(pieces: list[str]) -> None:
    partial = PartialArguments()
    for piece in pieces:
        partial.add(piece)
        assert isinstance(partial.value, dict)
