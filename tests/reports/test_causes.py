"""Findings as causes: by rule, API and place, whichever message it is; and the row in which a cell is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.reports.finding_causes import causes, general_pointer
from harness.reports.groups import feature
from harness.reports.words import values
from harness.results import Finding, RunResult, Severity, Subject, Verdict
from tests.reports.runs import cell, failed, finding


def told(*cells: object) -> list[tuple[str, str, list[str]]]:
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
def test_a_place_is_the_same_whichever_message_call_or_value_it_is_in(pointer: str | None, place: str) -> None:
    assert general_pointer(finding(pointer=pointer)) == place


def test_one_rule_at_one_place_is_one_cause_and_at_another_place_another() -> None:
    assert told(
        failed("a", "anthropic", finding(pointer="/messages/1")),
        failed("b", "anthropic", finding(pointer="/messages/7"), finding(pointer="/system")),
    ) == [
        ("result-swapped", "2 cells; 1 fails only for this", ["anthropic /messages/*"]),
        ("result-swapped", "1 cell; none fails only for this", ["anthropic /system"]),
    ]


def test_what_only_the_api_tells_apart_is_shown_together_and_what_is_said_otherwise_is_not() -> None:
    same = failed(
        "a", "gemini-3", finding(pointer="/contents/1", message="the result of one call is sent as that of another")
    )

    assert told(failed("a", "anthropic"), same) == [
        (
            "result-swapped",
            "2 cells, which fail only for this",
            ["anthropic /messages/*/content/*", "gemini /contents/*"],
        )
    ]
    other = replace(same, findings=(finding(pointer="/contents/1", message="something else"),))
    assert len(told(failed("a", "anthropic"), other)) == 2


def test_two_crashes_are_two_causes_and_one_crash_in_two_places_of_the_code_is_one() -> None:
    def crash(raised: str | None, text: str) -> Finding:
        return finding("chat-failure", pointer="", message=f"the adapter raises {raised}: {text}", raised=raised)

    assert told(
        failed("a", "anthropic", crash("KeyError", "'usage'")),
        failed("b", "anthropic", crash("KeyError", "'id'")),
        failed("c", "anthropic", crash("TypeError", "not iterable")),
    ) == [
        ("chat-failure", "2 cells, which fail only for this", ["anthropic "]),
        ("chat-failure", "1 cell, which fails only for this", ["anthropic "]),
    ]


def test_opposite_problems_of_one_rule_are_two_causes() -> None:
    def failure(case: str, text: str) -> Finding:
        return finding("chat-failure", pointer="", message=text, case=case)

    assert told(
        failed("a", "anthropic", failure("answered: MalformedResponse", "the adapter raises, and the answer is good")),
        failed("b", "anthropic", failure("answered: MalformedResponse", "the adapter raises, and this one is, too")),
        failed("c", "anthropic", failure("unreadable: a response", "the answer cannot be read, and it is returned")),
    ) == [
        ("chat-failure", "2 cells, which fail only for this", ["anthropic "]),
        ("chat-failure", "1 cell, which fails only for this", ["anthropic "]),
    ]


def test_followers_and_expected_failures_are_no_causes_and_a_cell_fails_only_for_its_cause() -> None:
    follower = finding("exchange-unplayed", follows=0)

    assert told(failed("a", "anthropic", finding(), follower, finding("usage", accepted="known"))) == [
        ("result-swapped", "1 cell, which fails only for this", ["anthropic /messages/*/content/*"])
    ]


def test_what_alone_fails_the_most_cells_comes_first() -> None:
    common, alone = finding("usage"), finding("result-swapped")

    assert [
        rule
        for rule, _, _ in told(
            failed("a", "anthropic", common, alone),
            failed("b", "anthropic", common, alone),
            failed("c", "anthropic", alone),
        )
    ] == [
        "result-swapped",
        "usage",
    ]


def test_a_whole_cell_is_about_the_next_subject_and_a_streamed_one_that_fails_by_streams_alone_about_streaming() -> (
    None
):
    covers = ("streaming", "tools")
    streams = finding("stream-text", subject=Subject.STREAMING)

    assert feature(cell(covers=covers)) == "tools"
    assert feature(cell(covers=covers, variant="stream")) == "streaming"
    assert feature(failed("a", "anthropic", streams, variant="stream", covers=("tools",))) == "streaming"
    assert feature(failed("a", "anthropic", streams, finding(), variant="stream", covers=("tools",))) == "tools"
    assert feature(cell(covers=("streaming",), verdict=Verdict.PASS)) == "other"


@pytest.mark.parametrize(
    ("actual", "expected", "told"),
    [
        ("a", "b", [("actual", '"a"'), ("expected", '"b"')]),
        ({"role": "user"}, None, [("actual", '{"role": "user"}')]),
        (None, 1, [("actual", "(nothing)"), ("expected", "1")]),
        (0, False, [("actual", "0"), ("expected", "false")]),
        (None, None, []),
    ],
)
def test_nothing_is_said_of_what_should_be_where_nothing_is_known(
    actual: Any, expected: Any, told: list[tuple[str, str]]
) -> None:
    assert values(finding(actual=actual, expected=expected)) == told
