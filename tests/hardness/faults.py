"""Faults of one step of a recording: a failing disk, or a signal.

`python -m tests.hardness.faults STEP OCCURRENCE HAPPENS WORD…` runs `harness WORD…`. From its OCCURRENCE on (0 is the
first), the step fails with an error of `NUMBERS`; or, at that one, the process gets a signal (its number).
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS: dict[str, tuple[str, str]] = {
    "mkdir of the cassettes": ("mkdir", r"(?:.*/)?cassettes/steps-\d+"),
    **{f"{call} of the journal": (call, r".*\.journal") for call in ("open", "write", "fsync", "unlink")},
    **{f"{call} of the cassette": (call, r".*\.yaml\.\w+\.tmp") for call in ("open", "write", "fsync")},
    "rename of the cassette": ("replace", r".*\.yaml\.\w+\.tmp"),
    **{f"{call} of the report": (call, r".*run\.json\.\w+\.tmp") for call in ("open", "write")},
    "rename of the report": ("replace", r".*run\.json\.\w+\.tmp"),
}
"""Each as the function of `os` that does it, and the file that it does it to."""

NUMBERS = {name: getattr(errno, name) for name in ("ENOSPC", "EIO", "EACCES", "EROFS")}


def befall(step: str, occurrence: int, happens: str) -> None:
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


if __name__ == "__main__":
    from harness.cli.main import main

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores Ctrl-C
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and `nohup` ignores this
    befall(sys.argv[1], int(sys.argv[2]), sys.argv[3])
    sys.exit(main(sys.argv[4:]))
