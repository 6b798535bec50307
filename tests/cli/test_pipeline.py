"""What a CI server gets unasked, and where it finds files."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Command

pytestmark = pytest.mark.usefixtures("in_process")

SWAPPED = ("--mode=reference", "--target=openai-chat", "--adapter=tests.examples.swapped_results:ADAPTER")
SHIPPED = Path(__file__).parent.parent.parent / "scenarios" / "call-parallel-same-tool.yaml"


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a checkout, with a scenario of its own."""
    inside = folder / "packages" / "client"
    (inside / "scenarios").mkdir(parents=True)
    text = SHIPPED.read_text(encoding="utf-8").replace("call-parallel-same-tool", "two-cities")
    (inside / "scenarios" / "two-cities.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(inside)
    return inside


@pytest.fixture
def github(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """GitHub Actions; the file of the step's summary, to which something was added before."""
    summary = folder / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    return summary


def line_of(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


def test_in_github_actions_a_red_run_is_annotated_and_summed_up(harness: Command, inside: Path, github: Path) -> None:
    outcome = harness("run", "scenarios", *SWAPPED, "--report=json")

    line = line_of((inside / "scenarios" / "two-cities.yaml").read_text(encoding="utf-8"), "- user:")
    at = f"file=packages/client/scenarios/two-cities.yaml,line={line}"
    assert outcome.code == 1
    assert json.loads(outcome.out)["summary"]["fail"] == 1  # standard output is the report's alone
    title = "result-swapped%3A 1 cell%2C which fails only for this"
    assert outcome.err.startswith(f"::error {at},title={title}::two-cities . swapped")
    assert outcome.err.count("\n") == 1
    assert github.read_text().startswith("before\n## harness: FAIL\n\n1 cell (whole): 1 fail.\n")


def test_what_was_asked_for_is_not_given_twice(harness: Command, inside: Path, github: Path) -> None:
    assert inside.is_dir()
    outcome = harness("run", "scenarios", *SWAPPED, "--report=github", f"--report=markdown:{github}")

    assert outcome.out.startswith("::error file=packages/client/scenarios/two-cities.yaml")
    assert outcome.err == ""
    assert github.read_text().count("## harness") == 1


def test_a_report_of_a_kept_run_says_nothing_unasked(harness: Command, inside: Path, github: Path) -> None:
    kept = inside / "run.json"
    harness("run", "scenarios", *SWAPPED, f"--report=json:{kept}")
    document = json.loads(kept.read_text())
    document["cells"][0]["printed"] = "::stop-commands::x\n  ::error::from an adapter\nand ##[error]this"
    kept.write_text(json.dumps(document))
    before = github.read_text()

    outcome = harness("report", str(kept))

    assert (outcome.code, outcome.err, github.read_text()) == (1, "", before)
    printed = outcome.out.partition("Printed by the adapter")[2]
    assert ": :stop-commands::x" in printed  # else GitHub's runner would obey
    assert ": :error::from an adapter" in printed
    assert "and ## [error]this" in printed


def test_a_summary_is_no_longer_than_github_takes_it(harness: Command, inside: Path, github: Path) -> None:
    assert inside.is_dir()
    github.write_text("x" * 994_000)
    long = harness("run", "scenarios", *SWAPPED)
    size = github.stat().st_size
    github.write_text("x" * 999_000)
    full = harness("run", "scenarios", *SWAPPED)

    assert size <= 1_000_000
    assert long.code == full.code == 1
    assert "no room" not in long.err
    assert full.err.endswith("harness: the summary of this step is full (1,000,000 bytes): nothing is added to it.\n")
    assert github.stat().st_size == 999_000


def test_a_summary_that_cannot_be_written_changes_nothing(
    harness: Command, inside: Path, github: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert github.is_file()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(inside))
    outcome = harness("run", "scenarios", "--mode=reference", "--target=openai-chat")

    assert outcome.code == 0
    assert outcome.err == f"harness: GITHUB_STEP_SUMMARY {inside}: nothing is added to it: Is a directory.\n"


def test_what_is_refused_is_annotated_in_the_line_of_its_file(harness: Command, inside: Path, github: Path) -> None:
    assert github.is_file()
    scenario = inside / "scenarios" / "two-cities.yaml"
    text = scenario.read_text(encoding="utf-8")
    scenario.write_text(text.replace("requires: [", "requires: [toools, "), encoding="utf-8")
    at = f"file=packages/client/scenarios/two-cities.yaml,line={line_of(text, 'requires:')},title=harness"

    unread, invalid = harness("run", "scenarios"), harness("validate", "scenarios")
    elsewhere = harness("run", "gone, 100%")

    assert unread.code == invalid.code == elsewhere.code == 2
    assert unread.err.startswith(f"::error {at}::requires[0]: ")
    assert invalid.out.startswith("scenarios/two-cities.yaml:")
    assert invalid.err.startswith(f"::error {at}::requires[0]: ")
    assert elsewhere.err.startswith("::error title=harness::gone, 100%25: there is no such file or folder")


@pytest.mark.parametrize(
    "says",
    [{"GITLAB_CI": "true", "CI_PROJECT_DIR": "../.."}, {"JENKINS_URL": "http://ci.invalid", "WORKSPACE": "../.."}],
)
def test_gitlab_and_jenkins_paths_start_at_the_repository(
    harness: Command, inside: Path, monkeypatch: pytest.MonkeyPatch, says: dict[str, str]
) -> None:
    for name, value in says.items():
        monkeypatch.setenv(name, value)

    outcome = harness("run", "scenarios", *SWAPPED, "--report=junit:report.xml", "--report=gitlab:quality.json")

    case = ET.parse(inside / "report.xml").find(".//testcase")  # noqa: S314 - our own XML
    (issue,) = json.loads((inside / "quality.json").read_text())
    assert (outcome.code, outcome.err) == (1, "")
    assert case is not None
    assert case.get("file") == issue["location"]["path"] == "packages/client/scenarios/two-cities.yaml"
    assert case.get("line") == str(issue["location"]["lines"]["begin"])
    assert float(case.get("time", "")) > 0
