"""From cassettes, with the network shut."""

from __future__ import annotations

from collections.abc import Container, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from harness import catalog
from harness.apis.api import Api
from harness.contract.errors import CassetteMissing
from harness.contract.protocols import Capability
from harness.reference.session import Session
from harness.results import Mode, Provenance
from harness.rules.failures import failed
from harness.running.stages.routes import Answering, Offline
from harness.running.stages.stage import Cell, Stage
from harness.scenarios import suite
from harness.scenarios.load import digest, sent_digest
from harness.scenarios.schema import Scenario
from harness.tape.cassette import REFERENCE_URL, Cassette, Metadata
from harness.tape.library import Library
from harness.tape.player import Keep, Player, Tap, Telling, as_asked
from harness.tape.redact import Redactor
from harness.tape.redact.address import origin
from harness.tape.survey import Outdated
from harness.tape.transport import Handler, replaying


class Replay(Offline):
    """From cassettes, with the network shut. The first of `libraries` that has a cell's cassette is played.

    Scenarios of one's `own`, by their ids, play no shipped cassette: one that is named like a shipped one is another.
    `outdated` says which cassettes are too old.
    """

    mode: Mode = "replay"

    def __init__(
        self, libraries: Sequence[Library], own: Container[str] = (), outdated: Outdated | None = None
    ) -> None:
        super().__init__()
        self._outdated = outdated
        self._libraries = libraries
        self._own = own
        self._last: tuple[Scenario | None, str] = None, ""
        self._shipped = suite.shipped("cassettes") if len(libraries) > 1 else None  # alone, they were asked for by name

    @contextmanager
    def stage(self, cell: Cell, keep: Keep | None = None) -> Generator[Stage, None, None]:
        """See `Stages.stage`."""
        cassette = self._cassette(cell)
        metadata = cassette.metadata
        assert metadata is not None  # noqa: S101 - Library.load gives no other
        wire = catalog.api(cell.target.api)
        retries = Capability.RETRIES in cell.target.adapter.capabilities and cell.scenario.embeddings is None
        player = Player(cassette, partial(failed, wire) if retries else None)
        unchanged = metadata.scenario_digest == self._digest(cell.scenario)
        stale = not unchanged and not self._is_of(metadata, cell.scenario)
        scripted = metadata.origin == "reference" and (unchanged or stale or _follows_script(cassette, cell))
        url = (REFERENCE_URL if metadata.origin == "reference" else _origin(cassette)) + wire.base_path
        end = _Played(player, as_asked(wire, cell.target.profile, cell.scenario.id))
        with self.reached(cell.target, end, url, keep) as (endpoint, tap):
            yield Stage(
                endpoint,
                tap,
                scripted=scripted,
                provenance=_told_by(cassette, metadata.provenance, wire),
                player=player,
                stale=stale,
                recorded_by=metadata.adapter,
                too_old=self._outdated and self._outdated.too_old(metadata.recorded_at),
            )

    def has(self, cell: Cell) -> bool:
        """Whether there is a cassette of what the scenario sends. Raises `CassetteError`."""
        try:
            metadata = self._cassette(cell).metadata
        except CassetteMissing:
            return False
        return metadata is not None and self._is_of(metadata, cell.scenario)

    def _is_of(self, metadata: Metadata, scenario: Scenario) -> bool:
        return metadata.is_of(self._digest(scenario), sent_digest(scenario))

    def _digest(self, scenario: Scenario) -> str:
        """The digest of a scenario: made once for its cells, which follow each other."""
        known, made = self._last
        if known is not scenario:
            made = digest(scenario)
            self._last = scenario, made
        return made

    def _cassette(self, cell: Cell) -> Cassette:
        missing: CassetteMissing | None = None
        for library in self._libraries:
            if cell.scenario.id in self._own and library.root == self._shipped:
                continue
            try:
                return library.load(cell.target.cassettes, cell.scenario.id, cell.variant)
            except CassetteMissing as error:
                missing = missing or error
        assert missing is not None  # noqa: S101 - there is always a library to look in
        raise missing


class _Played(Answering):
    """A cassette, each answer told as it is asked for."""

    def __init__(self, player: Player, told: Telling) -> None:
        self._player = player
        self._told = told

    def handler(self, tap: Tap) -> Handler:
        return replaying(self._player, tap, self._told)


def _follows_script(cassette: Cassette, cell: Cell) -> bool:
    """Whether the reference server would answer as it did: a scenario may have been edited in what is not sent."""
    session = Session(cell.scenario, catalog.api(cell.target.api), cell.target.model, cell.target.profile)
    stored = Redactor()
    return all(stored.response(session(each.request)) == each.response for each in cassette.interactions)


def _origin(cassette: Cassette) -> str:
    return origin(cassette.interactions[0].request.url) if cassette.interactions else REFERENCE_URL


def _told_by(cassette: Cassette, provenance: Provenance, wire: Api) -> Provenance:
    """Where a cassette comes from. Those of before `recorded_from` take every server for the provider."""
    address = _origin(cassette)
    if provenance.origin != "provider" or wire.is_provider(address):
        return provenance
    return replace(provenance, origin="server", recorded_from=address)
