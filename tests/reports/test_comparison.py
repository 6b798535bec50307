from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from harness.contract.model import Usage
from harness.reports._comparison import compared
from harness.results import Difference, RunResult, Spending, Verdict
from tests.reports.runs import cell, failed, finding, red, two_causes


def said(changes: object) -> list[tuple[str, str, str | None, str | None]]:
    return [(each.word, each.what, each.before, each.now) for each in changes]  # type: ignore[attr-defined]


def test_a_run_is_as_it_was() -> None:
    made = compared(red(), red())

    assert (made.cells, made.causes, made.differences, made.costs) == ((), (), (), ())
    assert made.sentence == "Nothing has changed but times and versions."


def test_times_and_versions_are_no_change() -> None:
    other = replace(red(), timing={"seconds": 99.0}, versions={"httpx2": "3.0"})

    assert compared(other, red()).sentence == "Nothing has changed but times and versions."


def test_cells_are_new_gone_or_otherwise_and_some_of_them_worse() -> None:
    before = RunResult("replay", (cell("a"), cell("b"), failed("c"), cell("d", verdict=Verdict.MISSING)))
    now = RunResult("replay", (failed("a"), failed("c"), cell("d"), failed("e")))

    made = compared(now, before)

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

    assert said(compared(now, before).causes) == [
        (
            "changed",
            "result-swapped (error, blame: adapter): anthropic /messages/*/content/*",
            "1 cell, only for this",
            "2 cells, only for this",
        ),
        ("new", "new (error, blame: adapter): anthropic /messages/*/content/*", None, "1 cell, only for this"),
        ("gone", "old (error, blame: adapter): anthropic /messages/*/content/*", "1 cell, only for this", None),
    ]


def test_differences_are_compared_for_the_targets_of_both_runs() -> None:
    before = two_causes()
    rows = (
        Difference("tools", "word for it", {"anthropic": "auto", "other": "x"}, differs=True),
        *before.differences[:2],
    )

    made = compared(replace(before, differences=rows), before)

    assert said(made.differences) == [
        ("changed", "tools: word for it: anthropic", "any", "auto"),
        ("gone", "tools: word for it: openai-chat", "required", None),
    ]


def test_costs_are_compared_by_target() -> None:
    def run(dollars: str) -> RunResult:
        spending = Spending("m", 2, Usage(1000, 20), Decimal(dollars))
        return RunResult("replay", (cell(spending=spending),))

    assert said(compared(run("0.25"), run("0.5")).costs) == [
        (
            "changed",
            "anthropic",
            "$0.5000 for 2 requests; 1,000 tokens in, 20 tokens out",
            "$0.2500 for 2 requests; 1,000 tokens in, 20 tokens out",
        )
    ]
