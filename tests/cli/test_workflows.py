"""The workflow that `harness init` writes, GitLab's job, and the composite action, whose scripts run as in CI.

`pip` is a script here that notes what it is asked: nothing is fetched.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Command

ROOT = Path(__file__).parent.parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STARTERS = ROOT / "harness" / "cli" / "starters"
TESTS = re.compile(r" *# TESTS.*# DONE\n", re.DOTALL)
WORKFLOW = yaml.safe_load(TESTS.sub("", (STARTERS / "workflow.yml").read_text(encoding="utf-8")))
STEPS = WORKFLOW["jobs"]["conformance"]["steps"]
JOB = yaml.safe_load(TESTS.sub("", (STARTERS / "gitlab.yml").read_text(encoding="utf-8")))["harness"]
WORST = re.compile(
    r"^### The worst causes?\n\n1\. \*\*.*\n   - ❌ sent, in ` request 2 /.*\n   - ✅ right: `.*\n   - to do: ",
    re.MULTILINE,
)
PLAIN = """\
from harness.stdio import adapter_specs

ADAPTER = adapter_specs.adapter("openai-chat")
"""
PLANTED = """\
from harness.stdio import adapter_specs
from tests.broken.faults import FAULTS

ADAPTER = next(each for _, each in FAULTS if each.name == "result-id-cut").wrap(adapter_specs.adapter("openai-chat"))
"""


def quick(script: str) -> list[str]:
    """The words of a `harness` command, with one of the shipped scenarios in the place of all."""
    assert "harness run shipped scenarios" in script
    return shlex.split(script.replace("harness run shipped scenarios", "run call-parallel-same-tool scenarios"))


@pytest.mark.usefixtures("in_process")
def test_the_workflow_that_init_writes_passes_and_fails_for_a_broken_adapter(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "my_adapter", raising=False)
    assert harness("init").code == 0
    (folder / "my_adapter.py").write_text(PLAIN)
    with (folder / "pyproject.toml").open("a") as file:
        file.write('targets = ["openai-chat"]\nmodels = {openai-chat = "gpt-6-sol"}\n')
    assert harness("record", "--from=reference").code == 0
    written = yaml.safe_load((folder / ".github" / "workflows" / "harness.yml").read_text())
    assert written == WORKFLOW
    install, play, replay = (each["run"] for each in STEPS if "run" in each)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder / "summary"))

    good, replayed = harness(*quick(play)), harness("run")
    summary = (folder / "summary").read_text()
    (folder / "my_adapter.py").write_text(PLANTED)
    monkeypatch.delitem(sys.modules, "my_adapter")
    broken = harness(*quick(play))

    assert install == "pip install 'toolcall-harness[all]' pytest"
    assert replay == "if [ -d cassettes ]; then harness run; fi"
    assert (good.code, replayed.code, broken.code) == (0, 0, 1)
    worst = (folder / "summary").read_text().removeprefix(summary)
    assert WORST.search(worst)
    assert len(re.findall(r"^\d\. \*\*", worst, re.MULTILINE)) <= 3
    assert re.match(r"PASS  [34] cells", good.out)  # a shipped scenario and the repository's
    assert summary.startswith("## harness: PASS")
    kept = sorted(file.name for file in (folder / STEPS[-1]["with"]["path"]).iterdir())
    assert kept == ["junit.xml", "report.html", "run.json"]
    assert re.search(r"^::error .*title=result-orphan", broken.err, re.MULTILINE)
    assert STEPS[-1]["if"] == "always()"


def test_the_gitlab_job_has_the_same_scripts_and_its_own_report(harness: Command, folder: Path) -> None:
    plain = [line.split(" --report gitlab")[0] for line in JOB["script"]]
    assert plain == [each["run"] for each in STEPS if "run" in each]
    assert {*JOB["artifacts"]["reports"].values()} <= {each.partition(":")[2] for each in JOB["script"][1].split()}

    first = harness("init", "--ci", "gitlab")
    (folder / ".gitlab-ci.yml").write_text("test: {script: [make]}\n")
    again = harness("init", "--ci=gitlab")

    assert ".gitlab-ci.yml is written." in first.out
    assert not (folder / ".github").exists()
    include = "Add to it: include: [{local: .gitlab/harness.yml}]\n"
    assert f".gitlab-ci.yml exists already, and is not changed. {include}" in again.out


PYTHON = f"""\
#!/usr/bin/env bash
case "$1 $2" in
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip") shift 2; printf "%s\\n" "$@" >> "$RUNNER_TEMP/pip.log"; cat "${{@: -1}}" >> "$RUNNER_TEMP/pip.log" ;;
  *) exec "{sys.executable}" "$@" ;;
