"""What a cell is played on, and who makes it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, Self

from harness.apis.targets import Target
from harness.contract.protocols import Endpoint
from harness.results import Mode, Provenance
from harness.scenarios.schema import Scenario, Variant
from harness.tape.player import Keep, Player, Tap
from harness.tape.redact import Redactor
from harness.tape.transport import Handler


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to play: a scenario, a target, whole or streamed."""

    scenario: Scenario
    target: Target
    variant: Variant


@dataclass(frozen=True, slots=True)
class Stage:
    """What a cell is played on.

    `scripted`: the answers follow the scenario's script. `stale`: what the scenario sends has changed since they were
    recorded. `recorded_by`: the adapter that recorded them. `too_old`: what is to be said if they are older than they
    may be.
    """

    endpoint: Endpoint
    tap: Tap
    scripted: bool
    provenance: Provenance
    player: Player | None = None
    stale: bool = False
    recorded_by: str | None = None
    too_old: str | None = None


class Stages(Protocol):
    """Makes the stage of a cell; a context manager for what all stages of a run share."""

    mode: Mode

    def stage(self, cell: Cell, keep: Keep | None = None) -> AbstractContextManager[Stage]:
        """The stage of one cell. `keep` gets every exchange before its response is handed on, and may have answers
        already.

        Raises:
            CassetteMissing, CassetteError: there is nothing to play, or it cannot be read.
            MissingKey: a provider is to be asked, and there is no key for it.
        """
        ...

    def endpoint(self, target: Target, handler: Handler) -> AbstractContextManager[Endpoint]:
        """An endpoint for a target's adapter at which `handler` answers, whatever the mode: to tell an answer again."""
        ...

    def provenance(self, target: Target) -> Provenance:
        """Where answers for a target come from where they are not played from a cassette, which says so itself."""
        ...

    def redactor(self) -> Redactor:
        """What takes out of recordings and results what must reach no disk."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exception: object) -> None: ...
