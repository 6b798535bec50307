"""Each broken adapter is caught by the rule meant for it, and each rule catches one."""

from __future__ import annotations

from itertools import cycle

import pytest

from harness.results import Blame, CellResult, Kind, Verdict
from harness.runner.cells import VARIANTS, not_applicable_reason
from harness.runner.suite_run import Run
from harness.scenarios.schema import Variant
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.broken.calls import AUDITED
from tests.broken.fault import OPENAI, Expected, Fault
from tests.broken.faults import FAULTS
from tests.broken.responses import refused
from tests.broken.running import RULES, audited, cell, in_python, run_cell, said
from tests.broken.streams import Habits, naive
from tests.broken.test_replay import REPLAYED
from tests.driving.ways import WRONG

CASES = [
    pytest.param(expected, fault, target, id=f"{fault.name}-{target}")
    for expected, fault in FAULTS
    for target in fault.played_on
]
TWINS = {
    (fault.scenario, target, fault.backend, fault.variant, fault.recuts): (expected, fault)
    for expected, fault in FAULTS
    for target in fault.played_on
    if fault.backend is not InProcess or fault.recuts
}
"""Cells of shipped adapters that `test_shipped_adapters_raise_nothing` does not play, each once."""

PROVED_ELSEWHERE = {
    "foreign-state-sent": "tests/runner/test_hand_over.py",
    "result-missing": "tests/runner/test_hand_over.py",
    "cassette-old": "tests/cli/test_cassettes.py",
    "cassette-stale": "test_replay.py",
    "script-unplayed": "tests/serving/test_serve.py",
    "client-tool-missing": "tests/serving/test_serve.py",
    "library-stop-reason": "tests/bridge/test_planted.py",
    "library-empty-arguments": "tests/bridge/test_planted.py",
    "library-cut-call": "tests/bridge/test_planted.py",
    "library-call-indices": "tests/bridge/test_planted.py",
    "provider-id-missing": "tests/rules/test_provider.py",
    "provider-signature-missing": "tests/rules/test_provider.py",
    "provider-stop-reason": "tests/rules/test_provider.py",
    "provider-usage-missing": "tests/rules/test_provider.py",
    "state-dropped": "tests/rules/test_provider_reports.py",
    "cache-missed": "tests/rules/test_provider_reports.py",
    "system-after-conversation": "tests/rules/test_system_place.py",
    "loop-answer": "tests/driving/test_answers.py",
    "loop-usage": "tests/driving/test_answers.py",
    "loop-stop-reason": "tests/driving/test_answers.py",
    "loop-stop-reason-missing": "tests/driving/test_answers.py",
    "loop-error": "tests/driving/test_answers.py",
    "loop-retry": "tests/driving/test_answers.py",
    "loop-retry-changed": "tests/driving/test_answers.py",
} | dict.fromkeys(WRONG.values(), "tests/driving/test_loops.py")
"""Rules that no adapter of a shipped scenario can break, and the tests that break them."""


@pytest.mark.parametrize(("expected", "fault", "target"), CASES)
def test_a_broken_adapter_is_caught(expected: Expected, fault: Fault, target: str) -> None:
    result = run_cell(fault.scenario, target, fault.wrap, fault.backend(), variant=fault.variant, recuts=fault.recuts)
    assert expected.found_in(result.findings, result.api), said(result.findings)
    assert result.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE)
    assert in_python(result.findings) == []


@pytest.mark.parametrize(
    ("expected", "fault", "target"),
    [pytest.param(*each, key[1], id=f"{each[1].name}-{key[1]}") for key, each in TWINS.items()],
)
def test_the_shipped_adapter_in_its_place_is_not(expected: Expected, fault: Fault, target: str) -> None:
    result = run_cell(fault.scenario, target, backend=fault.backend(), variant=fault.variant, recuts=fault.recuts)
    assert not [each for each in result.findings if each.blame is Blame.ADAPTER or each.rule == expected.rule], said(
        result.findings
    )


@pytest.mark.parametrize("target", OPENAI)
def test_an_audit_sees_it_in_the_exchanges_alone(target: str) -> None:
    ((expected, (fault,)),) = AUDITED.items()
    findings = audited(fault.scenario, target, fault.wrap)
    assert expected.found_in(findings, target), said(findings)
    assert audited(fault.scenario, target) == []


@pytest.mark.parametrize(("status", "target"), [(400, "anthropic"), (429, "openai-responses"), (500, "gemini-3")])
def test_a_refusal_without_a_reason_is_the_providers(status: int, target: str) -> None:
    refusing = InProcess(lambda request, _: refused(request, status), scripted=False)
    result = run_cell("system-plain", target, backend=refusing)
    assert [(finding.rule, finding.blame) for finding in result.findings] == [("chat-refused", Blame.PROVIDER)]


def test_undocumented_chunks_are_a_note_and_named() -> None:
    run = Run(InProcess(), RULES, recuts=1)
    (result,) = run([cell("stream-text-then-calls", "openai-chat", naive(Habits()), "stream")]).cells
    assert result.verdict is Verdict.NOTE, said(result.findings)
    (found,) = result.findings
    assert found.rule == "stream-recut"
    assert any(name in found.message for name in ("early-usage", "no-index", "one-index", "id-per-piece"))


def test_every_rule_catches_a_broken_adapter() -> None:
    caught = {expected.rule for expected in (*dict(FAULTS), *AUDITED, *REPLAYED)}
    # each limit reports under an id of its own, and tests/apis proves them one by one
    judging = {rule.id for rule in RULES if rule.kind is not Kind.LIMIT}
    assert judging - caught - {*PROVED_ELSEWHERE} == set()


@pytest.mark.parametrize("variant", VARIANTS)
def test_shipped_adapters_raise_nothing(variant: Variant) -> None:
    """Play each scenario on one target; `tests/cli/test_run.py` replays all of them on all targets."""
    targets = cycle(shipped_targets())
    results: list[CellResult] = []
    for each in shipped_scenarios():
        turn = [next(targets) for _ in shipped_targets()]
        able = (
            target for target in turn if not_applicable_reason(cell(each, target, variant=variant), "reference") is None
        )
        results.append(run_cell(each, next(able, turn[0]), variant=variant))
        next(targets)
    for result in results:
        assert result.findings == (), f"{result.scenario} {result.target} {variant}: {said(result.findings)}"
        assert result.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE), (result.scenario, result.reason)
    assert sum(result.verdict is Verdict.NOT_APPLICABLE for result in results) < len(results) / 10
