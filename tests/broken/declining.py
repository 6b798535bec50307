"""Faults at saying no: to what is declared, or when it is too late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from harness.contract.errors import Unsupported
from harness.contract.model import ChatRequest, ChatResponse, StreamEvent
from tests.broken.fault import FORCING, Fault, Wrap, Wrapped, client, sends
from tests.broken.places import BODY, Place


def declines(what: str, is_asked: Callable[[ChatRequest], bool]) -> Wrap:
    """Says no to the requests of a kind, before anything is sent."""

    class Declining(Wrapped):
        def ask(self, request: ChatRequest) -> ChatRequest:
            if is_asked(request):
                raise Unsupported("broken", what, "nobody has written it")
            return request

    return client(Declining)


class _Late(Wrapped):
    """Says no to JSON mode once it has seen the answer."""

    def answer(self, response: ChatResponse) -> ChatResponse:
        raise Unsupported("broken", "JSON mode", "the answer looks odd")

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        for event in self.client.stream(request):
            yield event
            raise Unsupported("broken", "JSON mode", "the answer looks odd")


def _forced(_api: str, body: dict[str, Any]) -> None:
    body["tool_choice"] = {"type": "any"}


FAULTS = (
    Fault(
        "forced-choice-declined",
        declines("a forced tool choice", lambda r: r.tool_choice == "required"),
        "choice-required",
        "declared-and-declined",
        None,
        None,
        FORCING,
    ),
    Fault(
        "json-mode-declined",
        declines("JSON mode", lambda r: r.response_format is not None),
        "json-mode",
        "declared-and-declined",
        None,
        None,
    ),
    Fault(
        "cache-marks-declined",
        declines("cache marks", lambda r: r.cache),
        "seeds-terminal-assistant-cache",
        "declared-and-declined",
        None,
        None,
    ),
    Fault(
        "result-declined",
        declines("a result", lambda r: any(message.tool_results for message in r.messages)),
        "call-single",
        "declared-and-declined",
        None,
        None,
        variant="stream",
    ),
    Fault("declined-behind-the-answer", client(_Late), "json-mode", "chat-failure", BODY, 0),
    Fault("declined-in-the-stream", client(_Late), "json-mode", "chat-failure", BODY, 0, variant="stream"),
    Fault(
        "forced-choice-on-a-model-that-refuses-it",
        sends(_forced),
        "choice-auto",
        "anthropic-choice-forced",
        Place("/tool_choice", None, None, None),
        0,
        ("anthropic",),
    ),
)
