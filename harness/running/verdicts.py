"""What a cell comes to: the findings of the rules, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness import catalog
from harness.apis.api import PATH_UNKNOWN
from harness.apis.fact_files import SHIPPED, FactSelection
from harness.apis.jsonvalue import parsed
from harness.apis.view import WireError
from harness.contract.errors import CassetteError
from harness.host.exceptions import shortened
from harness.results import (
    Blame,
    Body,
    CellResult,
    Embedded,
    EmbeddingTranscript,
    Finding,
    Kind,
    ServedTranscript,
    Severity,
    ToolExecution,
    Transcript,
    Verdict,
    of_client,
    worst,
)
from harness.rules.declining import declined
from harness.rules.declining import reason as why_declined
from harness.rules.evidence import Evidence
from harness.rules.reading import Reading
from harness.rules.recording import AGE
from harness.rules.rule import Rule
from harness.rules.scope import EVERYTHING, Scope
from harness.running import exhibits
from harness.running.backends import Stage
from harness.running.causes import linked
from harness.running.costs import spending
from harness.running.differences import Observations
from harness.running.exhibits import Exemplar, exemplar, piece
from harness.running.expected_failures import ExpectedFailure, accepted
from harness.running.recorder import is_complete
from harness.stdio.process import OUTPUT_LENGTH
from harness.tape.redact import Redactor

CASSETTE_UNREADABLE = "cassette-unreadable"
TOOL_UNANSWERED = "tool-unanswered"
"""Findings that are those of no rule."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell that is done: its result, what was observed for the differences, and what it was judged by; the last two
    where it was played to its end. `seconds` is how long it took."""

    result: CellResult
    observations: Observations | None = None
    evidence: Evidence | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges what was played by `rules`; what breaks a convention fails only if it is `strict`, and what is `expected`
    fails nothing. What `scope` leaves out is counted, and that is all."""

    rules: Sequence[Rule]
    expected: Sequence[ExpectedFailure]
    strict: bool
    scope: Scope = EVERYTHING

    def judged(self, result: CellResult, stage: Stage, evidence: Evidence, redactor: Redactor) -> CellResult:
        """The result of a cell that was played. What findings show of bodies is redacted."""
        transcript = evidence.transcript
        terms = catalog.api(transcript.api).terms
        found = ((rule, flaw) for rule in self.rules for flaw in rule.check(evidence))
        findings = tuple(self._weighed(rule.finding(flaw, terms)) for rule, flaw in found)
        if not any(finding.severity is Severity.ERROR for finding in findings):
            # else the tool was asked something that nobody had meant to ask
            findings += tuple(_unanswered(execution) for execution in transcript.executions if execution.unanswered)
        findings, hidden = self.scope.split(findings)
        findings = accepted(self.expected, result, linked(findings))
        pictures = _Pictures(evidence, redactor)
        findings = tuple(_placed(transcript, pictures.of(finding)) for finding in findings)
        if isinstance(transcript, ServedTranscript):
            findings = tuple(map(of_client, findings))
        crashed = next((each for each in (*transcript.chats, *_embedded(transcript)) if each.crashed), None)
        printed = "".join(part.printed for part in (transcript, *transcript.retellings))
        recuts = sum(retelling.variant == "stream" for retelling in transcript.retellings)
        verdict = worst(findings)
        result = replace(
            result,
            verdict=verdict,
            provenance=stage.provenance if _is_answered(stage, transcript) else None,
            findings=findings,
            hidden=hidden,
            exchanges=len(transcript.exchanges),
            recuts=recuts,
            spending=spending(evidence, stage.provenance),
            printed=shortened(printed, OUTPUT_LENGTH) or None,
            traceback=crashed.traceback if crashed else None,
        )
        if transcript.mode == "record" and not is_complete(transcript):
            result = replace(result, reason="not recorded: a chat failed, and what was there before stays")
        if verdict is Verdict.EXPECTED_FAILURE:
            reasons = {finding.accepted for finding in findings if finding.accepted is not None}
            return replace(result, reason="; ".join(sorted(reasons)))
        if crashed is not None and (
            verdict is Verdict.FAIL or not findings
        ):  # else all that is wrong is what it raised
            return replace(result, verdict=Verdict.ERROR, reason=f"{crashed.error}: {crashed.error_text}")
        said_no = declined(evidence)
        if said_no is not None and verdict is not Verdict.FAIL:
            why = why_declined(evidence, said_no)
            return replace(result, verdict=Verdict.NOT_APPLICABLE, provenance=None, reason=why)
        return result

    def _weighed(self, finding: Finding) -> Finding:
        """A finding with the severity that its kind has in this run."""
        if finding.rule == AGE and self.strict:
            return replace(finding, severity=Severity.ERROR)
        if finding.kind is not Kind.CONVENTION:
            return finding
        return replace(finding, severity=Severity.ERROR if self.strict else Severity.NOTE)


