"""A right adapter that looks unusual passes, and its broken neighbour is caught: through the command, in both modes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

import pytest

from harness.results import CellResult, Severity, Verdict
from tests.broken.playing import said
from tests.once import once
from tests.unusual.form import Form
from tests.unusual.forms import FORMS
from tests.unusual.playing import MODES, Key, Mode, play

CASES = [pytest.param(form, target, id=f"{form.name}-{target}") for form in FORMS for target in form.targets]


Cells = Callable[[str], Mapping[Key, CellResult]]


@pytest.fixture(scope="session")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Cells:
    """All cells of a target, played once for all processes that run tests."""

    @cache
    def played(target: str) -> Mapping[Key, CellResult]:
        return once(tmp_path_factory, f"unusual-{target}", partial(play, target))

    return played


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("form", "target"), CASES)
def test_the_equal_form_passes(form: Form, target: str, mode: Mode, cells: Cells) -> None:
    cell = cells(target)[form.name, "EQUAL", mode]
    noted = {finding.rule for finding in cell.findings}
    if mode == "replay" and form.notes:
        noted.discard("recorded-request")  # what nobody asked for, and the recording does not have, is noted so as well
    only_replayed = form.replayed if mode == "replay" else frozenset[str]()
    assert noted == form.notes | only_replayed, said(cell.findings)
    assert cell.verdict is (Verdict.NOTE if only_replayed else form.verdict), cell.reason


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("form", "target"), CASES)
def test_a_real_change_next_to_it_is_caught(form: Form, target: str, mode: Mode, cells: Cells) -> None:
    cell = cells(target)[form.name, "CHANGED", mode]
    errors = {finding.rule for finding in cell.findings if finding.severity is Severity.ERROR}
    assert form.rule in errors, said(cell.findings) or cell.reason
    assert cell.verdict is Verdict.FAIL


def test_forms_have_names_of_their_own() -> None:
    assert len({form.name for form in FORMS}) == len(FORMS)
