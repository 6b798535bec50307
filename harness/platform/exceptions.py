"""Descriptions of unexpected exceptions: text, origin, line and traceback."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

from harness.model import errors
from harness.model.errors import ChatError, MalformedResponse

MAX_TEXT_CHARACTERS = 2000

_NOTE_CHARACTERS = 60


def shorten(text: str, length: int = MAX_TEXT_CHARACTERS) -> str:
    """Return the text, or its two ends with a note between them if it has more than `length` characters.

    The result is never longer than `length`, so that shortening it again changes nothing.
    """
    if len(text) <= length:
        return text
    half = (length - _NOTE_CHARACTERS) // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters are left out ...] {text[-half:]}"


MAX_TRACEBACK_CHARACTERS = 8000

_OURS = f"{Path(__file__).parent.parent}{os.sep}"
_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
_PYTHON = (*(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")), "<")  # "<": code without a file

_BRIDGE = "harness.bridge"

_Owner: TypeAlias = Literal["adapter", "bridge", "library"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an exception: the raiser (`the library litellm`, `the wrapper`, `the bridge`, `the adapter`), its
    class, its text, and the line as ` (file.py, line 3)`."""

    raiser: str
    error: str
    text: str
    line: str


@dataclass
class Relayed(Exception):
    """An exception that an adapter raised in another process. `where` is the line that `text_with_line` shows."""

    name: str
    text: str
    where: str
    traceback: str
    origin: Origin

    def __str__(self) -> str:
        return self.text


def class_name(error: BaseException) -> str:
    """Return the class of `harness.model.errors` that the exception derives from, or else its own class."""
    if isinstance(error, Relayed):
        return error.name
    kinds = type(error).__mro__
    return next((kind for kind in kinds if kind.__module__ == errors.__name__), kinds[0]).__name__


def exception_text(error: BaseException) -> str:
    """Return the text of an exception, even if its `__str__` fails."""
    try:
        return shorten(str(error))
    except Exception as failed:  # noqa: BLE001 - foreign code
        return f"(its text cannot be had: {type(failed).__name__})"


def text_with_line(error: BaseException) -> str:
    """Return the text of an exception with the last line outside installed packages, where an adapter's author has to
    look; else with the last line of an installed package."""
    return exception_text(error) + source_line(error)


def source_line(error: BaseException) -> str:
    """Return the line that `text_with_line` shows, as ` (file.py, line 3)`, or nothing."""
    if isinstance(error, Relayed):
        return error.where
    frames = traceback.extract_tb(error.__traceback__)
    return line_to_show([(frame.filename, frame.lineno or 0) for frame in frames])


def exception_summary(error: BaseException) -> str:
    """Return the class of an exception and its text with the line."""
    text = exception_text(error)
    return f"{class_name(error)}{text and ': '}{text.rstrip('.')}{source_line(error)}"


def line_to_show(frames: Sequence[tuple[str, int]]) -> str:
    """Return the line to look at, of frames with the last call last: ` (file.py, line 3)`, or nothing."""
    others = [frame for frame in frames if not frame[0].startswith(_OURS)]
    installed = [frame for frame in others if _is_installed(frame[0])]
    own = [frame for frame in others if frame not in installed and not frame[0].startswith(_PYTHON)]
    for filename, line in [*own[-1:], *installed[-1:]]:
        return f" ({_relative(filename)}, line {line})"
    return ""


def origin(error: BaseException) -> Origin:
    """Return the raiser of an exception and the line, by its traceback; for a library also the call."""
    if isinstance(error, Relayed):
        return error.origin
    frames = traceback.walk_tb(error.__traceback__)
    calls = [(_owner(each.f_code.co_filename), each.f_code.co_filename, line, each) for each, line in frames]
    known = [call for call in calls if call[0] is not None]
    if not known:
        return Origin("the adapter", type(error).__name__, exception_text(error), "")
    owner, filename, number, frame = known[-1]
    line = f"{_relative(filename)}, line {number}"
    match owner:
        case "library":
            callers = [at for at, call in enumerate(known) if call[0] != "library"]
            raiser = f"the library {_package(known[callers[-1] + 1 if callers else 0][1])}"
            caller = next((at for at in reversed(callers) if known[at][0] == "adapter"), None)
            line = f"{_below_packages(filename)}, line {number}"
            line += "" if caller is None else f", called in {_relative(known[caller][1])}, line {known[caller][2]}"
        case "bridge":
            raiser = f"the bridge ({_BRIDGE})"
        case _:
            raiser = "the wrapper" if _is_wrapper(frame.f_globals) else "the adapter"
    return Origin(raiser, type(error).__name__, exception_text(error), f" ({line})")


def root_origin(error: BaseException) -> Origin:
    """Return the origin of the exception that caused an error of the contract, or of that error itself."""
    first = error
    while isinstance(first, ChatError):
        cause = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if cause is None:
            break
        first = cause
    found = origin(first)
    return replace(found, text=first.reason) if isinstance(first, MalformedResponse) else found


def _owner(filename: str) -> _Owner | None:
    """Return the owner of a file's code; `None` for Python's own and the rest of harness."""
    if filename.startswith(_OURS):
        folder = Path(filename).relative_to(_OURS).parts[0]
        return "bridge" if folder == "bridge" else "adapter" if folder == "adapters" else None
    if _is_installed(filename):
        return "library"
    return None if filename.startswith(_PYTHON) else "adapter"


def _is_wrapper(names: dict[str, Any]) -> bool:
    homes = (value.__name__ if isinstance(value, ModuleType) else _home(value) for value in names.values())
    return any(home == _BRIDGE or home.startswith(f"{_BRIDGE}.") for home in homes)


def _home(value: object) -> str:
    home = getattr(value, "__module__", None) if callable(value) else None
    return home if isinstance(home, str) else ""


def _package(filename: str) -> str:
    """Return the import name of the package of an installed file."""
    below = _below_packages(filename)
    first, *rest = Path(below).parts
    is_namespace = len(rest) > 1 and not Path(filename.removesuffix(below), first, "__init__.py").exists()
    return f"{first}.{rest[0]}" if is_namespace else first.removesuffix(".py")


def traceback_text(error: BaseException) -> str:
    """Return the shortened traceback of an exception and its causes."""
    if isinstance(error, Relayed):
        return error.traceback
    causes: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = "".join(traceback.format_tb(current.__traceback__))
        causes.append(
            f"Traceback (most recent call last):\n{frames}{type(current).__name__}: {exception_text(current)}\n"
        )
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return shorten("\nwhich led to:\n\n".join(reversed(causes)), MAX_TRACEBACK_CHARACTERS)


def _is_installed(filename: str) -> bool:
    return filename.startswith(_INSTALLED) or not {"site-packages", "dist-packages"}.isdisjoint(Path(filename).parts)


def _below_packages(filename: str) -> str:
    folder = next((each for each in _INSTALLED if filename.startswith(each)), None)
    if folder is not None:
        return filename.removeprefix(folder)
    parts = Path(filename).parts
    return str(Path(*parts[max(at for at, part in enumerate(parts) if part.endswith("-packages")) + 1 :]))


def _relative(filename: str) -> str:
    path = Path(filename)
    try:
        here = Path.cwd()
    except OSError:  # the folder is gone
        return filename
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename
