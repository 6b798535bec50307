"""What befalls a process at one step of a recording: a failing disk, or a signal."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS: dict[str, tuple[str, str]] = {
    "mkdir of the cassettes": ("mkdir", r"(?:.*/)?cassettes/steps-\d+"),
    "open of the journal": ("open", r".*\.journal"),
    "write of the journal": ("write", r".*\.journal"),
    "fsync of the journal": ("fsync", r".*\.journal"),
    "unlink of the journal": ("unlink", r".*\.journal"),
    "open of the cassette": ("open", r".*\.yaml\.\w+\.tmp"),
    "write of the cassette": ("write", r".*\.yaml\.\w+\.tmp"),
    "fsync of the cassette": ("fsync", r".*\.yaml\.\w+\.tmp"),
    "rename of the cassette": ("replace", r".*\.yaml\.\w+\.tmp"),
    "open of the report": ("open", r".*run\.json\.\w+\.tmp"),
    "write of the report": ("write", r".*run\.json\.\w+\.tmp"),
    "rename of the report": ("replace", r".*run\.json\.\w+\.tmp"),
}
"""Each as the function of `os` that does it, and the file that it does it to."""

NUMBERS = {name: getattr(errno, name) for name in ("ENOSPC", "EIO", "EACCES", "EROFS")}


def befall(step: str, occurrence: int, happens: str) -> None:
    """From its `occurrence` on (0 is the first), the step fails with an error of `NUMBERS`; or, at that one, this
    process gets a signal (its number)."""
    name, pattern = STEPS[step]
    real: Callable[..., Any] = getattr(os, name)
    met = -1

    def instead(target: Any, *rest: Any, **named: Any) -> Any:
        nonlocal met
        if re.fullmatch(pattern, _name(target)):
            met += 1
            if happens in NUMBERS and met >= occurrence:
                raise OSError(NUMBERS[happens], os.strerror(NUMBERS[happens]), str(target))
            if happens not in NUMBERS and met == occurrence:
                os.kill(os.getpid(), int(happens))
        return real(target, *rest, **named)

    setattr(os, name, instead)


def _name(target: Any) -> str:
    if isinstance(target, int):
        try:
            return str(Path(f"/proc/self/fd/{target}").readlink())
        except OSError:
            return ""
    return str(target)
