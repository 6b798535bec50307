"""`harness run --watch`: repeat a run whenever one of its files is saved, until Ctrl-C.

Each run has its own process, so that no module or file of the previous run remains loaded.
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

from harness.cli.main import print_error, report_os_error
from harness.cli.progress import interruptible
from harness.cli.settings import EffectiveOptions, complete_options
from harness.model.errors import HarnessError, UsageError
from harness.platform.files import shipped_folder
from harness.platform.project import project
from harness.reports.words import count, list_names
from harness.results import Mode
from harness.scenarios.load import SUFFIXES, scenario_files
from harness.stdio.adapter_specs import COMMAND_PREFIX

_POLL_INTERVAL_SECONDS = 0.3
_MAX_CPU_SHARE = 0.03  # of polling; thousands of cassettes are polled less often
_SHUTDOWN_SECONDS = 5.0
_MAX_NAMES = 3
_INTERRUPTED = 130


def watch(options: EffectiveOptions, mode: Mode, run: RunAndReport) -> int:
    """Repeat a run until Ctrl-C, and return the exit code of the last one.

    Raises:
        UsageError: an option is wrong, or the run would send requests to a provider.
    """
    if mode == "live":
        raise UsageError("--watch: each save would send requests to the provider. Leave out --watch or --mode live.")
    watched = _watch_files(options, mode)
    wanted, code = options, 0
    with interruptible():
        try:
            while True:
                before = watched.snapshot()
                code = _run_once(wanted, mode, run)
                if code == _INTERRUPTED:
                    return code
                files = ", ".join(count(number, kind) for kind, number in count_files(watched).items() if number)
                print_error(f"-- watching {files}; Ctrl-C ends")
                after = _wait_for_change(watched, before)
                affected = watched.affected_scenarios(before, after)
                _print_changes(changed_files(before, after), affected)
                wanted = options if affected is None else replace(options, paths=affected)
                watched = _watch_again(options, mode, watched)
        except KeyboardInterrupt:
            return code


def _watch_files(options: EffectiveOptions, mode: Mode) -> WatchedFiles:
    return WatchedFiles.of(complete_options(options, mode), replay=mode == "replay")


def _watch_again(options: EffectiveOptions, mode: Mode, watched: WatchedFiles) -> WatchedFiles:
    """Return the files to watch according to the current settings. While the settings are wrong, return the previous
    files.
    """
    try:
        return _watch_files(options, mode)
    except HarnessError:  # the next run reports it
        return watched


def _wait_for_change(watched: WatchedFiles, before: Snapshot) -> Snapshot:
    """Wait until files have changed and no more changes follow, because editors write in several steps."""
    last, took = before, 0.0
    while True:
        time.sleep(max(_POLL_INTERVAL_SECONDS, took / _MAX_CPU_SHARE))
        begun = time.process_time()
        now = watched.snapshot()
        took = time.process_time() - begun
        if now != before and now == last:
            return now
        last = now


def _print_changes(files: Sequence[Path], affected: Sequence[str] | None) -> None:
    named = list_names([str(file) for file in files], _MAX_NAMES)
    what = "all scenarios are run again" if affected is None else f"only {list_names([*affected], _MAX_NAMES)}"
    print_error(f"-- {named} changed: {what}")


def _run_once(options: EffectiveOptions, mode: Mode, run: RunAndReport) -> int:
    """Run in a new process and return its exit code."""
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(options, mode, run))
    process.start()
    try:
        process.join()
    except KeyboardInterrupt:
        process.join(_SHUTDOWN_SECONDS)
        process.terminate()  # the signal may have reached only the parent
        process.join()
        return _INTERRUPTED
    return process.exitcode or 0


def _run(options: EffectiveOptions, mode: Mode, run: RunAndReport) -> None:
    try:
        code = run(options, mode)
    except HarnessError as error:
        print_error(f"harness: {' '.join(str(error).split())}")
        code = 2
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except OSError as error:
        code = report_os_error(error)
    sys.exit(code)


RunAndReport: TypeAlias = Callable[[EffectiveOptions, Mode], int]

Snapshot: TypeAlias = Mapping[Path, tuple[int, int]]
"""Modification time in nanoseconds and size of each file."""


@dataclass(frozen=True, slots=True)
class FileTree:
    """Files in a folder with the given suffixes. If `deep`, subfolders are included."""

    path: Path
    suffixes: tuple[str, ...]
    deep: bool = True

    def files(self) -> Iterator[Path]:
        """Yield the files that exist now."""
        found = self.path.rglob("*") if self.deep else self.path.glob("*")
        return (file for file in found if file.suffix in self.suffixes and "__pycache__" not in file.parts)


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """Files that a run reads.

    Changes to scenarios and cassettes may affect only some cells. Changes to `others` affect all cells. `shipped` holds
    the ids of the shipped scenarios in the run.
    """

    scenarios: tuple[FileTree | Path, ...]
    cassettes: FileTree | None
    others: tuple[FileTree | Path, ...]
    shipped: frozenset[str] = frozenset()

    @staticmethod
    def of(options: EffectiveOptions, *, replay: bool) -> WatchedFiles:
        """Return the files that a run reads. Raises `UsageError` if the project's settings are wrong."""
        ids = {file.stem for file in shipped_folder("scenarios").glob("*.yaml")}
        named = [path for path in map(Path, options.paths or ()) if path.exists()]
        scenarios = tuple(FileTree(path, SUFFIXES) if path.is_dir() else path for path in named)
        played = frozenset(each for each in options.paths or ids if each in ids and not Path(each).exists())
        own = project(Path())
        files = [*(options.facts or ()), *([Path(options.expected_failures)] if options.expected_failures else [])]
        others = (own.folder / "pyproject.toml", *files, *_sources(options.adapters or ()))
        folder = FileTree(Path(options.cassettes or options.folder), (".yaml",)) if replay else None
        return WatchedFiles(scenarios, folder, others, played)

    def snapshot(self) -> Snapshot:
        """Return the current state of all files."""
        folders = (*self.scenarios, *((self.cassettes,) if self.cassettes else ()), *self.others)
        return dict(_stamps(file for each in folders for file in _files(each)))

    def affected_scenarios(self, before: Snapshot, after: Snapshot) -> list[str] | None:
        """Return the scenarios affected by the changes between two snapshots. `None` means all."""
        names: dict[str, None] = {}
        for file in changed_files(before, after):
            found = self._scenario_of(file) if file in after else None
            if found is None:
                return None
            names[found] = None
        return list(names)

    def _scenario_of(self, file: Path) -> str | None:
        """Return the scenario that a change to the file affects, or `None` if the change may affect several."""
        if any(file == each or (isinstance(each, FileTree) and each.path in file.parents) for each in self.scenarios):
            return str(file)
        if self.cassettes is None or self.cassettes.path not in file.parents:
            return None
        scenario = file.parent.name
        own = {path.stem: str(path) for each in self.scenarios for path in _files(each)}
        return own.get(scenario) or (scenario if scenario in self.shipped else None)


