"""The results of the cells of a run, kept while it is played and while its reports are written: those of a long run
leave memory for a file.

What a long run is mostly made of, cells with nothing to say, stays in memory: such a cell is a few references to what
all of them have in common. Evidence (findings, conversations, what was printed) is what would fill it, so a cell with
any of that lies in a temporary file that has no name, and is read back by whoever looks at it.
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
from harness.results.run import CellResult, Provenance

V = TypeVar("V")

ROOM = 4096
"""Cells of a run that are kept in memory whatever they hold: twice those of the shipped suite."""


_NOTHING: Mapping[str, int] = {}


class _Place(NamedTuple):
    """Where in the file a cell lies: it is `length` bytes long, and behind it stands its conversation."""

    start: int
    length: int
    conversation: int = 0


class Spool(Sequence[CellResult]):
    """The cells of a run that are done, in the order of the run, whichever was done first.

    `number` is how many cells the run has; one of more than `room` cells keeps its evidence in a file.
    """

    def __init__(self, number: int, room: int = ROOM) -> None:
        self._slots: list[CellResult | _Place | None] = [None] * number
        self._file = _File() if number > room else None
        self._is_bare = False
        self._common: dict[Hashable, Any] = {}

    def put(self, at: int, result: CellResult) -> None:
        """The cell with this number is done.

        Raises:
            HarnessError: there is no room for it on the disk.
        """
        self._slots[at] = self._written(result) if self._file and _has_evidence(result) else self._light(result)

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

    def _written(self, result: CellResult) -> _Place:
        assert self._file is not None  # noqa: S101 - who asks has looked
        bare, conversation = replace(result, conversation=None), result.conversation
        parts = [pickle.dumps(each, pickle.HIGHEST_PROTOCOL) for each in (bare, conversation) if each is not None]
        return _Place(self._file.append(b"".join(parts)), *map(len, parts))

    def _read(self, slot: CellResult | _Place) -> CellResult:
        if isinstance(slot, CellResult):
            return slot
        result: CellResult = self._loaded(slot.start, slot.length)
        if self._is_bare or not slot.conversation:
            return result
        return replace(result, conversation=self._loaded(slot.start + slot.length, slot.conversation))

    def _loaded(self, start: int, length: int) -> Any:
        assert self._file is not None  # noqa: S101 - else nothing was written
        return pickle.loads(self._file.read(start, length))  # noqa: S301 - ours: the file has no name


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

    def read(self, start: int, length: int) -> bytes:
        """A part of what was added."""
        return os.pread(self._file.fileno(), length, start)


def _has_evidence(result: CellResult) -> bool:
    return bool(result.findings or result.conversation or result.printed or result.traceback)


def _key(provenance: Provenance) -> Hashable:
    """What it says, as its mapping cannot be looked up."""
    values = (getattr(provenance, each.name) for each in fields(provenance) if each.name != "versions")
    return *values, *provenance.versions.items()
