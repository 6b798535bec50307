"""What is said of an exception that nobody meant to raise: its text, the line to look at, its traceback."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness.host.shortened import shortened

TRACEBACK_LENGTH = 8000
"""Characters that are kept of a traceback."""

_OURS = f"{Path(__file__).parent.parent}{os.sep}"
_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
_PYTHON = (*(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")), "<")  # "<": code without a file


def said(error: BaseException) -> str:
    """The text of an exception, whatever its own `__str__` does."""
    try:
        return shortened(str(error))
    except Exception as failed:  # noqa: BLE001 - it is somebody else's
        return f"(its text cannot be had: {type(failed).__name__})"


def located(error: BaseException) -> str:
    """The text of an exception, with the last line that it came from outside of installed packages, where an adapter's
    author has to look; or, where there is none, with the last one of an installed package."""
    return said(error) + where(error)


def where(error: BaseException) -> str:
    """The line that `located` shows, as ` (file.py, line 3)`, or nothing."""
    frames = traceback.extract_tb(error.__traceback__)
    return place([(frame.filename, frame.lineno or 0) for frame in frames])


def named(error: BaseException) -> str:
    """The class of an exception, what `located` shows of it, and nothing between them if it has no text."""
    text = said(error)
    return f"{type(error).__name__}{text and ': '}{text.rstrip('.')}{where(error)}"


def place(frames: Sequence[tuple[str, int]]) -> str:
    """Which of these lines, the last call last, is the one to look at: ` (file.py, line 3)`, or nothing."""
    others = [frame for frame in frames if not frame[0].startswith(_OURS)]
    installed = [frame for frame in others if _is_installed(frame[0])]
    own = [frame for frame in others if frame not in installed and not frame[0].startswith(_PYTHON)]
    for filename, line in [*own[-1:], *installed[-1:]]:
        return f" ({_shown(filename)}, line {line})"
    return ""


def traceback_of(error: BaseException) -> str:
    """The traceback of an exception, without more of its text than `said` keeps."""
    causes: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = "".join(traceback.format_tb(current.__traceback__))
        causes.append(f"Traceback (most recent call last):\n{frames}{type(current).__name__}: {said(current)}\n")
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return shortened("\nwhich led to:\n\n".join(reversed(causes)), TRACEBACK_LENGTH)


def _is_installed(filename: str) -> bool:
    return filename.startswith(_INSTALLED) or not {"site-packages", "dist-packages"}.isdisjoint(Path(filename).parts)


def _shown(filename: str) -> str:
    """A file by its path below the working directory, if it lies there."""
    path = Path(filename)
    try:
        here = Path.cwd()
    except OSError:  # the folder is gone
        return filename
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename
