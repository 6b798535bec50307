"""Exceptions that the user's code raises in a trial. Its tools may hide them from the model."""

from __future__ import annotations

import json
import linecache
import os
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any

from harness.apis.jsonvalue import as_list, loads_or_none

FAILURES_FILE = "HARNESS_FAILURES"
"""Environment variable with the path of the file that exceptions are written to."""


@dataclass(frozen=True, slots=True)
class OwnFailure:
    """An exception with a text, at a time in seconds on a monotonic clock."""

    at: float
    text: str


@contextmanager
def recorded_failures(file: str | None) -> Generator[None]:
    """Write exceptions of the code below the working folder to a file. Without a file, do nothing.

    An exception counts if a `raise` statement gives it a sentence, or if it leaves a function of that code for another
    one. Others may be handled where they occur, as part of an algorithm.
    """
    if file is None:
        yield
        return
    with Path(file).open("a", encoding="utf-8") as written:
        recorder = _Recorder(written, f"{Path.cwd()}{os.sep}")
        sys.settrace(recorder.begin)
        threading.settrace(recorder.begin)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type] - it takes None


def failures_in(file: Path) -> list[OwnFailure]:
    """Return the exceptions that were written to a file. The last line may be cut if the program was stopped."""
    parsed = (loads_or_none(line) for line in file.read_text(encoding="utf-8").splitlines())
    return [OwnFailure(float(str(at)), str(text)) for at, text in filter(None, map(as_list, parsed))]


class _Recorder:
    """Trace functions that record exceptions of the user's code."""

    def __init__(self, written: IO[str], folder: str) -> None:
        self._written, self._folder = written, folder
        self._known: dict[str, bool] = {}
        self._last: object = None

    def begin(self, frame: FrameType, event: str, argument: object) -> Any:
        """Return the trace function of a call, or `None` if its code is not the user's."""
        del event, argument
        file = frame.f_code.co_filename
        if file not in self._known:
            self._known[file] = file.startswith(self._folder) and "site-packages" not in file
        if not self._known[file]:
            return None
        frame.f_trace_lines = False
        return self._note

    def _note(self, _frame: FrameType, event: str, argument: Any) -> Any:
        if event == "exception":
            _, raised, traceback = argument
            with suppress(Exception):  # the user's exception may have no text
                if raised is not self._last and traceback is not None and self._counts(raised, traceback):
                    self._last = raised
                    text = str(raised) if " " in str(raised) else f"{type(raised).__name__}: {raised}"
                    self._written.write(f"{json.dumps([time.monotonic(), text])}\n")
                    self._written.flush()
        return self._note

    def _counts(self, raised: BaseException, traceback: TracebackType) -> bool:
        if traceback.tb_next is not None:
            return self._known.get(traceback.tb_next.tb_frame.f_code.co_filename, False)
        line = linecache.getline(traceback.tb_frame.f_code.co_filename, traceback.tb_lineno)
        return line.lstrip().startswith("raise ") and " " in str(raised)
