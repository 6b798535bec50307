"""Faults where the provider fails, or its answer does not arrive as it was said: what the adapter makes of that."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NoReturn

import httpx2

from harness.contract.errors import (
    AuthenticationFailed,
    ChatError,
    ConnectionFailed,
    InvalidRequest,
    MalformedResponse,
    Overloaded,
    PermissionDenied,
    ProviderError,
    RateLimited,
    ServerError,
)
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import (
    ChatRequest,
    ChatResponse,
    Finish,
    Message,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Usage,
)
from harness.contract.protocols import Capability
from harness.results import Blame, Severity
from harness.scenarios.schema import Variant
from harness.tape.transport import Handler
from tests.broken.failures import refused
from tests.broken.fault import GEMINI, OPENAI, Fault, Wrap, Wrapped, arrives, client, declaring, rescues, sends
from tests.broken.places import BODY, RESPONSE_TEXT
from tests.stages import InProcess


def as_far_as_it_came(_: ChatError, events: list[StreamEvent]) -> ChatResponse:
    """An answer of the text that has arrived."""
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    parts = (Text(text),) if text else ()
    return ChatResponse(Message(Role.ASSISTANT, parts), StopReason.END_TURN, Usage())


def as_text(error: ChatError, _: list[StreamEvent]) -> ChatResponse:
    """An answer that says what went wrong."""
    return ChatResponse(Message(Role.ASSISTANT, (Text(str(error)),)), StopReason.END_TURN, Usage())


def another(kind: type[ProviderError]) -> Wrap:
    """A failure of the provider raised as this class, with all that was said of it."""

    def raised(error: ProviderError, _: list[StreamEvent]) -> NoReturn:
        raise kind(error.status, error.message, error.code, error.retry_after) from error

    return rescues(ProviderError, raised)


def raising(kind: type[ChatError], make: Callable[[ChatError], Exception]) -> Wrap:
    """Something else raised for the errors of a class."""

    def raised(error: ChatError, _: list[StreamEvent]) -> NoReturn:
        raise make(error) from error

    return rescues(kind, raised)


def waiting(edit: Callable[[float | None], float | None]) -> Wrap:
    """The time to wait, edited."""

    def raised(error: ProviderError, _: list[StreamEvent]) -> NoReturn:
        raise replace(error, retry_after=edit(error.retry_after)) from error

    return rescues(ProviderError, raised)


def retrying(kind: type[ChatError], edit: Callable[[ChatRequest], ChatRequest] = lambda request: request) -> Wrap:
    """Asks again for as long as errors of this class come, and nobody knows. `edit` is what is asked for then."""

    class Retrying(Wrapped):
        def chat(self, request: ChatRequest) -> ChatResponse:
            while True:
                try:
                    return self.client.chat(request)
                except kind:
                    request = edit(request)

        def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
            while True:
                try:
                    yield from self.client.stream(request)
                except kind:
                    request = edit(request)
                else:
                    return

    return client(Retrying)


def in_words(form: str) -> Wrap:
    """Errors of the provider in words of the adapter's own, with what the provider says of them at `{}`."""

    def raised(error: ProviderError, _: list[StreamEvent]) -> NoReturn:
        raise replace(error, message=form.format(error.message)) from error

    return rescues(ProviderError, raised)


