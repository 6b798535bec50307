"""`harness run --watch`: plays again whenever a file of the run is saved, until Ctrl-C.

Each play is a process of its own, so that nothing of an adapter, of a rule or of a file is left from the one before.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.cli import streams
from harness.cli.interruption import interruptible
from harness.cli.options import Options
from harness.cli.settings import completed
from harness.cli.watched import Snapshot, Watched, changed, counted
from harness.contract.errors import HarnessError, UsageError
from harness.reports._words import count, listed
from harness.results import Mode

_INTERVAL = 0.3
"""Seconds between two looks at the files; what changes is played once it has not changed for as long."""

_SHARE = 0.03
"""Of the processor's time, at most, for looking: thousands of cassettes are looked at less often."""

_ENDING = 5.0
"""Seconds that a play has to end by itself, after Ctrl-C has reached it as well."""

_NAMED = 3
_INTERRUPTED = 130


def watch(options: Options, mode: Mode) -> int:
    """Play, and play again, until somebody interrupts it; returns the exit code of the last play.

    Raises:
        UsageError: an option is wrong, or the run would ask a provider at each save.
    """
    if mode == "live":
        raise UsageError("--watch: it would ask the provider again at each save. Leave it out, or --mode live.")
    watched = _watched(options, mode)
    wanted, code = options, 0
    with interruptible():
        try:
            while True:
                before = watched.snapshot()
                code = _played(wanted, mode)
                if code == _INTERRUPTED:
                    return code
                told = ", ".join(count(number, kind) for kind, number in counted(watched).items() if number)
                streams.tell(f"-- watching {told}; Ctrl-C ends")
                after = _changed(watched, before)
                meant = watched.meant(before, after)
                _tell(changed(before, after), meant)
                wanted = options if meant is None else replace(options, paths=meant)
                watched = _again(options, mode, watched)
        except KeyboardInterrupt:
            return code


def _watched(options: Options, mode: Mode) -> Watched:
    return Watched.of(completed(options, mode), replay=mode == "replay")


def _again(options: Options, mode: Mode, watched: Watched) -> Watched:
    """What is to be watched from now on: settings may have changed. While they are wrong, what was before."""
    try:
        return _watched(options, mode)
    except HarnessError:  # the play says what is wrong
        return watched


def _changed(watched: Watched, before: Snapshot) -> Snapshot:
    """The files once some have changed, and no more do: an editor writes several, or one in several steps."""
    last, took = before, 0.0
    while True:
        time.sleep(max(_INTERVAL, took / _SHARE))
        begun = time.process_time()
        now = watched.snapshot()
        took = time.process_time() - begun
        if now != before and now == last:
            return now
        last = now


def _tell(files: Sequence[Path], meant: Sequence[str] | None) -> None:
    named = listed([str(file) for file in files], _NAMED)
    what = "all is played again" if meant is None else f"only {listed([*meant], _NAMED)}"
    streams.tell(f"-- {named} changed: {what}")


def _played(options: Options, mode: Mode) -> int:
    """Play in a fresh process, and return its exit code."""
    process = multiprocessing.get_context("spawn").Process(target=_play, args=(options, mode))
    process.start()
    try:
        process.join()
    except KeyboardInterrupt:
        process.join(_ENDING)
        process.terminate()  # a signal that only this process got has not reached it
        process.join()
        return _INTERRUPTED
    return process.exitcode or 0


def _play(options: Options, mode: Mode) -> None:
    from harness.cli import session  # noqa: PLC0415 - it is another process that needs it

    try:
        code = session.run(options, mode)
    except HarnessError as error:
        streams.tell(f"harness: {' '.join(str(error).split())}")
        code = 2
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except OSError as error:
        code = streams.fail(error)
    sys.exit(code)
