"""Faults at decoded responses, and at failures of the provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn, cast

import httpx2

from harness.apis import registry
from harness.apis.limits import Limit
from harness.cassettes.transport import Handler
from harness.kit.handlers import PartialArguments
from harness.model.errors import (
    ChatError,
    InvalidRequest,
    MalformedResponse,
    Overloaded,
    ProviderError,
)
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    Message,
    Opaque,
    Part,
    Refusal,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    Usage,
)
from harness.model.protocols import Capability
from harness.results import Blame, Severity
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
    answers,
    answers_parts,
    asks_messages,
    client,
    declaring,
    edited_message,
    rescues,
    streamed,
)
from tests.broken.places import BODY, RESPONSE_ARGUMENTS, RESPONSE_CALL, RESPONSE_TEXT, TEXT, everywhere
from tests.broken.requests import texts


def first_call_only(response: ChatResponse) -> ChatResponse:
    first = response.tool_calls[:1]
    kept = edited_message(response.message, lambda p: None if isinstance(p, ToolCall) and p not in first else p)
    return replace(response, message=kept)


def without_calls(response: ChatResponse) -> ChatResponse:
    kept = edited_message(response.message, lambda part: None if isinstance(part, ToolCall) else part)
    return replace(response, message=kept)


def _call_id_as_id(response: ChatResponse) -> ChatResponse:
    return replace(response, id=response.tool_calls[0].id if response.tool_calls else response.id)


def _refusal_as_text(response: ChatResponse) -> ChatResponse:
    kept = edited_message(response.message, lambda p: Text(p.text) if isinstance(p, Refusal) else p)
    return replace(response, message=kept, stop_reason=StopReason.END_TURN)


def _doubled(usage: Usage) -> Usage:
    return replace(usage, input_tokens=(usage.input_tokens or 0) * 2, output_tokens=(usage.output_tokens or 0) * 2)


def _fresh_tokens_only(usage: Usage) -> Usage:
    cached = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    return replace(
        usage, input_tokens=(usage.input_tokens or 0) - cached, cache_read_tokens=None, cache_write_tokens=None
    )


def _without_the_last_answer(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """An answer counts as one only if the user has said something to it."""
    return messages[:-1] if messages[-1].role is Role.ASSISTANT else messages


def _with_a_word(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return (*messages, Message.user("Continue.")) if messages[-1].role is Role.ASSISTANT else messages


def call_of_text(response: ChatResponse) -> ChatResponse:
    """A text that has the shape of a call becomes one, as wrappers of small models do it."""
    try:
        found = json.loads(response.text)
        call = ToolCall("call_of_text", found["name"], found["arguments"])
    except (ValueError, KeyError, TypeError):
        return response
    return replace(response, message=Message(Role.ASSISTANT, (call,)), stop_reason=StopReason.TOOL_USE)


def reasoning_in_text(response: ChatResponse) -> ChatResponse:
    kept = edited_message(response.message, lambda p: Text(f"{p.text}\n") if isinstance(p, Thinking) else p)
    return replace(response, message=kept)


class _Repeating(Wrapped):
    """Gives its first answer for ever."""

    first: ChatResponse | None = None

    def chat(self, request: ChatRequest) -> ChatResponse:
        self.first = self.first or self.client.chat(request)
        return self.first


class _NamesWhatWasAsked(Wrapped):
    """Tells the model that the request names, whichever has answered."""

    asked = ""

    def ask(self, request: ChatRequest) -> ChatRequest:
        self.asked = request.model
        return request

    def answer(self, response: ChatResponse) -> ChatResponse:
        return replace(response, model=self.asked)


def refused(request: HttpRequest, status: int) -> HttpResponse:
    """The provider's refusal in its own shape, with a status that has nothing to do with the request."""
    wire = next(wire for wire in registry.apis() if wire.recognises(request))
    violation = Limit("overloaded", "", "anthropic-error-body").make_violation("come back later", "", status=status)
    return wire.refuse(violation)


class _BusyAtFirst:
    """A provider that has no capacity for the first request."""

    def __init__(self, status: int) -> None:
        self._status: int | None = status

    def __call__(self, request: HttpRequest, session: Handler) -> HttpResponse:
        status, self._status = self._status, None
        return session(request) if status is None else refused(request, status)


def limited() -> InProcess:
    return InProcess(_BusyAtFirst(429))


def failing() -> InProcess:
    return InProcess(_BusyAtFirst(500))


def live() -> InProcess:
    return InProcess(scripted=False)


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


