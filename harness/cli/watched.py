"""The files of which a run is made: what is looked at while somebody edits, and what a change of them means.

They are asked for their times again and again. A library that is told of changes by the system would be one more thing
to install, and hears nothing over many mounted folders; the files of a run are few enough.
"""

from __future__ import annotations

import importlib.machinery
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeAlias

from harness.catalog import MARK
from harness.cli.options import Options
from harness.contract.errors import HarnessError
from harness.host.project import project
from harness.scenarios import suite
from harness.scenarios.load import SUFFIXES, scenario_files

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
        files = [*map(Path, options.facts), *([Path(options.expected_failures)] if options.expected_failures else [])]
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
        for word in _words(spec.removeprefix(MARK)):
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
