"""What is found of gateways, in this process: nothing of a faithful one, and each planted loss."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from harness.checking.gateways import sample
from harness.results import Blame, RunResult, Verdict
from tests.gateways.faults import FAULTS, Fault
from tests.gateways.toy import Ends, Passing, ends

SCENARIOS = {scenario.id: scenario for scenario in sample.scenarios()}


_SPOKEN = (
    "call-not-needed",
    "system-changed",
    "call-sequential",
    "call-parallel-same-tool",
    "call-truncated",
    "arguments-large-integers",
    "result-error",
    "result-image",
    "json-schema",
    "json-with-tools",
    "schema-references",
    "thinking-tool-loop",
    "usage-cached-prompt",
    "stop-refusal",
    "stream-error-behind-text",
    "connection-cut",
    "gateway-temperature",
    "gateway-one-call",
    "gateway-file",
    "gateway-retry-after",
)
"""Scenarios that say every fact between them; all of them take too long for a test."""


def _lost(run: RunResult) -> dict[str, str]:
    return {finding.rule: finding.message for cell in run.cells for finding in cell.findings}


@pytest.fixture(scope="module")
def both() -> Generator[Ends]:
    with ends() as found:
        yield found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_loss_is_found_and_the_gateway_is_blamed(fault: Fault, both: Ends) -> None:
    run = both.check(fault.gateway(), fault.target, [SCENARIOS[fault.scenario]], variants=(fault.variant,))

    assert fault.rule in _lost(run), _lost(run)
    (cell,) = run.cells
    assert {finding.blame for finding in cell.findings} == {Blame.GATEWAY}


@pytest.mark.parametrize("target", ["anthropic", "openai-chat", "openai-responses", "gemini-3", "gemini-2.5"])
def test_a_faithful_gateway_is_clean(target: str, both: Ends) -> None:
    chosen = [SCENARIOS[name] for name in _SPOKEN]

    run = both.check(Passing(), target, chosen)

    assert _lost(run) == {}
    assert {cell.verdict for cell in run.cells} <= {Verdict.PASS, Verdict.NOT_APPLICABLE}
    assert run.check is not None
    assert {fates.fact for fates in run.check.gateway if fates.translated or fates.refused or fates.lost} <= {
        "answer arrives"  # of one that breaks off
    }
