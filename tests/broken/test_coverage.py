"""Every rule catches something, every scenario shows something, and the shipped adapters raise nothing."""

from __future__ import annotations

import pytest

from harness.results import Kind, Verdict
from harness.running.cells import VARIANTS
from harness.scenarios.schema import Subject, Variant
from tests.broken.arguments import AUDITED
from tests.broken.departures import DEPARTURES
from tests.broken.fault import ALL
from tests.broken.faults import FAULTS
from tests.broken.playing import RULES, all_played, said
from tests.broken.replayed import REPLAYED
from tests.driving.ways import WRONG
from tests.stages import shipped_scenarios, shipped_targets

BY_CASSETTE = {"cassette-old", "cassette-stale"}
"""No adapter breaks these: `test_replay.py`, and `tests/cli/test_cassettes.py`, prove them with cassettes."""

BY_CLIENT = {"script-unplayed", "client-tool-missing"}
"""Only clients of `harness serve` can: `tests/serving/test_serve.py` has one that stops halfway, and one without the
tool."""


BY_LIBRARY = {"library-stop-reason", "library-empty-arguments", "library-cut-call", "library-call-indices"}
"""Only what wraps a library says what that said: `tests/bridge/test_planted.py` has a library for each."""

BY_LOOP = frozenset(WRONG.values())
"""Only what owns its loop can: `tests/driving/test_loops.py` plays one for each."""


def test_every_rule_catches_a_broken_adapter_or_provider() -> None:
    by_adapter = {fault.rule for fault in (*FAULTS, *AUDITED, *REPLAYED)} | {each.rule for each in DEPARTURES}
    caught = by_adapter | BY_CASSETTE | BY_CLIENT | BY_LIBRARY | BY_LOOP
    # each limit reports under an id of its own, and tests/apis proves them one by one
    assert {rule.id for rule in RULES if rule.kind is not Kind.LIMIT} - caught == set()


def test_every_scenario_fails_for_a_broken_adapter() -> None:
    # test_faults.py plays each fault on its scenario
    assert set(shipped_scenarios()) - {fault.scenario for fault in FAULTS} == set()


def test_every_scenario_about_streams_or_failures_fails_for_a_broken_adapter_that_streams() -> None:
    about = {Subject.STREAMING, Subject.ERRORS}
    wanted = {scenario.id for scenario in shipped_scenarios().values() if about & {*scenario.covers}}
    # a failure by status comes before there is a stream, and is one and the same thing in both variants
    wanted -= {each for each in wanted if shipped_scenarios()[each].faults and each.startswith("error-")}
    assert wanted - {fault.scenario for fault in FAULTS if fault.variant == "stream"} == set()


def test_every_target_has_at_least_a_hundred_broken_adapters() -> None:
    # what a second model of an API takes and the first does not, the first cannot show
    counted = {target: sum(target in fault.played_on for fault in FAULTS) for target in ALL}
    assert {shipped_targets()[target].api for target in ALL} == {each.api for each in shipped_targets().values()}
    assert min(counted.values()) >= 100, counted


def test_no_two_faults_have_one_name() -> None:
    names = [fault.name for fault in (*FAULTS, *REPLAYED)] + [each.name for each in DEPARTURES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("target", shipped_targets())
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_shipped_adapters_raise_nothing_and_few_scenarios_are_not_applicable(target: str, variant: Variant) -> None:
    results = all_played(target, variant)
    assert len(results) >= 100
    for result in results:
        assert result.findings == (), f"{result.scenario} {target} {variant}: {said(result.findings)}"
        assert result.verdict in (Verdict.PASS, Verdict.NOT_APPLICABLE), (result.scenario, result.reason)
    assert sum(result.verdict is Verdict.NOT_APPLICABLE for result in results) < len(results) / 10
