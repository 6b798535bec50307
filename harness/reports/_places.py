"""Where in a repository something shows: the file of a scenario, and the line of the turn."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from harness.results import Definition, Finding, Presentation, RunResult


@dataclass(frozen=True, slots=True)
class Spot:
    """A file of the repository, with slashes, and a line in it from 1."""

    file: str
    line: int


def spot(run: RunResult, presentation: Presentation, scenario: str, finding: Finding | None = None) -> Spot | None:
    """The line of the user turn in whose course a finding shows, or of the scenario's id.

    `None` of a scenario that is no file of the repository: it ships with harness, or lies elsewhere. In an audit it is
    the recording's file.
    """
    definition = run.definitions.get(scenario, Definition("", file=scenario if run.audit is not None else None))
    file = definition.file and within(definition.file, presentation.root)
    return Spot(file, definition.line_of(finding and finding.turn) or 1) if file else None


def within(file: str, root: str) -> str | None:
    """A file as it is named from the top of the repository, with slashes; `None` if it lies elsewhere. Without a root
    it is named as it was."""
    if root:
        file = os.path.relpath(os.path.realpath(file), os.path.realpath(root))
        if Path(file).parts[0] == os.pardir:
            return None
    return Path(os.path.normpath(file)).as_posix()
