from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from harness.model.messages import Usage
from harness.reports.run_changes import compare_runs, conditions
from harness.results import Definition, Difference, ExpectedFailure, RunResult, Severity, Spending, Verdict
from tests.reports.runs import PROVIDER, REFERENCE, both, cell, failed, finding, red, two_causes


def said(changes: object) -> list[str]:
    return [f"{each.word} {each.what}: {each.before} -> {each.now}" for each in changes]  # type: ignore[attr-defined]


def test_a_run_is_as_it_was() -> None:
    other = replace(red(), timing={"seconds": 99.0}, versions={"httpx2": "3.0"})

    made = compare_runs(other, red())

    assert (made.cells, made.causes, made.differences, made.costs) == ((), (), (), ())
    assert made.sentence == "Nothing changed except times and versions."
    assert stated(RUN) == stated(red(), red()) == []


def test_cells_are_new_gone_or_otherwise_and_some_of_them_worse() -> None:
    before = RunResult("replay", (cell("a"), cell("b"), failed("c"), cell("d", verdict=Verdict.MISSING)))
    now = RunResult("replay", (failed("a"), failed("c"), cell("d"), failed("e")))

    made = compare_runs(now, before)

    assert said(made.cells) == [
        "changed a [whole], anthropic: pass -> fail",
        "changed d [whole], anthropic: missing -> pass",
        "new e [whole], anthropic: None -> fail",
        "gone b [whole], anthropic: pass -> None",
    ]
    assert [each.what[0] for each in made.cells if each.worse] == ["a", "e"]


def test_causes_are_new_gone_or_wider() -> None:
    before = RunResult("replay", (failed("a"), failed("b", "anthropic", finding("old"))))
    now = RunResult("replay", (failed("a"), failed("b"), failed("c", "anthropic", finding("new"))))

    at, one = "(error, blame: adapter): anthropic /messages/*/content/*", "1 cell, which fails only for this"
    assert said(compare_runs(now, before).causes) == [
        f"changed result-swapped {at}: {one} -> 2 cells, which fail only for this",
        f"new new {at}: None -> {one}",
        f"gone old {at}: {one} -> None",
    ]


def test_differences_are_compared_for_the_targets_of_both_runs() -> None:
    before = two_causes()
    row = Difference("tools", "word for it", {"anthropic": "auto", "other": "x"}, differs=True)

    made = compare_runs(replace(before, differences=(row, *before.differences[:2])), before)

    assert said(made.differences) == [
        "changed tools: word for it: anthropic: any -> auto",
        "gone tools: word for it: openai-chat: required -> None",
    ]


def test_costs_are_compared_by_target() -> None:
    earlier, later = (
        RunResult("replay", (cell(spending=Spending("m", 2, Usage(1000, 20), Decimal(dollars))),))
        for dollars in ("0.5", "0.25")
    )
    rest = "for 2 requests; 1,000 tokens in, 20 tokens out"
    assert said(compare_runs(later, earlier).costs) == [f"changed anthropic: $0.5000 {rest} -> $0.2500 {rest}"]


def test_a_prompt_cache_that_is_used_no_more_is_a_change_of_costs() -> None:
    earlier, later = (
        RunResult("replay", (cell(spending=Spending("m", 2, Usage(1000, 20, cached), Decimal("0.5"))),))
        for cached in (600, 0)
    )
    (line,) = said(compare_runs(later, earlier).costs)
    assert "1,000 tokens in, 600 tokens from the prompt cache, 20 tokens out ->" in line
    assert line.endswith("1,000 tokens in, 20 tokens out")


@pytest.mark.parametrize(
    ("was", "now", "worse"),
    [
        (Verdict.PASS, Verdict.FAIL, True),
        (Verdict.WARN, Verdict.FAIL, True),
        (Verdict.PASS, Verdict.WARN, True),
        (Verdict.PASS, Verdict.MISSING, True),
        (Verdict.MISSING, Verdict.FAIL, True),
        (Verdict.PASS, Verdict.NOT_APPLICABLE, True),  # or an adapter could drop what it cannot do any more
        (None, Verdict.ERROR, True),
        (Verdict.FAIL, Verdict.ERROR, False),
        (Verdict.FAIL, Verdict.MISSING, False),
        (Verdict.FAIL, Verdict.NOT_APPLICABLE, False),
        (Verdict.PASS, Verdict.NOTE, False),
        (Verdict.PASS, Verdict.EXPECTED_FAILURE, False),
        (Verdict.PASS, Verdict.INCONCLUSIVE, False),
        (Verdict.PASS, None, False),
        (None, Verdict.PASS, False),
    ],
)
def test_what_is_worse_is_worse(was: Verdict | None, now: Verdict | None, worse: bool) -> None:
    before, after = (RunResult("replay", () if each is None else (cell(verdict=each),)) for each in (was, now))

    made = compare_runs(after, before)

    assert (made.worse, made.word) == (worse, "WORSE" if worse else "NOT WORSE")
    assert compare_runs(after, after).word == "SAME"