class _Stubborn(Wrapped):
    """Asks eight times."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        for _ in range(7):
            try:
                return self.client.chat(request)
            except RateLimited:
                continue
        return self.client.chat(request)


def always_limited() -> InProcess:
    def provider(request: HttpRequest, _: Handler) -> HttpResponse:
        return refused(request, 429)

    return InProcess(provider)


class _Faltering(Wrapped):
    """Says that it is done, and then that it has failed."""

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        events: list[StreamEvent] = []
        try:
            for event in self.client.stream(request):
                events.append(event)
                yield event
        except ChatError as error:
            yield Finish(as_far_as_it_came(error, events))
            raise


def _mended(pieces: Iterable[bytes]) -> Iterator[bytes]:
    yield b"".join(pieces).rstrip() + b"}"


def _unread(_: Iterable[bytes]) -> Iterator[bytes]:
    yield b""


def _undecoded(error: ChatError) -> Exception:
    return json.JSONDecodeError("Expecting value", str(error), 0)


def _unreceived(error: ChatError) -> Exception:
    return httpx2.ReadError(str(error))


def _mapped(name: str, kind: type[ProviderError], scenario: str, variant: Variant = "whole") -> Fault:
    return Fault(name, another(kind), scenario, "chat-failure", BODY, 0, variant=variant)


def _failing(
    name: str, wrap: Wrap, scenario: str, variant: Variant = "whole", rule: str = "chat-failure", *, exchange: int = 0
) -> Fault:
    return Fault(name, wrap, scenario, rule, BODY, exchange, variant=variant)


def _lacking_its_end(name: str, wrap: Wrap, scenario: str) -> Iterator[Fault]:
    """All is there but the event that ends the stream. What Anthropic means by that is contested."""
    yield Fault(name, wrap, scenario, "stream-cut", BODY, 0, OPENAI + GEMINI, variant="stream")
    warned = Severity.WARNING
    yield Fault(
        f"{name}-of-anthropic",
        wrap,
        scenario,
        "stream-cut",
        BODY,
        0,
        ("anthropic",),
        Blame.ADAPTER,
        warned,
        variant="stream",
    )


TAKEN = rescues(ChatError, as_far_as_it_came)
"""Whatever goes wrong, what has arrived is the answer."""

FAULTS = (
    _mapped("400-as-server-error", ServerError, "error-400"),
    _mapped("400-as-server-error-streamed", ServerError, "error-400", "stream"),
    _mapped("401-as-permission-denied", PermissionDenied, "error-401"),
    _mapped("402-as-invalid-request", InvalidRequest, "error-402"),
    _mapped("403-as-authentication-failed", AuthenticationFailed, "error-403", "stream"),
    _mapped("404-as-invalid-request", InvalidRequest, "error-404"),
    _mapped("408-as-invalid-request", InvalidRequest, "error-408", "stream"),
    _mapped("409-as-invalid-request", InvalidRequest, "error-409"),
    _mapped("413-as-invalid-request", InvalidRequest, "error-413", "stream"),
    _failing("422-as-malformed", raising(ProviderError, lambda e: MalformedResponse(str(e))), "error-422"),
    _mapped("429-as-overloaded", Overloaded, "error-429"),
    _mapped("429-as-invalid-request-streamed", InvalidRequest, "error-429", "stream"),
    _mapped("500-as-overloaded", Overloaded, "error-500"),
    _failing("502-as-connection-failed", raising(ProviderError, lambda e: ConnectionFailed(str(e))), "error-502"),
    _mapped("503-as-server-error", ServerError, "error-503", "stream"),
    _mapped("504-as-server-error", ServerError, "error-504"),
    _mapped("529-as-server-error", ServerError, "error-529"),
    _mapped("529-as-server-error-streamed", ServerError, "error-529", "stream"),
    _failing(
        "503-with-status-500",
        raising(ProviderError, lambda e: Overloaded(500, str(e))),
        "error-503",
    ),
    _failing("failure-as-text", rescues(ProviderError, as_text), "error-500"),
    _failing("failure-as-text-streamed", rescues(ProviderError, as_text), "error-503", "stream"),
    _failing("failure-in-the-loop-swallowed", TAKEN, "error-in-tool-loop", exchange=1),
    _failing("failure-in-the-loop-swallowed-streamed", TAKEN, "error-in-tool-loop", "stream", exchange=1),
    _failing("error-in-its-own-words", in_words("the request has failed"), "error-429", rule="error-message"),
    _failing(
        "error-in-its-own-words-streamed",
        in_words("the request has failed"),
        "stream-error-at-start",
        "stream",
        "error-message",
    ),
    _failing("retry-after-lost", waiting(lambda _: None), "error-429-retry-after", rule="error-retry-after"),
    _failing(
        "retry-after-lost-streamed", waiting(lambda _: None), "error-503-retry-after", "stream", "error-retry-after"
    ),
    _failing("retry-after-invented", waiting(lambda _: 1.0), "error-429", rule="error-retry-after"),
    _failing(
        "retry-after-in-milliseconds",
        waiting(lambda s: None if s is None else s * 1000),
        "error-429-retry-after",
        rule="error-retry-after",
    ),
    _failing(
        "retry-after-rounded-down",
        waiting(lambda s: None if s is None else math.floor(s)),
        "error-503-retry-after",
        rule="error-retry-after",
    ),
    _failing("429-retried", retrying(RateLimited), "error-429", rule="one-request-per-chat", exchange=1),
    _failing("529-retried-streamed", retrying(Overloaded), "error-529", "stream", "one-request-per-chat", exchange=1),
    _failing("loop-retried", retrying(Overloaded), "error-in-tool-loop", "whole", "one-request-per-chat", exchange=2),
    _failing("reset-retried", retrying(ChatError), "connection-reset", rule="one-request-per-chat", exchange=1),
    _failing(
        "reset-retried-streamed", retrying(ChatError), "connection-reset", "stream", "one-request-per-chat", exchange=1
    ),
    _failing(
        "retried-in-mid-stream",
        retrying(ChatError),
        "stream-error-behind-text",
        "stream",
        "one-request-per-chat",
        exchange=1,
    ),
    Fault(
        "text-retold-behind-a-retry",
        retrying(ChatError),
        "connection-cut",
        "stream-text",
        RESPONSE_TEXT,
        variant="stream",
    ),
    _failing(
        "400-retried",
        declaring(retrying(InvalidRequest), Capability.RETRIES),
        "error-400",
        rule="one-request-per-chat",
        exchange=1,
    ),
    _failing(
        "retried-at-once",
        declaring(retrying(Overloaded), Capability.RETRIES),
        "error-503-retry-after",
        rule="retry-early",
        exchange=1,
    ),
    _failing(
        "answer-retried",
        declaring(sends(lambda *_: None, times=2), Capability.RETRIES),
        "call-not-needed",
        rule="one-request-per-chat",
        exchange=1,
    ),
    _failing(
        "retried-as-another-request",
        declaring(retrying(RateLimited, lambda request: replace(request, max_tokens=16)), Capability.RETRIES),
        "error-429",
        rule="one-request-per-chat",
        exchange=1,
    ),
    Fault(
        "retried-without-end",
        declaring(client(_Stubborn), Capability.RETRIES),
        "system-plain",
        "one-request-per-chat",
        BODY,
        7,
        stages=always_limited,
    ),
    _failing("empty-body-as-answer", TAKEN, "body-empty"),
    _failing("empty-body-as-answer-streamed", TAKEN, "body-empty", "stream", "stream-cut"),
    _failing("page-as-answer", rescues(MalformedResponse, as_text), "body-html"),
    _failing("page-as-answer-streamed", rescues(ChatError, as_text), "body-html", "stream"),
    _failing("json-mended", arrives(_mended, of_type="application/json"), "body-invalid-json"),
    _failing("json-as-empty-answer-streamed", TAKEN, "body-invalid-json", "stream"),
    _failing("json-error-raised", raising(MalformedResponse, _undecoded), "body-invalid-json"),
    _failing("json-error-raised-streamed", raising(ChatError, _undecoded), "body-invalid-json", "stream"),
    _failing("page-crashes", raising(MalformedResponse, _undecoded), "body-html"),
    _failing("content-type-insisted-on", arrives(_unread, of_type="text/plain"), "body-wrong-type"),
    _failing("content-type-insisted-on-streamed", arrives(_unread, of_type="text/plain"), "body-wrong-type", "stream"),
    _failing("cut-taken-for-whole", TAKEN, "connection-cut", rule="stream-cut"),
    _failing("cut-taken-for-whole-streamed", TAKEN, "connection-cut", "stream", "stream-cut"),
    _failing("clean-cut-taken-for-whole", TAKEN, "connection-cut-clean"),
    _failing("clean-cut-taken-for-whole-streamed", TAKEN, "connection-cut-clean", "stream", "stream-cut"),
    *_lacking_its_end("cut-at-the-end-taken-for-whole", TAKEN, "connection-cut-at-end"),
    _failing("reset-taken-for-whole", TAKEN, "connection-reset", "stream", "stream-cut"),
    *_lacking_its_end("lacking-end-taken-for-whole", TAKEN, "stream-cut-before-end"),
    _failing("cut-in-arguments-taken-for-whole", TAKEN, "stream-cut-in-arguments", "stream", "stream-cut"),
    *_lacking_its_end("lacking-end-behind-call-taken-for-whole", TAKEN, "stream-ends-behind-call"),
    *_lacking_its_end(
        "cut-as-failure-of-the-server", raising(ChatError, lambda e: ServerError(500, str(e))), "stream-cut-before-end"
    ),
    _failing("reset-crashes", raising(ChatError, _unreceived), "connection-reset", rule="stream-cut"),
    _failing("cut-crashes-streamed", raising(ChatError, _unreceived), "connection-cut", "stream", "stream-cut"),
    _failing("cut-arguments-crash", raising(ChatError, _undecoded), "stream-cut-in-arguments", "stream", "stream-cut"),
    _failing("stream-error-at-start-swallowed", TAKEN, "stream-error-at-start", "stream"),
    _failing("stream-error-behind-text-swallowed", TAKEN, "stream-error-behind-text", "stream"),
    _failing("stream-error-in-arguments-swallowed", TAKEN, "stream-error-in-arguments", "stream"),
    _mapped("stream-error-of-another-class", InvalidRequest, "stream-error-at-start", "stream"),
    _failing(
        "stream-error-as-malformed",
        raising(ProviderError, lambda e: MalformedResponse(str(e))),
        "stream-error-behind-text",
        "stream",
    ),
    _failing("stream-error-crashes", raising(ProviderError, _undecoded), "stream-error-in-arguments", "stream"),
    _failing("finishes-and-fails", client(_Faltering), "stream-error-behind-text", "stream", "stream-life-cycle"),
    _failing("finishes-and-breaks-off", client(_Faltering), "connection-cut", "stream", "stream-life-cycle"),
)
