"""Faults at the events and the bytes of a stream, and a naive client."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import httpx2

from harness.adapters.openai_chat.requests import encode
from harness.cassettes.transport import Handler
from harness.model.errors import MalformedResponse, ServerError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import (
    ArgumentsDelta,
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Part,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from harness.model.protocols import Adapter, ChatClient, Endpoint, StreamingChatClient
from tests.backends import InProcess
from tests.broken.fault import (
    GEMINI,
    OPENAI,
    THINKING,
    Expected,
    Fault,
    Table,
    Wrap,
    Wrapped,
    arrives,
    client,
    edited_message,
    finishes,
    sends,
    streamed,
    streams,
)
from tests.broken.places import (
    BODY,
    RESPONSE_ARGUMENTS,
    RESPONSE_CALL,
    RESPONSE_CALL_ID,
    Place,
    everywhere,
)

Events = list[StreamEvent]


def each_event(edit: Callable[[StreamEvent], StreamEvent | None]) -> Wrap:
    """Every event of a stream edited by itself; `None` drops it."""
    return streams(lambda events: [edited for event in events if (edited := edit(event)) is not None])


def _started_late(events: Events) -> Iterator[StreamEvent]:
    """Each call is announced behind the first piece of its arguments."""
    waiting: ToolCallStart | None = None
    for event in events:
        if isinstance(event, ToolCallStart):
            waiting = event
            continue
        yield event
        if waiting is not None:
            yield waiting
            waiting = None


def _started_again(events: Events) -> Iterator[StreamEvent]:
    """Each piece of the arguments announces the call once more."""
    start: StreamEvent | None = None
    for event in events:
        if isinstance(event, ToolCallStart):
            start = event
        elif isinstance(event, ArgumentsDelta) and start is not None:
            yield start
        yield event


def _raw(events: Events) -> Iterator[StreamEvent]:
    """What the wire says, in the place of an event."""
    wire: list[StreamEvent] = [{"type": "ping"}]  # pyright: ignore[reportAssignmentType] - an adapter may be untyped
    yield from (*events[:-1], *wire, events[-1])


def _arguments_of_the_last(events: Events) -> Iterator[StreamEvent]:
    """Whatever arrives belongs to the call that started last."""
    last = 0
    for event in events:
        if isinstance(event, ToolCallStart):
            last = event.index
        yield replace(event, index=last) if isinstance(event, ArgumentsDelta) else event


def _thought_as_text(event: StreamEvent) -> StreamEvent:
    return TextDelta(event.text) if isinstance(event, ThinkingDelta) else event


def final_parts(edit: Callable[[Part], Part | None]) -> Wrap:
    """The parts of the answer at the end of a stream, edited; `None` drops one."""
    return finishes(lambda response: replace(response, message=edited_message(response.message, edit)))


def _with_arguments(part: Part) -> Part | None:
    """Calls count only if they have arguments."""
    return None if isinstance(part, ToolCall) and not part.arguments else part


def _empty_worded(response: ChatResponse) -> ChatResponse:
    """No answer is without a text."""
    if response.text or response.tool_calls:
        return response
    return replace(response, message=replace(response.message, parts=(Text("(no content)"),)))


def _output_doubled(response: ChatResponse) -> ChatResponse:
    """The count of the last event and that of the answer, added up."""
    return replace(response, usage=replace(response.usage, output_tokens=2 * (response.usage.output_tokens or 0)))


def _uncounted(_: str, body: dict[str, Any]) -> None:
    body.pop("stream_options")


class _Gathering(Wrapped):
    """Asks for a stream always, and puts it together."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        *_, last = self.stream(request)
        assert isinstance(last, Finish)
        return last.response


