from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.apis import registry
from harness.apis.registry import known_limits
from harness.apis.response_rules import RESPONSE_RULES
from harness.checks.gateway_findings import FACTS, OTHERS, SOURCE
from harness.checks.server_checks import CHECKS
from harness.checks.server_results import BECAUSE
from harness.cli.list import _rules
from harness.cli.main import COMMANDS, main
from harness.rules.registry import all_rules
from harness.runner.costs import models
from harness.scenarios.load import load_paths
from harness.scenarios.suite import shipped
from harness.wrappers import WRAPPERS
from tests.cli.conftest import Command

ROOT = Path(__file__).parent.parent.parent


def table(text: str, *heads: str) -> list[dict[str, str]]:
    """The rows of aligned text, by the columns in which the heads begin."""
    first, *rest = text.splitlines()
    starts = [first.index(head) for head in heads]
    ends = [*starts[1:], None]
    return [{head: line[a:b].strip() for head, a, b in zip(heads, starts, ends, strict=True)} for line in rest]


def test_scenarios_are_listed_with_what_they_cover(harness: Command) -> None:
    rows = table(harness("list", "scenarios").out, "SCENARIO", "COVERS", "REQUIRES", "VARIANTS", "TITLE")

    scenarios = load_paths([shipped("scenarios")])
    assert [row["SCENARIO"] for row in rows] == [scenario.id for scenario in scenarios]
    assert [row["TITLE"] for row in rows] == [scenario.title for scenario in scenarios]
    assert [row["COVERS"] for row in rows] == [",".join(scenario.covers) for scenario in scenarios]
    assert [row["VARIANTS"] for row in rows] == [",".join(each.variants or ("whole", "stream")) for each in scenarios]


def test_targets_are_listed_with_models_and_keys(harness: Command) -> None:
    rows = table(harness("list", "targets").out, "TARGET", "ADAPTER", "API", "MODEL", "PROFILE", "KEY")

    assert [(row["TARGET"], row["MODEL"]) for row in rows] == [(each.name, each.model) for each in registry.targets()]
    assert rows[0]["KEY"] == "ANTHROPIC_API_KEY"


def test_rules_are_listed_with_what_they_demand_and_why(harness: Command) -> None:
    outcome = harness("list", "rules")

    rows = table(outcome.out, "RULE", "KIND", "SEVERITY", "BLAME", "SOURCE", "EVIDENCE", "REQUIREMENT", "BECAUSE")
    assert [(row["RULE"], row["REQUIREMENT"], row["SOURCE"]) for row in rows] == [
        *((rule.id, rule.requirement, rule.source) for rule in all_rules()),
        *((fact.id, fact.requirement, SOURCE) for fact in (*FACTS, *OTHERS)),
        *((limit.id, limit.sentence, limit.source) for limit in known_limits()),
        *((promise.id, promise.sentence, promise.source) for promise in RESPONSE_RULES.values()),
        *((check.id, check.promise, check.source) for check in CHECKS.values()),
    ]
    because = {each.id: each.because for each in (*all_rules(), *FACTS, *OTHERS)}
    because |= {**dict.fromkeys(RESPONSE_RULES, BECAUSE), **{check.id: check.because for check in CHECKS.values()}}
    assert all(row["BECAUSE"] == because.get(row["RULE"], because["limits"]) for row in rows)
    listed = {row["RULE"]: (row["KIND"], row["SEVERITY"], row["BLAME"]) for row in rows}
    assert listed["anthropic-result-missing"] == ("limit", "error", "adapter")
    assert listed["gemini-role-function"] == ("limit", "warning", "adapter")
    assert {row["KIND"] for row in rows} == {"limit", "loss", "convention"}


def test_rules_of_other_packages_are_listed_with_them(tmp_path: Path) -> None:
    info = tmp_path / "others-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[harness.rules]\nothers = others:RULE\n")
    (tmp_path / "others.py").write_text(
        "from harness.results import Kind\n"
        "from harness.rules.rule import Rule\n"
        "from harness.scenarios.schema import Subject\n"
        "RULE = Rule('ours', Subject.TOOLS, 'Holds.', 'a manual', lambda evidence: (), Kind.LOSS, 'Else it breaks.')\n"
    )

    listed = subprocess.run(
        [sys.executable, "-m", "harness", "list", "rules"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()

    assert [line.split()[0] for line in listed[1:] if line.split()[0] == "ours"] == ["ours"]
    assert len(listed) == len(list(_rules())) + 1


def test_the_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; before = {*sys.modules}; from harness.cli.main import main; main(['--help']); "
        "print(*sorted({*sys.modules} - before), file=sys.stderr)"
    )

    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)

    assert "Usage: harness" in shown.stdout
    ours = {"harness", "harness.cli", "harness.cli.main"}
    assert {*shown.stderr.split()} - {"__future__", "errno", "gc"} == ours


def test_the_help_and_no_arguments_at_all_show_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["--help"]), main([])) == (0, 2)
    shown = capsys.readouterr().out
    assert all(shown.count(f"  {name} ") == 2 for name in COMMANDS)
    headings = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith("Usage")]
    assert headings == 2 * ["Play and record:", "Results:", "Knowledge:", "Set-up:"]


def test_models_are_listed_with_what_is_known_of_them(harness: Command) -> None:
    heads = ("MODEL", "API", "PROFILE", "VISION", "THINKING", "CONTEXT", "TARGET", "NOTE")
    words = {True: "yes", False: "no", None: "?"}

    every = table(harness("list", "models").out, *heads)
    of_one = table(harness("list", "models", "--target", "gemini-3", "--api", "gemini").out, *heads)

    assert list(dict.fromkeys(row["API"] for row in every)) == list(
        dict.fromkeys(each.api for each in registry.targets())
    )
    assert of_one == [row for row in every if row["API"] == "gemini"]
    assert [(row["MODEL"], row["VISION"], row["THINKING"], row["PROFILE"]) for row in of_one] == [
        (each.id, words[each.vision], words[each.thinking], each.profile) for each in models("gemini")
    ]
    assert {row["TARGET"] for row in of_one} == {"-", "gemini-4", "gemini-3", "gemini-2.5"}
    assert {row["NOTE"] for row in of_one} == {"-", "deprecated"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ("models", "--target", "gemini"),
            (
                "unknown target 'gemini'. Did you mean 'gemini-4'? Known: "
                f"{', '.join(sorted(each.name for each in registry.targets()))}."
            ),
        ),
        (
            ("models", "--api", "openai"),
            (f"unknown API 'openai'. Did you mean 'openai-chat'? Known: {', '.join(registry.APIS.names())}."),
        ),
        (("rules", "--target", "gemini-3"), "--target: it applies to 'harness list models', not to rules."),
        (("targets", "--api", "gemini"), "--api: it applies to 'harness list models', not to targets."),
    ],
)
def test_what_cannot_be_listed_is_told(harness: Command, words: tuple[str, ...], error: str) -> None:
    outcome = harness("list", *words)

    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"harness: {error}\n")


def test_wrappers_are_listed_with_what_they_were_tried_with(harness: Command) -> None:
    rows = table(harness("list", "wrappers").out, "LIBRARY", "KIND", "INSTALLED", "ADAPTERS", "TRIED")

    assert [(row["LIBRARY"], row["KIND"], row["ADAPTERS"]) for row in rows] == [
        (each.library, each.kind, ",".join(each.adapters)) for each in WRAPPERS
    ]
    assert [row["INSTALLED"] != "no" for row in rows] == [bool(each.installed) for each in WRAPPERS]
    assert all("<" in row["TRIED"] for row in rows)
