from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from harness.contract.model import Usage
from harness.reports.run_changes import compare_runs
from harness.results import Difference, RunResult, Severity, Spending, StaleExpectation, Verdict
from tests.reports.runs import both, cell, failed, finding, red, two_causes


def said(changes: object) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.word, each.what, each.before, each.now) for each in changes]  # type: ignore[attr-defined]


def test_a_run_is_as_it_was() -> None:
    made = compare_runs(red(), red())

    assert (made.cells, made.causes, made.differences, made.costs) == ((), (), (), ())
    assert made.sentence == "Nothing changed except times and versions."


def test_times_and_versions_are_no_change() -> None:
    other = replace(red(), timing={"seconds": 99.0}, versions={"httpx2": "3.0"})

    assert compare_runs(other, red()).sentence == "Nothing changed except times and versions."


def test_cells_are_new_gone_or_otherwise_and_some_of_them_worse() -> None:
    before = RunResult("replay", (cell("a"), cell("b"), failed("c"), cell("d", verdict=Verdict.MISSING)))
    now = RunResult("replay", (failed("a"), failed("c"), cell("d"), failed("e")))

    made = compare_runs(now, before)

    assert said(made.cells) == [
        ("changed", "a [whole], anthropic", "pass", "fail"),
        ("changed", "d [whole], anthropic", "missing", "pass"),
        ("new", "e [whole], anthropic", None, "fail"),
        ("gone", "b [whole], anthropic", "pass", None),
    ]
    assert [each.what[0] for each in made.cells if each.worse] == ["a", "e"]


def test_causes_are_new_gone_or_wider() -> None:
    before = RunResult("replay", (failed("a"), failed("b", "anthropic", finding("old"))))
    now = RunResult("replay", (failed("a"), failed("b"), failed("c", "anthropic", finding("new"))))

    assert said(compare_runs(now, before).causes) == [
        (
            "changed",
            "result-swapped (error, blame: adapter): anthropic /messages/*/content/*",
            "1 cell, which fails only for this",
            "2 cells, which fail only for this",
        ),
        (
            "new",
            "new (error, blame: adapter): anthropic /messages/*/content/*",
            None,
            "1 cell, which fails only for this",
        ),
        (
            "gone",
            "old (error, blame: adapter): anthropic /messages/*/content/*",
            "1 cell, which fails only for this",
            None,
        ),
    ]


def test_differences_are_compared_for_the_targets_of_both_runs() -> None:
    before = two_causes()
    rows = (
        Difference("tools", "word for it", {"anthropic": "auto", "other": "x"}, differs=True),
        *before.differences[:2],
    )

    made = compare_runs(replace(before, differences=rows), before)

    assert said(made.differences) == [
        ("changed", "tools: word for it: anthropic", "any", "auto"),
        ("gone", "tools: word for it: openai-chat", "required", None),
    ]


def test_costs_are_compared_by_target() -> None:
    def run(dollars: str) -> RunResult:
        spending = Spending("m", 2, Usage(1000, 20), Decimal(dollars))
        return RunResult("replay", (cell(spending=spending),))

    assert said(compare_runs(run("0.25"), run("0.5")).costs) == [
        (
            "changed",
            "anthropic",
            "$0.5000 for 2 requests; 1,000 tokens in, 20 tokens out",
            "$0.2500 for 2 requests; 1,000 tokens in, 20 tokens out",
        )
    ]


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


def test_a_cause_is_worse_in_more_cells_and_better_in_fewer_though_each_failed_before() -> None:
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


def test_an_expected_failure_that_does_not_happen_any_more_is_worse() -> None:
    stale = (StaleExpectation("call-*", "anthropic", "usage", "tracked as #7", "stream"),)

    made = compare_runs(RunResult("replay", (cell(),), stale=stale), RunResult("replay", (cell(),)))

    assert [(each.word, each.what, each.now) for each in made.stale] == [
        ("new", "usage in call-* [stream], anthropic", "tracked as #7")
    ]
    assert made.worse


def test_a_run_that_was_not_played_to_its_end_is_worse_than_one_that_was() -> None:
    whole = RunResult("replay", (cell(),))

    assert compare_runs(replace(whole, stopped="interrupted"), whole).worse
    assert not compare_runs(whole, replace(whole, stopped="interrupted")).worse


def test_a_cell_that_changed_alike_in_both_variants_is_one_line() -> None:
    sections = dict(
        compare_runs(RunResult("replay", both(verdict=Verdict.ERROR)), RunResult("replay", both())).sections
    )

    assert [each.what for each in sections["Cells: 2"]] == ["call-single [whole and stream], anthropic"]
