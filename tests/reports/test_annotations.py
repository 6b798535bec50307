"""Annotations as GitHub's runner reads them, and the entries that GitLab's documentation requires."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from harness.reports.ci_reports import GITHUB, GITLAB
from harness.results import Definition, Kind, Presentation, RunResult, Severity, Verdict
from tests.reports.runs import both, cell, failed, finding, red

_COMMAND = re.compile(r"::(error|warning) (.*?)::(.*)")


def unescaped(text: str) -> str:
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escape, character)
    return text


def commands(run: RunResult) -> list[tuple[str, dict[str, str], str]]:
    read: list[tuple[str, dict[str, str], str]] = []
    for line in GITHUB.render(run, Presentation()).splitlines():
        found = _COMMAND.fullmatch(line)
        assert found is not None
        pairs = (each.split("=", 1) for each in found[2].split(","))
        read.append((found[1], {name: unescaped(value) for name, value in pairs}, unescaped(found[3])))
    return read


def located(run: RunResult) -> RunResult:
    names = {each.scenario for each in run.cells}
    at = {name: Definition("d", file=f"scenarios/{name}.yaml", line=3, turns=(14, 20)) for name in names}
    return replace(run, definitions=at)


def test_github_causes_are_at_their_turn_worst_first() -> None:
    second = failed("b", "anthropic", finding("call-lost", turn=1))
    run = located(RunResult("replay", (second, failed("a", "anthropic", finding(turn=0)), failed("c"))))

    read = commands(run)

    assert [(kind, each["file"], each["line"], each["title"]) for kind, each, _ in read] == [
        ("error", "scenarios/a.yaml", "14", "result-swapped: 2 cells, which fail only for this"),
        ("error", "scenarios/b.yaml", "20", "call-lost: 1 cell, which fails only for this"),
        ("error", "scenarios/c.yaml", "3", "result-swapped: 2 cells, which fail only for this"),
    ]
    assert read[0][2].startswith("a . anthropic\nrequest 2 /messages/3/content/0: the result of one call is sent")
    assert "\nWhat to do: Match results to calls by their ids." in read[0][2]
    assert read[0][2].endswith("\nRun again: harness run a --target anthropic")


def test_broken_missing_and_stale_are_errors() -> None:
    read = commands(red())

    assert [(kind, each["title"]) for kind, each, _ in read] == [
        ("error", "result-swapped: 1 cell, which fails only for this"),
        ("error", "gemini-pairing: 1 cell, which fails only for this"),
        ("error", "error: 1 cell"),
        ("error", "missing: 1 cell"),
        ("error", "stale: 1 entry"),
        ("warning", "note: 1 cell"),
    ]
    assert commands(replace(red(), stopped="interrupted"))[0][1:] == (
        {"title": "unfinished: 8 cells done"},
        "the run is not finished: interrupted",
    )
    assert "record: harness record" in next(text for _, each, text in read if each["title"].startswith("missing"))


def test_more_causes_than_github_shows_are_counted() -> None:
    cells = [failed(f"s{number}", "anthropic", finding(f"rule-{number}")) for number in range(14)]
    cells += [
        cell(f"w{number}", verdict=Verdict.WARN, findings=(finding(f"soft-{number}", severity=Severity.WARNING),))
        for number in range(11)
    ]

    read = commands(RunResult("replay", tuple(cells)))

    errors = [each["title"] for kind, each, _ in read if kind == "error"]
    warnings = [each["title"] for kind, each, _ in read if kind == "warning"]
    assert (len(errors), len(warnings)) == (10, 10)
    assert (errors[-1], warnings[-1]) == ("and 5 more causes", "and 2 more causes")
    assert [text for _, each, text in read if each["title"] == errors[-1]] == [
        "rule-9, rule-10, rule-11, rule-12, rule-13: see the report of the run"
    ]


def test_a_text_of_somebody_else_is_no_command_and_no_property() -> None:
    hostile = "100%\r\n::error file=x::y, a:b,c=%0A\n::stop-commands::t \ud83d"
    run = located(RunResult("replay", (failed("a", "anthropic", finding("x,y:z\n::debug::", message=hostile)),)))

    ((_, properties, text),) = commands(run)

    assert "\n" not in GITHUB.render(run, Presentation()).rstrip("\n")
    assert properties["title"].startswith("x,y:z")
    assert "100%" in text
    assert set(properties) == {"file", "line", "title"}
    GITHUB.render(run, Presentation()).encode()


def issues(run: RunResult) -> list[dict[str, Any]]:
    return json.loads(GITLAB.render(run, Presentation()))


def test_nothing_is_reported_of_a_clean_run() -> None:
    assert GITHUB.render(RunResult("replay", both()), Presentation()) == ""
    assert GITLAB.render(RunResult("replay", both()), Presentation()) == "[]\n"


def test_gitlab_has_an_entry_for_each_place() -> None:
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


def test_gitlab_what_has_no_finding_is_an_entry_too() -> None:
    names = [each["check_name"].removeprefix("harness/") for each in issues(replace(red(), stopped="interrupted"))]

    assert names == ["unfinished", "result-swapped", "gemini-pairing", "error", "missing", "stale", "note"]
