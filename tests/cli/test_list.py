"""Listings and explanations: complete, whole in a pipe, and fitting a terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import get_args

import pytest

from harness.apis import registry
from harness.apis.fact import EvidenceKind, FactVerdict
from harness.apis.registry import known_limits
from harness.apis.response_rules import RESPONSE_RULES
from harness.checks.gateway_findings import DETAILS, OTHER_DETAILS, SOURCE
from harness.checks.server_checks import CHECKS
from harness.checks.server_results import RESPONSE_RULE_CONSEQUENCE
from harness.cli.explain import lines
from harness.cli.main import COMMANDS, main
from harness.model.protocols import Capability
from harness.platform.files import shipped_folder
from harness.results import Blame, Kind, Severity, Verdict
from harness.rules.rule import all_rules
from harness.runner.costs import models
from harness.scenarios.load import load_paths
from harness.wrappers import WRAPPERS
from tests.cli.conftest import Command, Outcome


def table(text: str, *heads: str) -> list[dict[str, str]]:
    """The rows of aligned text, by the columns in which the heads begin."""
    first, *rest = text.splitlines()
    starts = [first.index(head) for head in heads]
    ends = [*starts[1:], None]
    return [{head: line[a:b].strip() for head, a, b in zip(heads, starts, ends, strict=True)} for line in rest]


def test_scenarios_are_listed_with_what_they_cover(harness: Command) -> None:
    rows = table(harness("list", "scenarios").out, "SCENARIO", "COVERS", "REQUIRES", "VARIANTS", "TITLE")

    scenarios = load_paths([shipped_folder("scenarios")])
    assert [row["SCENARIO"] for row in rows] == [scenario.id for scenario in scenarios]
    assert [row["TITLE"] for row in rows] == [scenario.title for scenario in scenarios]
    assert [row["COVERS"] for row in rows] == [",".join(scenario.covers) for scenario in scenarios]
    assert [row["VARIANTS"] for row in rows] == [",".join(each.variants or ("whole", "stream")) for each in scenarios]


def test_targets_are_listed_with_models_and_keys(harness: Command) -> None:
    rows = table(harness("list", "targets").out, "TARGET", "ADAPTER", "API", "MODEL", "PROFILE", "KEY", "KNOWN")

    assert [(row["TARGET"], row["MODEL"]) for row in rows] == [
        (each.name, each.model) for each in registry.all_targets()
    ]
    assert rows[0]["KEY"] == "ANTHROPIC_API_KEY"
    assert "facts (" in rows[-1]["KNOWN"]
    assert rows[-1]["KNOWN"].endswith("streams not recorded")


def test_rules_are_listed_with_what_they_demand_and_why(harness: Command) -> None:
    outcome = harness("list", "rules")

    rows = table(outcome.out, "RULE", "KIND", "SEVERITY", "BLAME", "SOURCE", "EVIDENCE", "REQUIREMENT", "BECAUSE")
    assert [(row["RULE"], row["REQUIREMENT"], row["SOURCE"]) for row in rows] == [
        *((rule.id, rule.requirement, rule.source) for rule in all_rules()),
        *((detail.id, detail.requirement, SOURCE) for detail in (*DETAILS, *OTHER_DETAILS)),
        *((limit.id, limit.sentence, limit.source) for limit in known_limits()),
        *((rule.id, rule.sentence, rule.source) for rule in RESPONSE_RULES.values()),
        *((check.id, check.requirement, check.source) for check in CHECKS.values()),
    ]
    because = {each.id: each.because for each in (*all_rules(), *DETAILS, *OTHER_DETAILS)}
    because |= {
        **dict.fromkeys(RESPONSE_RULES, RESPONSE_RULE_CONSEQUENCE),
        **{check.id: check.because for check in CHECKS.values()},
    }
    assert all(row["BECAUSE"] == because.get(row["RULE"], because["limits"]) for row in rows)
    listed = {row["RULE"]: (row["KIND"], row["SEVERITY"], row["BLAME"]) for row in rows}
    assert listed["anthropic-result-missing"] == ("limit", "error", "adapter")
    assert listed["gemini-role-function"] == ("limit", "warning", "adapter")
    assert {row["KIND"] for row in rows} == {"limit", "loss", "convention"}


def test_the_help_and_no_arguments_at_all_show_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(["--help"]), main([])) == (0, 2)
    shown = capsys.readouterr().out
    assert all(shown.count(f"  {name} ") == 2 for name in COMMANDS)
    headings = [line for line in shown.splitlines() if line.endswith(":") and not line.startswith("Usage")]
    assert headings == 2 * ["Run and record:", "Results:", "Knowledge:", "Set-up:"]


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


LEFT_OUT = "Omitted, because the terminal is too narrow (a pipe gets all columns): "


def test_wrappers_are_listed_with_what_they_were_tried_with(harness: Command) -> None:
    rows = table(harness("list", "wrappers").out, "LIBRARY", "KIND", "INSTALLED", "ADAPTERS", "TRIED")

    assert [(row["LIBRARY"], row["KIND"], row["ADAPTERS"]) for row in rows] == [
        (each.library, each.kind, ",".join(each.adapters)) for each in WRAPPERS
    ]
    assert [row["INSTALLED"] != "no" for row in rows] == [bool(each.installed) for each in WRAPPERS]
    assert all("<" in row["TRIED"] or "@^" in row["TRIED"] for row in rows)


def looked_at(harness: Command, what: str, width: int, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """A listing in a terminal."""
    with monkeypatch.context() as terminal:
        terminal.setattr(sys.stdout, "isatty", lambda: True)
        terminal.setenv("COLUMNS", str(width))
        return harness("list", what)


@pytest.mark.parametrize(("what", "width"), [("scenarios", 80), ("rules", 80), ("facts", 120)])
def test_a_listing_fits_and_cuts_no_name(
    harness: Command, what: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, piped = looked_at(harness, what, width, monkeypatch), harness("list", what)

    lines, whole = shown.out.splitlines(), piped.out.splitlines()
    assert max(map(len, lines)) <= width
    assert [line.split()[0] for line in lines] == [line.split()[0] for line in whole]
    left_out = shown.err.removeprefix(LEFT_OUT).removesuffix(".\n").replace(",", "").split()
    assert sorted([*lines[0].split(), *left_out]) == sorted(whole[0].split())
    assert piped.err == ""


GOLDEN = """\
anthropic-choice-forced (limit: error)
  `tool_choice` forces no call on models that do not support it.
  to do:    send `tool_choice` auto or none, because the model does not support forced calls; `harness show` has \
