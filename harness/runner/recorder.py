"""Records the cells of a run, and lists the state of recorded cassettes. Each recording names the versions of the
installed packages that can affect it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any, cast

from harness import plugins
from harness.apis import registry
from harness.cassettes.cassette import Metadata
from harness.cassettes.cassette_files import read
from harness.cassettes.cell_recording import CellRecording
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.preflight import CassetteLock, OutdatedFilter, Place, Preflight, preflight
from harness.cassettes.redact import Redactor
from harness.model import errors
from harness.model.errors import CassetteError, RecordingRefused
from harness.model.protocols import Adapter
from harness.platform.environment import installed_version, utc_now
from harness.results import EmbeddingTranscript, Transcript, Variant
from harness.runner.backends import Backend
from harness.runner.cells import Cell, not_applicable
from harness.scenarios.load import digest, sent_content, sent_digest
from harness.scenarios.schema import Scenario
from harness.stdio.workers import RunCancelled


def versions() -> dict[str, str]:
    """Return the versions of the installed packages that can affect results."""
    found = {package: installed_version(package) for package in _packages()}
    return {package: number for package, number in found.items() if number is not None}


def sdk_version(adapter: Adapter) -> dict[str, str]:
    """Return the version of an adapter's SDK; empty if the adapter needs no SDK or it is not installed."""
    needed = adapter.requires
    number = installed_version(needed.name) if needed is not None and needed.extra is not None else None
    return {} if needed is None or number is None else {needed.name: number}


@cache
def _packages() -> tuple[str, ...]:
    """Return the packages that can affect results. Cached, because reading their metadata takes longer than running a
    cell.
    """
    needed = (plugins.adapter(shipped.adapter).requires for shipped in registry.shipped_targets())
    sdks = (each.name for each in needed if each is not None and each.extra is not None)
    return tuple(dict.fromkeys((errors.DISTRIBUTION, *sdks, "httpx2")))


@dataclass(frozen=True, slots=True)
class Recorder:
    """Options for recording cells into `library`.

    `max_requests` limits the number of requests. With `missing`, cells that have a fresh cassette are skipped. With
    `outdated`, only cells whose cassette exceeds the maximum age are recorded. `allowed` lists places that may contain
    strings that look like secrets.
    """

    library: CassetteLibrary
    force: bool = False
    max_requests: int | None = None
    missing: bool = False
    outdated: OutdatedFilter | None = None
    allowed: tuple[str, ...] = ()


class CellNotRecorded(Exception):
    """Exception for a cell that is not recorded. Its text is the reason."""


def without_fresh(cells: Sequence[Cell], found: Preflight) -> list[Cell]:
    """Return the cells that have no fresh cassette."""
    return [cell for cell in cells if _place(cell) not in found.fresh]


def recordable_cells(cells: Sequence[Cell], found: Preflight) -> list[Cell]:
    """Return the cells that may be recorded."""
    return [cell for cell in cells if _place(cell) not in found.held]


def _place(cell: Cell) -> Place:
    return cell.target.cassettes, cell.scenario.id, cell.variant


