"""Selection of findings by `--rule`, `--ignore` and the project's `ignore`."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from harness.apis.fact_files import FactSelection
from harness.checks import gateway_findings, server_checks
from harness.model.errors import UsageError
from harness.rules import Scope
from harness.runner.verdicts import CASSETTE_UNREADABLE, known_finding_ids

_MAX_SUGGESTIONS = 3


def scope(rules: Sequence[str], ignored: Sequence[str], by: FactSelection, place: str = "--ignore") -> Scope:
    """Return the selected findings. `place` names the option or setting of the ignored ones.

    Raises:
        UsageError: no finding has such an id, or one cannot be ignored.
    """
    if CASSETTE_UNREADABLE in ignored:
        raise UsageError(
            f"{place} {CASSETTE_UNREADABLE}: it cannot be ignored: nothing is judged where a cassette cannot be read. "
            "Record the cell again, or leave it out by -k."
        )
    known = sorted(_known(by)) if rules or ignored else []
    for where, given in (("--rule", rules), (place, ignored)):
        for each in given:
            if not any(fnmatchcase(one, each) for one in known):
                raise UsageError(f"{where} {each}: no finding has this id.{_guess(each, known)}")
    return Scope(tuple(rules), tuple(ignored))


def _known(by: FactSelection) -> frozenset[str]:
    """Return the ids of all possible findings, because a project may ignore rules that this command does not check."""
    return known_finding_ids(by) | gateway_findings.RULES | server_checks.RULES


def _guess(given: str, known: Sequence[str]) -> str:
    near = (
        difflib.get_close_matches(given, known, n=_MAX_SUGGESTIONS)
        or [one for one in known if given and given in one][:_MAX_SUGGESTIONS]
    )
    guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"{guess} 'harness list rules' and 'harness list facts' have the ids."
