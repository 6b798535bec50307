"""Replay: the request that goes out now is the one that was recorded, and every exchange is played."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from harness.results import Blame, Kind, Severity
from harness.rules import history, id_matching, json_mode, opaque_state, requests, system_prompt, tools
from harness.rules.declining import declined
from harness.rules.evidence import Evidence
from harness.rules.failures import judged
from harness.rules.loops.given import ends_cut
from harness.rules.reading import Reading
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject
from harness.tape.compare import RequestDifference, differences


def _fault(evidence: Evidence) -> Blame | None:
    """What was recorded for another scenario than this says nothing against an adapter that plays this one."""
    return Blame.CASSETTE if evidence.transcript.stale else None


def _request(evidence: Evidence) -> Iterator[Flaw]:
    """The adapter that made a recording is held to it. Another one tells the same in its own way: what differs is wrong
    where the scenario asked for it, which the rules of each subject know, and else nobody did."""
    transcript = evidence.transcript
    is_own = transcript.stale or transcript.recorded_by in (None, transcript.adapter)
    faulty = cache(lambda: _faulty(evidence))
    for reading in evidence.readings:
        recorded = reading.exchange.recorded
        if recorded is None:
            continue
        for found in differences(recorded, reading.exchange.request, evidence.api, issued=evidence.issued_ids):
            at_fault = found.neutral and not faulty().isdisjoint(_places(reading, found))
            asked_for = is_own or (at_fault and not _is_nobodys(evidence, reading, found))
            if not asked_for and (not found.neutral or found.fact in _JUDGED):
                continue
            what = "not the request that was recorded" if asked_for else "not as it was recorded, as nobody asked for"
            yield Flaw(
                f"{what}: {found.message}",
                reading.index,
                found.pointer,
                found.sent,
                found.recorded,
                kind=None if asked_for else Kind.CONVENTION,
                severity=Severity.ERROR if found.neutral else Severity.WARNING,
                blame=_fault(evidence),
            )


_JUDGED = frozenset({"model", "system", "turns", "tool_choice"})
"""The facts that the scenario always has a say in: where no rule finds fault with them, both tell the same."""

_JUDGES = (history, id_matching, json_mode, opaque_state, requests, system_prompt, tools)
"""Between them they hold a request against all that the scenario asks for."""


def _faulty(evidence: Evidence) -> frozenset[tuple[int | None, str]]:
    """The places, each with its exchange, where a request does not carry what the scenario asks for. What is missing
    has no place, and may be what differs anywhere. A limit of which it is contested whether it holds is no fault."""
    found = (finding for judge in _JUDGES for rule in judge.RULES for finding in rule.findings(evidence))
    return frozenset(
        (each.exchange, _entry(each.pointer or ""))
        for each in found
        if each.kind is not Kind.CONVENTION and each.severity is Severity.ERROR and not each.of_response
    )


def _places(reading: Reading, found: RequestDifference) -> tuple[tuple[int | None, str], ...]:
    """Where a finding stands that may be about a difference: in the same entry of its request, or nowhere in it."""
    return (reading.index, _entry(found.pointer)), (reading.index, "")


def _entry(pointer: str) -> str:
    """The message, the tool or the setting that a pointer leads into."""
    return "/".join(pointer.split("/")[:3])


def _is_nobodys(evidence: Evidence, reading: Reading, found: RequestDifference) -> bool:
    """The difference is of a setting that the scenario does not give: whatever else is wrong with the request, it is
    the one library's default or the other's."""
    if not found.setting or reading.exchange.chat is None:
        return False
    request = evidence.transcript.chats[reading.exchange.chat].request
    given = {**requests.given_settings(request), "thinking": request.thinking}
    return given.get(found.setting) is None


def _beyond(evidence: Evidence) -> Iterator[Flaw]:
    for reading in evidence.readings if not ends_cut(evidence) else ():
        if reading.is_made_up:
            yield Flaw(
                "a request for which nothing is left to answer",
                reading.index,
                "",
                severity=_severity(evidence, reading.exchange.chat),
                blame=_fault(evidence),
            )


def _severity(evidence: Evidence, chat: int | None) -> Severity | None:
    """A conversation that goes on behind an answer of which it is contested whether it was cut is no more than that."""
    before = filter(None, (judged(evidence, earlier) for earlier in range(chat or 0)))
    contested = any(flaw.rule == "stream-cut" and flaw.severity is Severity.WARNING for flaw in before)
    return Severity.WARNING if contested else None


def _unplayed(evidence: Evidence) -> Iterator[Flaw]:
    if evidence.transcript.unplayed and declined(evidence) is None:
        total = evidence.transcript.unplayed + len(evidence.transcript.exchanges)
        yield Flaw(
            f"{evidence.transcript.unplayed} of the recorded exchanges were not asked for",
            actual=len(evidence.transcript.exchanges),
            expected=total,
            blame=_fault(evidence),
        )


def _stale(evidence: Evidence) -> Iterator[Flaw]:
    if evidence.transcript.stale:
        yield Flaw("the scenario has changed since this cassette was recorded; record it again")


def _old(evidence: Evidence) -> Iterator[Flaw]:
    if evidence.transcript.too_old is not None:
        yield Flaw(f"{evidence.transcript.too_old}; record it again: harness record --stale")


AGE = "cassette-old"
"""The rule that is an error in a strict run, and a warning else."""

_REPLAY = "harness.tape.compare"

RULES = (
    Rule(
        "recorded-request",
        Subject.REQUESTS,
        "The request that is sent now means what the recorded one meant.",
        _REPLAY,
        _request,
        kind=Kind.LOSS,
        because="the recorded answer belongs to another question",
        remedy="send what was recorded again, or record the cell anew if the change is meant: 'harness record'",
    ),
    Rule(
        "request-unexpected",
        Subject.REQUESTS,
        "No request is sent beyond the script.",
        _REPLAY,
        _beyond,
        kind=Kind.LOSS,
        because="there is no answer to it",
        remedy="send no request after the last answer of the script",
    ),
    Rule(
        "exchange-unplayed",
        Subject.REQUESTS,
        "Every recorded exchange is played.",
        _REPLAY,
        _unplayed,
        kind=Kind.LOSS,
        because="a part of the recorded conversation did not happen",
        remedy="send the requests that were recorded, or record the cell anew if fewer are meant: 'harness record'",
    ),
    Rule(
        "cassette-stale",
        Subject.REQUESTS,
        "A cassette belongs to the scenario as it is now.",
        "harness.tape.cassette",
        _stale,
        kind=Kind.LOSS,
        because="what was recorded answers another scenario",
        blame=Blame.CASSETTE,
    ),
    Rule(
        AGE,
        Subject.REQUESTS,
        "A cassette that says its day is no older than --max-age allows.",
        "harness.tape.preflight",
        _old,
        kind=Kind.LOSS,
        because="what a provider answers may have changed since",
        severity=Severity.WARNING,
        blame=Blame.CASSETTE,
    ),
)
