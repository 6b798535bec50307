"""Selection of the findings that count: `--rule`, `--ignore`, the project's `ignore` setting, and `--strict` for checks
of endpoints.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from harness.apis.fact_files import FactSelection
from harness.checks import gateway_findings, server_checks
from harness.model.errors import UsageError
from harness.results import CellResult, ExpectedFailure, Finding, Severity, Verdict, verdict_of
from harness.rules import EVERYTHING, Scope
from harness.runner.expected_failures import Expectations, mark_expected
from harness.runner.verdicts import CASSETTE_UNREADABLE, known_finding_ids

_MAX_SUGGESTIONS = 3


def scope(rules: Sequence[str], ignored: Sequence[str], by: FactSelection, place: str = "--ignore") -> Scope:
    """Return the selection of findings that count. `place` names the option or setting that contains `ignored`.

    Raises:
        UsageError: no finding has such an id, or one cannot be ignored.
    """
    if CASSETTE_UNREADABLE in ignored:
        raise UsageError(
            f"{place} {CASSETTE_UNREADABLE}: it cannot be ignored: nothing is judged where a cassette cannot be read. "
            "Record the cell again, or leave it out by -k."
        )
    known = sorted(_known_ids(by)) if rules or ignored else []
    for where, given in (("--rule", rules), (place, ignored)):
        for each in given:
            if not any(fnmatchcase(one, each) for one in known):
                raise UsageError(f"{where} {each}: no finding has this id.{_guess(each, known)}")
    return Scope(tuple(rules), tuple(ignored))


def _known_ids(by: FactSelection) -> frozenset[str]:
    """Return the ids of all possible findings, because a project may ignore rules that this command does not check."""
    return known_finding_ids(by) | gateway_findings.RULES | server_checks.RULES


def _guess(given: str, known: Sequence[str]) -> str:
    near = (
        difflib.get_close_matches(given, known, n=_MAX_SUGGESTIONS)
        or [one for one in known if given and given in one][:_MAX_SUGGESTIONS]
    )
    guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"{guess} 'harness list rules' and 'harness list facts' list the ids."


@dataclass(frozen=True, slots=True)
class FindingPolicy:
    """The findings that count in a check: those in `scope` that are not `expected`. If `strict`, each is an error."""

    scope: Scope = EVERYTHING
    expected: Sequence[ExpectedFailure] = ()
    strict: bool = False

    def judge(self, cell: CellResult, found: Sequence[Finding]) -> CellResult:
        """Return the cell with the findings that count and the verdict that follows from them."""
        taken, hidden = self.scope.split(found)
        if self.strict:
            taken = tuple(replace(each, severity=Severity.ERROR) for each in taken)
        findings = mark_expected(self.expected, cell, taken)
        judged = replace(cell, verdict=verdict_of(findings), findings=findings, hidden=hidden)
        if judged.verdict is not Verdict.EXPECTED_FAILURE:
            return judged
        return replace(judged, reason="; ".join(sorted({f.accepted for f in findings if f.accepted is not None})))

    def outcome(self, cells: Sequence[CellResult]) -> dict[str, Any]:
        """Return the fields of a run's result for selected and ignored rules, expected findings that did not occur, and
        expectations that match no cell.
        """
        seen = Expectations(self.expected, self.scope)
        for cell in cells:
            seen.add(cell, played=cell.verdict is not Verdict.NOT_APPLICABLE)
        return {
            "stale": seen.stale,
            "unmatched": seen.unmatched,
            "rules": self.scope.only,
            "ignored": self.scope.ignored,
        }


EVERY_FINDING = FindingPolicy()
