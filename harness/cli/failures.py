"""Which cells have failed: kept in the folder of a project, for `harness run --last-failed`.

`.harness/last-failed.json` has, for each mode, the cells that failed when they were last played. A cell leaves it when
it no longer fails. Nothing is written as long as nothing has failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias, cast

from harness.cli import streams
from harness.host import replacement
from harness.host.file import contents
from harness.reports._words import count
from harness.results import CellResult, Mode, Verdict
from harness.running.stages import Cell

FOLDER = ".harness"
_FILE = "last-failed.json"
_MOST = 16 << 20
_FAILED = (Verdict.FAIL, Verdict.ERROR)

_Key: TypeAlias = tuple[str, str, str]


class Failures:
    """Those of a project, in one mode."""

    def __init__(self, project: Path, mode: Mode) -> None:
        self._path = project / FOLDER / _FILE
        self._mode = mode

    def chosen(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Those of the cells that failed when they were last played; all, if none of them did. Says which it is."""
        failed = self._known().get(self._mode, set())
        again = [cell for cell in cells if (cell.scenario.id, cell.target.name, cell.variant) in failed]
        if again:
            streams.tell(f"--last-failed: {len(again)} of {count(len(cells), 'cell')}, which failed when last played.")
            return again
        none = "none of these cells failed when it was last played" if failed else "no failure is known here"
        streams.tell(f"--last-failed: {none}; {count(len(cells), 'cell')} to play.")
        return cells

    def keep(self, done: Iterable[CellResult]) -> None:
        """Remember which of the cells that are done have failed. One at which nobody could look is as it was."""
        known = self._known()
        before = known.get(self._mode, set[_Key]())
        after = set(before)
        for cell in done:
            if cell.verdict in _FAILED:
                after.add(cell.key)
            elif cell.verdict is not Verdict.MISSING:
                after.discard(cell.key)
        if after == before:
            return
        known[self._mode] = after
        pieces = json.JSONEncoder(indent=1).iterencode({mode: sorted(keys) for mode, keys in known.items()})
        try:
            self._path.parent.mkdir(exist_ok=True)
            ignoring = self._path.parent / ".gitignore"
            if not ignoring.exists():
                ignoring.write_text("*\n")
            replacement.replace(self._path, (piece.encode() for piece in chain(pieces, ["\n"])))
        except OSError as error:
            streams.tell(f"harness: {self._path}: {error.strerror}: what failed is not kept for --last-failed.")

    def _known(self) -> dict[str, set[_Key]]:
        """What is known; nothing, where the file is not there or is none of ours."""
        try:
            document: Any = json.loads(contents(self._path, _MOST))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(document, dict):
            return {}
        return {mode: set(_keys(each)) for mode, each in cast("dict[str, Any]", document).items()}


def _keys(found: Any) -> Iterable[_Key]:
    for each in cast("list[Any]", found) if isinstance(found, list) else ():
        match each:
            case [str(scenario), str(target), str(variant)]:
                yield scenario, target, variant
            case _:
                pass
