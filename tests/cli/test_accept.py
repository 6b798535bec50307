"""`harness accept`, and a run that has what it wrote as its expected failures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.runner.expected_failures import load
from harness.runner.verdicts import known_finding_ids
from tests.cli.conftest import Command

SWAPPED = ("--mode", "reference", "call-parallel-same-tool", "--adapter", "tests.examples.swapped_results:ADAPTER")


def red(harness: Command, *more: str) -> dict[str, list[tuple[str, str | None]]]:
    """The findings of the run by verdict and scenario, each with the reason for which it is expected."""
    harness("run", *SWAPPED, "--report=json:run.json", *more)
    return {
        f"{cell['verdict']} {cell['scenario']}": [(each["rule"], each["accepted"]) for each in cell["findings"]]
        for cell in json.loads(Path("run.json").read_text())["cells"]
    }


def test_what_is_red_becomes_a_file_that_makes_it_expected(harness: Command) -> None:
    assert red(harness) == {"fail call-parallel-same-tool": [("result-swapped", None)] * 2}

    written = harness("accept", "run.json", "--reason", "tracked as #123")

    assert (written.code, written.err) == (0, "")
    assert written.out == (
        "1 entry added to expected-failures.yaml: harness run --expected-failures expected-failures.yaml\n"
    )
    assert Path("expected-failures.yaml").read_text() == (
        "- scenario: call-parallel-same-tool\n  target: swapped-results\n  rule: result-swapped\n"
        "  reason: 'tracked as #123'\n"
    )
    accepted = {"expected-failure call-parallel-same-tool": [("result-swapped", "tracked as #123")] * 2}
    assert red(harness, "--expected-failures=expected-failures.yaml") == accepted
    assert harness("run", *SWAPPED, "--expected-failures=expected-failures.yaml").code == 0


RENUMBERING = """
from dataclasses import replace
from harness.model.messages import ToolCall
from tests.examples import plain_http

class Client(plain_http.Client):
    def chat(self, request):
        response = super().chat(request)
        parts = [
            replace(part, id="one") if isinstance(part, ToolCall) else part
            for part in response.message.parts
        ]
        return replace(response, message=replace(response.message, parts=tuple(parts)))