def _decoded_by_piece(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each piece is text for itself."""
    for piece in pieces:
        yield piece.decode(errors="replace").encode()


def _lines_of_unicode(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines end where `str.splitlines` says."""
    for line in b"".join(pieces).decode().splitlines():
        yield line.encode() + b"\n"


def _whole_events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each piece is taken for whole events: of what stands behind the last end of one nothing is kept."""
    for piece in pieces:
        yield b"".join(re.findall(rb".*?(?:\r\n\r\n|\n\n)", piece, re.DOTALL))


def _begun(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What does not begin with the name of a field is no event."""
    for event in re.split(rb"(?<=\r\n\r\n)|(?<=\n\n)|(?<=\r\r)", b"".join(pieces)):
        if event.startswith((b"data:", b"event:")):
            yield event


def _events_of_line_feeds(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Events end at two line feeds only; what follows the last two is dropped (hey-api/hey-api#3054)."""
    event = b""
    for piece in pieces:
        *whole, event = (event + piece).split(b"\n\n")
        yield from (each + b"\n\n" for each in whole)


def _event_per_data_line(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each line of data is an event (SamSaffron/term-llm#456)."""
    for event in re.split(rb"(?<=\r\n\r\n)|(?<=\n\n)|(?<=\r\r)", b"".join(pieces)):
        lines = re.split(rb"\r\n|\n|\r", event)
        names = [line for line in lines if line.startswith(b"event:")]
        yield from (b"\n".join([*names, line]) + b"\n\n" for line in lines if line.startswith(b"data:"))


def _up_to_an_unknown_event(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Nothing is read behind an event of a type that nobody knows."""
    yield b"".join(pieces).partition(b"event: of_another_day")[0]


EACH_BYTE, CHARACTERS, CRLF, COMMENTS, BOM, DATA_LINES = 1, 2, 3, 6, 9, 10
"""How many recuts it takes to come to this way."""


CHAT = ("openai-chat",)


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
        answer = _NaiveAnswer(self._habits)
        with self._http.stream("POST", self._url, headers=self._headers, json=body) as response:
            for line in response.iter_lines():
                if line == "data: [DONE]":
                    answer.done = True
                elif line.startswith("data: "):
                    yield from answer.take(json.loads(line.removeprefix("data: ")))
        yield from answer.finish()


class _NaiveAnswer:
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
            self._usage = _naive_usage(chunk["usage"])
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


def _naive_usage(usage: dict[str, Any]) -> Usage:
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


FAULTS: Table = {
    Expected("chat-failure", BODY, 0): [
        streamed("slow-events-cut-by-pieces", "connection-slow", arrives(_whole_events)),
        streamed(
            "trips-over-an-unknown-event",
            "stream-provoked-unknown-events",
            arrives(_up_to_an_unknown_event),
            ("anthropic",),
        ),
        streamed("lines-of-unicode", "stream-provoked-line-separators", arrives(_lines_of_unicode)),
    ],
    Expected("response-calls", RESPONSE_ARGUMENTS, 0): [
        streamed("pieces-put-together-by-id", "call-single", naive(Habits(key="id")), CHAT)
    ],
    Expected("response-calls", RESPONSE_CALL, 0): [
        streamed("drops-calls-without-arguments", "stream-parallel-empty-arguments", final_parts(_with_arguments)),
        streamed("pieces-put-to-the-last-call", "stream-provoked-interleaved-calls", naive(Habits(key=None)), CHAT),
    ],
    Expected(
        "response-text",
        Place(
            "",
            r"/choices/0/message/content|",
            r"/output/\d+/content/\d+(/text)?|",
            r"/candidates/0/content/final_parts/\d+/text|",
        ),
    ): [streamed("words-an-empty-answer", "stream-empty-text", finishes(_empty_worded))],
    Expected("stop-reason", BODY, 0): [
        streamed(
            "streams-another-stop-reason",
            "call-single",
            finishes(lambda r: replace(r, stop_reason=StopReason.END_TURN)),
        )
    ],
    Expected("stream-arguments", RESPONSE_ARGUMENTS, 0): [
        # calls of the other APIs never overlap
        streamed(
            "gives-arguments-to-the-last-call",
            "stream-provoked-interleaved-calls",
            streams(_arguments_of_the_last),
            OPENAI,
        ),
    ],
    Expected("stream-call-identity", RESPONSE_CALL_ID, 0): [
        Fault("ids-joined", "call-single", naive(Habits(joins_ids=True)), CHAT, repeating_ids, "stream"),
    ],
    Expected("stream-equals-whole", BODY, 0): [
        streamed("streams-no-raw-stop-reason", "call-single", finishes(lambda r: replace(r, raw_stop_reason=None))),
        # a message of Chat has no order of text and calls
    ],
    Expected("stream-equals-whole", BODY, 0, case="the count input_tokens"): [
        streamed("counts-of-whole-answers-alone", "call-single", finishes(lambda r: replace(r, usage=Usage())))
    ],
    Expected("stream-life-cycle", BODY, 0): [
        streamed("announces-calls-late", "call-single", streams(_started_late)),
        streamed("announces-calls-again", "call-single", streams(_started_again)),
        streamed("hands-on-what-is-no-event", "call-single", streams(_raw)),
    ],
    Expected("stream-recut", BODY, 0): [
        streamed("bytes-decoded-by-piece", "stream-split-characters", arrives(_decoded_by_piece), recuts=EACH_BYTE),
        streamed(
            "byte-order-mark-hides-an-event",
            "call-single",
            arrives(_begun),
            ("anthropic", "openai-chat", *GEMINI),
            recuts=BOM,
        ),
        streamed(
            "events-end-at-two-line-feeds",
            "call-single",
            arrives(_events_of_line_feeds),
            ("anthropic", *OPENAI),
            recuts=CRLF,
        ),
        streamed(
            "each-data-line-an-event",
            "call-single",
            arrives(_event_per_data_line),
            ("anthropic", *OPENAI),
            recuts=DATA_LINES,
        ),
        streamed("arguments-of-opening-piece-lost", "call-single", naive(Habits(drops_opening=True)), CHAT, recuts=1),
    ],
    Expected("stream-requested", BODY, 0): [
        Fault("streams-whole-answers", "call-single", client(_Gathering)),
    ],
    Expected("stream-requested", everywhere("/stream_options"), 0): [
        streamed("has-no-usage-counted", "call-not-needed", sends(_uncounted), ("openai-chat",))
    ],
    Expected("stream-text", BODY, 0): [
        streamed("tells-thoughts-as-text", "thinking-tool-loop", each_event(_thought_as_text), THINKING)
    ],
    Expected("usage", BODY, 0): [streamed("doubles-usage", "call-not-needed", finishes(_output_doubled))],
    Expected("usage-offered", BODY, 0): [
        streamed(
            "requested-counts-lost",
            "call-not-needed",
            finishes(lambda r: replace(r, usage=Usage(), reported={**r.reported, "empty-counts": True})),
            ("openai-chat",),
        ),
        streamed("streams-no-usage", "call-not-needed", finishes(lambda r: replace(r, usage=Usage()))),
    ],
}
