"""Models: one under several names."""

from __future__ import annotations

import re

_DATED = re.compile(r"([-@](\d{8}|\d{4}-\d{2}-\d{2})|-\d{3}|-preview-\d{2}-\d{2}(\d{2})?)?")
"""What the APIs put behind an alias: `-20250929`, `-2026-03-05`, Vertex's `@20250929`, Gemini's `-001`."""


def is_named(sent: str, wanted: str) -> bool:
    """The name on the wire is that of the wanted model: the same, in its collection (`models/…`), or the dated name for
    which an alias stands. The other way round a version that somebody chose is lost."""
    name = sent.rpartition("models/")[2]
    return name.startswith(wanted) and _DATED.fullmatch(name.removeprefix(wanted)) is not None
