"""Which finding follows from which: a fault is told once, and what it brings about is folded under it.

A lost id is refused by the provider, the refused chat has no answer, and the rest of the recording stays unplayed: four
findings, one fault. `RELATIONS` says which rule's findings can follow from which, and when; nothing else is folded. A
follower never is worse than its cause, nor is anybody else to blame for it, and it changes no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from operator import itemgetter

from harness.contract.model import Role
from harness.results import Blame, Finding, Kind, Severity

When = Callable[[Finding, Finding], bool]
"""Whether the second finding can follow from the first."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Findings of `followers` follow from those of `causes`, both globs of rules, where `when` holds.

    `because` says why the one brings about the other.
    """

    causes: tuple[str, ...]
    followers: tuple[str, ...]
    when: When
    because: str

    def holds(self, cause: Finding, follower: Finding) -> bool:
        """Whether the second finding follows from the first."""
        return (
            _any(self.causes, cause.rule)
            and _any(self.followers, follower.rule)
            and _RANK[cause.severity] <= _RANK[follower.severity]
            and cause.blame is follower.blame
            and self.when(cause, follower)
        )


_RANK = {severity: rank for rank, severity in enumerate(Severity)}
"""Worst first."""


@cache
def _any(globs: tuple[str, ...], rule: str) -> bool:
    return any(fnmatchcase(rule, each) for each in globs)


def _same(cause: Finding, follower: Finding) -> bool:
    """Of the same exchange."""
    return cause.exchange is not None and cause.exchange == follower.exchange


def _nowhere(cause: Finding, follower: Finding) -> bool:
    """Of the same exchange, of which the cause has no place to show."""
    return _same(cause, follower) and not cause.pointer


def _until(cause: Finding, follower: Finding) -> bool:
    """Of the same exchange or an earlier one; what has none is of the whole cell."""
    return cause.exchange is None or follower.exchange is None or cause.exchange <= follower.exchange


def _before(cause: Finding, follower: Finding) -> bool:
    """Of an earlier exchange."""
    return cause.exchange is not None and follower.exchange is not None and cause.exchange < follower.exchange


def _entry(cause: Finding, follower: Finding) -> bool:
    """Of the same message of the same request: `/messages/2`, `/system`."""
    here, there = _of_entry(cause), _of_entry(follower)
    return _same(cause, follower) and cause.of_response is follower.of_response and here == there != ""


def _of_entry(finding: Finding) -> str:
    return "/".join((finding.pointer or "").split("/")[:3])


def _limit(when: When) -> When:
    """Where the cause is a limit."""
    return lambda cause, follower: cause.kind is Kind.LIMIT and when(cause, follower)


def _refused(cause: Finding, follower: Finding) -> bool:
    """The follower is the refusal of the request that the cause is about; a failure of another sort has a cause of its
    own."""
    answer = follower.actual if follower.rule == "chat-refused" else follower.expected
    refused = answer == 400 if isinstance(answer, int) else "InvalidRequest" in str(answer)
    return refused and _same(cause, follower) and not cause.of_response


def _answered(text: Finding) -> bool:
    """The text that is missing or added is one of the assistant's."""
    return any(str(side).startswith(f"{Role.ASSISTANT}: ") for side in (text.actual, text.expected))


def _stale(cause: Finding, follower: Finding) -> bool:
    return cause.blame is follower.blame is Blame.CASSETTE


_READING = (
    "response-*",
    "stop-reason",
    "json-answer",
    "truncated-call",
    "stream-cut",
    "stream-text",
    "stream-arguments",
    "stream-call-identity",
)
"""An answer is read wrongly."""

_IDS = ("issued-id-lost", "call-id-changed", "call-id-unique", "foreign-id-mapping", "synthesised-id-unique")
"""A call has lost its id."""

_PAIRS = ("call-missing", "call-order", "result-missing", "result-orphan", "result-duplicate", "result-misplaced")
"""Calls and results do not stand as they belong."""

