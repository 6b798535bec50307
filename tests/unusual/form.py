"""What a right but unusual adapter is: a shipped one that tells the same in another form, and its broken neighbour."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.contract.protocols import Capability
from harness.results import Verdict
from harness.scenarios import suite
from harness.scenarios.schema import Variant
from tests.broken.fault import Wrap

SCENARIOS = Path(__file__).parent / "scenarios"


@dataclass(frozen=True, slots=True)
class Form:
    """An equal form of a request, the scenario that shows it, and a real change right next to it.

    `alarm` is the false alarm that it stands for. `verdict` is that of the equal form, by `notes` if it is a note;
    `rule` catches the change. `targets` are those on which the form can be expressed, `variant` is how the cell is
    played, and `replayed` what replay alone notes. The equal form's adapter does not declare what it `lacks`;
    what the form `has` both adapters declare, beside what the shipped one does.
    """

    name: str
    alarm: str
    scenario: str
    targets: tuple[str, ...]
    equal: Wrap
    changed: Wrap
    rule: str
    verdict: Verdict = Verdict.PASS
    notes: frozenset[str] = frozenset()
    variant: Variant = "whole"
    replayed: frozenset[str] = frozenset()
    lacks: Capability | None = None
    has: Capability | None = None

    @property
    def path(self) -> Path:
        """The scenario's file: one of our own, or a shipped one."""
        own = SCENARIOS / f"{self.scenario}.yaml"
        return own if own.exists() else suite.shipped("scenarios") / f"{self.scenario}.yaml"
