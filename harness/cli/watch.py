"""`harness run --watch`: plays again whenever a file of the run is saved, until Ctrl-C.

Each play is a process of its own, so that nothing of an adapter, of a rule or of a file is left from the one before.
"""

from __future__ import annotations

import importlib.machinery
import multiprocessing
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeAlias

from harness.catalog import COMMAND_PREFIX
from harness.cli import streams
from harness.cli.options import Options
from harness.cli.settings import completed
from harness.cli.standing import interruptible
from harness.contract.errors import HarnessError, UsageError
from harness.host.project import project
from harness.reports.words import count, listed
from harness.results import Mode
from harness.scenarios import suite
from harness.scenarios.load import SUFFIXES, scenario_files

_INTERVAL = 0.3
"""Seconds between two looks at the files; what changes is played once it has not changed for as long."""

_SHARE = 0.03
"""Of the processor's time, at most, for looking: thousands of cassettes are looked at less often."""

_ENDING = 5.0
"""Seconds that a play has to end by itself, after Ctrl-C has reached it as well."""

_NAMED = 3
_INTERRUPTED = 130


def watch(options: Options, mode: Mode, play: Play) -> int:
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
                code = _played(wanted, mode, play)
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


def _played(options: Options, mode: Mode, play: Play) -> int:
    """Play in a fresh process, and return its exit code."""
    process = multiprocessing.get_context("spawn").Process(target=_play, args=(options, mode, play))
    process.start()
    try:
        process.join()
    except KeyboardInterrupt:
        process.join(_ENDING)
        process.terminate()  # a signal that only this process got has not reached it
        process.join()
        return _INTERRUPTED
    return process.exitcode or 0


def _play(options: Options, mode: Mode, play: Play) -> None:
    try:
        code = play(options, mode)
    except HarnessError as error:
        streams.tell(f"harness: {' '.join(str(error).split())}")
        code = 2
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except OSError as error:
        code = streams.fail(error)
    sys.exit(code)


Play: TypeAlias = Callable[[Options, Mode], int]

Snapshot: TypeAlias = Mapping[Path, tuple[int, int]]
"""Each file with its time in nanoseconds and its size."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Files of a folder by their endings, and of those below it if it is `deep`."""

    path: Path
    endings: tuple[str, ...]
    deep: bool = True

    def files(self) -> Iterator[Path]:
        """Those that are there now."""
        found = self.path.rglob("*") if self.deep else self.path.glob("*")
        return (file for file in found if file.suffix in self.endings and "__pycache__" not in file.parts)


@dataclass(frozen=True, slots=True)
class Watched:
    """Scenarios and cassettes, of which a change may mean some cells, and `others`, of which it means all."""

    scenarios: tuple[Folder | Path, ...]
    cassettes: Folder | None
    others: tuple[Folder | Path, ...]
    shipped: frozenset[str] = frozenset()

    @staticmethod
    def of(options: Options, *, replay: bool) -> Watched:
        """What a run of these options reads, which are complete. Raises `UsageError`: the project's settings."""
        ids = {file.stem for file in suite.shipped("scenarios").glob("*.yaml")}
        named = [path for path in map(Path, options.paths or ()) if path.exists()]
        scenarios = tuple(Folder(path, SUFFIXES) if path.is_dir() else path for path in named)
        played = frozenset(each for each in options.paths or ids if each in ids and not Path(each).exists())
        own = project(Path())
        files = [*(options.facts or ()), *([Path(options.expected_failures)] if options.expected_failures else [])]
        others = (own.folder / "pyproject.toml", *files, *_sources(options.adapters or ()))
        folder = Folder(Path(options.cassettes or options.folder), (".yaml",)) if replay else None
        return Watched(scenarios, folder, others, played)

    def snapshot(self) -> Snapshot:
        """All files as they are now."""
        folders = (*self.scenarios, *((self.cassettes,) if self.cassettes else ()), *self.others)
        return dict(_stamped(file for each in folders for file in _files(each)))

    def meant(self, before: Snapshot, after: Snapshot) -> list[str] | None:
        """The scenarios that the changes between two snapshots are about; `None`: they may be about all of them."""
        names: dict[str, None] = {}
        for file in changed(before, after):
            found = self._about(file) if file in after else None
            if found is None:
                return None
            names[found] = None
        return list(names)

    def _about(self, file: Path) -> str | None:
        """The one scenario of a file, if that is sure."""
        if any(file == each or (isinstance(each, Folder) and each.path in file.parents) for each in self.scenarios):
            return str(file)
        if self.cassettes is None or self.cassettes.path not in file.parents:
            return None
        scenario = file.parent.name
        own = {path.stem: str(path) for each in self.scenarios for path in _files(each)}
        return own.get(scenario) or (scenario if scenario in self.shipped else None)


def changed(before: Snapshot, after: Snapshot) -> list[Path]:
    """The files that are new, gone or other."""
    return sorted(file for file in {*before, *after} if before.get(file) != after.get(file))


def _files(each: Folder | Path) -> Iterable[Path]:
    return each.files() if isinstance(each, Folder) else [each]


def _stamped(files: Iterable[Path]) -> Iterator[tuple[Path, tuple[int, int]]]:
    for file in files:
        try:
            status = file.stat()
        except OSError:  # gone since, or not there yet
            continue
        yield file, (status.st_mtime_ns, status.st_size)


def _sources(adapters: Iterable[str]) -> Iterator[Folder]:
    """The code of adapters that are not ours: their module with those beside it, or the whole package."""
    registered = {each.name: each.module for each in entry_points(group="harness.adapters")}
    for spec in adapters:
        for word in _words(spec.removeprefix(COMMAND_PREFIX)):
            module, colon, _ = word.partition(":")
            if colon or spec in registered:
                yield from _module(registered.get(spec, module))
            elif Path(word).is_file():
                yield Folder(Path(word).parent, (Path(word).suffix,), deep=False)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _module(name: str) -> Iterator[Folder]:
    first = name.partition(".")[0]
    if not first.isidentifier():
        return
    found = importlib.machinery.PathFinder.find_spec(first, [os.getcwd(), *sys.path])  # noqa: PTH109 - as Python has it
    if found is None:
        return
    for folder in found.submodule_search_locations or ():
        if "site-packages" not in Path(folder).parts:  # what is installed is not edited
            yield Folder(_near(Path(folder)), (".py",))
    if found.submodule_search_locations is None and found.origin and "site-packages" not in Path(found.origin).parts:
        yield Folder(_near(Path(found.origin).parent), (".py",), deep=False)


def _near(folder: Path) -> Path:
    """The folder as it is reached from here, if it is below."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def counted(watched: Watched) -> dict[str, int]:
    """How many files of each kind there are."""
    try:
        scenarios = len(scenario_files([each.path if isinstance(each, Folder) else each for each in watched.scenarios]))
    except HarnessError:  # a folder that is empty for now
        scenarios = 0
    cassettes = sum(1 for _ in watched.cassettes.files()) if watched.cassettes else 0
    others = sum(1 for _ in _stamped(file for each in watched.others for file in _files(each)))
    return {"scenario": scenarios, "cassette": cassettes, "other file": others}
