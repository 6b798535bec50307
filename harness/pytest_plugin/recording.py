"""Recording during tests with `--harness-record`. Cells without a cassette are recorded and judged.

Recordings come from the provider, with the keys in the environment, or from the reference server if the mode is
`reference`. Several processes may record at once. Each cassette is written only once per session, by the first process
that gets to it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Literal

import pytest

from harness.apis.prices import price_version
from harness.cassettes.library import Library
from harness.platform import files
from harness.reports.words import count, forecast, money
from harness.results import CellResult
from harness.runner.backends import ReferenceBackend, ReplayBackend
from harness.runner.cells import Cell, not_applicable
from harness.runner.costs import estimate
from harness.runner.live import LiveBackend, base_urls_of
from harness.runner.plan import Plan
from harness.runner.recorder import Recorder, survey_cells, without_fresh, without_held
from harness.runner.verdicts import JudgedCell

_PAUSE = 0.02
_NAMED = 5

Wanted = Literal["missing", "all"]


class Recording:
    """Records cells into `folder`: all of them, or only those without a fresh cassette.

    `plan` specifies how cells are run. `began` is the start time of the session, in nanoseconds.
    """

    def __init__(self, wanted: Wanted, plan: Plan, folder: Path, began: int) -> None:
        self._plan = plan
        self._library = Library(folder)
        self._recorder = Recorder(self._library, force=wanted == "all", missing=wanted == "missing")
        self._anew = wanted == "all"
        self._began = began
        self._announced: set[Path] = set()

    @property
    def is_paid(self) -> bool:
        """Return whether requests go to providers."""
        return self._plan.mode == "replay"

    def play(self, cell: Cell) -> JudgedCell | None:
        """Record and judge a cell. Return `None` if it has its cassette already, or is not to be recorded.

        Raises:
            UsageError: a key is missing, or its cassette must not be overwritten.
        """
        with self._alone(cell):
            if not self._due([cell]):
                return None
            run = self._of([cell]).run([cell.target])
            run.surveyed([cell])
            with run:
                return run.play_cell(cell)

    def path(self, cell: Cell) -> Path:
        """Return the path of a cell's cassette."""
        return self._library.path(cell.target.cassettes, cell.scenario.id, cell.variant)

    def announced(self, cells: Sequence[Cell], *, check: bool) -> Iterator[str]:
        """Yield sentences about planned recordings and their estimated cost. Each cassette is announced only once.

        Raises:
            UsageError: `check` is set, and one of the cells cannot be recorded.
        """
        paths = {self.path(cell): cell for cell in reversed(self._due(cells))}  # several adapters may share one
        due = [cell for path, cell in reversed(paths.items()) if path not in self._announced]
        self._announced.update(paths)
        if not due:
            return
        plan = self._of(due)
        if check:
            plan.run([cell.target for cell in due])
        source = "providers" if self.is_paid else "the reference server"
        yield f"harness: {count(len(due), 'cassette')} to be recorded from {source} into {self._library.root}."
        if self.is_paid:
            yield from forecast(estimate(due, base_urls=plan.base_urls), price_version())

    def _of(self, cells: Sequence[Cell]) -> Plan:
        if not self.is_paid:
            return replace(self._plan, recorder=self._recorder)
        targets = list({cell.target.name: cell.target for cell in cells}.values())
        urls = base_urls_of(self._plan.base_urls, targets)
        return replace(self._plan, mode="live", base_urls=urls, recorder=self._recorder)

    def _due(self, cells: Sequence[Cell]) -> list[Cell]:
        plan = self._of(cells)
        stages = LiveBackend(plan.base_urls) if self.is_paid else ReferenceBackend()
        playable = [cell for cell in cells if not_applicable(cell, stages.mode) is None]
        has = self._is_of_session if self._anew else ReplayBackend(self._plan.libraries, self._plan.own).has
        wanted = [cell for cell in playable if not has(cell)]
        found = survey_cells(wanted, stages, self._recorder)
        return without_held(without_fresh(wanted, found), found)

    def _is_of_session(self, cell: Cell) -> bool:
        """Return whether the cell's cassette has already been written in this session."""
        try:
            return self.path(cell).stat().st_mtime_ns >= self._began
        except OSError:
            return False

    @contextmanager
    def _alone(self, cell: Cell) -> Generator[None, None, None]:
        """Hold the lock on the scenario's folder. Other processes of the session that record this scenario have to
        finish first.
        """
        if os.name != "posix":  # folders have no locks there
            yield
            return
        folder = self.path(cell).parent
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
        try:
            while not files.lock_file(handle):
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(handle)


def recording_properties(result: CellResult, path: Path) -> Iterator[tuple[str, object]]:
    """Yield the report properties of a recorded cell."""
    yield "recorded", str(path)
    paid = result.provenance is not None and result.provenance.origin != "reference"
    if paid and result.spending is not None and result.spending.dollars is not None:
        yield "recorded_dollars", str(result.spending.dollars)


def print_lines(config: pytest.Config, lines: Iterable[str]) -> None:
    """Print lines on the terminal. With pytest-xdist, one worker writes them to the real standard error."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and not hasattr(config, "workerinput"):
        for line in lines:
            reporter.write_line(line)
    elif getattr(config, "workerinput", {}).get("workerid") == "gw0" and sys.__stderr__ is not None:
        sys.__stderr__.write("".join(f"{line}\n" for line in lines))
        sys.__stderr__.flush()


def summarise(terminalreporter: pytest.TerminalReporter) -> None:
    """Report the recorded cassettes and their cost."""
    reports = [each for kind in terminalreporter.stats.values() for each in kind if isinstance(each, pytest.TestReport)]
    properties = [pair for report in reports if report.when == "call" for pair in report.user_properties]
    paths = list(dict.fromkeys(str(value) for name, value in properties if name == "recorded"))
    if not paths:
        return
    cost = sum((Decimal(str(value)) for name, value in properties if name == "recorded_dollars"), Decimal())
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    paid = f", for {money(cost)}" if cost else ""
    shown = ", ".join(os.path.relpath(path) for path in paths[:_NAMED])
    terminalreporter.write_line(f"harness: {count(len(paths), 'cassette')} recorded{paid}: {shown}{more}")
