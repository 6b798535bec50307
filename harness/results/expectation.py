"""What is expected to fail, in the words of results."""

from __future__ import annotations

from dataclasses import dataclass

from harness.scenarios.schema import Variant


@dataclass(frozen=True, slots=True)
class StaleExpectation:
    """An entry of expected failures that is true of nothing, in the one variant that it speaks of (`None`: in any).

    Its failure did not happen in cells that were played; or, in `RunResult.unmatched`, it names no cell of the run.
    """

    scenario: str
    target: str
    rule: str
    reason: str
    variant: Variant | None = None
