"""What goes on from an answer: state that goes back, words for its end, streams, failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from harness.apis.view import CallView, OpaqueView, TextView
from harness.contract.http import endpoint
from harness.contract.model import ArgumentsDelta, ToolCallEnd
from harness.rules.evidence import Evidence
from harness.rules.failures import is_retriable
from harness.running.differences.fact import Fact, body_of, parts_of, place
from harness.scenarios.schema import Subject


def _opaque(evidence: Evidence) -> Iterator[str]:
    for _, turn, part in parts_of(evidence):
        if isinstance(part, OpaqueView):
            yield f"{part.kind} in an entry of its own" if len(turn.parts) == 1 else f"{part.kind} part"
        elif isinstance(part, CallView | TextView) and part.opaque is not None:
            yield f"signature on the {'call' if isinstance(part, CallView) else 'text'}"


def _stop_word(evidence: Evidence) -> Iterator[str]:
    for reading in evidence.readings:
        if reading.response is not None and reading.response.calls and reading.response.raw_stop_reason:
            yield reading.response.raw_stop_reason


def _limit_word(evidence: Evidence) -> Iterator[str]:
    for reading in evidence.readings:
        if reading.response is not None and reading.response.stop_reason == "max_tokens":
            yield str(reading.response.raw_stop_reason)


def _stream_switch(evidence: Evidence) -> Iterator[str]:
    """What makes an answer a streamed one."""
    for asked in evidence.asked:
        if asked.view.stream:
            body = body_of(asked)
            asks = isinstance(body, dict) and body.get("stream") is True
            yield "stream: true" if asks else endpoint(asked.reading.exchange.request.url).rpartition(":")[2]


def _stream_usage(evidence: Evidence) -> Iterator[str]:
    """Whether a stream counts its tokens by itself, or has to be asked to."""
    for asked in evidence.asked:
        answer = asked.reading.answer
        if answer is None or not answer.streamed:
            continue
        pointer = asked.view.usage_pointer
        counted = "no count" if answer.usage.output_tokens is None else "unasked"
        yield counted if pointer is None else f"asked for by {place(pointer)}"


def _stream_arguments(evidence: Evidence) -> Iterator[str]:
    """How the arguments of a call arrive at who reads the events."""
    for chat in evidence.transcript.chats:
        deltas = Counter(event.index for event in chat.events if isinstance(event, ArgumentsDelta))
        for event in chat.events:
            if isinstance(event, ToolCallEnd) and deltas[event.index]:
                yield "in pieces" if deltas[event.index] > 1 else "at once"


def _requests_after_failure(evidence: Evidence) -> Iterator[str]:
    for chat in range(len(evidence.transcript.chats)):
        exchanges = evidence.exchanges(chat)
        if exchanges and is_retriable(exchanges[0]) and not exchanges[0].is_made_up:
            yield str(len(exchanges))


FACTS = (
    Fact(Subject.HISTORY, "opaque state that goes back", _opaque),
    Fact(Subject.RESPONSES, "stop word with calls", _stop_word),
    Fact(Subject.RESPONSES, "stop word at the token limit", _limit_word),
    Fact(Subject.STREAMING, "how a stream is asked for", _stream_switch),
    Fact(Subject.STREAMING, "token count of a stream", _stream_usage),
    Fact(Subject.STREAMING, "arguments arrive", _stream_arguments),
    Fact(Subject.ERRORS, "requests for an answer that fails", _requests_after_failure),
)
