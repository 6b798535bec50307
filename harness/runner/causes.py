"""Links findings to their causes, so that reports show one fault once.

The provider rejects a lost id, the rejected chat has no response, and the rest of the recording is unused: four
findings, one fault. `causes.yaml` lists which rules' findings can follow from which, and when. A follower is never more
severe than its cause, has the same blame, and changes no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from operator import itemgetter

from harness.model.messages import Role
from harness.platform.files import read_shipped_yaml
from harness.results import Blame, Finding, Kind, Severity

When = Callable[[Finding, Finding], bool]
"""Returns whether the second finding can follow from the first."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation between rules, which are given as globs of rule ids.

    A finding of `followers` follows from a finding of `causes` if `when` and `condition` hold. `because` is the reason.
    """

    causes: tuple[str, ...]
    followers: tuple[str, ...]
    when: When
    condition: When
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

_WHEN: Mapping[str, When] = {
    "anywhere": lambda _cause, _follower: True,
    "earlier": _earlier,
    "not-later": _not_later,
    "same-exchange": _same_exchange,
    "same-message": _same_entry,
    "refusal": _is_refusal_of,
}
_IF: Mapping[str, When] = {
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
        yield Relation(causes, followers, _WHEN[each["when"]], _IF[each.get("if", "")], each["because"])


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
