"""Streams of OpenAI's service in any cut, for the tests of both adapters."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import operator
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
from hypothesis import strategies as st

from harness.contract.http import HttpResponse
from harness.contract.model import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)
from harness.contract.protocols import Adapter, StreamingChatClient
from tests.adapters.openai_fake import JSON_VALUES, Provider

HELLO = ChatRequest("gpt-5.6", (Message.user("Hello"),))
DONE = b"data: [DONE]\n\n"


class Chunks(httpx2.SyncByteStream):
    """A body that arrives in these chunks and then ends, or breaks off with `failure`."""

    def __init__(self, chunks: Sequence[bytes], failure: Exception | None = None) -> None:
        self._chunks = chunks
        self._failure = failure

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        if self._failure:
            raise self._failure


class Player:
    """Plays streams through one client of an adapter. `seen` are the events of the last one, also if it failed."""

    def __init__(self, adapter: Adapter) -> None:
        self.provider = Provider(b"")
        self.seen: list[StreamEvent] = []
        client = self.provider.client(adapter, HELLO.model)
        assert isinstance(client, StreamingChatClient)
        self._client = client

    def __call__(
        self,
        *chunks: bytes,
        failure: Exception | None = None,
        content_type: str | None = "text/event-stream",
        request: ChatRequest = HELLO,
    ) -> list[StreamEvent]:
        headers = {} if content_type is None else {"content-type": content_type}
        self.provider.respond = lambda: httpx2.Response(200, headers=headers, stream=Chunks(chunks, failure))
        self.seen = []
        for event in self._client.stream(request):
            self.seen.append(event)
        return self.seen

    def whole(self, body: Any) -> ChatResponse:
        """What `chat` makes of a whole body."""
        content = json.dumps(body).encode()
        self.provider.respond = lambda: httpx2.Response(200, content=content)
        return self._client.chat(HELLO)


def event(payload: Any, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(payload, ensure_ascii=False)}\n\n".encode()


def finish(events: Sequence[StreamEvent]) -> ChatResponse:
    """The answer at the end of a stream that keeps the life cycle of events and tells the same in them."""
    assert [one for one in events if isinstance(one, Finish)] == [events[-1]]
    last = events[-1]
    assert isinstance(last, Finish)
    assert text(events) == last.response.text
    assert ended(events) == [(one.id, one.name, one.arguments) for one in last.response.tool_calls]
    return last.response


def text(events: Sequence[StreamEvent]) -> str:
    return "".join(one.text for one in events if isinstance(one, TextDelta))


def thinking(events: Sequence[StreamEvent]) -> str:
    return "".join(one.text for one in events if isinstance(one, ThinkingDelta))


def started(events: Sequence[StreamEvent]) -> list[tuple[str, str]]:
    return [(one.id, one.name) for one in events if isinstance(one, ToolCallStart)]


def ended(events: Sequence[StreamEvent]) -> list[tuple[str, str, Any]]:
    """The calls that came to their end, by index, each started before its deltas and ended behind them."""
    state: dict[int, tuple[str, str, str]] = {}
    done: dict[int, tuple[str, str, Any]] = {}
    for one in events:
        match one:
            case ToolCallStart(index, call_id, name):
                assert index == len(state)
                state[index] = (call_id, name, "")
            case ArgumentsDelta(index, delta):
                assert index not in done
                assert delta
                call_id, name, before = state[index]
                state[index] = (call_id, name, before + delta)
            case ToolCallEnd(index):
                assert index not in done
                call_id, name, arguments = state[index]
                done[index] = (call_id, name, json.loads(arguments or "{}"))
            case _:
                pass
    return [done[index] for index in sorted(done)]


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    ends = [*sorted(places), len(body)]
    return [body[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def cuts(body: bytes) -> st.SearchStrategy[list[bytes]]:
    return st.lists(st.integers(0, len(body)), max_size=12).map(lambda places: cut(body, places))


def random_cut(body: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)  # noqa: S311 - the same cut in every run
    return cut(body, [chance.randrange(len(body) + 1) for _ in range(chance.randrange(1, 60))])


def rewritings(body: bytes) -> list[bytes]:
    """The same events in other bytes: other line ends, comments, keep-alives, a byte order mark, no space."""
    return [
        body.replace(b"\n", b"\r\n"),
        body.replace(b"\n", b"\r"),
        body.replace(b"\n\n", b"\n\n: keep-alive\n\n"),
        body.replace(b"data:", b": comment\ndata:"),
        body.replace(b"\n\n", b"\n\ndata:\n\n"),
        body.replace(b"\n\n", b"\n\nid: 7\nretry: 10\nother\n\n"),
        body.replace(b"data: ", b"data:"),
        re.sub(rb"data: \{(?=\")", b"data: {\ndata: ", body),
        b"\xef\xbb\xbf" + body,
    ]


def altered(body: bytes) -> st.SearchStrategy[bytes]:
    """A stream with some of its bytes replaced, left out or doubled."""

    def alter(edits: list[tuple[int, int, bytes]]) -> bytes:
        result = body
        for start, length, new in edits:
            at = start % (len(result) + 1)
            result = result[:at] + new + result[at + length :]
        return result

    edit = st.tuples(
        st.integers(0, len(body)), st.integers(0, 40), st.binary(max_size=3) | st.sampled_from([b"", body])
    )
    return st.lists(edit, min_size=1, max_size=3).map(alter)


def twisted(payloads: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """The events of a stream with some of the values in them replaced by others, of any kind."""
    paths = [path for path in _paths(payloads) if path]
    words = sorted({value for path in paths if isinstance(value := _at(payloads, path), str)})
    values = JSON_VALUES | st.sampled_from(words) | st.integers(0, 2)
    edits = st.lists(st.tuples(st.sampled_from(paths), values), min_size=1, max_size=4)

    def twist(chosen: list[tuple[tuple[Any, ...], Any]]) -> bytes:
        result = copy.deepcopy(list(payloads))
        for path, value in chosen:
            with contextlib.suppress(LookupError, TypeError):  # an earlier edit has taken the place away
                _at(result, path[:-1])[path[-1]] = value
        return b"".join(map(event, result))

    return edits.map(twist)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from _paths(inner, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    return functools.reduce(operator.getitem, path, value)


def response(body: bytes) -> HttpResponse:
    return HttpResponse(200, {"content-type": "text/event-stream"}, body)
