"""Expectations: the events of a handler, compared with those of the scenario."""

from __future__ import annotations

from dataclasses import replace

from harness.results import Transcript
from harness.runner.cells import Cell
from harness.scenarios.schema import Scenario
from tests.backends import shipped_scenarios, shipped_targets
from tests.rules.test_retries import again, retrying
from tests.rules.transcripts import found, only, transcript_for, transcript_of

EVENTS = "seeds-terminal-assistant-events"


def with_other_events(transcript: Transcript) -> Transcript:
    """The same with a handler that heard the first two events the other way round."""
    first, *others = transcript.handled
    return replace(transcript, handled=((first[1], first[0], *first[2:]), *others))


def test_what_a_handler_hears_is_what_the_scenario_expects() -> None:
    transcript = transcript_for(EVENTS)
    assert found(transcript) == []
    finding = only(with_other_events(transcript), "expectation")
    assert finding.message == "turn 0, expect.events: event 0 is 'call bash', not 'text'."


def test_a_model_is_free_to_say_something_before_it_calls() -> None:
    transcript = replace(with_other_events(transcript_for(EVENTS)), scripted=False)
    assert [finding.rule for finding in found(transcript)] == []


def expecting(scenario: Scenario, *events: str) -> Scenario:
    """The scenario with these events expected of its first turn."""
    turn = scenario.turns[0]
    assert turn.expect is not None
    expectation = turn.expect.model_copy(update={"events": [*events]})
    return scenario.model_copy(update={"turns": [turn.model_copy(update={"expect": expectation})]})


def test_an_end_that_a_declared_retry_has_mended_is_right() -> None:
    failing = expecting(shipped_scenarios()["error-529"], "done overloaded")
    plain = transcript_of(Cell(failing, shipped_targets()["anthropic"], "whole"))
    assert plain.handled == (("done overloaded",),)
    assert found(plain) == []
    mended = transcript_of(Cell(failing, retrying("anthropic", again(1), declared=True), "whole"))
    assert mended.handled == (("text", "done"),)
    assert found(mended) == []
