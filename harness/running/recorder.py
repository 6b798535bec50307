"""Recording the cells of a run: what may be written and sent, and what a cassette says of itself."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any, cast

from harness.catalog import sdk_version
from harness.contract.errors import CassetteError, CassetteTaken
from harness.host.environment import now
from harness.results import EmbeddingTranscript, Transcript, Variant
from harness.running.backends import Stages
from harness.running.cells import Cell, not_applicable
from harness.scenarios.load import digest, sent, sent_digest
from harness.scenarios.schema import Scenario
from harness.stdio.workers import Halted
from harness.tape.cassette import Metadata
from harness.tape.library import Library
from harness.tape.read import read
from harness.tape.recording import Recording
from harness.tape.redact import Redactor
from harness.tape.survey import Claim, Outdated, Place, Survey, survey


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes what a run plays into `library`. `max_requests` is the most that is sent, and paid for; `missing` leaves
    out the cells that have a fresh cassette, `outdated` all but those that have one which is so. What looks like a
    secret may stand in the places that are `allowed`."""

    library: Library
    force: bool = False
    max_requests: int | None = None
    missing: bool = False
    outdated: Outdated | None = None
    allowed: tuple[str, ...] = ()


class Withheld(Exception):
    """Why a cell is not recorded."""


def to_record(cells: Sequence[Cell], found: Survey) -> list[Cell]:
    """The cells without those that have a fresh cassette."""
    return [cell for cell in cells if _place(cell) not in found.fresh]


def without_held(cells: Sequence[Cell], found: Survey) -> list[Cell]:
    """The cells without those whose cassettes must not be overwritten."""
    return [cell for cell in cells if _place(cell) not in found.held]


def _place(cell: Cell) -> Place:
    return cell.target.cassettes, cell.scenario.id, cell.variant


class Budget:
    """What a run may still send: `limit` chats, or as many as it likes, until it has ended. One chat is one request."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._spent = 0
        self._ended = False
        self._lock = Lock()

    def spend(self) -> None:
        """Count a chat. Raises `Withheld`, and `Halted` if the run has ended."""
        with self._lock:
            if self._ended:
                raise Halted
            if self._spent == self._limit:
                raise Withheld(f"not recorded: {self._limit} requests were sent, --max-requests allows no more")
            self._spent += 1

    def give_back(self, chats: int) -> None:
        """These were not sent, since what they are answered was taken up."""
        with self._lock:
            self._spent -= chats

    def end(self) -> None:
        """Cells under way send nothing more."""
        self._ended = True


@contextmanager
def claimed(recorder: Recorder | None, cells: Sequence[Cell]) -> Generator[None]:
    """Hold the claim to the cassettes of the cells, if there is a recorder.

    Raises:
        CassetteTaken: another process records one of them. It does the work.
    """
    if recorder is None:
        yield
        return
    root = recorder.library.root
    endings = {"whole": ".yaml", "stream": ".stream.yaml"}
    places = [root / each.scenario.id / f"{each.target.cassettes}{endings[each.variant]}" for each in cells]
    claim = Claim(root, places)
    try:
        yield
    finally:
        claim.release()


def surveyed(cells: Sequence[Cell], stages: Stages, recorder: Recorder) -> Survey:
    """What lies in the places of the cells that are to be recorded.

    Raises:
        UsageError: a cell cannot be recorded: a cassette must not be overwritten, another process records it.
    """
    applicable = [cell for cell in cells if not_applicable(cell, stages.mode) is None]
    wanted = [_metadata(cell, stages) for cell in applicable]
    found = survey(recorder.library, wanted, force=recorder.force, missing=recorder.missing, outdated=recorder.outdated)
    reasons = _unstorable({cell.scenario.id: cell.scenario for cell in applicable}, stages.redactor())
    for cell in applicable:
        if cell.scenario.id in reasons:
            found.held[_place(cell)] = reasons[cell.scenario.id]
    return found


def _unstorable(scenarios: Mapping[str, Scenario], redactor: Redactor) -> Mapping[str, str]:
    """Why scenarios are not recorded that send what is taken out of cassettes: a recording could not be replayed."""
    found: dict[str, str] = {}
    for name, scenario in scenarios.items():
        place = next((at for at, text in _texts(sent(scenario), "") if redactor.text(text) != text), None)
        if place is not None:
            found[name] = (
                f"not recorded, and nothing was sent: the scenario has what looks like a key, at {place}. No cassette "
                "stores one, so the recording could not be replayed. Write another text there"
            )
    return found


def _texts(value: Any, at: str) -> Iterator[tuple[str, str]]:
    """The texts of a value with their places, other than the bytes of media."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key != "data":
                yield from _texts(item, f"{at}.{key}" if at else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("Sequence[Any]", value)):
            yield from _texts(item, f"{at}[{index}]")


def recording(cell: Cell, stages: Stages, recorder: Recorder, found: Survey) -> Recording:
    """The recording of one cell, where `found` is what lies in the places of the run. Raises `Withheld`."""
    held = found.held.get(_place(cell))
    if held is not None:
        raise Withheld(held)
    try:
        return Recording(
            recorder.library,
            _metadata(cell, stages),
            stages.redactor(),
            force=recorder.force,
            replaces=_place(cell) in found.outdated,
            allowed=recorder.allowed,
        )
    except CassetteTaken as error:  # since the survey
        raise Withheld(f"not recorded: {error}") from None


def is_complete(transcript: Transcript) -> bool:
    """Whether each chat has its answer, be it the failure that the scenario asks for."""
    scenario = transcript.scenario
    fails = scenario is not None and bool(scenario.faults)
    made = transcript.embedded if isinstance(transcript, EmbeddingTranscript) else ()
    if any(each.vectors is None and not each.refuses for each in made):
        return False
    return all(chat.response is not None or (fails and not chat.crashed) for chat in transcript.chats)


def served(transcript: Transcript) -> str | None:
    """The model that answered, as it called itself at last."""
    models = [chat.response.model for chat in transcript.chats if chat.response is not None]
    return models[-1] if models else None


def _metadata(cell: Cell, stages: Stages) -> Metadata:
    live = stages.mode == "live"
    provenance = stages.provenance(cell.target)
    return Metadata(
        origin=provenance.origin,
        scenario=cell.scenario.id,
        target=cell.target.cassettes,
        api=cell.target.api,
        adapter=cell.target.adapter.name,
        variant=cell.variant,
        model_requested=cell.target.model,
        scenario_digest=digest(cell.scenario),
        sent_digest=sent_digest(cell.scenario),
        recorded_at=now() if live else None,
        versions=sdk_version(cell.target.adapter) if live else {},
        recorded_from=provenance.recorded_from,
    )


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
