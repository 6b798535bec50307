"""Transcripts of the shipped adapters, to be broken by hand, and what all rules say of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from harness.apis.registry import Target
from harness.apis.response_rules import Subject
from harness.model.messages import ChatResponse, Part, StreamEvent
from harness.results import Exchange, Finding, Kind, Severity, Transcript
from harness.rules.evidence import Evidence
from harness.rules.rule import Rule, all_rules
from harness.runner.backends import Backend
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from harness.scenarios.schema import Scenario, Variant
from tests.backends import InProcess, shipped_scenarios, shipped_targets

RULES = all_rules()


def transcript_of(cell: Cell, backend: Backend | None = None, recuts: int = 0) -> Transcript:
    """What one run of a cell produces."""
    seen: list[Transcript] = []

    def note(evidence: Evidence) -> tuple[()]:
        seen.append(evidence.transcript)
        return ()

    result = Run(backend or InProcess(), [Rule("note", Subject.RESPONSES, "", "", note, Kind.LOSS, "")], recuts=recuts)(
        [cell]
    )
    assert seen, result.cells[0].reason
    return seen[0]


@cache
def transcript_for(
    scenario: str, target: str = "anthropic", variant: Variant = "stream", recuts: int = 0
) -> Transcript:
    """The transcript of a shipped scenario and adapter."""
    return transcript_of(Cell(shipped_scenarios()[scenario], shipped_targets()[target], variant), recuts=recuts)


def cell(scenario: Scenario, target: Target | str, variant: Variant) -> Cell:
    return Cell(scenario, shipped_targets()[target] if isinstance(target, str) else target, variant)


def found(transcript: Transcript) -> list[Finding]:
    """What all rules say."""
    return [finding for rule in RULES for finding in rule.findings(Evidence(transcript))]


def only(transcript: Transcript, rule: str) -> Finding:
    """The one finding of a transcript with one flaw, an error of this rule."""
    findings = found(transcript)
    assert [(finding.rule, finding.severity) for finding in findings] == [(rule, Severity.ERROR)], findings
    return findings[0]


def with_chat(transcript: Transcript, index: int = 0, **changes: Any) -> Transcript:
    """The transcript with another chat at this index."""
    chats = list(transcript.chats)
    chats[index] = replace(chats[index], **changes)
    return replace(transcript, chats=tuple(chats))


def with_events(transcript: Transcript, edit: Callable[[list[StreamEvent]], object]) -> Transcript:
    """The transcript whose first chat had other events."""
    events = list(transcript.chats[0].events)
    edited = edit(events)
    return with_chat(transcript, events=tuple(edited if isinstance(edited, list) else events))


def with_parts(response: ChatResponse, parts: Sequence[Part]) -> ChatResponse:
    return replace(response, message=replace(response.message, parts=tuple(parts)))


def with_exchange(transcript: Transcript, edit: Callable[[Exchange], Exchange], index: int = 0) -> Transcript:
    """The transcript with another exchange at this index."""
    exchanges = list(transcript.exchanges)
    exchanges[index] = edit(exchanges[index])
    return replace(transcript, exchanges=tuple(exchanges))


def given(transcript: Transcript, index: int = 0) -> ChatResponse:
    """The response of a chat."""
    response = transcript.chats[index].response
    assert response is not None
    return response
