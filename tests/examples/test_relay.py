"""An API of another distribution, through the public command, as whoever has installed that distribution has it."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import plugins
from harness.apis import registry
from harness.results import Blame, CellResult, RunResult, Verdict
from tests.once import once

RELAY = Path(__file__).parent / "relay"
OURS = Path(plugins.__file__).parent.parent
BROKEN = "tests.examples.broken_relay"
CALLS = "call-parallel-same-tool"

Harness = Callable[..., str]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the entry points of an installed distribution."""
    project = tomllib.loads((RELAY / "pyproject.toml").read_text())["project"]
    folder = tmp_path_factory.mktemp("site")
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(groups))
    return folder


SUITE = ("--mode", "reference", "--adapter", "relay", "--recut", "1", "--report", "json")
FAULTS = ("--adapter", f"{BROKEN}:SWAPPED", "--adapter", f"{BROKEN}:FORGETFUL", "--report", "json")
COMMANDS = (
    ("run", "narrow.yaml", "--mode", "reference", "--variant", "whole", "--report", "json"),
    ("run", "-k", "result or streaming", *SUITE),
    ("run", CALLS, "--mode", "reference", "--variant", "whole", *FAULTS),
    ("list", "targets"),
    ("list", "rules"),
    ("providers",),
    ("record", CALLS, "--from", "reference", "--target", "relay"),
    ("run", CALLS, "--target", "relay", "--report", "json"),
    ("audit", "cassettes"),
    ("audit", "--redrive", "cassettes"),
    ("run", "badge.yaml", "--mode", "reference", "--target", "relay", "--report", "json"),
)
PROGRAM = """
import io, json, os, sys
from contextlib import redirect_stdout
from harness.cassettes.redact import Redactor
from harness.cli.main import main

ended = []
for words in json.loads(sys.argv[1]):
    with redirect_stdout(io.StringIO()) as shown:
        ended.append((words, main(words), shown.getvalue()))
os.environ["RELAY_KEY"] = "so-secret-0123456789"
ended.append((["redact"], 0, Redactor.of_run(()).text("the key is so-secret-0123456789")))
print(json.dumps(ended))
"""
BADGE = """
version: 1
id: badge
title: A part without a type
covers: [history]
requires: [history]
turns:
  - {user: Hello, model: [{text: Hello., raw: {relay: [{badge: gold}]}}]}
  - {user: Again, model: [{text: Again.}]}
"""

NARROW = """
version: 1
id: narrow
title: A scenario for one target, so that the others need no SDK
covers: [history]
requires: [history]
profiles: [gpt-5.6-responses]
turns:
  - {user: Hello, model: [{text: Hello.}]}
  - {user: Again, model: [{text: Again.}]}
"""


@pytest.fixture(scope="module")
def harness(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """The output of each command. One process runs them all, in a folder of its own, where Relay is installed."""

    def run(folder: Path) -> list[tuple[list[str], int, str]]:
        (folder / "badge.yaml").write_text(BADGE)
        (folder / "narrow.yaml").write_text(NARROW)
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (site, RELAY, OURS)))}
        command = [sys.executable, "-P", "-c", PROGRAM, json.dumps(COMMANDS)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len([*(folder / "cassettes").rglob("*.yaml")]) == 2
        return json.loads(done.stdout)

    ended = {tuple(words): (code, out) for words, code, out in once(tmp_path_factory, "relay", run)}

    def shown(*words: str, status: int = 0) -> str:
        code, out = ended[words]
        assert code == status, out
        return out

    return shown


def cells_of(shown: str) -> tuple[CellResult, ...]:
    return tuple(RunResult.from_json(shown).cells)


def test_the_suite_runs_it_whole_and_streamed(harness: Harness) -> None:
    cells = cells_of(harness("run", "-k", "result or streaming", *SUITE))
    assert [(cell.scenario, cell.findings) for cell in cells if cell.findings] == []
    assert {cell.target for cell in cells} == {"relay"}
    assert sum(cell.verdict is Verdict.PASS for cell in cells) > 15
    lacks = "thinking|cache-marks|vision|files|audio|image-results|provider-tools|embeddings"
    lacking = f"the adapter 'relay' does not have: ({lacks})"
    reasons = [cell.reason or "" for cell in cells if cell.verdict is not Verdict.PASS]
    expected = f"{lacking}|it is only for the profiles|the API relay has nothing"
    assert [reason for reason in reasons if not re.match(expected, reason)] == []


def test_faults_of_its_adapters_and_its_limits_are_found(harness: Harness) -> None:
    cells = cells_of(harness("run", CALLS, "--mode", "reference", "--variant", "whole", *FAULTS, status=1))

    found = {cell.target: {finding.rule for finding in cell.findings} for cell in cells}
    assert found == {
        "swapped": {"result-swapped"},
        "forgetful": {"result-missing", "relay-call-unanswered", "chat-refused"},
    }
    assert {finding.blame for cell in cells for finding in cell.findings} == {Blame.ADAPTER}


def test_it_is_listed_with_all_others(harness: Harness) -> None:
    (target,) = [line for line in harness("list", "targets").splitlines() if line.startswith("relay ")]
    assert target.split()[:6] == ["relay", "relay", "relay", "relay-1", "relay-1", "RELAY_KEY"]

    rules = harness("list", "rules").splitlines()
    (limit,) = [line for line in rules if line.startswith("relay-call-unanswered")]
    assert re.split(r"  +", limit)[1:7] == [
        "limit",
        "error",
        "adapter",
        "the manual of Relay, 'Turns'",
        "-",
        "Every call is answered in the turn behind it.",
    ]

    assert "relay" in harness("providers")


def test_it_is_recorded_replayed_and_audited(harness: Harness) -> None:
    harness("record", CALLS, "--from", "reference", "--target", "relay")
    cells = cells_of(harness("run", CALLS, "--target", "relay", "--report", "json"))
    assert [(cell.variant, cell.verdict) for cell in cells] == [("whole", Verdict.PASS), ("stream", Verdict.PASS)]

    audit = harness("audit", "cassettes")
    assert re.search(r"^relay +4 +0 +4 +0 ", audit, re.MULTILINE), audit
    harness("audit", "--redrive", "cassettes")  # Relay has no reader for redrives


def test_a_plain_run_ignores_installed_plugins(harness: Harness) -> None:
    cells = cells_of(harness("run", "narrow.yaml", "--mode", "reference", "--variant", "whole", "--report", "json"))
    assert [cell.target for cell in cells] == [each.name for each in registry.shipped_targets()]


def test_its_key_reaches_no_output(harness: Harness) -> None:
    assert harness("redact") == "the key is REDACTED"


def test_scenarios_put_its_wire_parts_into_answers(harness: Harness) -> None:
    cells = cells_of(harness("run", "badge.yaml", "--mode", "reference", "--target", "relay", "--report", "json"))
    assert [cell.verdict for cell in cells] == [Verdict.PASS, Verdict.PASS]
