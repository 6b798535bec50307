"""Plays every form of a target through the public command, in reference mode and in replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from harness.cli.main import main
from harness.results import CellResult, RunResult
from harness.scenarios.document import read
from tests.unusual.adapters import SIDES, Side, mark, spec
from tests.unusual.form import Form
from tests.unusual.forms import FORMS

Mode = Literal["reference", "replay"]
MODES: tuple[Mode, ...] = ("reference", "replay")
Key: TypeAlias = tuple[str, Side, Mode]
"""Form, side and mode."""


def play(target: str, folder: Path) -> dict[Key, CellResult]:
    """All cells of a target: one command for each variant, side and mode, after the shipped adapter recorded them."""
    found: dict[Key, CellResult] = {}
    here = [form for form in FORMS if target in form.targets]
    for variant, lacks, has in {(form.variant, form.lacks, form.has): None for form in here}:
        place = folder / f"{variant}-{lacks}-{has}"
        place.mkdir()
        forms = [form for form in here if (form.variant, form.lacks, form.has) == (variant, lacks, has)]
        chosen = [*(_written(form, place) for form in forms), "--target", target, "--variant", variant]
        chosen += ["--cassettes", str(place / "cassettes")]
        _command(place / "recorded", "record", "--from", "reference", *chosen)
        for side in SIDES:
            for mode in MODES:
                adapted = ["--adapter", spec(side, target, lacks if side == "EQUAL" else None, has), "--mode", mode]
                result = _command(place / f"{side}-{mode}", "run", *adapted, *chosen)
                found |= {(cell.scenario, side, mode): cell for cell in result.cells}
    return found


def _written(form: Form, place: Path) -> str:
    """The form's scenario with a text that names the form."""
    scenario: dict[str, Any] = cast("Any", read(form.path.read_bytes(), str(form.path)).value)
    scenario["id"] = form.name
    turn = scenario["turns"][0]
    turn["user"] += mark(form) if isinstance(turn["user"], str) else [{"text": mark(form)}]
    file = place / f"{form.name}.yaml"
    file.write_text(json.dumps(scenario))
    return str(file)


def _command(report: Path, *arguments: str) -> RunResult:
    main([*arguments, f"--report=json:{report}.json", f"--report=terminal:{report}.txt"])
    return RunResult.from_json(report.with_name(f"{report.name}.json").read_text())
