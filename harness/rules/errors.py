"""Errors: a chat fails if the provider did, by the canonical error for it, and says how long to wait."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import Kind
from harness.rules.declining import declined
from harness.rules.evidence import Evidence
from harness.rules.failures import judged, waited, worded
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _failures(evidence: Evidence) -> Iterator[Flaw]:
    said_no = declined(evidence)  # which declared-and-declined judges
    for chat, made in enumerate(evidence.transcript.chats):
        flaw = None if made is said_no else judged(evidence, chat)
        if flaw is not None and flaw.rule != "stream-cut":
            yield flaw


def _retry_after(evidence: Evidence) -> Iterator[Flaw]:
    for chat in range(len(evidence.transcript.chats)):
        flaw = waited(evidence, chat)
        if flaw is not None:
            yield flaw


def _words(evidence: Evidence) -> Iterator[Flaw]:
    for chat in range(len(evidence.transcript.chats)):
        flaw = worded(evidence, chat)
        if flaw is not None:
            yield flaw


RULES = (
    Rule(
        "chat-failure",
        Subject.ERRORS,
        "A chat fails if the provider did, by the canonical error of its status or code, and only then.",
        "harness.contract.errors; anthropic-stream-error, openai-responses-stream-error",
        _failures,
        kind=Kind.LOSS,
        because="the caller takes a failure for an answer, or an answer for a failure",
        also=("chat-refused",),
        remedy="raise the error of the contract that is expected there, and only where there is no answer",
    ),
    Rule(
        "error-retry-after",
        Subject.ERRORS,
        "An error has the time to wait that the provider asked for, and none where it did not ask.",
        "harness.contract.errors: ProviderError",
        _retry_after,
        kind=Kind.LOSS,
        because="the time that the provider asked for is gone, and the caller asks again too early",
        remedy="set the error's `retry_after` to what the header or the body says, and to none where they say nothing",
    ),
    Rule(
        "error-message",
        Subject.ERRORS,
        "An error has what the provider says of it.",
        "harness.contract.errors: ProviderError",
        _words,
        kind=Kind.CONVENTION,
        because="programs go by the error's class and status; who reads its text does not learn what was wrong",
        remedy="put the provider's own message into the error's text",
    ),
)
