"""Which findings count: all, those of some rules, or all but those of some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the options of commands hold a scope, and load no pydantic
    from harness.results import Finding


@dataclass(frozen=True, slots=True)
class Scope:
    """The ids of findings that count: those of `only`, or all where it is empty, without those of `ignored`. Both are
    globs, as in a file of expected failures."""

    only: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def takes(self, rule: str) -> bool:
        """Whether a finding of this id counts."""
        named = not self.only or any(fnmatchcase(rule, each) for each in self.only)
        return named and not any(fnmatchcase(rule, each) for each in self.ignored)

    def split(self, findings: Iterable[Finding]) -> tuple[tuple[Finding, ...], Mapping[str, int]]:
        """The findings that count, and how many of each other id there are."""
        every = list(findings)
        hidden = Counter(each.rule for each in every if not self.takes(each.rule))
        return tuple(each for each in every if self.takes(each.rule)), dict(hidden)


EVERYTHING = Scope()
"""Every finding counts."""
