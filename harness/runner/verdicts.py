"""Judges cells: collects the findings of the rules and decides the verdict.

Findings are linked to their causes, so that reports show one fault once. For example, the provider rejects a lost id,
the rejected chat has no response, and the rest of the recording is unused: four findings, one fault. `causes.yaml`
lists which rules' findings can follow from which, and when. A follower is never more severe than its cause, has the
same blame, and changes no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from operator import itemgetter

from harness.apis import registry
from harness.apis.api import PATH_UNKNOWN
from harness.apis.fact_files import SHIPPED, FactSelection
from harness.apis.jsonvalue import parse_body
from harness.apis.view import WireError
from harness.cassettes.redact import Redactor
from harness.model.errors import CassetteError
from harness.model.messages import Role
from harness.platform.exceptions import shorten
from harness.platform.files import read_shipped_yaml
from harness.results import (
    Blame,
    CellResult,
    EmbeddingCall,
    EmbeddingTranscript,
    Exchange,
    ExpectedFailure,
    Finding,
    FindingBody,
    Kind,
    Lacking,
    ServedTranscript,
    Severity,
    ToolExecution,
    Transcript,
    Verdict,
    blame_client,
    verdict_of,
)
from harness.rules import EVERYTHING, Scope
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.expected_outcomes import decline_reason as why_declined
from harness.rules.expected_outcomes import declined_chat
from harness.rules.replays import CASSETTE_AGE_RULE
from harness.rules.rule import Rule, all_rules
from harness.runner import excerpts
from harness.runner.backends import CellEnvironment
from harness.runner.cells import NotApplicableReason
from harness.runner.costs import spending
from harness.runner.differences import Observations
from harness.runner.excerpts import ShippedRequests, excerpt, shipped_requests
from harness.runner.expected_failures import mark_expected
from harness.runner.recorder import is_complete
from harness.stdio.adapter_process import MAX_OUTPUT_BYTES

CASSETTE_UNREADABLE = "cassette-unreadable"
TOOL_UNANSWERED = "tool-unanswered"
"""Ids of findings that no rule reports."""


@dataclass(frozen=True, slots=True)
class JudgedCell:
    """A finished cell with its result.

    `observations` and `evidence` are set only if the cell ran to the end. In a hand-over, `earlier` is the last
    exchange of the target that began the conversation. `seconds` is the cell's duration.
    """

    result: CellResult
    observations: Observations | None = None
    evidence: Evidence | None = None
    seconds: float = 0.0
    earlier: Exchange | None = None


@dataclass(frozen=True, slots=True)
class CellJudge:
    """Judges cells by `rules`.

    A broken convention fails a cell only if the judge is `strict`. A finding that matches an `expected` failure does
    not fail its cell. Findings outside `scope` are only counted.
    """

    rules: Sequence[Rule]
    expected: Sequence[ExpectedFailure]
    strict: bool
    scope: Scope = EVERYTHING

    def decide_verdict(
        self, result: CellResult, environment: CellEnvironment, evidence: Evidence, redactor: Redactor
    ) -> CellResult:
        """Decide the verdict of a cell that ran.

        The steps are: collect the rules' findings, set severities, link causes, mark expected failures. `verdict_of`
        then returns the worst remaining severity as the verdict. Excerpts of bodies are redacted.
        """
        transcript = evidence.transcript
        terms = registry.api(transcript.api).terms
        found = ((rule, violation) for rule in self.rules for violation in rule.check(evidence))
        findings = tuple(self._with_severity(rule.finding(violation, terms)) for rule, violation in found)
        if not any(finding.severity is Severity.ERROR for finding in findings):
            # after an error, unplanned tool calls are no fault of the scenario
            findings += tuple(
                _unanswered_tool(execution) for execution in transcript.executions if execution.unanswered
            )
        findings, hidden = self.scope.split(findings)
        findings = mark_expected(self.expected, result, link_causes(findings))
        pictures = _Exhibits(evidence, redactor)
        findings = tuple(_with_turn(transcript, pictures.of(finding)) for finding in findings)
        if isinstance(transcript, ServedTranscript):
            findings = tuple(map(blame_client, findings))
        crashed = next((each for each in (*transcript.chats, *_embedded_texts(transcript)) if each.crashed), None)
        printed = "".join(part.printed for part in (transcript, *transcript.replay_variants))
        recuts = sum(replayed.variant == "stream" for replayed in transcript.replay_variants)
        verdict = verdict_of(findings)
        result = replace(
            result,
            verdict=verdict,
            provenance=environment.provenance if _has_responses(environment, transcript) else None,
            findings=findings,
            hidden=hidden,
            exchanges=len(transcript.exchanges),
            recuts=recuts,
            spending=spending(evidence, environment.provenance),
            printed=shorten(printed, MAX_OUTPUT_BYTES) or None,
            traceback=crashed.traceback if crashed else None,
        )
        if transcript.mode == "record" and not is_complete(transcript):
            result = replace(result, reason="not recorded: a chat failed, and what was there before stays")
        if verdict is Verdict.EXPECTED_FAILURE:
            reasons = {finding.accepted for finding in findings if finding.accepted is not None}
            return replace(result, reason="; ".join(sorted(reasons)))
        if crashed is not None and (verdict is Verdict.FAIL or not findings):  # else the exception is the only problem
            return replace(result, verdict=Verdict.ERROR, reason=f"{crashed.error}: {crashed.error_text}")
        declined = declined_chat(evidence)
        if declined is not None and verdict is not Verdict.FAIL:
            why = why_declined(evidence, declined)
            return NotApplicableReason(why, Lacking.ADAPTER).result(replace(result, provenance=None))
        return result

    def _with_severity(self, finding: Finding) -> Finding:
        if finding.rule == CASSETTE_AGE_RULE and self.strict:
            return replace(finding, severity=Severity.ERROR)
        if finding.kind is not Kind.CONVENTION:
            return finding
        return replace(finding, severity=Severity.ERROR if self.strict else Severity.NOTE)


class _Exhibits:
    """Adds excerpts of bodies to the findings of one cell.

    Bodies are redacted before they are shortened, because a truncated key would not be recognised.
    """

    def __init__(self, evidence: Evidence, redactor: Redactor) -> None:
        self._evidence = evidence
        self._redactor = redactor

    @cached_property
    def _exemplar(self) -> ShippedRequests | None:
        return shipped_requests(self._evidence.transcript)

    def of(self, finding: Finding) -> Finding:
        """Return the finding with its excerpts: the body at its pointer, the raw stream and the correct request."""
        if finding.exchange is None:
            return finding
        parsed = self._evidence.parsed_exchanges[finding.exchange]
        stream = self._stream(finding, parsed)
        shown = (*([stream] if stream else []), *self._requests(finding, parsed))
        return replace(finding, piece=self._piece(finding, parsed), exhibits=shown)

    def _piece(self, finding: Finding, parsed: ParsedExchange) -> tuple[str, ...]:
        if not finding.pointer:
            return ()
        try:
            of_answer = parsed.response.body if parsed.response else None
            shown = of_answer if finding.of_response else parse_body(parsed.exchange.request.body)
        except WireError:  # another rule reports an unreadable body
            return ()
        return excerpt(self._redactor.value(shown), finding.pointer)

    def _stream(self, finding: Finding, parsed: ParsedExchange) -> FindingBody | None:
        if (
            finding.severity is Severity.NOTE
            or not excerpts.is_about_response(finding)
            or parsed.exchange.response is None
        ):
            return None
        clean = replace(parsed.exchange, response=self._redactor.response(parsed.exchange.response))
        stream = excerpts.raw_stream(self._evidence.transcript.api, replace(parsed, exchange=clean))
        return excerpts.stream_body(stream, finding) if stream is not None else None

    def _requests(self, finding: Finding, parsed: ParsedExchange) -> tuple[FindingBody, ...]:
        """Return the wrong request and the right one."""
        is_cause = finding.severity is not Severity.NOTE and finding.follows is None
        if not is_cause or finding.blame is not Blame.ADAPTER or excerpts.is_about_response(finding):
            return ()
        chat = parsed.index if parsed.exchange.chat is None else parsed.exchange.chat
        found = self._exemplar
        return found.bodies(finding, parsed.exchange.request, chat, self._redactor) if found is not None else ()


def _with_turn(transcript: Transcript, finding: Finding) -> Finding:
    """Return the finding with the index of the user turn of its request. Tool loops have no turns."""
    if finding.exchange is None or not transcript.chats:
        return finding
    chat = transcript.exchanges[finding.exchange].chat
    return finding if chat is None else replace(finding, turn=transcript.chats[chat].turn)


def _has_responses(environment: CellEnvironment, transcript: Transcript) -> bool:
    """Return whether the environment supplied responses. Only a live provider may have supplied none."""
    live = environment.player is None and environment.provenance.origin != "reference"
    return not live or any(each.response is not None for each in transcript.exchanges)


def _embedded_texts(transcript: Transcript) -> tuple[EmbeddingCall, ...]:
    return transcript.embedded if isinstance(transcript, EmbeddingTranscript) else ()


def unreadable_cassette(error: CassetteError) -> Finding:
    """Return the finding for a cassette that cannot be read."""
    return Finding(
        CASSETTE_UNREADABLE, Kind.LOSS, Severity.ERROR, Blame.CASSETTE, str(error), source="harness.cassettes.cassette"
    )


def _unanswered_tool(execution: ToolExecution) -> Finding:
    return Finding(
        TOOL_UNANSWERED,
        Kind.LOSS,
        Severity.ERROR,
        Blame.SCENARIO,
        str(execution.result.content),
        source="harness.scenarios.schema",
    )


def known_finding_ids(fact_selection: FactSelection = SHIPPED) -> frozenset[str]:
    """Return the ids of all possible findings: those of rules, limits and facts with conditions.

    Raises:
        FactsError: a file of facts is invalid.
    """
    rules = all_rules()
    return frozenset(
        (
            CASSETTE_UNREADABLE,
            TOOL_UNANSWERED,
            PATH_UNKNOWN.id,
            *(rule.id for rule in rules),
            *(each for rule in rules for each in rule.also),
            *(each for api in registry.apis() for each in api.violation_ids(fact_selection)),
        )
    )


FindingPredicate = Callable[[Finding, Finding], bool]
"""Returns whether the second finding can follow from the first."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between rules, which are given as globs of rule ids.

    A finding of `followers` follows from a finding of `causes` if `when` and `condition` hold. `because` is the reason.
    """

    causes: tuple[str, ...]
    followers: tuple[str, ...]
    when: FindingPredicate
    condition: FindingPredicate
    because: str

    def holds(self, cause: Finding, follower: Finding) -> bool:
        """Return whether the second finding follows from the first."""
        return (
            _matches_any(self.causes, cause.rule)
            and _matches_any(self.followers, follower.rule)
            and _RANK[cause.severity] <= _RANK[follower.severity]
            and cause.blame is follower.blame
            and self.when(cause, follower)
            and self.condition(cause, follower)
        )


_RANK = {severity: rank for rank, severity in enumerate(Severity)}


@cache
def _matches_any(globs: tuple[str, ...], rule: str) -> bool:
    return any(fnmatchcase(rule, each) for each in globs)


def _same_exchange(cause: Finding, follower: Finding) -> bool:
    return cause.exchange is not None and cause.exchange == follower.exchange


def _not_later(cause: Finding, follower: Finding) -> bool:
    """Return whether the cause is in the same exchange or an earlier one; a finding without an exchange concerns the
    whole cell."""
    return cause.exchange is None or follower.exchange is None or cause.exchange <= follower.exchange


def _earlier(cause: Finding, follower: Finding) -> bool:
    return cause.exchange is not None and follower.exchange is not None and cause.exchange < follower.exchange


def _same_entry(cause: Finding, follower: Finding) -> bool:
    """Return whether both findings concern the same entry, such as `/messages/2` or `/system`, of the same body."""
    here, there = _entry_of(cause), _entry_of(follower)
    return _same_exchange(cause, follower) and cause.of_response is follower.of_response and here == there != ""


def _entry_of(finding: Finding) -> str:
    return "/".join((finding.pointer or "").split("/")[:3])


def _is_refusal_of(cause: Finding, follower: Finding) -> bool:
    """Return whether the follower is the refusal of the request that the cause is about."""
    answer = follower.actual if follower.rule == "chat-refused" else follower.expected
    refused = answer == 400 if isinstance(answer, int) else "InvalidRequest" in str(answer)
    return refused and _same_exchange(cause, follower) and not cause.of_response


_GENERAL = ("recorded-request", "history-append-only", "chat-refused", "chat-failure")
"""Rules that report a failure without its cause."""

_WHEN: Mapping[str, FindingPredicate] = {
    "anywhere": lambda _cause, _follower: True,
    "earlier": _earlier,
    "not-later": _not_later,
    "same-exchange": _same_exchange,
    "same-message": _same_entry,
    "refusal": _is_refusal_of,
}
_RELATION_CONDITIONS: Mapping[str, FindingPredicate] = {
    "": lambda _cause, _follower: True,
    "cause-is-limit": lambda cause, _follower: cause.kind is Kind.LIMIT,
    "cause-is-specific": lambda cause, _follower: cause.rule not in _GENERAL,
    "cause-has-no-pointer": lambda cause, _follower: not cause.pointer,
    "follower-is-limit": lambda _cause, follower: follower.kind is Kind.LIMIT,
    "follower-is-an-answer": lambda _cause, follower: any(
        str(side).startswith(f"{Role.ASSISTANT}: ") for side in (follower.actual, follower.expected)
    ),
    "both-blame-the-cassette": lambda cause, follower: cause.blame is follower.blame is Blame.CASSETTE,
}


def _read_relations() -> Iterator[Relation]:
    document = read_shipped_yaml("harness.runner", "causes.yaml")
    groups: dict[str, list[str]] = document["groups"]

    def rules(names: Iterable[str]) -> Iterator[str]:
        for name in names:
            yield from rules(groups[name[1:]]) if name.startswith("$") else [name]

    for each in document["relations"]:
        causes, followers = (tuple(rules(each[key])) for key in ("causes", "followers"))
        yield Relation(
            causes, followers, _WHEN[each["when"]], _RELATION_CONDITIONS[each.get("if", "")], each["because"]
        )


RELATIONS = tuple(_read_relations())
"""The relations in order of precedence. The first one that holds determines the cause."""


def link_causes(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of a cell, each with the index of its root cause, if it has one."""
    parents: dict[int, int] = {}
    in_order = sorted(enumerate(findings), key=lambda each: each[1].exchange or 0)
    for index, finding in enumerate(findings):
        for cause in _causes(in_order, finding):
            if _root(parents, cause) != index:
                parents[index] = cause
                break
    return tuple(
        replace(finding, follows=_root(parents, index) if index in parents else None)
        for index, finding in enumerate(findings)
    )


def _causes(in_order: Sequence[tuple[int, Finding]], finding: Finding) -> Iterator[int]:
    """Yield the possible causes of a finding: first those that `RELATIONS` allow, then the same finding in an earlier
    request.

    `in_order` contains the findings with their indices, sorted by exchange.
    """
    for relation in RELATIONS:
        if _matches_any(relation.followers, finding.rule):
            yield from (index for index, other in in_order if other is not finding and relation.holds(other, finding))
    yield from (index for index, other in sorted(in_order, key=itemgetter(0)) if _is_repeat(other, finding))


def _is_repeat(first: Finding, later: Finding) -> bool:
    """Return whether both findings are the same fault at the same place of a history that was sent again."""
    return (
        first.rule == later.rule
        and (first.message, first.pointer, first.of_response) == (later.message, later.pointer, later.of_response)
        and (first.severity, first.blame) == (later.severity, later.blame)
        and _earlier(first, later)
    )


def _root(parents: dict[int, int], index: int) -> int:
    while index in parents:
        index = parents[index]
    return index
