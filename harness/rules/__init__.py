"""Rules: pure functions that check a transcript and report findings. `Scope` selects the findings that count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # command options hold a scope, and they must not import pydantic
    from harness.results import Finding


@dataclass(frozen=True, slots=True)
class Scope:
    """Filter for findings: an id must match `only`, if given, and no entry of `ignored`. Both hold globs."""

    only: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def takes(self, rule: str) -> bool:
        """Return whether a finding with this id counts."""
        named = not self.only or any(fnmatchcase(rule, each) for each in self.only)
        return named and not any(fnmatchcase(rule, each) for each in self.ignored)

    def split(self, findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], Mapping[str, int]]:
        """Return the findings that count, and the number of other findings by id."""
        every = list(findings)
        hidden = Counter(each.rule for each in every if not self.takes(each.rule))
        return tuple(each for each in every if self.takes(each.rule)), dict(hidden)


EVERYTHING = Scope()