class RequestLimit:
    """Limits the number of chats of a run to `limit`. Each chat counts as one request."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._spent = 0
        self._ended = False
        self._lock = Lock()

    def spend(self) -> None:
        """Count a chat. Raises `CellNotRecorded` if the limit is reached, and `RunCancelled` if the run has ended."""
        with self._lock:
            if self._ended:
                raise RunCancelled
            if self._spent == self._limit:
                raise CellNotRecorded(f"not recorded: {self._limit} requests were sent, --max-requests allows no more")
            self._spent += 1

    def give_back(self, chats: int) -> None:
        """Subtract chats whose responses came from a journal, because they sent no request."""
        with self._lock:
            self._spent -= chats

    def end(self) -> None:
        """Allow no further requests."""
        self._ended = True


@contextmanager
def lock_cassettes(recorder: Recorder | None, cells: Sequence[Cell]) -> Generator[None]:
    """Lock the cassettes of the cells while the context is open. Does nothing without a recorder.

    Raises:
        CassetteLocked: Another process is recording one of them.
    """
    if recorder is None:
        yield
        return
    root = recorder.library.root
    endings = {"whole": ".yaml", "stream": ".stream.yaml"}
    places = [root / each.scenario.id / f"{each.target.cassettes}{endings[each.variant]}" for each in cells]
    claim = CassetteLock(root, places)
    try:
        yield
    finally:
        claim.release()


def check_cassettes(cells: Sequence[Cell], backend: Backend, recorder: Recorder) -> Preflight:
    """Check the state of the cassettes of the cells to record.

    Raises:
        UsageError: A cell cannot be recorded, because its cassette must not be overwritten or another process is
            recording it.
    """
    applicable = [cell for cell in cells if not_applicable(cell, backend.mode) is None]
    wanted = [_metadata(cell, backend) for cell in applicable]
    found = preflight(
        recorder.library, wanted, force=recorder.force, missing=recorder.missing, outdated=recorder.outdated
    )
    reasons = _scenarios_with_secrets({cell.scenario.id: cell.scenario for cell in applicable}, backend.redactor())
    for cell in applicable:
        if cell.scenario.id in reasons:
            found.held[_place(cell)] = reasons[cell.scenario.id]
    return found


def _scenarios_with_secrets(scenarios: Mapping[str, Scenario], redactor: Redactor) -> Mapping[str, str]:
    """Return a reason for each scenario whose requests contain strings that would be redacted. Its recording could not
    be replayed.
    """
    found: dict[str, str] = {}
    for name, scenario in scenarios.items():
        place = next((at for at, text in _texts(sent_content(scenario), "") if redactor.text(text) != text), None)
        if place is not None:
            found[name] = (
                f"not recorded, and nothing was sent: the scenario has what looks like a key, at {place}. No cassette "
                "stores one, so the recording could not be replayed. Write another text there"
            )
    return found


def _texts(value: Any, at: str) -> Iterator[tuple[str, str]]:
    """Yield the place and text of every string in a value, except media data."""
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            if key != "data":
                yield from _texts(item, f"{at}.{key}" if at else key)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("Sequence[Any]", value)):
            yield from _texts(item, f"{at}[{index}]")


def open_recording(cell: Cell, backend: Backend, recorder: Recorder, found: Preflight) -> CellRecording:
    """Open the recording of one cell. `found` is the result of `check_cassettes`. Raises `CellNotRecorded`."""
    held = found.held.get(_place(cell))
    if held is not None:
        raise CellNotRecorded(held)
    try:
        return CellRecording(
            recorder.library,
            _metadata(cell, backend),
            backend.redactor(),
            force=recorder.force,
            replaces=_place(cell) in found.outdated,
            allowed=recorder.allowed,
        )
    except RecordingRefused as error:  # since the survey
        raise CellNotRecorded(f"not recorded: {error}") from None


def is_complete(transcript: Transcript) -> bool:
    """Return whether every chat has a response or failed as the scenario expects."""
    scenario = transcript.scenario
    fails = scenario is not None and bool(scenario.faults)
    made = transcript.embedded if isinstance(transcript, EmbeddingTranscript) else ()
    if any(each.vectors is None and not each.refuses for each in made):
        return False
    return all(chat.response is not None or (fails and not chat.crashed) for chat in transcript.chats)


def served_model(transcript: Transcript) -> str | None:
    """Return the model that the last response reports, if any."""
    models = [chat.response.model for chat in transcript.chats if chat.response is not None]
    return models[-1] if models else None


def _metadata(cell: Cell, backend: Backend) -> Metadata:
    live = backend.mode == "live"
    provenance = backend.provenance(cell.target)
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
        recorded_at=utc_now() if live else None,
        versions=sdk_version(cell.target.adapter) if live else {},
        recorded_from=provenance.recorded_from,
    )


class CassetteState(StrEnum):
    """The state of a cassette compared with the current scenarios and targets."""

    FRESH = "fresh"
    STALE = "stale"
    """The scenario's requests or the target's model changed after the recording."""
    OLD = "old"
    """It exceeds the maximum age."""
    UNUSED = "unused"
    """Its scenario exists, but no cell uses it."""
    ORPHANED = "orphaned"
    """Its scenario no longer exists."""
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class StoredCassette:
    """A cassette in a library.

    `why` explains its state; it is empty if the cassette is fresh. `metadata` is `None` if the cassette or its metadata
    cannot be read.
    """

    path: Path
    state: CassetteState
    why: str = ""
    metadata: Metadata | None = None


class Inventory:
    """Determines the state of cassettes.

    `cells` are all cells that could use a cassette, and `scenarios` all known scenarios.
    """

    def __init__(self, cells: Sequence[Cell], scenarios: Sequence[Scenario], outdated: OutdatedFilter | None) -> None:
        self._cells = {(cell.target.cassettes, cell.scenario.id, cell.variant): cell for cell in cells}
        self._targets = {cell.target.cassettes for cell in cells}
        self._scenarios = {each.id: each for each in scenarios}
        self._digests: Mapping[str, str] = {sent_digest(each): each.id for each in scenarios}
        self._outdated = outdated

    def of(self, library: CassetteLibrary) -> Iterator[StoredCassette]:
        """Yield every cassette of a library with its state, in the order of the paths."""
        for path in library.paths():
            try:
                metadata = read(path).metadata
                if metadata is None:
                    yield StoredCassette(path, CassetteState.UNREADABLE, "it does not say where it was recorded")
                    continue
                place = library.path(metadata.target, metadata.scenario, metadata.variant)
            except CassetteError as error:
                yield StoredCassette(path, CassetteState.UNREADABLE, error.reason)
                continue
            yield StoredCassette(path, *self._state(metadata, is_in_place=place == path), metadata)

    def _state(self, metadata: Metadata, *, is_in_place: bool) -> tuple[CassetteState, str]:
        scenario = self._scenarios.get(metadata.scenario)
        if scenario is None:
            renamed = self._digests.get(metadata.sent_digest or "")
            now = f"; {renamed} sends the same" if renamed else ""
            return CassetteState.ORPHANED, f"there is no scenario {metadata.scenario}{now}"
        unplayed = self._why_unplayed(metadata) if is_in_place else _wrong_place(metadata)
        if unplayed is not None:
            return CassetteState.UNUSED, unplayed
        if not metadata.is_of(digest(scenario), sent_digest(scenario)):
            return CassetteState.STALE, "what the scenario sends has changed"
        model = self._cells[metadata.target, metadata.scenario, metadata.variant].target.model
        if metadata.model_requested != model:
            return CassetteState.STALE, f"the target's model is {model} now: harness record --force replaces it"
        old = self._outdated and self._outdated.too_old(metadata.recorded_at)
        return (CassetteState.FRESH, "") if old is None else (CassetteState.OLD, old)

    def _why_unplayed(self, metadata: Metadata) -> str | None:
        """Return why no cell uses a cassette that is at the expected path, or `None` if a cell uses it."""
        if metadata.target not in self._targets:
            return f"the target {metadata.target} is not run"
        cell = self._cells.get((metadata.target, metadata.scenario, metadata.variant))
        return f"it is not run {_VARIANT_WORDS[metadata.variant]}" if cell is None else not_applicable(cell, "replay")


_VARIANT_WORDS: Mapping[Variant, str] = {"whole": "whole", "stream": "streamed"}


def _wrong_place(metadata: Metadata) -> str:
    variant = _VARIANT_WORDS[metadata.variant]
    return f"it is that of {metadata.scenario} on {metadata.target}, {variant}, and is stored elsewhere"