esac
"""


def act(folder: Path, **inputs: str) -> list[subprocess.CompletedProcess[str]]:
    """Run the steps of the action with these inputs, as GitHub's runner does."""
    values = {f"inputs.{name}": spec["default"] for name, spec in ACTION["inputs"].items()}
    values |= {f"inputs.{name}": value for name, value in inputs.items()} | {"github.action_path": str(ROOT)}
    python = folder / "bin" / "python3"
    python.parent.mkdir(exist_ok=True)
    python.write_text(PYTHON)
    python.chmod(0o755)

    def run(step: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        given = {name: re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda m: values[m[1]], v) for name, v in step["env"].items()}
        paths = {name: str(folder / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        common = {"PATH": f"{python.parent}:{os.environ['PATH']}", "RUNNER_TEMP": str(folder), "GITHUB_ACTIONS": "true"}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        env = common | paths | given | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)

    return [run(step) for step in ACTION["runs"]["steps"] if "run" in step]


def test_the_action_installs_runs_and_has_a_summary_of_failures(folder: Path) -> None:
    swapped = "call-parallel-same-tool --mode reference --adapter tests.examples.swapped_results:ADAPTER"
    install, play = act(folder, install="-e .\nrequests", arguments=swapped)
    upload = ACTION["runs"]["steps"][-1]

    assert (install.returncode, play.returncode) == (0, 1)
    installed = (folder / "pip.log").read_text().splitlines()
    assert installed[:3] == ["install", "--quiet", f"{ROOT}[all]"]
    assert installed[-2:] == ["-e .", "requests"]
    assert play.stdout.startswith("FAIL  1 cell")
    assert WORST.search((folder / "GITHUB_STEP_SUMMARY").read_text())
    outputs = (folder / "GITHUB_OUTPUT").read_text().splitlines()
    assert outputs == ["exit-code=1", f"reports={folder}/harness-reports"]
    written = sorted(each.name for each in (folder / "harness-reports").iterdir())
    assert written == ["junit.xml", "report.html", "run.json"]
    assert upload["if"] == "${{ always() && inputs.artifact != '' }}"
    assert upload["with"]["path"] == "${{ inputs.working-directory }}/${{ inputs.reports }}"


def test_inputs_of_the_action_are_no_part_of_a_script(folder: Path) -> None:
    hostile = '"; touch owned; echo $(touch owned) `touch owned` $HOME'
    given = {"install": hostile, "extras": 'x]"; touch owned #', "reports": '$(touch owned)"'}

    install, play = act(folder, arguments=f"-k '{hostile}'", **given)
    unread = act(folder, arguments="-k 'first")[1]

    assert (install.returncode, play.returncode) == (0, 2)
    assert not list(folder.rglob("owned"))
    assert play.stderr.startswith("::error title=harness::-k ")
    assert "exit-code=2" in (folder / "GITHUB_OUTPUT").read_text().splitlines()
    assert (unread.returncode, unread.stdout) == (1, "")
    assert unread.stderr == "::error title=harness::the input arguments cannot be read: No closing quotation\n"


def test_workflows_use_no_expressions_in_scripts_and_no_secrets() -> None:
    steps = (*ACTION["runs"]["steps"], *STEPS)
    scripts = [step["run"] for step in steps if "run" in step]
    assert len(scripts) == 2 + 3
    assert not any("${{" in script for script in scripts)
    assert "secrets." not in str((ACTION, WORKFLOW))
    assert WORKFLOW["permissions"] == {"contents": "read"}
    uses = [step["uses"] for step in steps if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", each) for each in uses)