def changed_files(before: Snapshot, after: Snapshot) -> list[Path]:
    """Return the files that were added, removed or modified."""
    return sorted(file for file in {*before, *after} if before.get(file) != after.get(file))


def _files(each: FileTree | Path) -> Iterable[Path]:
    return each.files() if isinstance(each, FileTree) else [each]


def _stamps(files: Iterable[Path]) -> Iterator[tuple[Path, tuple[int, int]]]:
    for file in files:
        try:
            status = file.stat()
        except OSError:  # removed since, or not yet created
            continue
        yield file, (status.st_mtime_ns, status.st_size)


def _sources(adapters: Iterable[str]) -> Iterator[FileTree]:
    """Yield the source folders of third-party adapters: the folder of the module, or of its package."""
    registered = {each.name: each.module for each in entry_points(group="harness.adapters")}
    for spec in adapters:
        for word in _words(spec.removeprefix(COMMAND_PREFIX)):
            module, colon, _ = word.partition(":")
            if colon or spec in registered:
                yield from _module(registered.get(spec, module))
            elif Path(word).is_file():
                yield FileTree(Path(word).parent, (Path(word).suffix,), deep=False)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _module(name: str) -> Iterator[FileTree]:
    first = name.partition(".")[0]
    if not first.isidentifier():
        return
    found = importlib.machinery.PathFinder.find_spec(first, [os.getcwd(), *sys.path])  # noqa: PTH109 - as Python has it
    if found is None:
        return
    for folder in found.submodule_search_locations or ():
        if "site-packages" not in Path(folder).parts:  # installed packages are not edited
            yield FileTree(_near(Path(folder)), (".py",))
    if found.submodule_search_locations is None and found.origin and "site-packages" not in Path(found.origin).parts:
        yield FileTree(_near(Path(found.origin).parent), (".py",), deep=False)


def _near(folder: Path) -> Path:
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def count_files(watched: WatchedFiles) -> dict[str, int]:
    """Count the files by kind."""
    try:
        scenarios = len(
            scenario_files([each.path if isinstance(each, FileTree) else each for each in watched.scenarios])
        )
    except HarnessError:  # the folder is empty
        scenarios = 0
    cassettes = sum(1 for _ in watched.cassettes.files()) if watched.cassettes else 0
    others = sum(1 for _ in _stamps(file for each in watched.others for file in _files(each)))
    return {"scenario": scenarios, "cassette": cassettes, "other file": others}
