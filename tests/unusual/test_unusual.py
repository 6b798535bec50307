"""A right adapter that looks unusual passes, and its broken neighbour is caught: through the command, in both modes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import CellResult, RunResult, Severity, Verdict
from tests.broken.playing import said
from tests.unusual.adapters import spec
from tests.unusual.form import Form
from tests.unusual.forms import FORMS

CASES = [pytest.param(form, target, id=f"{form.name}-{target}") for form in FORMS for target in form.targets]
MODES = ("reference", "replay")


@pytest.fixture(scope="session")
def cassettes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the shipped adapters recorded of these scenarios."""
    folder = tmp_path_factory.mktemp("unusual") / "cassettes"
    paths = sorted({form.path for form in FORMS})
    targets = sorted({target for form in FORMS for target in form.targets})
    chosen = [word for target in targets for word in ("--target", target)]
    said = [f"--report={name}:{folder.parent / 'recorded'}.{name}" for name in ("json", "terminal")]
    where = ["--cassettes", str(folder), "--variant", "whole"]
    assert main(["record", "--from", "reference", *paths, *chosen, *where, *said]) == 0
    return folder


def played(side: str, form: Form, target: str, mode: str, cassettes: Path) -> CellResult:
    """The one cell that the command plays."""
    report = cassettes.parent / f"{side}-{form.name}-{target}-{mode}.json"
    selected = [form.path, "--mode", mode, "--target", target, "--adapter", spec(side, form, target)]
    shown = ["--variant", "whole", f"--report=json:{report}", f"--report=terminal:{report}.txt"]
    main(["run", *selected, "--cassettes", str(cassettes), *shown])
    (cell,) = RunResult.from_json(report.read_text()).cells
    return cell


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("form", "target"), CASES)
def test_the_equal_form_passes(form: Form, target: str, mode: str, cassettes: Path) -> None:
    cell = played("equal", form, target, mode, cassettes)
    noted = {finding.rule for finding in cell.findings}
    if mode == "replay" and form.notes:
        noted.discard("recorded-request")  # what nobody asked for, and the recording does not have, is noted so as well
    assert noted == form.notes, said(cell.findings)
    assert cell.verdict is form.verdict, cell.reason


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("form", "target"), CASES)
def test_a_real_change_next_to_it_is_caught(form: Form, target: str, mode: str, cassettes: Path) -> None:
    cell = played("changed", form, target, mode, cassettes)
    errors = {finding.rule for finding in cell.findings if finding.severity is Severity.ERROR}
    assert form.rule in errors, said(cell.findings) or cell.reason
    assert cell.verdict is Verdict.FAIL
