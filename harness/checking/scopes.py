"""Which findings count, as it was asked for: `--rule`, `--ignore`, and `ignore` of a project."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from harness.apis.facts import Edition
from harness.checking.gateways import judging as gateways
from harness.checking.servers import checks as servers
from harness.contract.errors import UsageError
from harness.rules.scope import Scope
from harness.running.verdicts import CASSETTE_UNREADABLE, findable

_NEAR = 3
"""Ids that are offered in the place of one that there is not."""


def scope(rules: Sequence[str], ignored: Sequence[str], by: Edition, place: str = "--ignore") -> Scope:
    """The findings that are asked for. `place` is where the ignored ones are named.

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


def _known(by: Edition) -> frozenset[str]:
    """The ids of all findings that there can be: what a project ignores, it ignores wherever it is found."""
    return findable(by) | gateways.RULES | servers.RULES


def _guess(given: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(given, known, n=_NEAR) or [one for one in known if given and given in one][:_NEAR]
    guess = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    return f"{guess} 'harness list rules' and 'harness list facts' have the ids."
