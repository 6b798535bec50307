"""What a part of a run says beside its cells, for whoever puts the whole together or goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from harness.results.expectation import StaleExpectation

Values: TypeAlias = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Target → name of a fact → the values that its cells show, in order; without facts that no cell shows."""


@dataclass(frozen=True, slots=True)
class Part:
    """Part `number` of `of`, counted from 1: a shard of a run, or, as its one part, a live run, which may be stopped.

    `scenarios` are the ids of all scenarios of the whole, in the order of the run, each with the beginning of the
    digest of what it says. `expected` are all entries of expected failures: a shard alone cannot tell whether
    one is true of nothing. `observed` is what the cells of this part have shown on the wire, of which differences are
    made.
    """

    number: int
    of: int
    scenarios: Mapping[str, str]
    expected: tuple[StaleExpectation, ...] = ()
    observed: Values = field(default_factory=dict[str, Mapping[str, tuple[str, ...]]])

    @property
    def name(self) -> str:
        """As `--shard` has it: `1/4`."""
        return f"{self.number}/{self.of}"
