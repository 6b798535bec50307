"""The run as JSON, and its exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.apis.jsonvalue import equal
from harness.model.messages import JSON, Usage
from harness.results import (
    Blame,
    CellResult,
    Difference,
    ExpectedFailure,
    Finding,
    Kind,
    Provenance,
    RunResult,
    Severity,
    Spending,
    Verdict,
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FINDINGS = st.builds(
    Finding,
    rule=TEXT,
    kind=st.sampled_from(Kind),
    severity=st.sampled_from(Severity),
    blame=st.sampled_from(Blame),
    message=TEXT,
    pointer=st.none() | TEXT,
    actual=VALUES,
    expected=VALUES,
    exchange=st.none() | st.integers(0, 9),
)
COUNTS = st.none() | st.integers(0, 10**9)
SPENDINGS = st.builds(
    Spending,
    model=TEXT,
    requests=st.integers(0, 9),
    usage=st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
    dollars=st.none() | st.decimals(0, 10**6, allow_nan=False, allow_infinity=False),
    unpriced=st.integers(0, 9),
)
CELLS = st.builds(
    CellResult,
    scenario=TEXT,
    target=TEXT,
    adapter=TEXT,
    api=TEXT,
    variant=st.sampled_from(["whole", "stream"]),
    verdict=st.sampled_from(Verdict),
    provenance=st.none()
    | st.builds(
        Provenance,
        origin=st.sampled_from(["reference", "provider"]),
        recorded_at=st.none() | TEXT,
        model_requested=st.none() | TEXT,
        model_served=st.none() | TEXT,
        versions=st.dictionaries(TEXT, TEXT, max_size=2),
    ),
    findings=st.lists(FINDINGS, max_size=2).map(tuple),
    reason=st.none() | TEXT,
    exchanges=st.integers(0, 9),
    covers=st.lists(TEXT, max_size=2).map(tuple),
    spending=st.none() | SPENDINGS,
)
RUNS = st.builds(
    RunResult,
    mode=st.sampled_from(["replay", "reference", "live", "record", "audit"]),
    cells=st.lists(CELLS, max_size=3).map(tuple),
    differences=st.lists(
        st.builds(Difference, TEXT, TEXT, st.dictionaries(TEXT, TEXT, max_size=3), st.booleans()), max_size=2
    ).map(tuple),
    stale=st.lists(st.builds(ExpectedFailure, TEXT, TEXT, TEXT, TEXT), max_size=2).map(tuple),
    versions=st.dictionaries(TEXT, TEXT, max_size=2),
    timing=st.dictionaries(TEXT, st.floats(0, 1e6), max_size=2),
    cassettes=st.none() | TEXT,
)


@given(RUNS)
@settings(max_examples=25)
def test_a_run_comes_back_from_its_json(run: RunResult) -> None:
    text = run.to_json()
    back = RunResult.from_json(text)
    assert back == run
    assert back.to_json() == text
    document = json.loads(text)
    assert document["summary"] == run.summary
    for cell, plain in zip(run.cells, document["cells"], strict=True):
        for finding, found in zip(cell.findings, plain["findings"], strict=True):
            assert equal(finding.actual, found["actual"])
            assert equal(finding.expected, found["expected"])


def finding(**changes: Any) -> Finding:
    return replace(Finding("usage", Kind.LOSS, Severity.ERROR, Blame.ADAPTER, "no"), **changes)


def cell(verdict: Verdict, *findings: Finding) -> CellResult:
    return CellResult("s", "t", "a", "anthropic", "whole", verdict, findings=findings)


@pytest.mark.parametrize("value", [1, 1.0, True, 2**70, 0.1, "text", None, [1, 1.0, True], {"a": 1.0}])
def test_numbers_keep_their_kind(value: JSON) -> None:
    run = RunResult("replay", (cell(Verdict.FAIL, finding(actual=value)),))
    assert repr(RunResult.from_json(run.to_json()).cells[0].findings[0].actual) == repr(value)


def test_numbers_that_json_does_not_have_are_texts() -> None:
    run = RunResult("replay", (cell(Verdict.FAIL, finding(actual={"city": [float("nan"), float("-inf"), 0.5]})),))
    document = json.loads(run.to_json(), parse_constant=pytest.fail)
    assert document["cells"][0]["findings"][0]["actual"] == {"city": ["nan", "-inf", 0.5]}


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    half = "\ud83d"
    found = finding(message=half, pointer=half, actual={half: [half]}, expected=half)
    failed = replace(cell(Verdict.ERROR, found), reason=f"KeyError: {half}")
    run = RunResult("replay", (failed,))
    run.to_json().encode()
    assert failed.reason == "KeyError: \\ud83d"
    assert found.actual == {"\\ud83d": ["\\ud83d"]}
    assert RunResult.from_json(run.to_json()) == run


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", '{"mode": "replay"}', '{"mode": "other", "cells": []}'])
def test_what_is_no_run_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        RunResult.from_json(text)


def test_the_costs_are_summed_for_each_target() -> None:
    one, two, unknown = (
        Spending("m", 2, Usage(100, 10, None, 5), Decimal("0.0300")),
        Spending("m", 1, Usage(50, 5, 20), Decimal("0.01"), 1),
        Spending("e", 3, Usage(), None, 3),
    )
    cells = [
        replace(cell(Verdict.PASS), target=target, spending=spending)
        for target, spending in (("a", one), ("b", unknown), ("a", two), ("c", None), ("a", unknown))
    ]

    run = RunResult("replay", tuple(cells))

    assert run.costs == {"a": Spending("m, e", 6, Usage(150, 15, 20, 5), Decimal("0.04"), 4), "b": unknown}
    document = json.loads(run.to_json())
    assert document["costs"]["a"]["dollars"] == "0.0400"
    assert document["costs"]["b"]["dollars"] is None


@pytest.mark.parametrize(
    ("verdicts", "stale", "code"),
    [
        ("pass", False, 0),
        ("warn", False, 0),
        ("expected-failure", False, 0),
        ("pass not-applicable", False, 0),
        ("pass warn expected-failure not-applicable", False, 0),
        ("fail", False, 1),
        ("error", False, 1),
        ("pass fail", False, 1),
        ("pass", True, 1),
        ("", True, 1),
        ("missing", True, 1),
        ("fail missing", False, 1),  # nonconformant outranks "could not look"
        ("error missing not-applicable", False, 1),
        ("missing", False, 2),
        ("pass missing", False, 2),
        ("expected-failure missing", False, 2),
        ("", False, 2),
        ("not-applicable", False, 2),
        ("not-applicable missing", False, 2),
    ],
)
def test_exit_codes(verdicts: str, stale: bool, code: int) -> None:
    expectation = ExpectedFailure("s", "t", "usage", "known")
    run = RunResult("replay", tuple(cell(Verdict(v)) for v in verdicts.split()), stale=(expectation,) if stale else ())
    assert run.exit_code == code


def test_when_and_how_long_a_run_took_stands_with_its_timing_and_comes_back() -> None:
    cells = (replace(cell(Verdict.PASS), seconds=0.25), replace(cell(Verdict.PASS), variant="stream"))
    run = RunResult("replay", cells, timing={"seconds": 1.5}, played_at="2026-11-23T08:00:00+00:00")

    document = json.loads(run.to_json())
    back = RunResult.from_json(run.to_json())

    assert document["timing"] == {"at": "2026-11-23T08:00:00+00:00", "seconds": 1.5, "cells": {"s/t/whole": 0.25}}
    assert all("seconds" not in each for each in document["cells"])
    assert "played_at" not in document
    assert [each.seconds for each in back.cells] == [0.25, None]
    assert (back.played_at, back.timing) == (run.played_at, {"seconds": 1.5})
    assert replace(run, played_at=None, timing={}) == replace(back, timing={})
