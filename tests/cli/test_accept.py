"""`harness accept`, and a run that has what it wrote as its expected failures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.runner.expected_failures import load
from harness.runner.verdicts import known_finding_ids
from tests.cli.conftest import Command

pytestmark = pytest.mark.usefixtures("in_process")

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


def test_a_variant_is_named_where_only_one_of_two_is_red(harness: Command) -> None:
    cell = {"scenario": "a[1]", "target": "t", "adapter": "t", "api": "gemini", "variant": "whole", "verdict": "pass"}
    found = {"rule": "usage", "kind": "loss", "severity": "error", "blame": "adapter", "message": "no"}
    red = {**cell, "variant": "stream", "verdict": "fail", "findings": [found]}
    Path("run.json").write_text(json.dumps({"mode": "replay", "cells": [cell, red]}))

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


def test_an_unknown_rule_is_named_and_not_accepted(harness: Command) -> None:
    red(harness)
    Path("run.json").write_text(Path("run.json").read_text().replace('"result-swapped"', '"results-swapped"'))

    outcome = harness("accept", "run.json")

    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "harness: run.json: the entry for call-parallel-same-tool on swapped-results cannot match anything: there "
        "is no rule 'results-swapped'. The nearest id is 'result-swapped'. 'harness list rules' and 'harness list "
        "facts' list the ids.\n"
    )
    assert not Path("expected-failures.yaml").exists()
