"""In what two runs are not runs of the same: said, since what changed may have changed for that."""

from __future__ import annotations

from dataclasses import replace

from harness.reports.run_changes import conditions
from harness.results import Definition, RunResult
from tests.reports.runs import PROVIDER, REFERENCE, cell, red

RUN = RunResult(
    "replay",
    (cell("a"), cell("b"), cell("b", "gemini-3")),
    versions={"toolcall-harness": "0.1.0", "openai": "3.54.0"},
    definitions={"a": Definition("1"), "b": Definition("2")},
)


def said(now: RunResult, before: RunResult = RUN) -> list[str]:
    return list(conditions(now, before))


def test_of_two_runs_of_the_same_nothing_is_said() -> None:
    assert said(RUN) == said(red(), red()) == []


def test_other_scenarios_targets_and_variants_are_named() -> None:
    now = replace(RUN, cells=(cell("b"), cell("c"), cell("c", "openai-chat", variant="stream")))

    assert said(now) == [
        "Only in the earlier run: 1 scenario: a.",
        "Only in the later run: 1 scenario: c.",
        "Only in the earlier run: 1 target: gemini-3.",
        "Only in the later run: 1 target: openai-chat.",
        "Only in the later run: 1 variant: stream.",
    ]


def test_a_scenario_that_says_something_else_now_is_named() -> None:
    now = replace(RUN, definitions={"a": Definition("1"), "b": Definition("3"), "c": Definition("4")})

    assert said(now) == ["1 scenario changed between the runs: b."]


def test_other_versions_modes_facts_and_rules_are_said() -> None:
    now = replace(
        RUN,
        mode="live",
        versions={"toolcall-harness": "0.2.0", "anthropic": "2.12.0", "openai": "3.54.0"},
        facts=("ours.yaml",),
        rules=("result-*",),
        ignored=("usage",),
    )

    assert said(now) == [
        "mode: replay before, live now.",
        "Other versions: toolcall-harness 0.1.0 -> 0.2.0, anthropic none -> 2.12.0.",
        "files of facts: none before, ours.yaml now.",
        "rules that count: none before, result-* now.",
        "rules that are ignored: none before, usage now.",
    ]


def test_answers_of_other_models_or_from_elsewhere_are_said() -> None:
    cells = (cell("a", provenance=PROVIDER), cell("b", provenance=replace(REFERENCE, model_requested="a-model-2")))
    now = replace(RUN, cells=(*cells, cell("b", "gemini-3")))

    assert said(now) == [
        "answers of anthropic: a-model-1 (reference) before, a-model-1 (provider), a-model-2 (reference) now."
    ]


def test_a_run_that_was_not_played_to_its_end_says_so() -> None:
    assert said(replace(RUN, stopped="interrupted")) == [
        "The later run was not finished: cells that are gone or new may only not have been played."
    ]
