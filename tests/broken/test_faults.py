"""Each broken adapter is caught by the rule meant for it, and each rule and scenario has one that it catches."""

from __future__ import annotations

from itertools import cycle

import pytest

from harness.apis.response_rules import Subject
from harness.results import Blame, Kind, Verdict
from harness.runner.cells import VARIANTS
from harness.runner.suite_run import Run
from harness.scenarios.schema import Variant
from tests.broken.calls import AUDITED
from tests.broken.departures import DEPARTURES, Departure
from tests.broken.fault import ALL, OPENAI, Expected, Fault
from tests.broken.faults import FAULTS
from tests.broken.playing import RULES, audited, cell, in_python, played, said
from tests.broken.responses import refused
from tests.broken.streams import Habits, naive
from tests.broken.test_replay import REPLAYED
from tests.driving.ways import WRONG
from tests.stages import InProcess, shipped_scenarios, shipped_targets

CASES = [
    pytest.param(expected, fault, target, id=f"{fault.name}-{target}")
    for expected, fault in FAULTS
    for target in fault.played_on
]
TWINS = {
    (fault.scenario, target, fault.stages, fault.variant, fault.recuts): (expected, fault)
    for expected, fault in FAULTS
    for target in fault.played_on
    if fault.stages is not InProcess or fault.recuts
}
"""Cells of shipped adapters that `test_shipped_adapters_raise_nothing` does not play, each once."""

PROVED_ELSEWHERE = {
    "cassette-old": "tests/cli/test_cassettes.py",
    "cassette-stale": "test_replay.py",
    "script-unplayed": "tests/serving/test_serve.py",
    "client-tool-missing": "tests/serving/test_serve.py",
    "library-stop-reason": "tests/bridge/test_planted.py",
    "library-empty-arguments": "tests/bridge/test_planted.py",
    "library-cut-call": "tests/bridge/test_planted.py",
    "library-call-indices": "tests/bridge/test_planted.py",
} | dict.fromkeys(WRONG.values(), "tests/driving/test_loops.py")
"""Rules that no adapter of a shipped scenario can break, and the tests that break them."""


@pytest.mark.parametrize(("expected", "fault", "target"), CASES)
def test_a_broken_adapter_is_caught(expected: Expected, fault: Fault, target: str) -> None:
    result = played(fault.scenario, target, fault.wrap, fault.stages(), variant=fault.variant, recuts=fault.recuts)
    assert expected.found_in(result.findings, result.api), said(result.findings)
    assert result.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE)
    assert in_python(result.findings) == []


@pytest.mark.parametrize(
    ("expected", "fault", "target"),
    [pytest.param(*each, key[1], id=f"{each[1].name}-{key[1]}") for key, each in TWINS.items()],
)
def test_the_shipped_adapter_in_its_place_is_not(expected: Expected, fault: Fault, target: str) -> None:
    result = played(fault.scenario, target, stages=fault.stages(), variant=fault.variant, recuts=fault.recuts)
    assert not [each for each in result.findings if each.blame is Blame.ADAPTER or each.rule == expected.rule], said(
        result.findings
    )


@pytest.mark.parametrize("target", OPENAI)
def test_an_audit_sees_it_in_the_exchanges_alone(target: str) -> None:
    ((expected, (fault,)),) = AUDITED.items()
    findings = audited(fault.scenario, target, fault.wrap)
    assert expected.found_in(findings, target), said(findings)
    assert audited(fault.scenario, target) == []


@pytest.mark.parametrize(
    ("departure", "target"),
    [pytest.param(each, target, id=f"{each.name}-{target}") for each in DEPARTURES for target in each.targets],
)
def test_a_departing_provider_is_blamed_itself(departure: Departure, target: str) -> None:
    result = played(departure.scenario, target, stages=departure.stages())
    assert departure.rule in {finding.rule for finding in result.findings}, said(result.findings)
    assert {finding.blame for finding in result.findings} == {Blame.PROVIDER}, said(result.findings)


@pytest.mark.parametrize(("status", "target"), list(zip([400, 404, 429, 500, 529], ALL, strict=True)))
def test_a_refusal_without_a_reason_is_the_providers(status: int, target: str) -> None:
    refusing = InProcess(lambda request, _: refused(request, status), scripted=False)
    result = played("system-plain", target, stages=refusing)
    assert [(finding.rule, finding.blame) for finding in result.findings] == [("chat-refused", Blame.PROVIDER)]


def test_undocumented_chunks_are_a_note_and_named() -> None:
    run = Run(InProcess(), RULES, recuts=1)
    (result,) = run([cell("stream-text-then-calls", "openai-chat", naive(Habits()), "stream")]).cells
    assert result.verdict is Verdict.NOTE, said(result.findings)
    (found,) = result.findings
    assert found.rule == "stream-recut"
    assert any(name in found.message for name in ("early-usage", "no-index", "one-index", "id-per-piece"))


@pytest.mark.parametrize("scenario", ["call-single", "stream-text-then-calls", "stream-parallel-empty-arguments"])
def test_the_naive_client_without_its_habits_is_right(scenario: str) -> None:
    result = played(scenario, "openai-chat", naive(Habits()), variant="stream")
    assert result.verdict is Verdict.PASS, said(result.findings)


def test_every_rule_catches_a_broken_adapter_or_provider() -> None:
    caught = {expected.rule for expected in (*dict(FAULTS), *AUDITED, *REPLAYED)} | {each.rule for each in DEPARTURES}
    # each limit reports under an id of its own, and tests/apis proves them one by one
    judging = {rule.id for rule in RULES if rule.kind is not Kind.LIMIT}
    assert judging - caught - {*PROVED_ELSEWHERE} == set()


def test_every_scenario_fails_for_a_broken_adapter() -> None:
    scenarios, faults = shipped_scenarios(), [fault for _, fault in FAULTS]
    assert set(scenarios) - {fault.scenario for fault in faults} == set()
    about = {Subject.STREAMING, Subject.ERRORS}
    wanted = {scenario.id for scenario in scenarios.values() if about & {*scenario.covers}}
    # a failure by status comes before there is a stream, and is one and the same thing in both variants
    wanted -= {each for each in wanted if scenarios[each].faults and each.startswith("error-")}
    assert wanted - {fault.scenario for fault in faults if fault.variant == "stream"} == set()


def test_no_two_faults_have_one_name() -> None:
    replayed = [fault.name for faults in REPLAYED.values() for fault in faults]
    names = [fault.name for _, fault in FAULTS] + replayed + [each.name for each in DEPARTURES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("variant", VARIANTS)
def test_shipped_adapters_raise_nothing(variant: Variant) -> None:
    """Play each scenario on one target; `tests/cli/test_run.py` replays all of them on all targets."""
    results = [
        played(each, target, variant=variant) for each, target in zip(shipped_scenarios(), cycle(shipped_targets()))
    ]
    for result in results:
        assert result.findings == (), f"{result.scenario} {result.target} {variant}: {said(result.findings)}"
        assert result.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE), (result.scenario, result.reason)
    assert sum(result.verdict is Verdict.NOT_APPLICABLE for result in results) < len(results) / 10
