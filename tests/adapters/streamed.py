"""Streamed answers for adapters: bodies in pieces, and what holds for the events of any stream."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from harness.model.errors import ChatError
from harness.model.messages import (
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
from harness.model.protocols import Adapter, Endpoint, StreamingChatClient

BASE = "http://127.0.0.1:9/cell-7"


class Pieces(httpx2.SyncByteStream):
    """A body that arrives in pieces, and ends in `failure` if there is one. `taken` counts the pieces so far."""

    def __init__(self, pieces: Iterable[bytes], failure: Exception | None = None) -> None:
        self.pieces = list(pieces)
        self.failure = failure
        self.taken = 0
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            self.taken += 1
            yield piece
        if self.failure:
            raise self.failure

    def close(self) -> None:
        self.closed = True


class Server:
    """Answers every request with `answer`, a body in pieces or a whole response, and keeps the requests."""

    def __init__(self, answer: Pieces | bytes | httpx2.Response | Exception) -> None:
        self.answer = answer
        self.requests: list[httpx2.Request] = []
        self.http = httpx2.Client(transport=httpx2.MockTransport(self._answered), trust_env=False)

    def _answered(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.requests.append(request)
        match self.answer:
            case Exception():
                raise self.answer
            case httpx2.Response():
                return self.answer
            case Pieces():
                return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=self.answer)
            case bytes():
                return httpx2.Response(200, content=self.answer)

    def client(self, adapter: Adapter, model: str, base_url: str = BASE) -> StreamingChatClient:
        client = adapter.connect(Endpoint(base_url, "key-1", self.http), model)
        assert isinstance(client, StreamingChatClient)
        return client

    @property
    def body(self) -> dict[str, Any]:
        (request,) = self.requests
        return json.loads(request.content)


class Player:
    """A client that reads many bodies, which is faster than many clients. `seen` are the events of the last stream,
    also of a failed one."""

    def __init__(self, adapter: Adapter, model: str) -> None:
        self.server = Server(b"")
        self.seen: list[StreamEvent] = []
        self._client = self.server.client(adapter, model)
        self._request = ChatRequest(model, (Message.user("hi"),))

    def stream(
        self,
        *pieces: bytes,
        failure: Exception | None = None,
        content_type: str | None = "text/event-stream",
        request: ChatRequest | None = None,
    ) -> list[StreamEvent]:
        headers = {} if content_type is None else {"content-type": content_type}
        self.server.answer = httpx2.Response(200, headers=headers, stream=Pieces(pieces, failure))
        self.seen = []
        for event in self._client.stream(request or self._request):
            self.seen.append(event)
        return self.seen

    def outcome(self, *pieces: bytes) -> tuple[list[StreamEvent], str]:
        """Return the events of a stream, and the text of its error, if it has one."""
        try:
            return self.stream(*pieces), ""
        except ChatError as error:
            return self.seen, f"{type(error).__name__}: {error}"

    def chat(self, body: Any) -> ChatResponse:
        self.server.answer = json.dumps(body).encode()
        return self._client.chat(self._request)


def until_error(stream: Iterator[StreamEvent]) -> tuple[list[StreamEvent], ChatError]:
    """Return the events before the error that ends a stream, and the error."""
    seen: list[StreamEvent] = []
    try:
        for event in stream:
            seen.append(event)  # noqa: PERF402 - what came before the error counts
    except ChatError as error:
        return seen, error
    return pytest.fail(f"no error behind {seen}")


def cut(body: bytes, places: Iterable[int]) -> list[bytes]:
    borders = [0, *sorted(place for place in places if place <= len(body)), len(body)]
    return [body[begin:end] for begin, end in pairwise(borders)]


def random_cuts(body: bytes, count: int) -> Iterator[list[bytes]]:
    """`count` ways of cutting a body, the same in every run: few pieces, many, and single bytes."""
    places = random.Random(len(body))  # noqa: S311 - not for secrets
    for number in range(count):
        yield cut(body, places.choices(range(len(body) + 1), k=min(4**number, len(body))))


def response(events: list[StreamEvent]) -> ChatResponse:
    """The answer at the end, checked to be what the events before it say."""
    *before, last = events
    assert isinstance(last, Finish)
    calls: dict[int, tuple[ToolCallStart, list[str]]] = {}
    ended: list[int] = []
    for event in before:
        match event:
            case ToolCallStart(index):
                assert index == len(calls)
                calls[index] = (event, [])
            case ArgumentsDelta(index, text):
                assert text
                assert index not in ended
                calls[index][1].append(text)
            case ToolCallEnd(index):
                assert index in calls
                assert index not in ended
                ended.append(index)
            case TextDelta(text) | ThinkingDelta(text):
                assert text
            case Finish():
                raise AssertionError("a second end")
    assert "".join(event.text for event in before if isinstance(event, TextDelta)) == last.response.text
    whole = [(call.id, call.name, call.arguments) for call in last.response.tool_calls]
    streamed = [(calls[index][0], "".join(calls[index][1])) for index in sorted(ended)]
    assert [(start.id, start.name, json.loads(text or "{}")) for start, text in streamed] == whole
    return last.response


def thinking(events: list[StreamEvent]) -> str:
    return "".join(one.text for one in events if isinstance(one, ThinkingDelta))


def started(events: list[StreamEvent]) -> list[tuple[str, str]]:
    return [(one.id, one.name) for one in events if isinstance(one, ToolCallStart)]
