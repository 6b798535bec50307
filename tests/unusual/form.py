"""A correct but unusual adapter, and a broken one next to it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from zlib import crc32

from harness.model.protocols import Capability
from harness.results import Verdict
from harness.scenarios.schema import Variant
from tests.broken.fault import Wrap, is_same_on_every_wire


@dataclass(frozen=True, slots=True)
class Form:
    """An unusual form of a request or a response that is correct, and a real change that looks like it.

    `equal` makes a shipped adapter use the form, `changed` makes it wrong, which `rule` catches. `verdict` and `notes`
    are the verdict and the rules of the equal form, `replayed` the rules that only a replay adds. The equal form's
    adapter does not declare `lacks`; both adapters declare `has`.
    """

    name: str
    scenario: str
    targets: tuple[str, ...]
    equal: Wrap
    changed: Wrap
    rule: str
    verdict: Verdict = Verdict.PASS
    notes: AbstractSet[str] = frozenset()
    variant: Variant = "whole"
    replayed: AbstractSet[str] = frozenset()
    lacks: Capability | None = None
    has: Capability | None = None

    @property
    def played_on(self) -> tuple[str, ...]:
        """All targets for a form of a wire; one, by its name, for a form that is the same on every wire."""
        if not (is_same_on_every_wire(self.equal) and is_same_on_every_wire(self.changed)):
            return self.targets
        return (self.targets[crc32(self.name.encode()) % len(self.targets)],)
