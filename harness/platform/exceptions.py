"""Descriptions of unexpected exceptions: text, origin, line and traceback."""

from __future__ import annotations

import linecache
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
    """Shorten a text to at most `length` characters by replacing its middle with a note.

    Shortening the result again does not change it.
    """
    if len(text) <= length:
        return text
    half = (length - _NOTE_CHARACTERS) // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters are left out ...] {text[-half:]}"


MAX_TRACEBACK_CHARACTERS = 8000

_HARNESS_FOLDER = f"{Path(__file__).parent.parent}{os.sep}"
_WRAPPERS = f"{_HARNESS_FOLDER}wrappers{os.sep}"
_INSTALLED = tuple(sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib"))
_PYTHON = (*(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")), "<")  # "<": code without a file

_BRIDGE = "harness.bridge"

_Owner: TypeAlias = Literal["adapter", "bridge", "library"]


@dataclass(frozen=True, slots=True)
class ExceptionOrigin:
    """The place where an exception was raised.

    `raiser` is the responsible code: `the library litellm`, `the wrapper`, `the bridge` or `the adapter`. `error` is
    the exception's class and `text` its message. `line` is the source line, formatted as ` (file.py, line 3)`.
    """

    raiser: str
    error: str
    text: str
    line: str


@dataclass
class RelayedException(Exception):
    """An exception that an adapter raised in another process. `where` is the source line that
    `text_with_line` appends.
    """

    name: str
    text: str
    where: str
    traceback: str
    origin: ExceptionOrigin

    def __str__(self) -> str:
        return self.text


def class_name(error: BaseException) -> str:
    """Return the name of the exception's nearest class from `harness.model.errors`, or else of its own class."""
    if isinstance(error, RelayedException):
        return error.name
    kinds = type(error).__mro__
    return next((kind for kind in kinds if kind.__module__ == errors.__name__), kinds[0]).__name__


def exception_text(error: BaseException) -> str:
    """Return the message of an exception, even if its `__str__` raises."""
    try:
        return shorten(str(error))
    except Exception as failed:  # noqa: BLE001 - foreign code
        return f"(its text cannot be had: {type(failed).__name__})"


def text_with_line(error: BaseException) -> str:
    """Return the message of an exception with the source line that the adapter's author should look at.

    This is the last line outside installed packages, or else the last line in an installed package.
    """
    return exception_text(error) + source_line(error)


def source_line(error: BaseException) -> str:
    """Return the source line that `text_with_line` appends, formatted as ` (file.py, line 3)`, or an empty string."""
    if isinstance(error, RelayedException):
        return error.where
    frames = traceback.extract_tb(error.__traceback__)
    return line_to_show([(frame.filename, frame.lineno or 0) for frame in frames])


def exception_summary(error: BaseException) -> str:
    """Return the class of an exception, its message and the source line."""
    text = exception_text(error)
    return f"{class_name(error)}{text and ': '}{text.rstrip('.')}{source_line(error)}"


def line_to_show(frames: Sequence[tuple[str, int]]) -> str:
    """Return the source line to show, formatted as ` (file.py, line 3)`, or an empty string. The last of the `frames`
    is the innermost call.
    """
    others = [frame for frame in frames if not frame[0].startswith(_HARNESS_FOLDER) or frame[0].startswith(_WRAPPERS)]
    installed = [frame for frame in others if _is_installed(frame[0])]
    own = [frame for frame in others if frame not in installed and not frame[0].startswith(_PYTHON)]
    for filename, line in [*own[-1:], *installed[-1:]]:
        return f" ({_display_path(filename)}, line {line})"
    return ""


def _display_path(filename: str) -> str:
    """Return a path for display. Files of harness get the path from the package on. Other files get a relative path if
    they are inside the current folder.
    """
    return (
        str(Path(filename).relative_to(Path(_HARNESS_FOLDER).parent))
        if filename.startswith(_HARNESS_FOLDER)
        else _relative(filename)
    )


def origin(error: BaseException) -> ExceptionOrigin:
    """Return where an exception was raised, based on its traceback. For a library, the line includes the adapter's
    call.
    """
    if isinstance(error, RelayedException):
        return error.origin
    frames = traceback.walk_tb(error.__traceback__)
    calls = [(_owner(each.f_code.co_filename), each.f_code.co_filename, line, each) for each, line in frames]
    known = [call for call in calls if call[0] is not None]
    if not known:
        return ExceptionOrigin("the adapter", type(error).__name__, exception_text(error), "")
    owner, filename, number, frame = known[-1]
    line = f"{_display_path(filename)}, line {number}"
    match owner:
        case "library":
            callers = [at for at, call in enumerate(known) if call[0] != "library"]
            raiser = f"the library {_package(known[callers[-1] + 1 if callers else 0][1])}"
            caller = next((at for at in reversed(callers) if known[at][0] == "adapter"), None)
            line = f"{_below_packages(filename)}, line {number}"
            line += "" if caller is None else f", called in {_display_path(known[caller][1])}, line {known[caller][2]}"
        case "bridge":
            raiser = f"the bridge ({_BRIDGE})"
        case _:
            raiser = "the wrapper" if _is_wrapper(frame.f_globals) else "the adapter"
    return ExceptionOrigin(raiser, type(error).__name__, exception_text(error), f" ({line})")


def is_raised_on_purpose(error: BaseException) -> bool:
    """Return whether a `raise` statement of an adapter or a client raised an exception, without another one before."""
    frames = [*traceback.walk_tb(error.__traceback__)]
    if not frames or error.__cause__ is not None or error.__context__ is not None:
        return False
    frame, number = frames[-1]
    is_raised = linecache.getline(frame.f_code.co_filename, number).lstrip().startswith("raise ")
    return is_raised and origin(error).raiser in ("the adapter", "the wrapper")


def root_origin(error: BaseException) -> ExceptionOrigin:
    """Return the origin of the root cause of a `ChatError`, or of the exception itself if it has no cause."""
    first = error
    while isinstance(first, ChatError):
        cause = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if cause is None:
            break
        first = cause
    found = origin(first)
    return replace(found, text=first.reason) if isinstance(first, MalformedResponse) else found


def _owner(filename: str) -> _Owner | None:
    """Return who owns the code of a file, or `None` for Python's standard library and the rest of harness."""
    if filename.startswith(_HARNESS_FOLDER):
        folder = Path(filename).relative_to(_HARNESS_FOLDER).parts[0]
        return "bridge" if folder == "bridge" else "adapter" if folder in ("adapters", "wrappers") else None
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
    """Return the import name of the package that an installed file belongs to."""
    below = _below_packages(filename)
    first, *rest = Path(below).parts
    is_namespace = len(rest) > 1 and not Path(filename.removesuffix(below), first, "__init__.py").exists()
    return f"{first}.{rest[0]}" if is_namespace else first.removesuffix(".py")


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an exception and its causes, shortened."""
    if isinstance(error, RelayedException):
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
