"""What is wrong with a scenario, and where."""

from __future__ import annotations

from dataclasses import dataclass

from harness.scenarios.document import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a path of the file; `reason` is a sentence."""

    path: Path
    reason: str
