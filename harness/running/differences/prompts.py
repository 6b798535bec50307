"""Where the system prompt goes."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.view import TextView
from harness.contract.model import JSON_INSTRUCTION
from harness.rules.evidence import Asked, Evidence
from harness.running.differences.fact import Fact, place
from harness.scenarios.schema import Subject


def _system_place(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        for part in asked.view.system:
            if part.text != JSON_INSTRUCTION:
                yield f"{place(part.pointer)} ({part.place})" if part.place.startswith("message:") else part.place


def _system_in_text(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        system = asked.chat.request.system
        if not system or any(system in message.text for message in asked.chat.request.messages):
            continue
        inside = [
            place(part.pointer)
            for turn in asked.view.turns
            for part in turn.parts
            if isinstance(part, TextView) and system in part.text
        ]
        yield from inside or ["no"]


def _system_count(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        system = asked.chat.request.system
        if system:
            yield str(sum(part.text.count(system) for part in asked.view.system))


def _system_empty(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        if asked.chat.request.system == "":
            yield "sent" if asked.view.system else "nothing is sent"


def _system_change(evidence: Evidence) -> Iterator[str]:
    before: Asked | None = None
    for asked in evidence.asked:
        if before is not None and before.chat.request.system != asked.chat.request.system:
            texts = [part.text for part in asked.view.system]
            old = before.chat.request.system
            kept = old is not None and old in texts
            new = asked.chat.request.system or None
            sent = new is None or new in texts
            yield ("the old one stays" if kept else "the old one goes") + ("" if sent else ", the new one is not sent")
        before = asked


FACTS = (
    Fact(Subject.SYSTEM_PROMPT, "where the system prompt sits", _system_place),
    Fact(Subject.SYSTEM_PROMPT, "system prompt inside a message", _system_in_text),
    Fact(Subject.SYSTEM_PROMPT, "copies in one request", _system_count),
    Fact(Subject.SYSTEM_PROMPT, "when it is empty", _system_empty),
    Fact(Subject.SYSTEM_PROMPT, "when it changes", _system_change),
)
