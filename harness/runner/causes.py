"""Links findings to their causes, so that reports show one fault once.

The provider rejects a lost id, the rejected chat has no response, and the rest of the recording is unused: four
findings, one fault. `RELATIONS` lists which rules' findings can follow from which, and when. A follower is never more
severe than its cause, has the same blame, and changes no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from operator import itemgetter

from harness.model.messages import Role
from harness.results import Blame, Finding, Kind, Severity

When = Callable[[Finding, Finding], bool]
"""Returns whether the second finding can follow from the first."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Findings of `followers` follow from those of `causes`, both globs of rule ids, if `when` holds. `because` is the
    reason."""

    causes: tuple[str, ...]
    followers: tuple[str, ...]
    when: When
    because: str

    def holds(self, cause: Finding, follower: Finding) -> bool:
        """Return whether the second finding follows from the first."""
        return (
            _matches_any(self.causes, cause.rule)
            and _matches_any(self.followers, follower.rule)
            and _RANK[cause.severity] <= _RANK[follower.severity]
            and cause.blame is follower.blame
            and self.when(cause, follower)
        )


_RANK = {severity: rank for rank, severity in enumerate(Severity)}


@cache
def _matches_any(globs: tuple[str, ...], rule: str) -> bool:
    return any(fnmatchcase(rule, each) for each in globs)


def _same_exchange(cause: Finding, follower: Finding) -> bool:
    return cause.exchange is not None and cause.exchange == follower.exchange


def _same_exchange_no_pointer(cause: Finding, follower: Finding) -> bool:
    return _same_exchange(cause, follower) and not cause.pointer


def _not_later(cause: Finding, follower: Finding) -> bool:
    """Return whether the cause is in the same exchange or an earlier one; a finding without an exchange concerns the
    whole cell."""
    return cause.exchange is None or follower.exchange is None or cause.exchange <= follower.exchange


def _earlier(cause: Finding, follower: Finding) -> bool:
    return cause.exchange is not None and follower.exchange is not None and cause.exchange < follower.exchange


def _same_entry(cause: Finding, follower: Finding) -> bool:
    """Return whether both findings concern the same message of the same request, as `/messages/2` or `/system`."""
    here, there = _entry_of(cause), _entry_of(follower)
    return _same_exchange(cause, follower) and cause.of_response is follower.of_response and here == there != ""


def _entry_of(finding: Finding) -> str:
    return "/".join((finding.pointer or "").split("/")[:3])


def _if_limit(when: When) -> When:
    return lambda cause, follower: cause.kind is Kind.LIMIT and when(cause, follower)


def _is_refusal_of(cause: Finding, follower: Finding) -> bool:
    """Return whether the follower is the refusal of the request that the cause is about."""
    answer = follower.actual if follower.rule == "chat-refused" else follower.expected
    refused = answer == 400 if isinstance(answer, int) else "InvalidRequest" in str(answer)
    return refused and _same_exchange(cause, follower) and not cause.of_response


def _is_assistant_text(text: Finding) -> bool:
    return any(str(side).startswith(f"{Role.ASSISTANT}: ") for side in (text.actual, text.expected))


def _both_cassette(cause: Finding, follower: Finding) -> bool:
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
"""Rules whose finding means that the adapter misread a response."""

_IDS = ("issued-id-lost", "call-id-changed", "call-id-unique", "foreign-id-mapping", "synthesised-id-unique")
"""A call has lost its id."""

_PAIRS = ("call-missing", "call-order", "result-missing", "result-orphan", "result-duplicate", "result-misplaced")
"""Rules whose finding means that calls and results do not match."""

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
"""Rules whose finding means that the adapter sent back a modified conversation."""

RELATIONS = (
    Relation(
        ("response-calls",),
        ("call-missing", "call-order", "call-id-changed", "issued-id-lost", "arguments-changed", "opaque-state-lost"),
        _not_later,
        "calls that were not read as they were made do not go back as they were made",
    ),
    Relation(
        ("request-changed-in-place",),
        ("tools-declared", "arguments-changed", "result-changed", "recorded-request"),
        _not_later,
        "what was changed in place is sent changed",
    ),
    Relation(("issued-id-lost",), ("call-id-changed", "call-id-unique", "call-order"), _not_later, "it is the id lost"),
    Relation(
        ("foreign-id-mapping", "call-id-changed"), ("call-id-unique", "call-order"), _same_exchange, "it is the new id"
    ),
    Relation(
        (*_IDS, "call-missing"),
        ("result-missing", "result-orphan", "result-swapped", "arguments-changed", "call-order"),
        _not_later,
        "what belongs to a call is found by its id",
    ),
    Relation(
        ("result-orphan", "result-duplicate", "result-misplaced"),
        ("result-missing",),
        _same_exchange,
        "a result that answers another call, or stands elsewhere, is missing where it belongs",
    ),
    Relation(
        ("tool-run-otherwise", "tool-run-missing"),
        ("result-changed", "result-swapped", "result-missing"),
        _earlier,
        "the result is that of another run, or of none",
    ),
    Relation(
        ("result-swapped",), ("result-changed",), _same_exchange, "results that trade places, one of them as an error"
    ),
    Relation(("result-changed", "result-swapped"), ("error-flag",), _same_exchange, "the flag went with the result"),
    Relation(("call-missing",), ("opaque-state-lost",), _same_exchange, "the state stood on the call"),
    Relation(("system-in-message",), ("system-missing",), _same_exchange, "it stands in a message instead"),
    Relation(("system-stale",), ("system-verbatim", "system-missing"), _earlier, "the one before still goes out"),
    Relation(
        (*_IDS, *_PAIRS, "result-renamed"),
        ("*-result-*", "*-results-*", "*-call-id-*", "*-call-misplaced"),
        lambda cause, follower: follower.kind is Kind.LIMIT and _same_exchange(cause, follower),
        "the provider refuses calls and results that do not fit",
    ),
    Relation(("*-field-missing",), ("setting-lost",), _if_limit(_same_exchange), "the field is the setting"),
    Relation(("*",), ("exchange-unreadable",), _if_limit(_same_exchange), "nobody can read what the provider refuses"),
    Relation(
        ("*-choice-forced", "*-choice-thinking"),
        ("json-mode-ignored", "tools-declared", "tool-choice", "system-when-absent"),
        _if_limit(_same_exchange),
        "JSON was to come from the call of a tool, and no call can be forced",
    ),
    Relation(
        ("*",),
        ("system-when-absent", "system-place", "text-changed", "tool-choice", "setting-uninvited", "recorded-request"),
        _if_limit(_same_entry),
        "it is what the provider refuses there",
    ),
    Relation(("path-unknown",), ("chat-refused", "chat-failure"), _same_exchange, "there is nothing at this path"),
    Relation(("*",), ("chat-refused", "chat-failure"), _if_limit(_is_refusal_of), "the provider refuses it"),
    Relation(
        (*_HISTORY, "system-*", "tool*", "setting-*", "json-*", "cache-mark"),
        ("chat-refused", "chat-failure"),
        _is_refusal_of,
        "the provider refuses what nobody asked it",
    ),
    Relation(_HISTORY, ("history-append-only",), _same_exchange, "what changed was there before"),
    Relation(("response-text",), ("json-answer", "stream-text"), _same_exchange, "it is the same text"),
    Relation(
        ("response-text",),
        ("text-changed",),
        lambda cause, follower: _earlier(cause, follower) and _is_assistant_text(follower),
        "an answer that was not read as it was told does not go back as it was read",
    ),
    Relation(
        ("response-calls", "issued-id-lost", "stream-cut"),
        ("stream-arguments", "stream-call-identity"),
        _same_exchange,
        "they are the same calls",
    ),
    Relation(("one-request-per-chat",), ("stream-*",), _same_exchange, "two answers were told as one"),
    Relation(
        (*_READING, "usage", "issued-id-lost", "stream-*", "chat-failure"),
        ("stream-equals-whole", "stream-recut"),
        _same_exchange,
        "it is the same fault, told again in another way",
    ),
    Relation(("cassette-stale",), ("*",), _both_cassette, "it was recorded for another scenario"),
    Relation(
        ("*",),
        ("recorded-request",),
        lambda cause, follower: cause.rule not in _GENERAL and _same_entry(cause, follower),
        "a rule of its own says what is wrong there",
    ),
    Relation(
        ("opaque-state-lost",),
        ("recorded-request",),
        _same_exchange_no_pointer,
        "the places behind what is lost change with it",
    ),
    Relation(
        (*_IDS, *_PAIRS), ("recorded-request",), _same_exchange, "ids and places of other messages change with it"
    ),
    Relation(_READING, ("recorded-request",), _earlier, "what was read wrongly goes back wrongly"),
    Relation(
        (*_READING, "chat-failure", "chat-refused", "one-request-per-chat"),
        ("expectation", "iteration-bound", "request-unexpected", "exchange-unplayed"),
        _not_later,
        "the conversation goes on as another, or not at all",
    ),
    Relation(
        _HISTORY,
        ("expectation", "iteration-bound", "request-unexpected", "exchange-unplayed"),
        _not_later,
        "the conversation goes on as another, or not at all",
    ),
    Relation(
        ("cut-call-run", "cut-call-answered"),
        ("cut-call-answered", "*-arguments-json", "request-unexpected", "loop-failed", "script-unplayed"),
        _not_later,
        "the conversation goes on from a call that was never made",
    ),
    Relation(
        ("iteration-bound", "request-unexpected"), ("expectation", "exchange-unplayed"), _not_later, "it went astray"
    ),
    Relation(
        ("*",),
        ("loop-failed", "script-unplayed"),
        _if_limit(_not_later),
        "the provider refuses it, and nothing comes of it",
    ),
    Relation(("request-unexpected",), ("loop-failed",), _not_later, "nothing is left to answer"),
    Relation(("loop-history",), _PAIRS, _not_later, "a part of the conversation is gone"),
    Relation(("client-tool-missing",), ("script-unplayed",), _not_later, "without the tool nothing of it is played"),
    Relation(("loop-elsewhere",), ("loop-failed", "script-unplayed"), _not_later, "it was said elsewhere"),
    Relation(
        (*_HISTORY, "loop-system", "loop-tools", "loop-history", "loop-settings", "loop-failed"),
        ("script-unplayed",),
        _not_later,
        "the conversation goes on as another, or not at all",
    ),
    Relation(
        ("embedding-text",),
        ("embedding-vector", "embedding-mismatch", "embedding-failed"),
        _not_later,
        "of other texts",
    ),
    Relation(("embedding-dimensions",), ("embedding-vector", "embedding-failed"), _same_exchange, "of another length"),
    Relation(("embedding-vector",), ("embedding-failed",), _not_later, "there is no vector to hand on"),
)
"""The relations in order of precedence. The first one that holds determines the cause."""

_GENERAL = ("recorded-request", "history-append-only", "chat-refused", "chat-failure")
"""Rules that report a failure without its cause."""


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
    """Yield the possible causes of a finding: first by the table, then the same finding in an earlier request.

    `in_order` are the findings with their indices, those of earlier exchanges first.
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
