"""Responses: what the adapter hands on is what the wire says: text, calls, stop reason, usage, failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from harness.errors import ConnectionFailed, MalformedResponse, provider_error
from harness.http import EXHAUSTED
from harness.model import ChatResponse, Usage
from harness.results import Blame, Chat
from harness.rules.evidence import Evidence, Reading
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject
from harness.wire.jsonvalue import equal
from harness.wire.view import ResponseView, TextView


def _answers(evidence: Evidence) -> Iterator[tuple[Reading, ResponseView, ChatResponse]]:
    for index, chat in enumerate(evidence.transcript.chats):
        reading = evidence.answer(index)
        if reading is not None and reading.response is not None and chat.response is not None:
            yield reading, reading.response, chat.response


def _text(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        if given.text != wire.text:
            yield Flaw(
                "the text that the adapter hands on is not the answer's (response body)",
                reading.index,
                next((part.pointer for part in wire.parts if isinstance(part, TextView)), ""),
                given.text,
                wire.text,
            )


def _calls(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        issued = [call for call in wire.calls if call.malformed is None]
        if [call.name for call in issued] != [call.name for call in given.tool_calls]:
            yield Flaw(
                "the calls that the adapter hands on are not the answer's (response body)",
                reading.index,
                issued[0].pointer if issued else "",
                [call.name for call in given.tool_calls],
                [call.name for call in issued],
            )
            continue
        for call, handed in zip(issued, given.tool_calls, strict=True):
            if not equal(dict(handed.arguments), call.arguments):
                yield Flaw(
                    f"the arguments of {call.name} that the adapter hands on are not the answer's (response body)",
                    reading.index,
                    call.arguments_pointer,
                    dict(handed.arguments),
                    call.arguments,
                )


def _stop_reason(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        if given.stop_reason != wire.stop_reason:
            yield Flaw(
                f"the wire says {wire.raw_stop_reason!r}, which is {wire.stop_reason.value} (response body)",
                reading.index,
                "",
                given.stop_reason.value,
                wire.stop_reason.value,
            )


def _usage(evidence: Evidence) -> Iterator[Flaw]:
    """A count that the provider gave is handed on; one that it left out may be absent or 0."""
    for reading, wire, given in _answers(evidence):
        for field in fields(Usage):
            said: int | None = getattr(wire.usage, field.name)
            handed: int | None = getattr(given.usage, field.name)
            if (said or 0) != (handed or 0):
                yield Flaw(f"{field.name} is not what the answer says (response body)", reading.index, "", handed, said)


def _failures(evidence: Evidence) -> Iterator[Flaw]:
    """A chat fails if and only if the provider did, by the canonical error of its status."""
    for index, chat in enumerate(evidence.transcript.chats):
        reading = evidence.answer(index)
        if reading is not None and _made_up(reading):
            continue  # request-unexpected says it
        failed = reading.response.error if reading and reading.response else None
        exchange = reading.index if reading else None
        if chat.error is None and failed is not None:
            yield Flaw(
                f"the provider answered with an error ({failed.status} {failed.message}) and the adapter hands on a "
                "response",
                exchange,
                "",
                "a response",
                type(provider_error(failed.status, "")).__name__,
            )
        elif chat.error is not None and failed is not None:
            wanted = type(provider_error(failed.status, "")).__name__
            if chat.error != wanted and failed.status >= 400:
                yield Flaw(
                    f"the provider answered {failed.status}, and the adapter raises {chat.error}: {chat.error_text}",
                    exchange,
                    "",
                    chat.error,
                    wanted,
                )
            else:
                yield Flaw(
                    f"the provider refused or failed: {failed.status} {failed.message}",
                    exchange,
                    "",
                    failed.status,
                    200,
                    rule="chat-refused",
                    blame=_refusal_blame(evidence, exchange, failed.status),
                )
        elif chat.error is not None and reading is not None:
            message = f"the adapter raises {chat.error} where the answer is good: {chat.error_text}"
            yield Flaw(message, exchange, "", chat.error, None)
        elif chat.error is not None:
            yield from _unanswered(evidence, index, chat)


def _unanswered(evidence: Evidence, index: int, chat: Chat) -> Iterator[Flaw]:
    """A chat without an answer, or with one that nobody can read, fails by the error for it, and not by its fault."""
    asked = [reading for reading in evidence.readings if reading.exchange.chat == index]
    received = bool(asked) and asked[-1].exchange.response is not None
    wanted = (MalformedResponse if received else ConnectionFailed).__name__ if asked else None
    if received and chat.error == wanted:
        return  # exchange-unreadable says it
    yield Flaw(
        f"the adapter raises {chat.error} and there is no answer: {chat.error_text}",
        asked[-1].index if asked else None,
        "",
        chat.error,
        "a response" if chat.error == wanted else wanted,
        blame=Blame.PROVIDER if chat.error == wanted else None,
    )


def _made_up(reading: Reading) -> bool:
    return reading.exchange.response is not None and EXHAUSTED in reading.exchange.response.headers


def _refusal_blame(evidence: Evidence, exchange: int | None, status: int) -> Blame:
    """The reference server refuses only what is wrong; what a provider refuses although the witness has nothing against
    it is the provider's own departure."""
    if exchange is None or status >= 500 or status == 429:
        return Blame.PROVIDER
    if evidence.transcript.scripted:
        return Blame.ADAPTER
    request = evidence.transcript.exchanges[exchange].request
    refused = any(v.severity == "error" for v in evidence.wire.violations(request, evidence.transcript.profile))
    return Blame.ADAPTER if refused else Blame.PROVIDER


_RESPONSE = "harness.model: ChatResponse"

RULES = (
    Rule("response-text", Subject.RESPONSES, "The text is the answer's, to the code point.", _RESPONSE, _text),
    Rule(
        "response-calls",
        Subject.RESPONSES,
        "The calls are the answer's: all, in order, with their arguments.",
        _RESPONSE + "; wire-facts 9.2",
        _calls,
    ),
    Rule("stop-reason", Subject.RESPONSES, "The stop reason follows table 1.3.", "wire-facts 1.3; 9.1", _stop_reason),
    Rule("usage", Subject.RESPONSES, "The usage follows table 1.4.", "wire-facts 1.4; 9.14", _usage),
    Rule(
        "chat-failure",
        Subject.RESPONSES,
        "A chat fails if the provider did, by the canonical error of its status, and only then.",
        "harness.errors",
        _failures,
    ),
)
