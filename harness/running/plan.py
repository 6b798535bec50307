"""What is asked of a run, by whoever asks for it: the command line or pytest."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness import catalog
from harness.apis.targets import Target
from harness.contract.errors import UnknownName, UsageError
from harness.results import Mode
from harness.rules.scope import EVERYTHING, Scope
from harness.running.backends import Reference, Replay, Stages
from harness.running.budget import Purse
from harness.running.cells import VARIANTS
from harness.running.expected_failures import ExpectedFailure
from harness.running.live import Live, Pace
from harness.running.recorder import Recorder
from harness.running.run import Run
from harness.scenarios.schema import Variant
from harness.tape.library import Library
from harness.tape.survey import Outdated

SECONDS = 60.0
"""How long a foreign adapter may take for a cell where nothing is sent over a network."""

LIVE_SECONDS = 900.0
"""The same where a provider answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How cells are to be played and judged.

    `mode` is how they are answered: from the cassettes of `libraries`, by the reference server, or live, where
    `base_urls` replaces targets' providers by other servers. Scenarios of one's `own`, by their ids, play no shipped
    cassette. With a `recorder` what is played is recorded. `outdated` says which cassettes are too old. The rest is as
    in `Run`.
    """

    mode: Mode
    libraries: Sequence[Library] = ()
    own: frozenset[str] = frozenset()
    base_urls: Mapping[str, str] = field(default_factory=dict[str, str])
    expected: Sequence[ExpectedFailure] = ()
    recorder: Recorder | None = None
    recuts: int = 0
    strict: bool = False
    conversations: bool = False
    scope: Scope = EVERYTHING
    outdated: Outdated | None = None
    pace: Pace | None = None
    purse: Purse | None = None

    def run(self, targets: Sequence[Target]) -> Run:
        """The run that plays cells of these targets.

        Raises:
            UsageError: one of them cannot be asked from here.
        """
        self._check_loops(targets)
        return Run(
            self._stages(targets),
            catalog.rules(),
            expected=self.expected,
            recorder=self.recorder,
            recuts=self.recuts,
            strict=self.strict,
            conversations=self.conversations,
            scope=self.scope,
            pace=self.pace,
            purse=self.purse,
        )

    def _check_loops(self, targets: Sequence[Target]) -> None:
        """Whether nothing that owns its loop is to be recorded, or answered by anybody but the reference server."""
        for target in targets:
            if target.adapter.drive is not None and (self.mode != "reference" or self.recorder is not None):
                raise UsageError(
                    f"{target.name} owns its tool loop: what it sends next is its own affair, so that only the "
                    "reference server can play with it. Use 'harness check', 'harness run --mode reference' or, under "
                    "pytest, harness_mode = reference."
                )

    def _stages(self, targets: Sequence[Target]) -> Stages:
        if self.mode == "replay":
            return Replay(self.libraries, self.own, self.outdated)
        if self.mode == "reference":
            return Reference()
        live = Live(self.base_urls, self.pace)
        for target in targets:
            live.check(target)
        return live


def variants(names: Sequence[str], option: str) -> list[Variant]:
    """The variants of these names, which `option` gave; of no names, all.

    Raises:
        UnknownName: there is no such variant.
    """
    for name in names:
        if name not in VARIANTS:
            raise UnknownName("variant", name, VARIANTS, option)
    return [variant for variant in VARIANTS if not names or variant in names]


def cell_seconds(given: float | None, option: str, *, live: bool = False) -> float:
    """How long a foreign adapter may take for a cell: as `option` gave it, else what the mode allows.

    Raises:
        UsageError: nobody can wait so long.
    """
    if given is None:
        return LIVE_SECONDS if live else SECONDS
    if not 0 < given <= threading.TIMEOUT_MAX:
        raise UsageError(f"{option}: it has to be a number of seconds above 0.")
    return given
