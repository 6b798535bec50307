"""What is said of an exception that nobody meant to raise: its text, the line to look at, its traceback."""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeAlias

from harness.contract import errors
from harness.contract.errors import ChatError, MalformedResponse

TEXT_LENGTH = 2000
"""Characters that are kept of what an exception says."""

_NOTE = 60
"""Room for what stands in the middle in place of the rest."""


def shortened(text: str, length: int = TEXT_LENGTH) -> str:
    """The text if it has at most `length` characters; else its two ends, with how much is missing between them.

    It is never longer than `length`, so that shortening it again changes nothing.
    """
    if len(text) <= length:
        return text
    half = (length - _NOTE) // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters are left out ...] {text[-half:]}"


TRACEBACK_LENGTH = 8000
"""Characters that are kept of a traceback."""

_OURS = f"{Path(__file__).parent.parent}{os.sep}"
_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
_PYTHON = (*(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")), "<")  # "<": code without a file

_BRIDGE = "harness.bridge"

_Owner: TypeAlias = Literal["adapter", "bridge", "library"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of an exception: who raised it (`the library litellm`, `the wrapper`, `the bridge`, `the adapter`),
    its class, its text, and the line as ` (file.py, line 3)`."""

    raiser: str
    error: str
    text: str
    line: str


@dataclass
class Relayed(Exception):
    """An exception that an adapter raised in another process. `where` is the line that `located` shows."""

    name: str
    text: str
    where: str
    traceback: str
    origin: Origin

    def __str__(self) -> str:
        return self.text


def class_of(error: BaseException) -> str:
    """Return the class of `harness.contract.errors` that an exception is of, as an adapter's own subclass is, or else
    its own class."""
    if isinstance(error, Relayed):
        return error.name
    kinds = type(error).__mro__
    return next((kind for kind in kinds if kind.__module__ == errors.__name__), kinds[0]).__name__


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
    if isinstance(error, Relayed):
        return error.where
    frames = traceback.extract_tb(error.__traceback__)
    return place([(frame.filename, frame.lineno or 0) for frame in frames])


def named(error: BaseException) -> str:
    """The class of an exception, what `located` shows of it, and nothing between them if it has no text."""
    text = said(error)
    return f"{class_of(error)}{text and ': '}{text.rstrip('.')}{where(error)}"


def place(frames: Sequence[tuple[str, int]]) -> str:
    """Which of these lines, the last call last, is the one to look at: ` (file.py, line 3)`, or nothing."""
    others = [frame for frame in frames if not frame[0].startswith(_OURS)]
    installed = [frame for frame in others if _is_installed(frame[0])]
    own = [frame for frame in others if frame not in installed and not frame[0].startswith(_PYTHON)]
    for filename, line in [*own[-1:], *installed[-1:]]:
        return f" ({_shown(filename)}, line {line})"
    return ""


def origin(error: BaseException) -> Origin:
    """Read off the traceback of an exception who raised it, and in which line; of a library's the call as well."""
    if isinstance(error, Relayed):
        return error.origin
    frames = traceback.walk_tb(error.__traceback__)
    calls = [(_owner(each.f_code.co_filename), each.f_code.co_filename, line, each) for each, line in frames]
    known = [call for call in calls if call[0] is not None]
    if not known:
        return Origin("the adapter", type(error).__name__, said(error), "")
    owner, filename, number, frame = known[-1]
    line = f"{_shown(filename)}, line {number}"
    match owner:
        case "library":
            callers = [at for at, call in enumerate(known) if call[0] != "library"]
            raiser = f"the library {_package(known[callers[-1] + 1 if callers else 0][1])}"
            caller = next((at for at in reversed(callers) if known[at][0] == "adapter"), None)
            line = f"{_below_packages(filename)}, line {number}"
            line += "" if caller is None else f", called in {_shown(known[caller][1])}, line {known[caller][2]}"
        case "bridge":
            raiser = f"the bridge ({_BRIDGE})"
        case _:
            raiser = "the wrapper" if _is_wrapper(frame.f_globals) else "the adapter"
    return Origin(raiser, type(error).__name__, said(error), f" ({line})")


def root_origin(error: BaseException) -> Origin:
    """Return the origin of the exception from which an adapter made an error of the contract, or of that error."""
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
    """Return whether the code with these global names uses the bridge."""
    homes = (value.__name__ if isinstance(value, ModuleType) else _home(value) for value in names.values())
    return any(home == _BRIDGE or home.startswith(f"{_BRIDGE}.") for home in homes)


def _home(value: object) -> str:
    home = getattr(value, "__module__", None) if callable(value) else None
    return home if isinstance(home, str) else ""


def _package(filename: str) -> str:
    """The name under which the package of an installed file is imported."""
    below = _below_packages(filename)
    first, *rest = Path(below).parts
    is_namespace = len(rest) > 1 and not Path(filename.removesuffix(below), first, "__init__.py").exists()
    return f"{first}.{rest[0]}" if is_namespace else first.removesuffix(".py")


def traceback_of(error: BaseException) -> str:
    """The traceback of an exception, without more of its text than `said` keeps."""
    if isinstance(error, Relayed):
        return error.traceback
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


def _below_packages(filename: str) -> str:
    """The path of an installed file below the folder of packages."""
    folder = next((each for each in _INSTALLED if filename.startswith(each)), None)
    if folder is not None:
        return filename.removeprefix(folder)
    parts = Path(filename).parts
    return str(Path(*parts[max(at for at, part in enumerate(parts) if part.endswith("-packages")) + 1 :]))


def _shown(filename: str) -> str:
    """A file by its path below the working directory, if it lies there."""
    path = Path(filename)
    try:
        here = Path.cwd()
    except OSError:  # the folder is gone
        return filename
    return str(path.relative_to(here)) if path.is_relative_to(here) else filename
