"""Plays every case through the public command, in reference mode and in replay, and reads what its report says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from harness import catalog
from harness.cli.main import main
from harness.scenarios import suite
from harness.scenarios.document import read
from tests.limits.adapters import mark
from tests.limits.case import EMBEDDED, Case
from tests.limits.cases import CASES

_ROOT = Path(__file__).parent.parent.parent
MODES = ("reference", "replay")


@dataclass(frozen=True, slots=True)
class Played:
    """What became of a case: the verdict of its cell, the severity of each limit found in it, the run's exit code."""

    verdict: str
    limits: dict[str, str]
    exit_code: int


Proof: TypeAlias = "Mapping[tuple[str, str], Played]"
"""By mode and limit, what became of cases."""


class Group(NamedTuple):
    """Cases that one command plays: those of a target and a model."""

    target: str
    model: str | None

    @staticmethod
    def of(limit: str) -> Group:
        """The group of a limit's case."""
        return Group(CASES[limit].target, CASES[limit].model)


def play(group: Group, folder: Path) -> Proof:
    """The cases of a group, played in `folder`: one command for each mode.

    What is replayed is recorded before that, by the shipped adapter, which obeys.
    """
    found: dict[tuple[str, str], Played] = {}
    target, model = group
    cases = [case for limit, case in CASES.items() if Group.of(limit) == group]
    with found_from_here():
        chosen = ["--target", target, *(["--model", f"{target}={model}"] if model else [])]
        chosen += ["--variant", "whole", *_written(cases, folder)]
        recorded = ["--cassettes", str(folder / "cassettes")]
        command("record", "--from", "reference", *recorded, *chosen)
        name = catalog.target(target).api.replace("-", "_").upper()
        chosen += ["--adapter", f"tests.limits.adapters:{name}"]
        for mode, more in (("reference", ["--mode", "reference"]), ("replay", recorded)):
            code, report = command("run", *more, *chosen)
            found |= {(mode, cell["scenario"]): _played(cell, code) for cell in report["cells"]}
    return found


def _written(cases: Sequence[Case], place: Path) -> list[str]:
    """A scenario for each case, which is the shipped one with a text that says what is committed."""
    files: list[str] = []
    for case in cases:
        shipped = suite.shipped("scenarios") / f"{case.scenario}.yaml"
        scenario: dict[str, Any] = cast("Any", read(shipped.read_bytes(), str(shipped)).value)
        scenario["id"] = case.limit
        if case.scenario == EMBEDDED:
            scenario["embeddings"]["texts"].append(mark(case.limit))
        else:
            scenario["turns"][0]["user"] += f" {mark(case.limit)}"
        file = place / f"{case.limit}.yaml"
        file.write_text(json.dumps(scenario))
        files.append(str(file))
    return files


def command(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of one command."""
    with redirect_stdout(StringIO()) as shown:
        code = main([*arguments, "--report", "json"])
    return code, json.loads(shown.getvalue())


def _played(cell: dict[str, Any], code: int) -> Played:
    limits = {found["rule"]: found["severity"] for found in cell["findings"] if found["kind"] == "limit"}
    return Played(cell["verdict"], limits, code)


@contextmanager
def found_from_here() -> Iterator[None]:
    """The adapters' modules are found wherever a run imports them, be it in another process."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *([before] if before else [])])
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
