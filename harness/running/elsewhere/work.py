"""What is sent to another process: chunks of cells, and how they are to be played. What was judged comes back."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Protocol

from harness.contract.errors import HarnessError
from harness.host.environment import isolated
from harness.running.judging import Judged
from harness.running.plan import Plan
from harness.running.stages import Cell
from harness.running.versions import versions
from harness.scenarios import suite
from harness.tape.library import Library

CHUNK = 32
"""Cells that are sent at once: a target takes some 60 KB, as much as a chunk of other cells of it."""

_AHEAD = 2
"""Chunks that are under way for each worker, so that none waits for its next one."""

_PATIENCE = 5.0
"""Seconds without an answer after which somebody looks whether anybody is still there."""


class Crew(Protocol):
    """Workers, and how many of them there are."""

    executor: Executor
    size: int

    def check(self) -> None:
        """Whether they are still there. Raises `HarnessError`."""
        ...

    def explained(self, error: Exception, cells: Sequence[Cell]) -> Exception:
        """Why what was sent has not come back, in the words of this crew."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """How cells are to be played, and how many there are in all, for another process. The `folders` of cassettes are
    where they are here; those that ship (`None`) lie where harness is installed there."""

    plan: Plan
    cells: int
    folders: tuple[Path | None, ...]

    @staticmethod
    def of(plan: Plan, cells: int) -> Work:
        """What is to be sent of a plan."""
        shipped = suite.shipped("cassettes")
        folders = tuple(None if each.root == shipped else each.root.absolute() for each in plan.libraries)
        return Work(
            replace(plan, libraries=(), pace=None, purse=None), cells, folders
        )  # which are of what is sent live

    def here(self) -> Plan:
        """The plan, in the process that has received it."""
        folders = [suite.shipped("cassettes") if each is None else each for each in self.folders]
        return replace(self.plan, libraries=[Library(each) for each in folders])


_ONE = Lock()
"""What a run changes of its process, its environment, is for one run at a time."""


def play(work: Work, chunk: Sequence[tuple[int, Cell]]) -> list[tuple[int, Judged | None]]:
    """Play cells, in the process that received them. What raises is `None`, and raises where somebody hears of it."""
    with _ONE, isolated():
        targets = list({cell.target.name: cell.target for _, cell in chunk}.values())
        run = work.here().run(targets)
        with run:
            judged = run.quietly([cell for _, cell in chunk], work.cells)
            return [(number, each) for (number, _), each in zip(chunk, judged, strict=True)]


@dataclass(frozen=True, slots=True)
class Place:
    """What another process has that plays cells: whether that is what is here."""

    python: str
    versions: dict[str, str]
    missing: tuple[Path, ...]


def looked(folders: Sequence[Path]) -> Place:
    """What this process has, and which of the folders are missing."""
    python = ".".join(map(str, sys.version_info[:2]))
    return Place(python, versions(), tuple(each for each in folders if not each.is_dir()))


def folders(plan: Plan) -> list[Path]:
    """The folders of a plan that another process has to see where they are."""
    return [each for each in Work.of(plan, 0).folders if each is not None and each.is_dir()]


def played(crew: Crew, plan: Plan, cells: Sequence[Cell]) -> Generator[tuple[int, Judged | None]]:
    """The cells as they are done, with their numbers. When this is closed, no other chunk is sent.

    Raises:
        HarnessError: the workers are gone.
    """
    work, numbered = Work.of(plan, len(cells)), list(enumerate(cells))
    chunks = iter([numbered[start : start + CHUNK] for start in range(0, len(cells), CHUNK)])
    under_way: dict[Future[list[tuple[int, Judged | None]]], list[tuple[int, Cell]]] = {}
    try:
        while True:
            for chunk in _some(chunks, crew.size * _AHEAD - len(under_way)):
                under_way[crew.executor.submit(play, work, chunk)] = chunk
            if not under_way:
                return
            done, _ = wait(under_way, _PATIENCE, FIRST_COMPLETED)
            if not done:
                crew.check()
            for each in done:
                chunk = under_way.pop(each)
                try:
                    yield from each.result()
                except HarnessError:
                    raise
                except Exception as error:
                    raise crew.explained(error, [cell for _, cell in chunk]) from error
    finally:
        for each in under_way:
            each.cancel()


def _some(chunks: Iterator[list[tuple[int, Cell]]], most: int) -> Iterator[list[tuple[int, Cell]]]:
    for _ in range(most):
        chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk
