"""Findings as causes: by rule, API and place, whichever message it is; and the row in which a cell is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.reports.finding_causes import by_rule, causes, general_pointer, render
from harness.reports.groups import feature
from harness.reports.words import values
from harness.results import Invocation, Kind, Presentation, RunResult, Severity, Subject, Verdict
from tests.reports.runs import cell, failed, finding


def summaries(*cells: object) -> list[tuple[str, str, list[str]]]:
    """Each cause: its rule, how far it reaches, where it is."""
    found = causes(RunResult("replay", tuple(cells)), Severity.ERROR)  # pyright: ignore[reportArgumentType]
    return [(each.rule, each.extent, [f"{api} {at}" for api, at in each.at]) for each in found]


@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        ("/messages/3/content/0/id", "/messages/*/content/*/id"),
        ("/tools/0/function/parameters/properties/city/type", "/tools/*/function/parameters"),
        ("/contents/1/parts/0/functionCall/args/1/x", "/contents/*/parts/*/functionCall/args"),
        ("/input/2/call_id", "/input/*/call_id"),
        ("", ""),
        (None, ""),
    ],
)
def test_a_general_pointer_has_no_indices(pointer: str | None, place: str) -> None:
    assert general_pointer(finding(pointer=pointer)) == place


def test_each_place_of_a_rule_is_a_cause() -> None:
    assert summaries(
        failed("a", "anthropic", finding(pointer="/messages/1")),
        failed("b", "anthropic", finding(pointer="/messages/7"), finding(pointer="/system")),
    ) == [
        ("result-swapped", "2 cells; 1 fails only for this", ["anthropic /messages/*"]),
        ("result-swapped", "1 cell; none fails only for this", ["anthropic /system"]),
    ]


def test_causes_that_differ_in_their_api_are_joined() -> None:
    same = failed(
        "a", "gemini-3", finding(pointer="/contents/1", message="the result of one call is sent as that of another")
    )

    assert summaries(failed("a", "anthropic"), same) == [
        (
            "result-swapped",
            "2 cells, which fail only for this",
            ["anthropic /messages/*/content/*", "gemini /contents/*"],
        )
    ]
    other = replace(same, findings=(finding(pointer="/contents/1", message="something else"),))
    assert len(summaries(failed("a", "anthropic"), other)) == 2


def test_what_alone_fails_the_most_cells_comes_first() -> None:
    common, alone = finding("usage"), finding("result-swapped")

    assert [
        rule
        for rule, _, _ in summaries(
            failed("a", "anthropic", common, alone),
            failed("b", "anthropic", common, alone),
            failed("c", "anthropic", alone),
        )
    ] == [
        "result-swapped",
        "usage",
    ]


def test_the_worst_cause_is_in_the_most_cells_or_responses() -> None:
    calls, names = finding("response-calls"), finding("call-name")
    rare = finding("result-swapped")
    many = finding("server-index", message="the index is missing (first in server-call, and 7 more like it)")
    cells = (
        failed("a", "anthropic", calls, names),
        failed("b", "anthropic", calls, names),
        failed("c", "anthropic", rare),
        failed("d", "anthropic", many),
    )

    found = by_rule(RunResult("replay", cells))

    assert [same[0].rule for same in found] == ["server-index", "response-calls", "call-name", "result-swapped"]


def test_counts_and_pages_of_proxies_come_last() -> None:
    page = finding("chat-failure", case="unreadable: a response")
    counts, rare = finding("loop-usage"), finding("setting-lost")
    cells = (failed("a", "anthropic", counts), failed("b", "anthropic", counts), failed("c", "anthropic", page))

    found = by_rule(RunResult("replay", (*cells, failed("d", "anthropic", rare))))

    assert [same[0].rule for same in found] == ["setting-lost", "loop-usage", "chat-failure"]


def test_rules_of_one_defect_share_an_entry() -> None:
    changed, other = finding("arguments-changed"), finding("arguments-no-object")
    cells = (failed("a", "anthropic", changed, other), failed("b", "anthropic", other))

    [same] = by_rule(RunResult("replay", cells))

    assert {each.rule for each in same} == {"arguments-changed", "arguments-no-object"}
    assert "(arguments-changed, 2 cells)" in render(RunResult("replay", cells), Presentation(width=120))


@pytest.mark.parametrize(("kind", "order"), [(Kind.LIMIT, ["lost", "orphan"]), (Kind.LOSS, ["orphan", "lost"])])
def test_what_follows_elsewhere_comes_last_where_a_request_was_refused(kind: Kind, order: list[str]) -> None:
    orphan, refusal = finding("orphan"), replace(finding("other", kind=kind), follows=0)
    lost, follower = finding("lost"), replace(finding("orphan"), follows=0)
    cells = (failed("a", "anthropic", orphan, refusal), failed("b", "anthropic", lost, follower))

    found = by_rule(RunResult("replay", cells))

    assert [same[0].rule for same in found] == order


def test_a_trial_runs_a_broken_cell_again_since_it_has_nothing_to_reproduce() -> None:
    shows = ("harness", "reproduce", "--from", "try.json")
    run = RunResult(
        "reference", (cell(verdict=Verdict.ERROR, reason="KeyError: 'x'"),), invocation=Invocation(show=shows)
    )

    lines = render(run, Presentation(width=120)).splitlines()

    assert "   see      harness run call-single --target anthropic" in lines


def test_long_values_are_shown_from_where_they_differ() -> None:
    text = "The same beginning of two texts, which is longer than a line has room for, and then the "
    long = finding("text-changed", actual=f"{text}end", expected=f"{text}rest")
    short = finding("system-changed", actual="Be brief.", expected="Be short.")

    lines = render(RunResult("replay", (failed("a", "anthropic", long, short),)), Presentation(width=120)).splitlines()

    assert any(line.endswith('…m for, and then the end"') for line in lines), lines
    assert any(line.endswith('…m for, and then the rest"') for line in lines)
    assert any(line.endswith('"Be brief."') for line in lines)


def test_the_feature_that_a_cell_counts_for() -> None:
    covers = ("streaming", "tools")
    streams = finding("stream-text", subject=Subject.STREAMING)

    assert feature(cell(covers=covers)) == "tools"
    assert feature(cell(covers=covers, variant="stream")) == "streaming"
    assert feature(failed("a", "anthropic", streams, variant="stream", covers=("tools",))) == "streaming"
    assert feature(failed("a", "anthropic", streams, finding(), variant="stream", covers=("tools",))) == "tools"
    assert feature(cell(covers=("streaming",), verdict=Verdict.PASS)) == "other"


@pytest.mark.parametrize(
    ("actual", "expected", "summaries"),
    [
        ("a", "b", [("actual", '"a"'), ("expected", '"b"')]),
        ({"role": "user"}, None, [("actual", '{"role": "user"}')]),
        (None, 1, [("actual", "(nothing)"), ("expected", "1")]),
        (0, False, [("actual", "0"), ("expected", "false")]),
        (None, None, []),
    ],
)
def test_unknown_expected_values_are_left_out(actual: Any, expected: Any, summaries: list[tuple[str, str]]) -> None:
    assert values(finding(actual=actual, expected=expected)) == summaries
