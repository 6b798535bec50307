"""How to ask for a part of a run again, in the words of whoever asked for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain


@dataclass(frozen=True, slots=True)
class Invocation:
    """How to ask for a part of a run again.

    A fact of the run, as its mode is: reports read nothing but results, and print these commands beside what failed,
    also out of a result that was written in another process. What the words are the caller says: the command line its
    own options, pytest its own; those that stand here are what asks for a run that was given none.

    `rerun`, `record`, `reference` and `show` are the words that a command line begins with, `selection` those that
    chose the scenarios. `scenarios` names the files of scenarios that do not ship with harness, `targets` the words
    that select a column which is no shipped target. `recut` are the words that ask for other cuts of what is streamed.
    Without words for `show` nothing shows a cell.
    """

    rerun: tuple[str, ...] = ("harness", "run")
    record: tuple[str, ...] = ("harness", "record")
    reference: tuple[str, ...] = ("harness", "run", "--mode", "reference")
    selection: tuple[str, ...] = ()
    scenarios: Mapping[str, str] = field(default_factory=dict[str, str])
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    recut: tuple[str, ...] = ()
    show: tuple[str, ...] = ("harness", "show")

    def command(self, words: Iterable[str], targets: Iterable[str], scenarios: Iterable[str] | None = None) -> str:
        """The command line that begins with `words`, for targets and some scenarios (`None`: those of the run)."""
        named = self.selection if scenarios is None else [self.scenarios.get(each, each) for each in scenarios]
        selected = chain.from_iterable(self.targets.get(target, ("--target", target)) for target in targets)
        return shlex.join([*words, *named, *selected])
