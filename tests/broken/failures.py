"""Faults at failures: what the adapter makes of a provider that fails, and of a model that is free to choose."""

from __future__ import annotations

from harness import catalog
from harness.apis.limits import Limit
from harness.contract.errors import ProviderError, RateLimited, ServerError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import ChatRequest, ChatResponse, Message, Role, StopReason, Usage
from harness.results import Blame, Severity
from harness.tape.transport import Handler
from tests.broken.fault import Fault, Wrapped, answers, client
from tests.broken.places import BODY
from tests.broken.responses import first_call_only
from tests.stages import InProcess


def refused(request: HttpRequest, status: int) -> HttpResponse:
    """The provider's refusal in its own shape, with a status that has nothing to do with the request."""
    wire = next(wire for wire in catalog.apis() if wire.recognises(request))
    violation = Limit("overloaded", "", "anthropic-error-body").broken("come back later", "", status=status)
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


class _Swallowing(Wrapped):
    """Makes an empty answer of a failure."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        try:
            return self.client.chat(request)
        except ProviderError:
            return ChatResponse(Message(Role.ASSISTANT, ()), StopReason.END_TURN, Usage())


class _Lumping(Wrapped):
    """Has one class for all failures."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        try:
            return self.client.chat(request)
        except ProviderError as error:
            raise ServerError(error.status, error.message) from error


class _Tripping(Wrapped):
    """Looks for the answer inside the error."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        try:
            return self.client.chat(request)
        except ProviderError as error:
            raise KeyError("choices") from error


class _Retrying(Wrapped):
    """Asks again, and nobody knows."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        try:
            return self.client.chat(request)
        except RateLimited:
            return self.client.chat(request)


FAULTS = (
    Fault("failure-swallowed", client(_Swallowing), "system-plain", "chat-failure", BODY, 0, stages=failing),
    Fault("failure-of-another-class", client(_Lumping), "system-plain", "chat-failure", BODY, 0, stages=limited),
    Fault("failure-crashes", client(_Tripping), "system-plain", "chat-failure", BODY, 0, stages=limited),
    Fault("failure-retried", client(_Retrying), "system-plain", "one-request-per-chat", BODY, 1, stages=limited),
    Fault(
        "call-of-a-free-model-lost",
        answers(first_call_only),
        "call-parallel-same-tool",
        "model-choice",
        None,
        None,
        blame=Blame.MODEL,
        severity=Severity.WARNING,
        stages=live,
    ),
)
