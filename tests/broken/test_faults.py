"""Each broken adapter is caught by the rule meant for it, with blame and place; the shipped one in its place is not."""

from __future__ import annotations

import pytest

from harness.results import Blame, Verdict
from harness.running.run import Run
from tests.broken.arguments import AUDITED
from tests.broken.departures import DEPARTURES, Departure
from tests.broken.failures import refused
from tests.broken.fault import ALL, Fault
from tests.broken.faults import FAULTS
from tests.broken.naive import Habits, naive
from tests.broken.playing import RULES, audited, cell, in_python, played, said
from tests.stages import InProcess

CASES = [pytest.param(fault, target, id=f"{fault.name}-{target}") for fault in FAULTS for target in fault.played_on]
TWINS = {
    (each.scenario, target, each.stages, each.variant, each.recuts): each
    for each in FAULTS
    for target in each.played_on
    if each.stages is not InProcess or each.recuts
}
"""Cells that `test_coverage.py` does not play with the shipped adapters, each once."""
DEPARTING = [pytest.param(each, target, id=f"{each.name}-{target}") for each in DEPARTURES for target in each.targets]


@pytest.mark.parametrize(("fault", "target"), CASES)
def test_a_broken_adapter_is_caught(fault: Fault, target: str) -> None:
    result = played(fault.scenario, target, fault.wrap, fault.stages(), variant=fault.variant, recuts=fault.recuts)
    assert fault.found_in(result.findings, result.api), said(result.findings)
    assert result.verdict is not Verdict.PASS
    assert result.verdict is not Verdict.NOT_APPLICABLE
    assert in_python(result.findings) == []


@pytest.mark.parametrize(
    ("fault", "target"), [pytest.param(fault, key[1], id=f"{fault.name}-{key[1]}") for key, fault in TWINS.items()]
)
def test_the_shipped_adapter_in_its_place_is_not(fault: Fault, target: str) -> None:
    result = played(fault.scenario, target, stages=fault.stages(), variant=fault.variant, recuts=fault.recuts)
    assert not [finding for finding in result.findings if finding.blame is Blame.ADAPTER], said(result.findings)
    assert not [finding for finding in result.findings if finding.rule == fault.rule], said(result.findings)


@pytest.mark.parametrize(
    ("fault", "target"),
    [pytest.param(fault, target, id=f"{fault.name}-{target}") for fault in AUDITED for target in fault.targets],
)
def test_an_audit_sees_it_in_the_exchanges_alone(fault: Fault, target: str) -> None:
    findings = audited(fault.scenario, target, fault.wrap)
    assert fault.found_in(findings, target), said(findings)
    assert audited(fault.scenario, target) == []


@pytest.mark.parametrize(("departure", "target"), DEPARTING)
def test_a_departure_of_the_provider_is_not_blamed_on_the_adapter(departure: Departure, target: str) -> None:
    result = played(departure.scenario, target, stages=departure.stages())
    found = [finding for finding in result.findings if finding.rule == departure.rule]
    assert found, said(result.findings)
    assert {finding.blame for finding in result.findings} == {Blame.PROVIDER}, said(result.findings)


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("status", [400, 404, 429, 500, 529])
def test_a_provider_that_refuses_without_a_reason_is_blamed_itself(status: int, target: str) -> None:
    refusing = InProcess(lambda request, _: refused(request, status), scripted=False)
    result = played("system-plain", target, stages=refusing)
    assert [(finding.rule, finding.blame) for finding in result.findings] == [("chat-refused", Blame.PROVIDER)]


@pytest.mark.parametrize("scenario", ["call-single", "stream-text-then-calls"])
def test_chunks_that_depart_from_the_documents_are_a_note_and_named(scenario: str) -> None:
    run = Run(InProcess(), RULES, recuts=1)
    (result,) = run([cell(scenario, "openai-chat", naive(Habits()), "stream")]).cells
    assert result.verdict is Verdict.NOTE, said(result.findings)
    (found,) = result.findings
    assert found.rule == "stream-recut"
    assert any(name in found.message for name in ("early-usage", "no-index", "one-index", "id-per-piece"))


@pytest.mark.parametrize("scenario", ["call-single", "stream-text-then-calls", "stream-parallel-empty-arguments"])
def test_the_naive_client_is_right_but_for_its_habits(scenario: str) -> None:
    result = played(scenario, "openai-chat", naive(Habits()), variant="stream")
    assert result.verdict is Verdict.PASS, said(result.findings)
