"""The settings of a project: the table `[tool.harness]` in its `pyproject.toml`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from harness.contract.errors import UnknownName, UsageError
from harness.host.file import contents

_NAME = "pyproject.toml"
_KEYS = ("facts",)
_MOST = 4_000_000
"""Bytes of a file."""


@dataclass(frozen=True, slots=True)
class Project:
    """What a project says of itself. `facts` are its own files of facts, as they are reached from where was looked."""

    facts: tuple[Path, ...] = ()


def project(here: Path) -> Project:
    """The settings of the project that a folder is in: those of the nearest `pyproject.toml` that has the table.

    It is looked for in the folder and those around it, not beyond the repository; nothing is set where there is none.

    Raises:
        UsageError: a file on the way cannot be read, or its table has what it may not have: file and key.
    """
    for folder in _around(here.absolute()):
        file = folder / _NAME
        if file.is_file() and (table := _table(file, here)) is not None:
            return _read(table, folder, here)
    return Project()


def _around(folder: Path) -> Iterator[Path]:
    for each in (folder, *folder.parents):
        yield each
        if (each / ".git").exists():
            return


def _table(file: Path, here: Path) -> Mapping[str, Any] | None:
    shown = _from(here, file)
    try:
        document = tomllib.loads(contents(file, _MOST).decode())
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read: {error.strerror}.") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise UsageError(f"{shown}: this is no TOML: {error}.") from None
    tools = document.get("tool")
    table = cast("dict[str, Any]", tools).get("harness") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{shown} at tool.harness: it has to be a table, [tool.harness].")
    return cast("dict[str, Any] | None", table)


def _read(table: Mapping[str, Any], folder: Path, here: Path) -> Project:
    shown = _from(here, folder / _NAME)
    for key in table:
        if key not in _KEYS:
            raise UnknownName("key", key, _KEYS, f"{shown} at tool.harness")
    listed = table.get("facts", [])
    values = cast("list[Any]", listed) if isinstance(listed, list) else [listed, None]
    given = [each for each in values if isinstance(each, str)]
    if len(given) < len(values):
        raise UsageError(f'{shown} at tool.harness.facts: it has to be a list of files, as in facts = ["ours.yaml"].')
    files = [_from(here, folder / each) if not Path(each).is_absolute() else Path(each) for each in given]
    for each in files:
        if not (here / each).is_file():
            raise UsageError(f"{shown} at tool.harness.facts: there is no file {each}.")
    return Project(tuple(files))


def _from(here: Path, path: Path) -> Path:
    return Path(os.path.relpath(path, here.absolute()))
