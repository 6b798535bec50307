"""Faults planted one by one in a server are found and blamed on it; on the server without them nothing is."""

from __future__ import annotations

import pytest

from harness.results import Blame, Severity, Verdict
from tests.servers.faults import FAULTS
from tests.servers.faulty import APIS, Fault, checked, faulty

CASES = [(fault, api) for fault in FAULTS for api in fault.apis]


@pytest.mark.parametrize("api", APIS)
def test_nothing_is_found_on_the_reference_server(api: str) -> None:
    run = checked(api, faulty(api, lambda _api, _view, response: response))

    assert [finding for cell in run.cells for finding in cell.findings] == []
    assert run.exit_code == 0
    unjudged = {cell.scenario for cell in run.cells if cell.verdict is Verdict.INCONCLUSIVE}
    assert unjudged == ({"server-call-id"} if api == "gemini" else set())  # whose model issues no ids


def test_there_are_forty_faults_at_least() -> None:
    assert len(FAULTS) >= 40
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {api for fault in FAULTS for api in fault.apis} == set(APIS)


@pytest.mark.parametrize(("fault", "api"), CASES, ids=[f"{api}: {fault.name}" for fault, api in CASES])
def test_a_fault_is_found_and_blamed_on_the_server(fault: Fault, api: str) -> None:
    run = checked(api, faulty(api, fault.change), fault.asked)

    found = [finding for cell in run.cells for finding in cell.findings]
    assert fault.found_by & {finding.rule for finding in found}
    assert {finding.blame for finding in found} == {Blame.PROVIDER}
    assert all(finding.piece for finding in found)  # the request and the raw answer
    if fault.name != "the system prompt is dropped":  # which no single answer proves
        assert run.exit_code == 1
        assert any(finding.severity is Severity.ERROR for finding in found)
