"""What lies in a folder of cassettes: whether each is played, by what, and whether it still says what is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harness.contract.errors import CassetteError
from harness.results import Variant
from harness.running.cells import not_applicable
from harness.running.stages import Cell
from harness.scenarios.load import digest, sent_digest
from harness.scenarios.schema import Scenario
from harness.tape.cassette import Metadata
from harness.tape.library import Library
from harness.tape.read import read
from harness.tape.survey import Outdated


class State(StrEnum):
    """How a cassette stands to the scenarios."""

    FRESH = "fresh"
    STALE = "stale"
    """What the scenario sends has changed since, or the model that is asked."""
    OLD = "old"
    """Older than it may be."""
    UNUSED = "unused"
    """Its scenario is there, and no cell plays it."""
    ORPHANED = "orphaned"
    """No scenario has its name."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Kept:
    """A cassette. `why` is a phrase for all states but fresh; without `metadata` nobody knows what it is."""

    path: Path
    state: State
    why: str = ""
    metadata: Metadata | None = None


class Inventory:
    """Holds cassettes against `cells`, which are all that play them, and against their `scenarios`."""

    def __init__(self, cells: Sequence[Cell], scenarios: Sequence[Scenario], outdated: Outdated | None) -> None:
        self._cells = {(cell.target.cassettes, cell.scenario.id, cell.variant): cell for cell in cells}
        self._targets = {cell.target.cassettes for cell in cells}
        self._scenarios = {each.id: each for each in scenarios}
        self._digests: Mapping[str, str] = {sent_digest(each): each.id for each in scenarios}
        self._outdated = outdated

    def of(self, library: Library) -> Iterator[Kept]:
        """Every cassette of a library, in order."""
        for path in library.paths():
            try:
                metadata = read(path).metadata
                if metadata is None:
                    yield Kept(path, State.UNREADABLE, "nothing in it says where it comes from")
                    continue
                place = library.path(metadata.target, metadata.scenario, metadata.variant)
            except CassetteError as error:
                yield Kept(path, State.UNREADABLE, error.reason)
                continue
            yield Kept(path, *self._state(metadata, is_in_place=place == path), metadata)

    def _state(self, metadata: Metadata, *, is_in_place: bool) -> tuple[State, str]:
        scenario = self._scenarios.get(metadata.scenario)
        if scenario is None:
            renamed = self._digests.get(metadata.sent_digest or "")
            now = f"; {renamed} sends the same" if renamed else ""
            return State.ORPHANED, f"there is no scenario {metadata.scenario}{now}"
        unplayed = self._unplayed(metadata) if is_in_place else _misplaced(metadata)
        if unplayed is not None:
            return State.UNUSED, unplayed
        if not metadata.is_of(digest(scenario), sent_digest(scenario)):
            return State.STALE, "what the scenario sends has changed"
        model = self._cells[metadata.target, metadata.scenario, metadata.variant].target.model
        if metadata.model_requested != model:
            return State.STALE, f"the target's model is {model} now: harness record --force replaces it"
        old = self._outdated and self._outdated.too_old(metadata.recorded_at)
        return (State.FRESH, "") if old is None else (State.OLD, old)

    def _unplayed(self, metadata: Metadata) -> str | None:
        """Why no cell plays a cassette that lies in its place."""
        if metadata.target not in self._targets:
            return f"the target {metadata.target} is not played"
        cell = self._cells.get((metadata.target, metadata.scenario, metadata.variant))
        return f"it is not played {_HOW[metadata.variant]}" if cell is None else not_applicable(cell, "replay")


_HOW: Mapping[Variant, str] = {"whole": "whole", "stream": "streamed"}


def _misplaced(metadata: Metadata) -> str:
    return f"it is that of {metadata.scenario} on {metadata.target}, {_HOW[metadata.variant]}, and lies elsewhere"