def test_a_cause_is_worse_in_more_cells() -> None:
    other = finding("old")
    before = RunResult("replay", (failed("a"), failed("b", "anthropic", other)))
    now = RunResult("replay", (failed("a"), failed("b", "anthropic", other, finding())))

    for after, then, worse in ((now, before, True), (before, now, False)):
        (change,) = (each for each in compare_runs(after, then).causes if each.what.startswith("result-swapped"))
        assert (change.worse, change.better) == (worse, not worse)
        assert compare_runs(after, then).worse is worse


def test_a_new_note_is_never_worse() -> None:
    noted = cell("a", verdict=Verdict.NOTE, findings=(finding("custom", severity=Severity.NOTE),))

    made = compare_runs(RunResult("replay", (noted,)), RunResult("replay", (cell("a"),)))

    assert [each.word for each in made.causes] == ["new"]
    assert not made.worse


def test_a_stale_expected_failure_is_worse() -> None:
    stale = (ExpectedFailure("call-*", "anthropic", "usage", "tracked as #7", "stream"),)

    made = compare_runs(RunResult("replay", (cell(),), stale=stale), RunResult("replay", (cell(),)))

    assert [(each.word, each.what, each.now) for each in made.stale] == [
        ("new", "usage in call-* [stream], anthropic", "tracked as #7")
    ]
    assert made.worse


def test_an_unfinished_run_is_worse() -> None:
    whole = RunResult("replay", (cell(),))

    assert compare_runs(replace(whole, stopped="interrupted"), whole).worse
    assert not compare_runs(whole, replace(whole, stopped="interrupted")).worse


def test_a_cell_that_changed_alike_in_both_variants_is_one_line() -> None:
    sections = dict(
        compare_runs(RunResult("replay", both(verdict=Verdict.ERROR)), RunResult("replay", both())).sections
    )

    assert [each.what for each in sections["Cells: 2"]] == ["call-single [whole and stream], anthropic"]


RUN = RunResult(
    "replay",
    (cell("a"), cell("b"), cell("b", "gemini-3")),
    versions={"toolcall-harness": "0.1.0", "openai": "3.54.0"},
    definitions={"a": Definition("1"), "b": Definition("2")},
)


def stated(now: RunResult, before: RunResult = RUN) -> list[str]:
    return list(conditions(now, before))


def test_other_scenarios_targets_and_variants_are_named() -> None:
    now = replace(RUN, cells=(cell("b"), cell("c"), cell("c", "openai-chat", variant="stream")))

    assert stated(now) == [
        "Only in the earlier run: 1 scenario: a.",
        "Only in the later run: 1 scenario: c.",
        "Only in the earlier run: 1 target: gemini-3.",
        "Only in the later run: 1 target: openai-chat.",
        "Only in the later run: 1 variant: stream.",
    ]


def test_a_scenario_that_says_something_else_now_is_named() -> None:
    now = replace(RUN, definitions={"a": Definition("1"), "b": Definition("3"), "c": Definition("4")})

    assert stated(now) == ["1 scenario changed between the runs: b."]


def test_other_versions_modes_facts_and_rules_are_stated() -> None:
    now = replace(
        RUN,
        mode="live",
        versions={"toolcall-harness": "0.2.0", "anthropic": "2.12.0", "openai": "3.54.0"},
        facts=("ours.yaml",),
        rules=("result-*",),
        ignored=("usage",),
    )

    assert stated(now) == [
        "mode: replay before, live now.",
        "Other versions: toolcall-harness 0.1.0 -> 0.2.0, anthropic none -> 2.12.0.",
        "files of facts: none before, ours.yaml now.",
        "rules that count: none before, result-* now.",
        "rules that are ignored: none before, usage now.",
    ]


def test_answers_of_other_models_or_from_elsewhere_are_stated() -> None:
    cells = (cell("a", provenance=PROVIDER), cell("b", provenance=replace(REFERENCE, model_requested="a-model-2")))
    now = replace(RUN, cells=(*cells, cell("b", "gemini-3")))

    assert stated(now) == [
        "answers of anthropic: a-model-1 (reference) before, a-model-1 (provider), a-model-2 (reference) now."
    ]


def test_an_unfinished_run_is_marked() -> None:
    assert stated(replace(RUN, stopped="interrupted")) == [
        "The later run was not finished: cells that are gone or new may simply not have run."
    ]
