"""The scenarios of a long run: parsed, one takes five times the memory that it takes packed, and is needed only while
its cells are played."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import overload

from harness.scenarios.load import load_files, loaded
from harness.scenarios.schema import Scenario

ROOM = 1024
"""Scenarios that are kept as they were read: five times those of the shipped suite."""


class Packed(Sequence[Scenario]):
    """Scenarios, sorted by id. Each is unpacked when it is asked for, and again if another one has been since."""

    def __init__(self, scenarios: Iterable[Scenario]) -> None:
        packed = sorted((each.id, pickle.dumps(each, pickle.HIGHEST_PROTOCOL)) for each in scenarios)
        self._packed = [data for _, data in packed]
        self._last: tuple[int, Scenario] | None = None

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, at: int) -> Scenario: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Scenario]: ...
    def __getitem__(self, at: int | slice) -> Scenario | Sequence[Scenario]:
        numbers = range(len(self._packed))[at]
        return self._unpacked(numbers) if isinstance(numbers, int) else list(map(self._unpacked, numbers))

    def _unpacked(self, number: int) -> Scenario:
        """The cells of a scenario follow each other, and have to see the same one."""
        last = self._last  # another thread may ask as well
        if last is None or last[0] != number:
            scenario: Scenario = pickle.loads(self._packed[number])  # noqa: S301 - packed here
            self._last = last = number, scenario
        return last[1]


def load_many(files: Sequence[Path]) -> Sequence[Scenario]:
    """Read scenario files, sorted by id; the scenarios are packed where they are many.

    Raises:
        ScenarioError: a file is wrong, or an id occurs twice.
    """
    return Packed(loaded(files)) if len(files) > ROOM else load_files(files)
