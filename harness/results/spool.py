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
from collections.abc import Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from typing import Any, NamedTuple, TypeVar, cast, overload

from harness.contract.errors import HarnessError
from harness.results.findings import Finding
from harness.results.run import CellResult, Provenance, RunResult

V = TypeVar("V")

ROOM = 4096
"""Cells of a run that are kept in memory whatever they hold: twice those of the shipped suite."""


_NOTHING: Mapping[str, int] = {}


class _Talking(NamedTuple):
    """A cell without its texts and its conversation, and where these lie in the file: so many bytes of each."""

    cell: CellResult
    start: int
    texts: int
    conversation: int


class Spool(Sequence[CellResult]):
    """The cells of a run that are done, in the order of the run, whichever was done first.

    `number` is how many cells the run has; one of more than `room` cells keeps its evidence in a file.
    """

    def __init__(self, number: int, room: int = ROOM) -> None:
        self._slots: list[CellResult | _Talking | None] = [None] * number
        self._file = _File() if number > room else None
        self._is_bare = False
        self._common: dict[Hashable, Any] = {}

    def put(self, at: int, result: CellResult) -> None:
        """The cell with this number is done.

        Raises:
            HarnessError: there is no room for it on the disk.
        """
        self._slots[at] = self._written(result) if self._file else self._light(result)

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
        done = [slot for slot in self._slots if slot is not None]
        return [self._read(slot) for slot in done[at]] if isinstance(at, slice) else self._read(done[at])

    def __iter__(self) -> Iterator[CellResult]:
        return (self._read(slot) for slot in self._slots if slot is not None)

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

    def _written(self, result: CellResult) -> CellResult | _Talking:
        assert self._file is not None  # noqa: S101 - who asks has looked
        findings = _Findings(self._file, result.findings) if result.findings else ()
        light = self._light(replace(result, findings=findings, printed=None, traceback=None, conversation=None))
        if not (result.printed or result.traceback or result.conversation):
            return light
        printed = result.printed, result.traceback
        texts = pickle.dumps(printed, pickle.HIGHEST_PROTOCOL) if printed != (None, None) else b""
        conversation = pickle.dumps(result.conversation, pickle.HIGHEST_PROTOCOL) if result.conversation else b""
        return _Talking(light, self._file.append(texts + conversation), len(texts), len(conversation))

    def _read(self, slot: CellResult | _Talking) -> CellResult:
        if isinstance(slot, CellResult):
            return slot
        assert self._file is not None  # noqa: S101 - else nothing was written
        told = slot.cell
        if slot.texts:
            printed, traceback = self._file.load(slot.start, slot.texts)
            told = replace(told, printed=printed, traceback=traceback)
        if slot.conversation and not self._is_bare:
            told = replace(told, conversation=self._file.load(slot.start + slot.texts, slot.conversation))
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

    def append(self, data: bytes) -> int:
        """Add to the file; where that begins. Raises `HarnessError`: the disk is full, or failed."""
        start = self._end
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

    def load(self, start: int, length: int) -> Any:
        """A value that was added, pickled."""
        return pickle.loads(os.pread(self._file.fileno(), length, start))  # noqa: S301 - ours: the file has no name


class _Findings(Sequence[Finding]):
    """The findings of a cell, which lie in the file: read by whoever looks at them, each time."""

    __slots__ = ("_file", "_length", "_number", "_start")

    def __init__(self, file: _File, findings: Sequence[Finding]) -> None:
        data = pickle.dumps(tuple(findings), pickle.HIGHEST_PROTOCOL)
        self._file = file
        self._start, self._length, self._number = file.append(data), len(data), len(findings)

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
        return self._file.load(self._start, self._length)


def _key(provenance: Provenance) -> Hashable:
    """What it says, as its mapping cannot be looked up."""
    values = (getattr(provenance, each.name) for each in fields(provenance) if each.name != "versions")
    return *values, *provenance.versions.items()
