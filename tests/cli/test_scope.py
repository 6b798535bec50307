"""`--rule` and `--ignore`: what counts, and that a report says what does not."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import NO_SUCH_TOOL, Command

RULE = "anthropic-ours-no-weather"
RED = ("run", "call-single", "--target=anthropic", "--variant=whole")


@pytest.fixture
def red(folder: Path) -> Path:
    """A project by whose facts `call-single` is refused."""
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    (folder / "pyproject.toml").write_text('[tool.harness]\nfacts = ["ours.yaml"]\n')
    return folder


@pytest.mark.parametrize("how", ["--ignore", "--rule", "glob", "project"])
def test_what_does_not_count_fails_nothing_and_is_said(harness: Command, red: Path, how: str) -> None:
    words = {"--ignore": ["--ignore", RULE], "--rule": ["--rule=usage"], "glob": ["--ignore=anthropic-ours-*"]}
    if how == "project":
        with (red / "pyproject.toml").open("a") as file:
            file.write(f'ignore = ["{RULE}"]\n')
    reports = ["json:run.json", "markdown:run.md", "junit:run.xml", "html:run.html"]

    outcome = harness(*RED, *words.get(how, ()), *(f"--report={each}" for each in reports))

    assert outcome.code == 0, outcome.out
    named = {"--rule": "Only findings of usage count", "glob": "Ignored: anthropic-ours-*"}
    said = f"{named.get(how, f'Ignored: {RULE}')}; that hides 2 findings: {RULE} (2)."
    assert said in " ".join(outcome.out.split())
    assert said in (red / "run.md").read_text().replace("\\", "")
    assert said in (red / "run.html").read_text()
    cases = ET.parse(red / "run.xml").getroot()  # noqa: S314 - ours
    assert [each.get("value") for each in cases.iter("property") if each.get("name") == "scope"] == [said]
    kept = json.loads((red / "run.json").read_text())
    assert [cell["hidden"] for cell in kept["cells"]] == [{RULE: 2}]
    assert harness("report", "run.json").out.splitlines()[0] == outcome.out.splitlines()[0]
    again = kept["invocation"]["show"]
    assert (again[-2:] == ["--rule", "usage"]) if how == "--rule" else (again[-2] == "--ignore")


def test_it_fails_where_it_counts(harness: Command, red: Path) -> None:
    assert red.is_dir()

    outcome = harness(*RED, "--rule", RULE)

    assert outcome.code == 1
    assert f"Only findings of {RULE} count; that hides nothing." in outcome.out
    assert "hidden" not in harness(*RED, "--report=json").out


def test_an_expected_failure_that_is_ignored_is_not_stale(harness: Command, red: Path) -> None:
    (red / "known.yaml").write_text(f"- {{scenario: '*', target: anthropic, rule: '{RULE[:-3]}*', reason: known}}\n")
    known = (*RED, "--expected-failures=known.yaml")

    assert "1 expected failure" in harness(*known).out
    assert [harness(*known, *words).code for words in (["--ignore", RULE], ["--rule=usage"])] == [0, 0]


def test_an_audit_counts_only_what_it_is_asked_for(harness: Command, red: Path, cassettes: Path) -> None:
    assert red.is_dir()
    recorded = str(cassettes / "call-single" / "anthropic.yaml")

    found, ignored = harness("audit", recorded), harness("audit", recorded, "--ignore", RULE)

    assert (found.code, ignored.code) == (1, 0)
    assert "0 of 2 accepted" in ignored.out
    assert f"Ignored: {RULE}; that hides 2 findings: {RULE} (2)." in ignored.out