_HISTORY = (
    *_IDS,
    *_PAIRS,
    "arguments-changed",
    "result-*",
    "error-flag",
    "opaque-state-lost",
    "text-changed",
    "media-changed",
    "system-in-message",
)
"""The conversation goes back as another."""

RELATIONS = (
    Relation(
        ("response-calls",),
        ("call-missing", "call-order", "call-id-changed", "issued-id-lost", "arguments-changed", "opaque-state-lost"),
        _until,
        "calls that were not read as they were made do not go back as they were made",
    ),
    Relation(
        ("request-changed-in-place",),
        ("tools-declared", "arguments-changed", "result-changed", "recorded-request"),
        _until,
        "what was changed in place is sent changed",
    ),
    Relation(("issued-id-lost",), ("call-id-changed", "call-id-unique", "call-order"), _until, "it is the id lost"),
    Relation(("foreign-id-mapping", "call-id-changed"), ("call-id-unique", "call-order"), _same, "it is the new id"),
    Relation(
        (*_IDS, "call-missing"),
        ("result-missing", "result-orphan", "result-swapped", "arguments-changed", "call-order"),
        _until,
        "what belongs to a call is found by its id",
    ),
    Relation(
        ("result-orphan", "result-duplicate", "result-misplaced"),
        ("result-missing",),
        _same,
        "a result that answers another call, or stands elsewhere, is missing where it belongs",
    ),
    Relation(
        ("tool-run-otherwise", "tool-run-missing"),
        ("result-changed", "result-swapped", "result-missing"),
        _before,
        "the result is that of another run, or of none",
    ),
    Relation(("result-swapped",), ("result-changed",), _same, "results that trade places, one of them as an error"),
    Relation(("result-changed", "result-swapped"), ("error-flag",), _same, "the flag went with the result"),
    Relation(("call-missing",), ("opaque-state-lost",), _same, "the state stood on the call"),
    Relation(("system-in-message",), ("system-missing",), _same, "it stands in a message instead"),
    Relation(("system-stale",), ("system-verbatim", "system-missing"), _before, "the one before still goes out"),
    Relation(
        (*_IDS, *_PAIRS, "result-renamed"),
        ("*-result-*", "*-results-*", "*-call-id-*", "*-call-misplaced"),
        lambda cause, follower: follower.kind is Kind.LIMIT and _same(cause, follower),
        "the provider refuses calls and results that do not fit",
    ),
    Relation(("*-field-missing",), ("setting-lost",), _limit(_same), "the field is the setting"),
    Relation(("*",), ("exchange-unreadable",), _limit(_same), "nobody can read what the provider refuses"),
    Relation(
        ("*-choice-forced", "*-choice-thinking"),
        ("json-mode-ignored", "tools-declared", "tool-choice", "system-when-absent"),
        _limit(_same),
        "JSON was to come from the call of a tool, and no call can be forced",
    ),
    Relation(
        ("*",),
        ("system-when-absent", "system-place", "text-changed", "tool-choice", "setting-uninvited", "recorded-request"),
        _limit(_entry),
        "it is what the provider refuses there",
    ),
    Relation(("path-unknown",), ("chat-refused", "chat-failure"), _same, "there is nothing at this path"),
    Relation(("*",), ("chat-refused", "chat-failure"), _limit(_refused), "the provider refuses it"),
    Relation(
        (*_HISTORY, "system-*", "tool*", "setting-*", "json-*", "cache-mark"),
        ("chat-refused", "chat-failure"),
        _refused,
        "the provider refuses what nobody asked it",
    ),
    Relation(_HISTORY, ("history-append-only",), _same, "what changed was there before"),
    Relation(("response-text",), ("json-answer", "stream-text"), _same, "it is the same text"),
    Relation(
        ("response-text",),
        ("text-changed",),
        lambda cause, follower: _before(cause, follower) and _answered(follower),
        "an answer that was not read as it was told does not go back as it was read",
    ),
    Relation(
        ("response-calls", "issued-id-lost", "stream-cut"),
        ("stream-arguments", "stream-call-identity"),
        _same,
        "they are the same calls",
    ),
    Relation(("one-request-per-chat",), ("stream-*",), _same, "two answers were told as one"),
    Relation(
        (*_READING, "usage", "issued-id-lost", "stream-*", "chat-failure"),
        ("stream-equals-whole", "stream-recut"),
        _same,
        "it is the same fault, told again in another way",
    ),
    Relation(("cassette-stale",), ("*",), _stale, "it was recorded for another scenario"),
    Relation(
        ("*",),
        ("recorded-request",),
        lambda cause, follower: cause.rule not in _GENERAL and _entry(cause, follower),
        "a rule of its own says what is wrong there",
    ),
    Relation(("opaque-state-lost",), ("recorded-request",), _nowhere, "the places behind what is lost change with it"),
    Relation((*_IDS, *_PAIRS), ("recorded-request",), _same, "ids and places of other messages change with it"),
    Relation(_READING, ("recorded-request",), _before, "what was read wrongly goes back wrongly"),
    Relation(
        (*_READING, "chat-failure", "chat-refused", "one-request-per-chat"),
        ("expectation", "iteration-bound", "request-unexpected", "exchange-unplayed"),
        _until,
        "the conversation goes on as another, or not at all",
    ),
    Relation(
        _HISTORY,
        ("expectation", "iteration-bound", "request-unexpected", "exchange-unplayed"),
        _until,
        "the conversation goes on as another, or not at all",
    ),
    Relation(
        ("cut-call-run", "cut-call-answered"),
        ("cut-call-answered", "*-arguments-json", "request-unexpected", "loop-failed", "script-unplayed"),
        _until,
        "the conversation goes on from a call that was never made",
    ),
    Relation(("iteration-bound", "request-unexpected"), ("expectation", "exchange-unplayed"), _until, "it went astray"),
    Relation(
        ("*",), ("loop-failed", "script-unplayed"), _limit(_until), "the provider refuses it, and nothing comes of it"
    ),
    Relation(("request-unexpected",), ("loop-failed",), _until, "nothing is left to answer"),
    Relation(("loop-history",), _PAIRS, _until, "a part of the conversation is gone"),
    Relation(("client-tool-missing",), ("script-unplayed",), _until, "without the tool nothing of it is played"),
    Relation(("loop-elsewhere",), ("loop-failed", "script-unplayed"), _until, "it was said elsewhere"),
    Relation(
        (*_HISTORY, "loop-system", "loop-tools", "loop-history", "loop-settings", "loop-failed"),
        ("script-unplayed",),
        _until,
        "the conversation goes on as another, or not at all",
    ),
    Relation(
        ("embedding-text",), ("embedding-vector", "embedding-mismatch", "embedding-failed"), _until, "of other texts"
    ),
    Relation(("embedding-dimensions",), ("embedding-vector", "embedding-failed"), _same, "of another length"),
    Relation(("embedding-vector",), ("embedding-failed",), _until, "there is no vector to hand on"),
)
"""In the order in which they are asked: the first that holds says what a finding follows from."""

_GENERAL = ("recorded-request", "history-append-only", "chat-refused", "chat-failure")
"""Rules that say that something is wrong, and not what."""


def linked(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings of one cell, each with the index of the one that it follows from in the end, if there is one."""
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
    """What a finding may follow from, the likeliest first: by the table, then the same in an earlier request.

    `in_order` are the findings with their indices, those of earlier exchanges first.
    """
    for relation in RELATIONS:
        if _any(relation.followers, finding.rule):
            yield from (index for index, other in in_order if other is not finding and relation.holds(other, finding))
    yield from (index for index, other in sorted(in_order, key=itemgetter(0)) if _again(other, finding))


def _again(first: Finding, later: Finding) -> bool:
    """The same fault of the same place, in a history that is sent again."""
    return (
        first.rule == later.rule
        and (first.message, first.pointer, first.of_response) == (later.message, later.pointer, later.of_response)
        and (first.severity, first.blame) == (later.severity, later.blame)
        and _before(first, later)
    )


def _root(parents: dict[int, int], index: int) -> int:
    while index in parents:
        index = parents[index]
    return index
