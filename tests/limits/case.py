"""What commits a limit: a scenario, the target that plays it, and an edit of what the shipped adapter sends."""

from __future__ import annotations

from dataclasses import dataclass

from tests.limits.edits import Edit


@dataclass(frozen=True, slots=True)
class Case:
    """`model` replaces the target's own, for limits of another generation. `also` are limits that nobody can keep who
    breaks this one. `severity` is that of the finding where the model or the server makes it another."""

    limit: str
    edit: Edit
    scenario: str
    target: str
    model: str | None = None
    also: tuple[str, ...] = ()
    severity: str | None = None


PARALLEL = "call-parallel-same-tool"
"""Two calls of one tool, answered in the second request."""

PLAIN = "system-plain"
"""One question under a system prompt, without tools."""

BARE = "system-absent"
"""One question, and nothing else."""

SCHEMA = "json-schema"
"""An answer by a schema."""

THINKING = "thinking-tool-loop"
"""A call with thinking before it, answered in the second request."""

EMBEDDED = "seeds-code-search-embeddings"
"""Texts turned into vectors."""
