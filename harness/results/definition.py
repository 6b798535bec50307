"""Where a scenario is written, and what it asks of a target: for reports that lead back to it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Definition:
    """A scenario of a run.

    `digest` is the beginning of the SHA-256 of what its file says: under another one something else was asked.
    `requires` are the capabilities and `provocations` the provocations that it names. `file` is its file, as it was
    named; scenarios that ship with harness have none, since it is no file of whoever plays them. `line` is that of its
    id, and `turns` those of its user turns; all lines count from 1.
    """

    digest: str
    requires: tuple[str, ...] = ()
    provocations: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    turns: tuple[int, ...] = ()

    def line_of(self, turn: int | None) -> int | None:
        """The line of a user turn, by its index; of the id, where there is no such turn."""
        return self.turns[turn] if turn is not None and 0 <= turn < len(self.turns) else self.line
