"""The results of the cells of a run, kept while it is played and while its reports are written: those of a long run
leave memory for a file.

What all cells have stays in memory: it is a few references to what they have in common. Evidence (findings,
conversations, what was printed) is what would fill it, so that lies in a temporary file that has no name, and is read
back by whoever looks at it.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from typing import Any, TypeVar, cast, overload

from harness.contract.errors import HarnessError
from harness.results.findings import Finding
from harness.results.run import CellResult, Provenance, RunResult

V = TypeVar("V")

ROOM = 4096
"""Cells of a run that are kept in memory whatever they hold: twice those of the shipped suite."""


_NOTHING: Mapping[str, int] = {}

_NOWHERE = -1
_LENGTH = 4
"""Bytes in front of a value in the file, which say how long it is."""


class Spool(Sequence[CellResult]):
    """The cells of a run that are done, in the order of the run, whichever was done first.

    `number` is how many cells the run has; one of more than `room` cells keeps its evidence in a file.
    """

    def __init__(self, number: int, room: int = ROOM) -> None:
        self._slots: list[CellResult | None] = [None] * number
        self._file = _File() if number > room else None
        self._texts = array("q", [_NOWHERE]) * number  # where in the file they begin
        self._conversations = array("q", [_NOWHERE]) * number
        self._is_bare = False
        self._common: dict[Hashable, Any] = {}

    def put(self, at: int, result: CellResult) -> None:
        """The cell with this number is done.

        Raises:
            HarnessError: there is no room for it on the disk.
        """
        if self._file is not None:
            result = self._written(at, result, self._file)
        self._slots[at] = self._light(result)

    def bare(self) -> Spool:
        """The same without conversations, for who has no use for them: they are not even read."""
        made = copy(self)
        made._is_bare = True  # noqa: SLF001 - one of ours
        return made

    @property
    def cells(self) -> Sequence[CellResult]:
        """What a result of the run holds: what fits into memory as a plain tuple."""
        return self if self._file else tuple(self)

    def __len__(self) -> int:
        return len(self._slots) - self._slots.count(None)

    @overload
    def __getitem__(self, at: int) -> CellResult: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[CellResult]: ...
    def __getitem__(self, at: int | slice) -> CellResult | Sequence[CellResult]:
        done = [number for number, slot in enumerate(self._slots) if slot is not None]
        return list(map(self._read, done[at])) if isinstance(at, slice) else self._read(done[at])

    def __iter__(self) -> Iterator[CellResult]:
        return (self._read(number) for number, slot in enumerate(self._slots) if slot is not None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*cast("Sequence[object]", other)]

    __hash__ = None  # pyright: ignore[reportAssignmentType] - it changes

    def _light(self, result: CellResult) -> CellResult:
        """The result, with what it has in common with others there once: those of other processes come with copies."""
        provenance = result.provenance
        return replace(
            result,
            scenario=sys.intern(result.scenario),
            target=sys.intern(result.target),
            adapter=sys.intern(result.adapter),
            api=sys.intern(result.api),
            provenance=provenance and self._shared(provenance, _key(provenance)),
            reason=result.reason and self._shared(result.reason, result.reason),
            covers=self._shared(result.covers, result.covers),
            hidden=result.hidden or _NOTHING,
            spending=result.spending and self._shared(result.spending, result.spending),
        )

    def _shared(self, value: V, key: Hashable) -> V:
        return self._common.setdefault(key, value)

    def _written(self, at: int, result: CellResult, file: _File) -> CellResult:
        """The result without what has gone into the file."""
        printed = result.printed, result.traceback
        self._texts[at] = _NOWHERE if printed == (None, None) else file.append(printed)
        self._conversations[at] = _NOWHERE if result.conversation is None else file.append(result.conversation)
        findings = _Findings(file, result.findings) if result.findings else ()
        return replace(result, findings=findings, printed=None, traceback=None, conversation=None)

    def _read(self, number: int) -> CellResult:
        told = self._slots[number]
        assert told is not None  # noqa: S101 - who asks has looked
        if self._file is None:
            return told
        if (start := self._texts[number]) != _NOWHERE:
            printed, traceback = self._file.load(start)
            told = replace(told, printed=printed, traceback=traceback)
        if not self._is_bare and (start := self._conversations[number]) != _NOWHERE:
            told = replace(told, conversation=self._file.load(start))
        return told


def bare(run: RunResult) -> RunResult:
    """The run for who has no use for conversations: those that are not in memory are not even read."""
    return replace(run, cells=run.cells.bare()) if isinstance(run.cells, Spool) else run


class _File:
    """A temporary file without a name, which is gone with the last who reads it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it ends with us
        self._end = 0

    def __del__(self) -> None:
        self._file.close()

    def append(self, value: object) -> int:
        """Add a value; where it begins. Raises `HarnessError`: the disk is full, or failed."""
        start, data = self._end, pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        data = len(data).to_bytes(_LENGTH) + data
        try:
            while data:
                written = os.pwrite(self._file.fileno(), data, self._end)
                self._end, data = self._end + written, data[written:]
        except OSError as error:
            where = tempfile.gettempdir()
            raise HarnessError(
                f"results cannot be kept in {where}: {error.strerror}. TMPDIR names another folder."
            ) from None
        return start

    def load(self, start: int) -> Any:
        """The value that begins there."""
        length = int.from_bytes(os.pread(self._file.fileno(), _LENGTH, start))
        return pickle.loads(os.pread(self._file.fileno(), length, start + _LENGTH))  # noqa: S301 - ours: the file has no name


class _Findings(Sequence[Finding]):
    """The findings of a cell, which lie in the file: read by whoever looks at them, each time."""

    __slots__ = ("_file", "_number", "_start")

    def __init__(self, file: _File, findings: Sequence[Finding]) -> None:
        self._file = file
        self._start, self._number = file.append(tuple(findings)), len(findings)

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, at: int) -> Finding: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Finding]: ...
    def __getitem__(self, at: int | slice) -> Finding | Sequence[Finding]:
        return self._read()[at]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._read())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._read() == (*cast("Sequence[object]", other),)

    __hash__ = None  # pyright: ignore[reportAssignmentType] - findings hold JSON

    def _read(self) -> tuple[Finding, ...]:
        return self._file.load(self._start)


def _key(provenance: Provenance) -> Hashable:
    """What it says, as its mapping cannot be looked up."""
    values = (getattr(provenance, each.name) for each in fields(provenance) if each.name != "versions")
    return *values, *provenance.versions.items()
