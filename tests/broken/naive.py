"""A small streaming client of its own for Chat Completions, as people write them, and what it gets wrong.

It is right wherever a provider says no more than it has to: `Naive` without a choice breaks no rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx2

from harness.adapters.openai_chat.requests import encode
from harness.contract.errors import MalformedResponse, ServerError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from harness.contract.protocols import Adapter, ChatClient, Endpoint, StreamingChatClient
from harness.tape.transport import Handler
from tests.broken.fault import Fault, Wrap, Wrapped
from tests.broken.places import BODY, RESPONSE_ARGUMENTS, RESPONSE_CALL, RESPONSE_CALL_ID
from tests.stages import InProcess

TARGETS = ("openai-chat",)


@dataclass(frozen=True, slots=True)
class Habits:
    """What such a client does: right as they stand.

    `key` is the field of a piece by which the pieces of a call are put together; without one they belong to the call
    that came last. `joins_ids` adds up ids as it does arguments. `drops_opening`: the piece that opens a call is taken
    for its start alone, and the arguments in it are lost. A careless one looks neither for errors nor for the
    end.
    """

    key: str | None = "index"
    joins_ids: bool = False
    drops_opening: bool = False
    careless: bool = False


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


class Naive(Wrapped):
    """Streams by itself, with an HTTP client and a JSON reader; asks the shipped adapter for whole answers."""

    def __init__(self, client: StreamingChatClient, endpoint: Endpoint, model: str, habits: Habits) -> None:
        super().__init__(client)
        self._http = cast("httpx2.Client", endpoint.http_client)
        self._url = f"{endpoint.base_url}/chat/completions"
        self._headers = {"authorization": f"Bearer {endpoint.api_key}"}
        self._model = model
        self._habits = habits

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        body = {**encode(request, self._model), "stream": True, "stream_options": {"include_usage": True}}
        answer = _Answer(self._habits)
        with self._http.stream("POST", self._url, headers=self._headers, json=body) as response:
            for line in response.iter_lines():
                if line == "data: [DONE]":
                    answer.done = True
                elif line.startswith("data: "):
                    yield from answer.take(json.loads(line.removeprefix("data: ")))
        yield from answer.finish()


class _Answer:
    def __init__(self, habits: Habits) -> None:
        self.done = False
        self._habits = habits
        self._text = ""
        self._calls: dict[object, _Call] = {}
        self._stop: str | None = None
        self._model: str | None = None
        self._usage = Usage()

    def take(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        if "error" in chunk and not self._habits.careless:
            raise ServerError(500, chunk["error"]["message"])
        self._model = chunk.get("model", self._model)
        if chunk.get("usage"):
            self._usage = _usage(chunk["usage"])
        for choice in chunk.get("choices", []):
            self._stop = choice["finish_reason"] or self._stop
            if text := choice["delta"].get("content"):
                self._text += text
                yield TextDelta(text)
            for piece in choice["delta"].get("tool_calls", []):
                yield from self._take_piece(piece)

    def _take_piece(self, piece: dict[str, Any]) -> Iterator[StreamEvent]:
        key, function = self._key(piece), piece["function"]
        if key is None:
            return  # nobody knows whose it is
        if key not in self._calls:
            self._calls[key] = _Call(piece["id"], function["name"])
            yield ToolCallStart(len(self._calls) - 1, piece["id"], function["name"])
            if self._habits.drops_opening:
                return
        elif self._habits.joins_ids:
            self._calls[key].id += piece.get("id", "")
        self._calls[key].arguments += function["arguments"]
        if function["arguments"]:
            yield ArgumentsDelta([*self._calls].index(key), function["arguments"])

    def _key(self, piece: dict[str, Any]) -> object:
        if self._habits.key is not None:
            return piece.get(self._habits.key)
        return piece.get("id") or next(reversed(self._calls))

    def finish(self) -> Iterator[StreamEvent]:
        if not (self.done or self._habits.careless):
            raise MalformedResponse("the stream was cut")
        calls = [
            ToolCall(call.id, call.name, arguments)
            for call in self._calls.values()
            if (arguments := _parsed(call.arguments)) is not None
        ]
        yield from (ToolCallEnd(index) for index in range(len(self._calls)))
        parts = (*([Text(self._text)] if self._text else []), *calls)
        stop = _STOPS.get(self._stop or "", StopReason.UNKNOWN)
        yield Finish(ChatResponse(Message(Role.ASSISTANT, parts), stop, self._usage, self._model, self._stop))


_STOPS = {"stop": StopReason.END_TURN, "tool_calls": StopReason.TOOL_USE, "length": StopReason.MAX_TOKENS}


def _parsed(text: str) -> dict[str, Any] | None:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return None


def _usage(usage: dict[str, Any]) -> Usage:
    prompt, completion = usage["prompt_tokens_details"], usage["completion_tokens_details"]
    return Usage(
        usage["prompt_tokens"],
        usage["completion_tokens"],
        prompt.get("cached_tokens"),
        prompt.get("cache_write_tokens"),
        completion.get("reasoning_tokens"),
    )


def naive(habits: Habits) -> Wrap:
    """The client with these habits."""

    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> ChatClient:
            return Naive(cast("StreamingChatClient", adapter.connect(endpoint, model)), endpoint, model, habits)

        return replace(adapter, connect=connect)

    return wrap


def _chunks(response: HttpResponse) -> list[dict[str, Any]]:
    lines = response.body.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def _written(response: HttpResponse, chunks: list[dict[str, Any]]) -> HttpResponse:
    lines = [*(json.dumps(chunk, ensure_ascii=False) for chunk in chunks), "[DONE]"]
    return replace(response, body="".join(f"data: {line}\n\n" for line in lines).encode())


def _pieces(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    return [piece for choice in chunk["choices"] for piece in choice["delta"].get("tool_calls", [])]


def repeating_ids() -> InProcess:
    """A compatible server that says the id of a call with each of its pieces (openai-chat-call-deltas)."""

    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        chunks = _chunks(response)
        ids: dict[int, str] = {}
        for piece in (piece for chunk in chunks for piece in _pieces(chunk)):
            piece["id"] = ids.setdefault(piece["index"], piece.get("id", ""))
        return _written(response, chunks) if chunks else response

    return InProcess(provider)


FAULTS = (
    Fault(
        "arguments-of-opening-piece-lost",
        naive(Habits(drops_opening=True)),
        "call-single",
        "stream-recut",
        BODY,
        0,
        TARGETS,
        variant="stream",
        recuts=1,
    ),
    Fault(
        "ids-joined",
        naive(Habits(joins_ids=True)),
        "call-single",
        "stream-call-identity",
        RESPONSE_CALL_ID,
        0,
        TARGETS,
        stages=repeating_ids,
        variant="stream",
    ),
    Fault(
        "pieces-put-together-by-id",
        naive(Habits(key="id")),
        "call-single",
        "response-calls",
        RESPONSE_ARGUMENTS,
        0,
        TARGETS,
        variant="stream",
    ),
    Fault(
        "pieces-put-to-the-last-call",
        naive(Habits(key=None)),
        "stream-provoked-interleaved-calls",
        "response-calls",
        RESPONSE_CALL,
        0,
        TARGETS,
        variant="stream",
    ),
    Fault(
        "end-of-stream-not-looked-for",
        naive(Habits(careless=True)),
        "stream-cut-before-end",
        "stream-cut",
        BODY,
        0,
        TARGETS,
        variant="stream",
    ),
    Fault(
        "error-in-stream-not-looked-for",
        naive(Habits(careless=True)),
        "stream-error-behind-text",
        "chat-failure",
        BODY,
        0,
        TARGETS,
        variant="stream",
    ),
    Fault(
        "lines-of-the-http-client",
        naive(Habits()),
        "stream-provoked-line-separators",
        "chat-failure",
        BODY,
        0,
        TARGETS,
        variant="stream",
    ),
)
