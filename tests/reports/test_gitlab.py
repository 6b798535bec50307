"""GitLab's code quality report: what its documentation asks of each entry."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from harness.reports.annotations import GITLAB
from harness.results import Definition, Kind, Presentation, RunResult, Severity, Verdict
from tests.reports.runs import both, cell, failed, finding, red


def issues(run: RunResult) -> list[dict[str, Any]]:
    return json.loads(GITLAB.render(run, Presentation()))


def test_a_clean_run_is_an_empty_list() -> None:
    assert GITLAB.render(RunResult("replay", both()), Presentation()) == "[]\n"


def test_each_place_of_a_cause_is_an_entry_in_the_line_of_its_turn() -> None:
    at = {"a": Definition("d", file="./scenarios/a.yaml", line=3, turns=(14,))}
    run = RunResult("replay", (failed("a", "anthropic", finding(turn=0)), failed("b")), definitions=at)

    first, second = issues(run)

    assert first == {
        "description": "result-swapped in a . anthropic: request 2 /messages/3/content/0: "
        "the result of one call is sent as that of another",
        "check_name": "harness/result-swapped",
        "fingerprint": first["fingerprint"],
        "severity": "major",
        "location": {"path": "scenarios/a.yaml", "lines": {"begin": 14}},
    }
    assert second["location"] == {"path": "toolcall-harness/b", "lines": {"begin": 1}}
    assert len({first["fingerprint"], second["fingerprint"]}) == 2


def test_a_fingerprint_outlives_other_ids_values_and_lines() -> None:
    then = failed("a", "anthropic", finding(message="call_1 is lost", actual="x"))
    now = failed("a", "anthropic", finding(message="call_2 is lost", actual="y", exchange=3))

    assert [issues(RunResult("replay", (each,)))[0]["fingerprint"] for each in (then, then, now)] == [
        issues(RunResult("replay", (then,)))[0]["fingerprint"]
    ] * 3


def test_severities_are_of_gitlabs_five() -> None:
    kinds = [finding("limit", kind=Kind.LIMIT), finding("loss"), finding("custom", kind=Kind.CONVENTION)]
    soft = cell("w", verdict=Verdict.WARN, findings=(finding("soft", severity=Severity.WARNING),))
    run = RunResult("replay", (*(failed(each.rule, "anthropic", each) for each in kinds), soft))

    assert {each["check_name"]: each["severity"] for each in issues(run)} == {
        "harness/limit": "critical",
        "harness/loss": "major",
        "harness/custom": "minor",
        "harness/soft": "minor",
    }


def test_what_has_no_finding_is_an_entry_too() -> None:
    names = [each["check_name"].removeprefix("harness/") for each in issues(replace(red(), stopped="interrupted"))]

    assert names == ["unfinished", "result-swapped", "gemini-pairing", "error", "missing", "stale", "note"]
