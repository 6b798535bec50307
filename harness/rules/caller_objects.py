"""The objects of the caller: an adapter sends them, and leaves them as they are."""

from __future__ import annotations

from collections.abc import Iterator

from harness.results import Kind
from harness.rules.evidence import Evidence
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject


def _changed(evidence: Evidence) -> Iterator[Flaw]:
    for index, chat in enumerate(evidence.transcript.chats):
        sent = evidence.exchanges(index)
        for change in chat.changes:
            yield Flaw(
                f"the adapter changed {change.place}, an object of its caller, in place",
                sent[0].index if sent else None,
                None,
                change.after,
                change.before,
            )


RULES = (
    Rule(
        "request-changed-in-place",
        Subject.REQUESTS,
        "An adapter leaves the request, its tools and its messages as the caller gave them.",
        "harness.contract.protocols: ChatClient",
        _changed,
        kind=Kind.LOSS,
        because="the caller's own tools and history are changed, and each later request carries that",
        remedy="copy what has to be changed: leave the request, its tools and its messages as they were given",
    ),
)