def _undecoded(error: ChatError) -> Exception:
    return json.JSONDecodeError("Expecting value", str(error), 0)


def _unreceived(error: ChatError) -> Exception:
    return httpx2.ReadError(str(error))


TAKEN = rescues(ChatError, as_far_as_it_came)
"""Whatever goes wrong, what has arrived is the answer."""


CUT = ("anthropic", *OPENAI)
"""Where a call that is cut short is on the wire at all."""


def _mended(part: Part) -> Part:
    """A call of what there is of its arguments."""
    if not isinstance(part, Opaque):
        return part
    raw = cast("dict[str, Any]", part.raw)
    call = raw.get("function", raw)
    arguments = call.get("arguments", call.get("input"))
    if isinstance(arguments, str):
        partial = PartialArguments()
        partial.add(arguments)
        arguments = partial.value
    return ToolCall(raw.get("call_id", raw["id"]), call["name"], arguments)


def _ended(response: ChatResponse) -> ChatResponse:
    return replace(response, stop_reason=StopReason.END_TURN)


def _cut(kind: type[Refusal | Thinking]) -> Callable[[Part], Part]:
    """Keep the first half of a text of this kind."""
    return lambda part: replace(part, text=part.text[: len(part.text) // 2]) if isinstance(part, kind) else part


def _without_later_texts(parts: tuple[Part, ...]) -> Iterator[Part]:
    """The parts without the texts after the first (odysseus-dev/odysseus#1255)."""
    first = next((part for part in parts if isinstance(part, Text)), None)
    return (part for part in parts if part is first or not isinstance(part, Text))


FAULTS: Table = {
    Expected("chat-failure", BODY, 0): [
        Fault("503-with-status-500", "error-503", raising(ProviderError, lambda e: Overloaded(500, str(e)))),
        Fault("failure-as-text", "error-500", rescues(ProviderError, as_text)),
        Fault("empty-body-as-answer", "body-empty", TAKEN),
        Fault("json-error-raised", "body-invalid-json", raising(MalformedResponse, _undecoded)),
        streamed("page-as-answer-streamed", "body-html", rescues(ChatError, as_text)),
        streamed("json-as-empty-answer-streamed", "body-invalid-json", TAKEN),
    ],
    Expected("error-message", BODY, 0): [
        Fault("error-in-its-own-words", "error-429", in_words("the request has failed")),
        streamed("error-in-its-own-words-streamed", "stream-error-at-start", in_words("the request has failed")),
    ],
    Expected("error-retry-after", BODY, 0): [
        streamed("retry-after-lost-streamed", "error-503-retry-after", waiting(lambda _: None)),
        Fault(
            "retry-after-in-milliseconds", "error-429-retry-after", waiting(lambda s: None if s is None else s * 1000)
        ),
    ],
    Expected("expectation", None, 0): [
        Fault("reasoning-in-text", "thinking-not-in-text", answers(reasoning_in_text), THINKING),
        Fault("limit-never-reached", "iteration-limit", answers(without_calls)),
    ],
    Expected("iteration-bound", None, None): [Fault("answer-repeated", "call-single", client(_Repeating))],
    Expected("model-choice", None, None, severity=Severity.WARNING, blame=Blame.MODEL): [
        Fault("call-of-a-free-model-lost", "call-parallel-same-tool", answers(first_call_only), backend=live)
    ],
    Expected("one-request-per-chat", BODY): [
        streamed("529-retried-streamed", "error-529", retrying(Overloaded)),
        streamed("retried-in-mid-stream", "stream-error-behind-text", retrying(ChatError)),
        Fault("400-retried", "error-400", declaring(retrying(InvalidRequest), Capability.RETRIES)),
    ],
    Expected("opaque-state-lost", BODY): [
        streamed(
            "goes-on-without-what-was-paused-stream",
            "stop-pause",
            asks_messages(_without_the_last_answer),
            ("anthropic",),
        )
    ],
    Expected("raw-stop-reason", BODY, 0, severity=Severity.WARNING): [
        Fault(
            "stop-reason-cut", "call-not-needed", answers(lambda r: replace(r, raw_stop_reason="st")), ("openai-chat",)
        )
    ],
    Expected("response-calls", RESPONSE_CALL, 0): [
        Fault("first-call-only", "call-parallel-many", answers(first_call_only)),
        Fault("calls-lost", "call-single", answers(without_calls)),
    ],
    Expected("response-model", BODY, 0): [
        Fault("model-made-up-whole", "model-served", answers(lambda r: replace(r, model="some-model")))
    ],
    Expected("response-model", BODY): [
        streamed("model-of-the-request-stream", "model-served", client(_NamesWhatWasAsked))
    ],
    Expected("response-id", everywhere("/id"), 0): [
        Fault(
            "response-id-lost", "conversation-continued", answers(lambda r: replace(r, id=None)), ("openai-responses",)
        ),
        Fault("call-id-as-id", "conversation-continued", answers(_call_id_as_id), ("openai-responses",)),
    ],
    Expected("response-refusal", everywhere(".+"), 0): [
        Fault("refusal-lost", "stop-refusal", answers_parts(_cut(Refusal)), OPENAI)
    ],
    Expected("response-thinking", BODY, 0): [
        Fault("thinking-cut", "thinking-not-in-text", answers_parts(_cut(Thinking)), THINKING[1:])
    ],
    Expected("response-text", RESPONSE_TEXT, 0): [
        Fault(
            "first-text-alone",
            "text-provoked-blocks",
            answers(lambda r: replace(r, message=replace(r.message, parts=(*_without_later_texts(r.message.parts),)))),
            ("anthropic", "openai-responses", *GEMINI),
        ),
        Fault("text-stripped", "call-not-needed", answers(texts(lambda text: text.rstrip(".")))),
    ],
    Expected("retry-early", BODY): [
        Fault("retried-at-once", "error-503-retry-after", declaring(retrying(Overloaded), Capability.RETRIES))
    ],
    Expected("stop-reason", BODY, 0, case="refusal: end_turn"): [
        Fault("filtered-answer-as-whole", "stop-content-filter", answers(_ended)),
    ],
    Expected("stop-reason", BODY, 0, case="max_tokens: end_turn"): [
        Fault(
            "full-context-as-whole",
            "stop-provoked-words",
            answers(lambda r: _ended(r) if r.raw_stop_reason == "model_context_window_exceeded" else r),
            ("anthropic",),
        )
    ],
    Expected("stop-reason", BODY, 0, case="max_tokens: tool_use"): [
        Fault(
            "limit-hidden-by-a-call",
            "call-truncated-parallel",
            answers(lambda r: replace(r, stop_reason=StopReason.TOOL_USE) if r.tool_calls else r),
        )
    ],
    Expected("stop-reason", BODY, 0): [
        Fault(
            "stop-reason-tool-use-lost", "call-single", answers(lambda r: replace(r, stop_reason=StopReason.END_TURN))
        ),
        Fault("refusal-as-answer", "stop-refusal", answers(_refusal_as_text)),
        Fault("cut-answer-as-whole", "call-truncated-next-turn", answers(_ended)),
    ],
    Expected("stream-cut", BODY, 0): [
        streamed("cut-in-arguments-taken-for-whole", "stream-cut-in-arguments", TAKEN),
        streamed("reset-taken-for-whole", "connection-reset", TAKEN),
        Fault("reset-crashes", "connection-reset", raising(ChatError, _unreceived)),
    ],
    Expected("stream-cut", BODY, 0, severity=Severity.WARNING): [
        streamed("cut-at-the-end-taken-for-whole-of-anthropic", "connection-cut-at-end", TAKEN, ("anthropic",))
    ],
    Expected("text-changed", TEXT): [
        streamed("asks-a-paused-model-in-words-stream", "stop-pause", asks_messages(_with_a_word), ("anthropic",)),
    ],
    Expected("truncated-call", RESPONSE_ARGUMENTS, 0): [
        Fault("cut-call-mended", "call-truncated", answers_parts(_mended), CUT),
        streamed("broken-call-mended", "call-broken", answers_parts(_mended), CUT),
    ],
    Expected("usage", BODY, 0): [
        Fault("usage-doubled", "stop-max-tokens-set", answers(lambda r: replace(r, usage=_doubled(r.usage))))
    ],
    Expected("usage", BODY): [
        Fault(
            "usage-without-cache",
            "usage-cached-prompt",
            answers(lambda r: replace(r, usage=_fresh_tokens_only(r.usage))),
            ("anthropic", "openai-chat", "openai-responses"),
        ),
    ],
    Expected("usage-offered", BODY, severity=Severity.WARNING, case="cache_read_tokens"): [
        Fault(
            "cached-tokens-lost",
            "usage-cached-prompt",
            answers(lambda r: replace(r, usage=replace(r.usage, cache_read_tokens=None))),
            ("anthropic", "openai-chat", "openai-responses"),
        )
    ],
    Expected("usage-offered", BODY, 0): [
        Fault("usage-lost", "system-plain", answers(lambda r: replace(r, usage=Usage())))
    ],
}
