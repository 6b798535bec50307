"""Every rule catches something, every scenario shows something, and the shipped adapters raise nothing."""

from __future__ import annotations

import pytest

from harness.results import Kind, Verdict
from tests.broken.arguments import AUDITED
from tests.broken.departures import DEPARTURES
from tests.broken.faults import FAULTS
from tests.broken.playing import RULES, played_shipped
from tests.broken.replayed import REPLAYED
from tests.stages import shipped_scenarios, shipped_targets

BY_CASSETTE = {"cassette-stale"}
"""No adapter breaks this one: `test_replay.py` proves it with a cassette."""


def test_every_rule_catches_a_broken_adapter_or_provider() -> None:
    caught = {fault.rule for fault in (*FAULTS, *AUDITED, *REPLAYED)} | {each.rule for each in DEPARTURES} | BY_CASSETTE
    # each limit reports under an id of its own, and tests/wire proves them one by one
    assert {rule.id for rule in RULES if rule.kind is not Kind.LIMIT} - caught == set()


def test_every_scenario_fails_for_a_broken_adapter() -> None:
    # test_faults.py plays each fault on its scenario
    assert set(shipped_scenarios()) - {fault.scenario for fault in FAULTS} == set()


def test_every_target_has_at_least_a_hundred_broken_adapters() -> None:
    counted = {target: sum(target in fault.targets for fault in FAULTS) for target in shipped_targets()}
    assert min(counted.values()) >= 100, counted


def test_no_two_faults_have_one_name() -> None:
    names = [fault.name for fault in (*FAULTS, *REPLAYED)] + [each.name for each in DEPARTURES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("target", shipped_targets())
@pytest.mark.parametrize("scenario", shipped_scenarios())
def test_the_shipped_adapters_raise_nothing(scenario: str, target: str) -> None:
    result = played_shipped(scenario, target)
    assert result.findings == ()
    assert result.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE)


@pytest.mark.parametrize("target", shipped_targets())
def test_few_scenarios_are_not_applicable(target: str) -> None:
    verdicts = [played_shipped(scenario, target).verdict for scenario in shipped_scenarios()]
    assert verdicts.count(Verdict.NOT_APPLICABLE) < len(verdicts) / 10
