"""The options of a run, as the command line and pytest set them."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.apis.registry import Target
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.preflight import OutdatedFilter
from harness.model.errors import UnknownName, UsageError
from harness.results import ExpectedFailure, Mode
from harness.rules import EVERYTHING, Scope
from harness.rules.rule import all_rules
from harness.runner.backends import Backend, ReferenceBackend, ReplayBackend
from harness.runner.cells import VARIANTS
from harness.runner.costs import Budget
from harness.runner.live import LiveBackend, RateLimits
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.scenarios.schema import Variant

CELL_SECONDS = 60.0
"""Default time limit for a cell of a third-party adapter in offline modes."""

LIVE_CELL_SECONDS = 900.0
"""Default time limit for a cell of a third-party adapter in live mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The options for running and judging cells.

    `mode` selects the backend: cassettes from `libraries`, the reference server, or providers. `base_urls` maps targets
    to servers that replace their providers. `own` lists the ids of the user's scenarios, which never use shipped
    cassettes. With a `recorder`, cells are recorded. `outdated` is the maximum age of cassettes. The other options are
    those of `Run`.
    """

    mode: Mode
    libraries: Sequence[CassetteLibrary] = ()
    own: frozenset[str] = frozenset()
    base_urls: Mapping[str, str] = field(default_factory=dict[str, str])
    expected: Sequence[ExpectedFailure] = ()
    recorder: Recorder | None = None
    recuts: int = 0
    strict: bool = False
    conversations: bool = False
    scope: Scope = EVERYTHING
    outdated: OutdatedFilter | None = None
    rate_limits: RateLimits | None = None
    budget: Budget | None = None

    def run(self, targets: Sequence[Target]) -> Run:
        """Return a run for cells of these targets.

        Raises:
            UsageError: Requests cannot be sent to one of the targets.
        """
        self._check_loops(targets)
        return Run(
            self._backend(targets),
            all_rules(),
            expected=self.expected,
            recorder=self.recorder,
            recuts=self.recuts,
            strict=self.strict,
            conversations=self.conversations,
            scope=self.scope,
            rate_limits=self.rate_limits,
            budget=self.budget,
        )

    def _check_loops(self, targets: Sequence[Target]) -> None:
        for target in targets:
            if target.adapter.drive is not None and (self.mode != "reference" or self.recorder is not None):
                raise UsageError(
                    f"{target.name} runs its own tool loop, so it cannot replay cassettes. Use 'harness check', "
                    "'harness run --mode reference' or, under "
                    "pytest, harness_mode = reference."
                )

    def _backend(self, targets: Sequence[Target]) -> Backend:
        if self.mode == "replay":
            return ReplayBackend(self.libraries, self.own, self.outdated)
        if self.mode == "reference":
            return ReferenceBackend()
        live = LiveBackend(self.base_urls, self.rate_limits)
        for target in targets:
            live.check(target)
        return live


def variants(names: Sequence[str], option: str) -> list[Variant]:
    """Return the variants that the user named with `option`, or all variants if there are no names.

    Raises:
        UnknownName: There is no such variant.
    """
    for name in names:
        if name not in VARIANTS:
            raise UnknownName("variant", name, VARIANTS, option)
    return [variant for variant in VARIANTS if not names or variant in names]


def cell_seconds(given: float | None, option: str, *, live: bool = False) -> float:
    """Return the time limit for a cell of a third-party adapter. It is the value of `option`, or the mode's default if
    none is given.

    Raises:
        UsageError: The value is out of range.
    """
    if given is None:
        return LIVE_CELL_SECONDS if live else CELL_SECONDS
    if not 0 < given <= threading.TIMEOUT_MAX:
        raise UsageError(f"{option}: must be a number of seconds greater than 0.")
    return given
