"""A correct adapter that looks unusual passes in reference mode and in replay, and its broken neighbour is caught."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from harness.apis.registry import Target
from harness.cassettes.library import CassetteLibrary
from harness.model.protocols import Capability
from harness.results import CellResult, Severity, Verdict
from harness.runner.backends import ReplayBackend
from harness.runner.cells import Cell
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.scenarios.load import load_paths
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.broken.running import RULES, said
from tests.unusual import calls, libraries, requests, texts
from tests.unusual.form import Form

FORMS: tuple[Form, ...] = (*calls.FORMS, *libraries.FORMS, *requests.FORMS, *texts.FORMS)
OWN = {each.id: each for each in load_paths([Path(__file__).parent / "scenarios"])}
MODES: tuple[Literal["reference", "replay"], ...] = ("reference", "replay")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CassetteLibrary:
    """Cassettes of the shipped adapters, recorded as they are needed."""
    return CassetteLibrary(tmp_path_factory.mktemp("cassettes"))


def run_form(form: Form, target: Target, library: CassetteLibrary | None) -> CellResult:
    """The cell of a form with this adapter: a replay if there is a library, or else in reference mode."""
    scenario = OWN.get(form.scenario) or shipped_scenarios()[form.scenario]
    backend = InProcess() if library is None else ReplayBackend([library])
    return Run(backend, RULES)([Cell(scenario, target, form.variant)]).cells[0]


def unusual(form: Form, target: Target, *, right: bool) -> Target:
    """A target with the unusual adapter, or with its broken neighbour."""
    adapter = (form.equal if right else form.changed)(target.adapter)
    lacks, has = ({each} if each else frozenset[Capability]() for each in (form.lacks if right else None, form.has))
    return replace(target, adapter=replace(adapter, name="unusual", capabilities=adapter.capabilities - lacks | has))


@pytest.mark.parametrize(
    ("form", "target"),
    [pytest.param(form, target, id=f"{form.name}-{target}") for form in FORMS for target in form.played_on],
)
def test_an_equal_form_passes_and_a_change_next_to_it_fails(form: Form, target: str, library: CassetteLibrary) -> None:
    shipped = shipped_targets()[target]
    scenario = OWN.get(form.scenario) or shipped_scenarios()[form.scenario]
    Run(InProcess(), RULES, recorder=Recorder(library))([Cell(scenario, shipped, form.variant)])
    for mode in MODES:
        equal = run_form(form, unusual(form, shipped, right=True), library if mode == "replay" else None)
        noted = {finding.rule for finding in equal.findings}
        if mode == "replay" and form.notes:
            noted.discard("recorded-request")  # an extra that the recording does not have is noted as well
        replayed = form.replayed if mode == "replay" else frozenset[str]()
        assert noted == form.notes | replayed, (mode, said(equal.findings))
        assert equal.verdict is (Verdict.NOTE if replayed else form.verdict), (mode, equal.reason)

    changed = run_form(form, unusual(form, shipped, right=False), None)
    errors = {each.rule for each in changed.findings if each.severity is Severity.ERROR}
    assert form.rule in errors, said(changed.findings)
    assert changed.verdict is Verdict.FAIL