ADAPTER = replace(plain_http.ADAPTER, name="renumbering", connect=Client)
"""


def test_accepting_a_cause_accepts_its_consequences(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "renumbering_adapter.py").write_text(RENUMBERING)
    monkeypatch.syspath_prepend(folder)
    run = ("run", *SWAPPED[:3], "--adapter", "renumbering_adapter:ADAPTER", "--report=json:run.json")
    assert harness(*run).code == 1

    written = harness("accept", "run.json", "--reason", "tracked as #123")
    again = harness(*run, "--expected-failures=expected-failures.yaml")

    assert written.code == again.code == 0
    assert [entry.rule for entry in load(Path("expected-failures.yaml"), known_finding_ids())] == ["issued-id-lost"]
    findings = json.loads(Path("run.json").read_text())["cells"][0]["findings"]
    assert {(each["rule"], each["accepted"]) for each in findings} == {
        ("issued-id-lost", "tracked as #123"),
        ("call-id-changed", "tracked as #123"),
        ("call-id-unique", "tracked as #123"),
    }
    assert all((each["follows"] is None) is (each["rule"] == "issued-id-lost") for each in findings)


def test_what_is_there_is_kept_and_not_written_twice(harness: Command) -> None:
    mine = "# ours\n- {scenario: 'call-*', target: '*', rule: 'result-*', reason: 'known'}\n"
    Path("known.yaml").write_text(mine)
    red(harness)

    again = harness("accept", "run.json", "--to", "known.yaml")

    assert again.out == "0 entries added to known.yaml: harness run --expected-failures known.yaml\n"
    assert Path("known.yaml").read_text() == mine


@pytest.mark.parametrize(("rule", "code", "verdict"), [("result-swapped", 0, "expected-failure"), ("usage", 1, "fail")])
def test_an_entry_hides_only_its_own_finding(harness: Command, rule: str, code: int, verdict: str) -> None:
    entry = {"scenario": "*", "target": "*", "rule": rule, "reason": "known"}
    Path("known.yaml").write_text(json.dumps([entry]))

    played = harness(
        "run", *SWAPPED, "--expected-failures", "known.yaml", "--report=json:run.json", "--report=terminal"
    )

    assert played.code == code
    assert json.loads(Path("run.json").read_text())["cells"][0]["verdict"] == verdict
    assert ("result-swapped: data lost or wrong" in played.out) is (verdict == "fail")


def test_an_entry_without_a_cell_is_reported_and_passes(harness: Command) -> None:
    Path("known.yaml").write_text(
        "- {scenario: call-parallel-same-tool, target: '*', rule: 'result-sw?pped', reason: known}\n"
        "- {scenario: call-paralel, target: 'mine*', rule: usage, reason: typo}\n"
    )

    played = harness("run", *SWAPPED, "--expected-failures", "known.yaml")

    assert played.code == 0
    assert "Expected failures that name no cell of this run: 1\n  usage in call-paralel, mine*\n" in played.out


def test_a_variant_is_named_where_only_one_of_two_is_red(harness: Command) -> None:
    run = {
        "mode": "replay",
        "cells": [
            {
                "scenario": "a[1]",
                "target": "t",
                "adapter": "t",
                "api": "gemini",
                "variant": variant,
                "verdict": verdict,
                "findings": findings,
            }
            for variant, verdict, findings in (
                ("whole", "pass", []),
                (
                    "stream",
                    "fail",
                    [{"rule": "usage", "kind": "loss", "severity": "error", "blame": "adapter", "message": "no"}],
                ),
            )
        ],
    }
    Path("run.json").write_text(json.dumps(run))

    assert harness("accept", "run.json").code == 0

    entry = load(Path("expected-failures.yaml"), known_finding_ids())[0]
    assert (entry.scenario, entry.target, entry.rule, entry.variant) == ("a[[]1]", "t", "usage", "stream")


def test_what_no_rule_found_is_named_and_not_accepted(harness: Command) -> None:
    cell = {"scenario": "a", "target": "t", "adapter": "t", "api": "gemini", "variant": "whole"}
    Path("run.json").write_text(
        json.dumps({"mode": "replay", "cells": [{**cell, "verdict": "error", "reason": "it ended"}]})
    )

    written = harness("accept", "run.json")

    assert written.code == 1
    assert written.err == (
        "not accepted: a [whole], t: it ended\n1 cell ended without a finding that an entry could name.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("none.json",), "none.json: cannot be read: No such file or directory."),
        (
            ("text.json",),
            "text.json: this is not the report of a run. 'harness run --report json:text.json' writes one.",
        ),
        (
            ("list.json",),
            "list.json: this is not the report of a run. 'harness run --report json:list.json' writes one.",
        ),
        (
            ("run.json", "--to", "none/known.yaml"),
            "--to none/known.yaml: cannot be written: No such file or directory.",
        ),
        (("cut.json",), "cut.json: this run was not played to its end (interrupted). Play it again first."),
        (("run.json", "--reason", " "), "--reason: it must not be empty, as in --reason 'tracked as #123'."),
        (
            ("run.json", "--to", "list.json"),
            "list.json:1: an entry is a mapping of scenario, target, rule, reason, variant.",
        ),
    ],
)
def test_what_is_wrong_is_said(harness: Command, arguments: tuple[str, ...], said: str) -> None:
    Path("text.json").write_text("hello")
    Path("list.json").write_text("[1]")
    Path("run.json").write_text('{"mode": "replay", "cells": []}')
    Path("cut.json").write_text('{"mode": "replay", "cells": [], "stopped": "interrupted"}')

    failed = harness("accept", *arguments)

    assert (failed.code, failed.out, failed.err) == (2, "", f"harness: {said}\n")


def test_an_unknown_rule_is_named_and_not_accepted(harness: Command) -> None:
    red(harness)
    Path("run.json").write_text(Path("run.json").read_text().replace('"result-swapped"', '"results-swapped"'))

    outcome = harness("accept", "run.json")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "harness: run.json: the entry for call-parallel-same-tool on swapped-results can match nothing: there is no "
        "rule 'results-swapped'. The nearest id is 'result-swapped'. 'harness list rules' and 'harness list facts' "
        "have the ids.\n"
    )
    assert not Path("expected-failures.yaml").exists()
