"""What a scenario file says at a glance, where reading thousands of them for one would take long."""

from __future__ import annotations

import re
from pathlib import Path

_COVERS = re.compile(rb"^covers:[ ]*\[([a-z, -]*)\][ ]*\r?$", re.MULTILINE)
_KEY = re.compile(rb"^covers\b|^[\"'{?]", re.MULTILINE)
"""A line that may say it: a key of the file stands at the head of a line, unless all of the file is a flow mapping."""


def covers(file: Path) -> list[str] | None:
    """The subjects of a scenario, where they stand in one line as they mostly do; `None`: who wants to know has to read
    the file."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    said = _COVERS.findall(data)
    if len(said) != 1 or len(_KEY.findall(data)) != 1:
        return None
    return [word.strip().decode() for word in said[0].split(b",")]