the place
  rests on: anthropic-no-forced-choice: A tool choice of the type `any` or `tool` is refused, on messages and on \
count_tokens; auto and none are fine.
"""


def test_a_limit_is_explained_with_its_evidence(harness: Command) -> None:
    outcome = harness("explain", "anthropic-choice-forced")
    assert outcome.code == 0
    assert outcome.out.startswith(GOLDEN)
    assert "    captured 2026-09-02  https://github.com/can1357/oh-my-pi/issues/12939\n" in outcome.out


def test_a_fact_is_explained_with_its_evidence(harness: Command) -> None:
    out = harness("explain", "anthropic-no-forced-choice").out
    assert "(fact: refused)" in out
    assert "  for:      claude-opus-5-5*, " in out
    assert "  known:    2026-09-01 to today\n" in out
    assert "  checked:  by anthropic-choice-forced\n  severity: an error\n" in out


def test_everything_that_a_report_names_is_explained() -> None:
    words = (*Verdict, *Kind, *Blame, *Severity, *Capability, *get_args(FactVerdict), *get_args(EvidenceKind))
    facts = {fact.id for api in registry.apis() for fact in api.facts.all()}
    ids = (*facts, *(limit.id for limit in known_limits()), *(rule.id for rule in all_rules()))
    for topic in (*words, *ids, *RESPONSE_RULES, *CHECKS):
        assert len(lines(str(topic))) > 1, topic
    for check in (*RESPONSE_RULES.values(), *CHECKS.values()):
        assert check.source.startswith("https://") or {*check.source.split(", ")} <= facts, check


def test_every_term_is_explained() -> None:
    contributing = (Path(__file__).parent.parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    glossary = re.findall(
        r"^\| ([\w -]+) \|", contributing.partition("## Glossary")[2].partition("\n## ")[0], re.MULTILINE
    )

    assert 10 < len(glossary) <= 21  # with the head of the table
    for term in (*glossary[1:], "subject", "blame", "recut", "not observed", "not applicable"):
        assert len(lines(term)) > 1, term


@pytest.mark.parametrize(
    ("options", "listed", "left_out"),
    [
        (["--model", "claude-opus-5-5"], "anthropic-no-forced-choice", "anthropic-fable-5-no-forced-choice"),
        (["--model=claude-opus-5-5", "--as-of=2026-08-01"], "anthropic-four-cache-marks", "anthropic-no-forced-choice"),
        (["--api", "gemini"], "gemini-mixed-tools-refused", "anthropic-no-forced-choice"),
        (["--as-of", "2026-07-01"], "anthropic-fable-5-no-forced-choice", "anthropic-fable-5-forced-choice-taken"),
    ],
)  # fmt: skip
def test_facts_are_listed_by_api_model_and_day(
    harness: Command, options: list[str], listed: str, left_out: str
) -> None:
    ids = [line.split()[0] for line in harness("list", "facts", *options).out.splitlines()]
    assert listed in ids
    assert left_out not in ids