class _Pictures:
    """Makes what findings show of the bodies of one cell. It is cut to the width of a page, and so is redacted before:
    half a key is not found afterwards."""

    def __init__(self, evidence: Evidence, redactor: Redactor) -> None:
        self._evidence = evidence
        self._redactor = redactor

    @cached_property
    def _exemplar(self) -> Exemplar | None:
        return exemplar(self._evidence.transcript)

    def of(self, finding: Finding) -> Finding:
        """The finding with the piece of the body that it points at, the raw stream, and the right request."""
        if finding.exchange is None:
            return finding
        reading = self._evidence.readings[finding.exchange]
        shown = tuple(each for each in (self._stream(finding, reading), self._right(finding, reading)) if each)
        return replace(finding, piece=self._piece(finding, reading), exhibits=shown)

    def _piece(self, finding: Finding, reading: Reading) -> tuple[str, ...]:
        if not finding.pointer:
            return ()
        try:
            of_answer = reading.response.body if reading.response else None
            shown = of_answer if finding.of_response else parsed(reading.exchange.request.body)
        except WireError:  # a body that is none is shown by the rule that says so
            return ()
        return piece(self._redactor.value(shown), finding.pointer)

    def _stream(self, finding: Finding, reading: Reading) -> Body | None:
        if finding.severity is Severity.NOTE or not exhibits.is_of_answer(finding) or reading.exchange.response is None:
            return None
        clean = replace(reading.exchange, response=self._redactor.response(reading.exchange.response))
        stream = exhibits.raw_stream(self._evidence.transcript.api, replace(reading, exchange=clean))
        return exhibits.body(stream, finding) if stream is not None else None

    def _right(self, finding: Finding, reading: Reading) -> Body | None:
        is_cause = finding.severity is not Severity.NOTE and finding.follows is None
        if not is_cause or finding.blame is not Blame.ADAPTER or exhibits.is_of_answer(finding):
            return None
        chat = reading.index if reading.exchange.chat is None else reading.exchange.chat
        found = self._exemplar
        return found.body(finding, reading.exchange.request, chat, self._redactor) if found is not None else None


def _placed(transcript: Transcript, finding: Finding) -> Finding:
    """The finding with the user turn in whose course its request was sent; what owns its loop shows no turns."""
    if finding.exchange is None or not transcript.chats:
        return finding
    chat = transcript.exchanges[finding.exchange].chat
    return finding if chat is None else replace(finding, turn=transcript.chats[chat].turn)


def _is_answered(stage: Stage, transcript: Transcript) -> bool:
    """Whether any answers came from where the stage gets them: those of a provider may all have stayed out."""
    live = stage.player is None and stage.provenance.origin != "reference"
    return not live or any(each.response is not None for each in transcript.exchanges)


def _embedded(transcript: Transcript) -> tuple[Embedded, ...]:
    return transcript.embedded if isinstance(transcript, EmbeddingTranscript) else ()


def unreadable(error: CassetteError) -> Finding:
    """What is wrong with a cassette that cannot be read."""
    return Finding(
        CASSETTE_UNREADABLE, Kind.LOSS, Severity.ERROR, Blame.CASSETTE, str(error), source="harness.tape.cassette"
    )


def _unanswered(execution: ToolExecution) -> Finding:
    return Finding(
        TOOL_UNANSWERED,
        Kind.LOSS,
        Severity.ERROR,
        Blame.SCENARIO,
        str(execution.result.content),
        source="harness.scenarios.schema",
    )


def findable(edition: FactSelection = SHIPPED) -> frozenset[str]:
    """The ids of all findings that a run can have: of rules, of limits, and of facts of an edition that have
    conditions. Raises `FactsError`."""
    rules = catalog.rules()
    return frozenset(
        (
            CASSETTE_UNREADABLE,
            TOOL_UNANSWERED,
            PATH_UNKNOWN.id,
            *(rule.id for rule in rules),
            *(each for rule in rules for each in rule.also),
            *(each for api in catalog.apis() for each in api.violation_ids(edition)),
        )
    )
