"""What a deliberately broken adapter is: a shipped one, wrapped at the contract or at the transport."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast
from zlib import crc32

import httpx2

from harness.model.errors import ChatError
from harness.model.messages import ChatRequest, ChatResponse, Finish, Message, Part, StreamEvent
from harness.model.protocols import Adapter, Capability, ChatClient, Endpoint, StreamingChatClient
from harness.results import Blame, Finding, Severity
from harness.runner.backends import Backend
from harness.scenarios.schema import Variant
from tests.backends import InProcess
from tests.broken.places import Place

ALL = ("anthropic", "openai-chat", "openai-responses", "gemini-3", "gemini-2.5")
FORCING = ("anthropic-opus-5", *ALL[1:])
"""The targets whose models take a forced tool choice."""

WITH_IDS = ("anthropic", "openai-chat", "openai-responses", "gemini-3")
OPENAI = ("openai-chat", "openai-responses")
GEMINI = ("gemini-3", "gemini-2.5")
THINKING = ("anthropic", "openai-responses", "gemini-3", "gemini-2.5")

Wrap = Callable[[Adapter], Adapter]

_AT_CONTRACT: set[Wrap] = set()
"""Wraps that are wrong in canonical values alone, and so in the same way on every wire."""


def is_same_on_every_wire(wrap: Wrap) -> bool:
    return wrap in _AT_CONTRACT


@dataclass(frozen=True, slots=True)
class Expected:
    """The finding that must be reported for a fault.

    `pointer` is its place in the request or response of exchange `exchange`. `None` means the whole cell. `case` is
    the finding's case, if that matters.
    """

    rule: str
    pointer: Place | None
    exchange: int | None = 1
    blame: Blame = Blame.ADAPTER
    severity: Severity = Severity.ERROR
    case: str | None = None

    def found_in(self, findings: Iterable[Finding], api: str) -> list[Finding]:
        """The findings with this rule, case, blame, severity and place."""
        return [
            finding
            for finding in findings
            if (finding.rule, finding.blame, finding.severity) == (self.rule, self.blame, self.severity)
            and finding.exchange == self.exchange
            and self.case in (None, finding.case)
            and self._matches(finding.pointer, api)
        ]

    def _matches(self, pointer: str | None, api: str) -> bool:
        if self.pointer is None or pointer is None:
            return self.pointer is pointer
        return re.fullmatch(self.pointer.pattern(api), pointer) is not None


@dataclass(frozen=True, slots=True)
class Fault:
    """A broken adapter, and the scenario that shows it.

    `wrap` breaks a shipped adapter. `targets` are those on which the fault can be expressed. A streamed cell is
    replayed in `recuts` other chunkings.
    """

    name: str
    scenario: str
    wrap: Wrap
    targets: tuple[str, ...] = ALL
    backend: Callable[[], Backend] = InProcess
    variant: Variant = "whole"
    recuts: int = 0

    @property
    def played_on(self) -> tuple[str, ...]:
        """All targets for a fault of a wire; one, by its name, for a fault that is the same on every wire."""
        if self.wrap not in _AT_CONTRACT:
            return self.targets
        return (self.targets[crc32(self.name.encode()) % len(self.targets)],)


Table: TypeAlias = dict[Expected, list[Fault]]
"""Faults by the finding that each must cause."""


def streamed(name: str, scenario: str, wrap: Wrap, targets: tuple[str, ...] = ALL, *, recuts: int = 0) -> Fault:
    return Fault(name, scenario, wrap, targets, variant="stream", recuts=recuts)


class Wrapped:
    """A client between the caller and the shipped one, faithful as it stands."""

    def __init__(self, client: StreamingChatClient) -> None:
        self.client = client

    def ask(self, request: ChatRequest) -> ChatRequest:
        return request

    def answer(self, response: ChatResponse) -> ChatResponse:
        return response

    def chat(self, request: ChatRequest) -> ChatResponse:
        return self.answer(self.client.chat(self.ask(request)))

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        for event in self.client.stream(self.ask(request)):
            yield Finish(self.answer(event.response)) if isinstance(event, Finish) else event

    def close(self) -> None:
        self.client.close()


def client(make: Callable[[StreamingChatClient], ChatClient]) -> Wrap:
    """At the contract: the shipped client is wrapped by another one."""

    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> ChatClient:
            return make(cast("StreamingChatClient", adapter.connect(endpoint, model)))

        return replace(adapter, connect=connect)

    _AT_CONTRACT.add(wrap)
    return wrap


def asks(edit: Callable[[ChatRequest], ChatRequest]) -> Wrap:
    """At the contract: another request is encoded than the one that was given."""

    class Asking(Wrapped):
        def ask(self, request: ChatRequest) -> ChatRequest:
            return edit(request)

    return client(Asking)


def answers(edit: Callable[[ChatResponse], ChatResponse]) -> Wrap:
    """At the contract: another response is handed on than the one that was decoded."""

    class Answering(Wrapped):
        def answer(self, response: ChatResponse) -> ChatResponse:
            return edit(response)

    return client(Answering)


def streams(edit: Callable[[list[StreamEvent]], Iterable[StreamEvent]]) -> Wrap:
    """At the contract: other events are handed on than those of the stream."""

    class Streaming(Wrapped):
        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            yield from edit(list(super().stream(request)))

    return client(Streaming)


def finishes(edit: Callable[[ChatResponse], ChatResponse]) -> Wrap:
    """At the contract: a stream ends in another response than the one that was decoded; a whole answer does not."""

    def finish(events: list[StreamEvent]) -> Iterator[StreamEvent]:
        for event in events:
            yield Finish(edit(event.response)) if isinstance(event, Finish) else event

    return streams(finish)


def rescues(kind: type[ChatError], rescue: Callable[[Any, list[StreamEvent]], ChatResponse]) -> Wrap:
    """At the contract: an error of this kind is not handed on. `rescue` makes an answer of it and of the events before
    it, or raises something else."""

    class Rescuing(Wrapped):
        def chat(self, request: ChatRequest) -> ChatResponse:
            try:
                return super().chat(request)
            except kind as error:
                return rescue(error, [])

        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            events: list[StreamEvent] = []
            try:
                for event in super().stream(request):
                    events.append(event)
                    yield event
            except kind as error:
                yield Finish(rescue(error, events))

    return client(Rescuing)


def declaring(wrap: Wrap, *capabilities: Capability) -> Wrap:
    """The same by an adapter that says it has these capabilities too."""

    def declared(adapter: Adapter) -> Adapter:
        return replace(wrap(adapter), capabilities=adapter.capabilities | {*capabilities})

    if wrap in _AT_CONTRACT:
        _AT_CONTRACT.add(declared)
    return declared


def sends(edit: Callable[[str, dict[str, Any]], Any], *, times: int = 1) -> Wrap:
    """At the transport: `edit(api, body)` changes the JSON body, or gives another one, and it is sent `times` times."""
    return _transport(lambda inner, api: _Rewriting(inner, api, edit, times))


def posts(edit: Callable[[str], str]) -> Wrap:
    """At the transport: requests go to another path."""
    return _transport(lambda inner, _: _Readdressing(inner, edit))


Reader = Callable[[Iterable[bytes]], Iterable[bytes]]
"""What is made of the pieces of a body before the shipped adapter sees it."""


def arrives(read: Reader, *, of_type: str = "text/event-stream") -> Wrap:
    """At the transport: bodies of a content type go through `read`, each as soon as it is there."""
    return _transport(lambda inner, _: _Reading(inner, read, of_type))


def _transport(make: Callable[[httpx2.Client, str], httpx2.BaseTransport]) -> Wrap:
    def wrap(adapter: Adapter) -> Adapter:
        def connect(endpoint: Endpoint, model: str) -> ChatClient:
            inner = cast("httpx2.Client", endpoint.http_client)
            outer = httpx2.Client(transport=make(inner, adapter.api), trust_env=False)
            return cast("ChatClient", adapter.connect(replace(endpoint, http_client=outer), model))

        return replace(adapter, connect=connect)

    return wrap


def _sent(inner: httpx2.Client, request: httpx2.Request, content: bytes) -> httpx2.Response:
    """The answer to a request with another body, its own body still to come."""
    headers = {name: value for name, value in request.headers.items() if name != "content-length"}
    return inner.send(inner.build_request(request.method, request.url, headers=headers, content=content), stream=True)


class _Rewriting(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client, api: str, edit: Callable[[str, dict[str, Any]], Any], times: int) -> None:
        self._inner = inner
        self._api = api
        self._edit = edit
        self._times = times

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        edited = self._edit(self._api, body)
        content = json.dumps(body if edited is None else edited, ensure_ascii=False).encode()
        first, *_ = [_sent(self._inner, request, content) for _ in range(self._times)]
        return httpx2.Response(first.status_code, headers=first.headers, stream=first.stream)


class _Readdressing(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client, edit: Callable[[str], str]) -> None:
        self._inner = inner
        self._edit = edit

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(path=self._edit(request.url.path))
        answer = _sent(self._inner, request, request.read())
        return httpx2.Response(answer.status_code, headers=answer.headers, stream=answer.stream)


class _Reading(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client, read: Reader, of_type: str) -> None:
        self._inner = inner
        self._read = read
        self._of_type = of_type

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = _sent(self._inner, request, request.read())
        stream = response.stream
        if response.headers.get("content-type", "").startswith(self._of_type):
            stream = _Read(self._read, cast("httpx2.SyncByteStream", stream))
        return httpx2.Response(response.status_code, headers=response.headers, stream=stream)


class _Read(httpx2.SyncByteStream):
    def __init__(self, read: Reader, pieces: Iterable[bytes]) -> None:
        self._read = read
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._read(self._pieces)


def edited_parts(request: ChatRequest, edit: Callable[[Part], Part | None]) -> ChatRequest:
    """The request with each part of its history edited; `None` drops the part, and a message that has none left."""
    messages = [edited_message(message, edit) for message in request.messages]
    return replace(request, messages=tuple(message for message in messages if message.parts))


def edited_message(message: Message, edit: Callable[[Part], Part | None]) -> Message:
    return replace(message, parts=tuple(part for old in message.parts if (part := edit(old)) is not None))


def asks_parts(edit: Callable[[Part], Part | None]) -> Wrap:
    return asks(lambda request: edited_parts(request, edit))


def asks_messages(edit: Callable[[tuple[Message, ...]], tuple[Message, ...]]) -> Wrap:
    return asks(lambda request: replace(request, messages=edit(request.messages)))


def answers_parts(edit: Callable[[Part], Part | None]) -> Wrap:
    return answers(lambda response: replace(response, message=edited_message(response.message, edit)))
