"""The workflow that `harness init` writes, GitLab's job, and the composite action: run step by step, as CI runs them.

What they install is looked at and not fetched: `pip` is a script here that notes what it is asked.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli.main import main
from tests.cli.actions import Runner, Step
from tests.cli.conftest import Command

ROOT = Path(__file__).parent.parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STARTERS = ROOT / "harness" / "cli" / "starters"
_TESTS = re.compile(r" *# TESTS.*# DONE\n", re.DOTALL)
WORKFLOW = yaml.safe_load(_TESTS.sub("", (STARTERS / "workflow.yml").read_text(encoding="utf-8")))
JOB = yaml.safe_load(_TESTS.sub("", (STARTERS / "gitlab.yml").read_text(encoding="utf-8")))["harness"]

PIP = 'printf "%s\\n" "$@" >> "{log}"\n'
PYTHON = """\
case "$1 $2" in
  "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;
  "-m pip") shift 2; printf "%s\\n" "$@" >> "{log}" ;;
  *) exec "{python}" "$@" ;;
esac
"""


PLAIN = """\
from harness.stdio import adapter_specs

ADAPTER = adapter_specs.adapter("openai-chat")
"""
PLANTED = f"""\
import sys
sys.path.insert(0, {str(ROOT)!r})
from harness.stdio import adapter_specs
from tests.broken.faults import FAULTS

ADAPTER = next(each for _, each in FAULTS if each.name == "result-id-cut").wrap(adapter_specs.adapter("openai-chat"))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository after `harness init` for either server, with recordings of its scenario for two targets."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["init"]) == main(["init", "--ci", "gitlab"]) == 0
        Path("my_adapter.py").write_text(PLAIN, encoding="utf-8")
        with Path("pyproject.toml").open("a", encoding="utf-8") as file:
            file.write('targets = ["openai-chat"]\nmodels = {openai-chat = "gpt-6-sol"}\n')
        assert main(["record", "--from=reference", "--report=terminal:/dev/null"]) == 0
    return folder


@pytest.fixture
def runner(recorded: Path, tmp_path: Path) -> Runner:
    """A runner on a copy of the repository, on which nothing can be fetched."""
    commands, temp = tmp_path / "bin", tmp_path / "temp"
    commands.mkdir()
    temp.mkdir()
    shutil.copytree(recorded, tmp_path / "work")
    for name, script in (("pip", PIP), ("python3", PYTHON)):
        text = script.replace("{log}", str(temp / "pip.log")).replace("{python}", sys.executable)
        (commands / name).write_text(f"#!/usr/bin/env bash\n{text}")
        (commands / name).chmod(0o755)
    (commands / "harness").symlink_to(Path(sys.executable).parent / "harness")
    return Runner(tmp_path / "work", temp, commands)


def quicker(specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps, with one of the shipped scenarios in the place of all."""
    assert sum("harness run shipped scenarios" in each.get("run", "") for each in specs) == 1
    few = "harness run call-parallel-same-tool scenarios"
    return [
        {**each, "run": each["run"].replace("harness run shipped scenarios", few)} if "run" in each else each
        for each in specs
    ]


def acted(runner: Runner, **inputs: str) -> list[Step]:
    """The steps of the action, with these inputs."""
    given = {name.replace("_", "-"): value for name, value in inputs.items()}
    runner.inputs = {name: spec["default"] for name, spec in ACTION["inputs"].items()} | given
    runner.action = ROOT
    return runner.steps(ACTION["runs"]["steps"])


def installed(runner: Runner) -> list[str]:
    return (runner.temp / "pip.log").read_text().splitlines()


def test_the_workflow_that_init_writes_is_green_step_by_step(runner: Runner) -> None:
    written = yaml.safe_load((runner.workspace / ".github" / "workflows" / "harness.yml").read_text())

    steps = runner.steps(quicker(written["jobs"]["conformance"]["steps"]))

    assert written == WORKFLOW
    assert [step.code for step in steps] == [None, None, 0, 0, 0, None]
    assert installed(runner) == ["install", "toolcall-harness", "pytest"]
    played, replayed = steps[3], steps[4]
    assert re.match(r"PASS  [34] cells", played.out)  # a shipped scenario and the repository's
    assert played.summary.startswith("## harness: PASS")
    assert replayed.out.startswith("PASS  2 cells")
    kept = runner.workspace / steps[-1].spec["with"]["path"]
    assert sorted(file.name for file in kept.iterdir()) == ["junit.xml", "report.html", "run.json"]


def test_the_workflow_fails_for_a_broken_adapter(runner: Runner) -> None:
    (runner.workspace / "planted.py").write_text(PLANTED)
    path = runner.workspace / "pyproject.toml"
    path.write_text(path.read_text().replace("my_adapter:ADAPTER", "planted:ADAPTER"))

    steps = runner.steps(quicker(WORKFLOW["jobs"]["conformance"]["steps"]))

    assert [step.code for step in steps] == [None, None, 0, 1, None, None]
    assert re.search(r"^::error .*title=result-orphan", steps[3].err, re.MULTILINE)
    assert steps[3].summary.startswith("## harness: FAIL")
    assert steps[-1].spec["if"] == "always()"
    assert (runner.workspace / "harness-reports" / "junit.xml").exists()


def test_the_gitlab_job_writes_its_own_report(runner: Runner) -> None:
    plain = [line.split(" --report gitlab")[0] for line in JOB["script"]]
    (step,) = runner.steps(quicker([{"run": JOB["script"][1]}]))

    assert plain == [each["run"] for each in WORKFLOW["jobs"]["conformance"]["steps"] if "run" in each]
    assert step.code == 0
    for file in JOB["artifacts"]["reports"].values():
        assert (runner.workspace / file).exists()


def test_the_action_installs_and_runs(runner: Runner) -> None:
    install, play = acted(runner, install="-e .\nrequests", arguments="--mode reference -k 'first and not json'")

    assert (install.code, play.code) == (0, 0)
    assert installed(runner)[:3] == ["install", "--quiet", f"{ROOT}[all]"]
    assert (runner.temp / "harness" / "install.txt").read_text() == "-e .\nrequests\n"
    assert play.out.startswith("PASS  2 cells")
    assert runner.value(ACTION["outputs"]["exit-code"]["value"]) == "0"
    folder = Path(runner.value(ACTION["outputs"]["reports"]["value"]))
    assert sorted(file.name for file in folder.iterdir()) == ["junit.xml", "report.html", "run.json"]


def test_what_is_given_to_the_action_is_no_part_of_a_script(runner: Runner) -> None:
    hostile = '"; touch owned; echo $(touch owned) `touch owned` $HOME'
    given = {"install": hostile, "extras": 'x]"; touch owned #', "reports": '$(touch owned)"'}
    install, play = acted(runner, arguments=f"-k '{hostile}'", **given)

    assert (install.code, play.code) == (0, 2)
    assert not list(runner.workspace.rglob("owned"))
    assert play.err.startswith("::error title=harness::-k ")
    assert runner.outputs["play.outputs.exit-code"] == "2"


def test_arguments_that_cannot_be_read_are_named(runner: Runner) -> None:
    _, play = acted(runner, arguments="-k 'first")

    assert (play.code, play.out) == (1, "")
    assert play.err == "::error title=harness::the input arguments cannot be read: No closing quotation\n"


def scripts(spec: Any) -> list[str]:
    """Every script in a workflow."""
    if isinstance(spec, dict):
        return (
            [spec["run"]] if isinstance(spec.get("run"), str) else [each for v in spec.values() for each in scripts(v)]
        )
    return [each for value in spec for each in scripts(value)] if isinstance(spec, list) else []


def test_workflows_use_no_expressions_and_no_secrets() -> None:
    assert len(scripts(ACTION)) == 2
    assert len(scripts(WORKFLOW)) == 3
    for spec in (ACTION, WORKFLOW):
        assert not any("${{" in script for script in scripts(spec))
        assert "secrets." not in str(spec)
    assert WORKFLOW["permissions"] == {"contents": "read"}
    uses = [step["uses"] for step in WORKFLOW["jobs"]["conformance"]["steps"] if "uses" in step]
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", each) for each in uses)


def test_gitlabs_file_is_included_or_said_how(harness: Command, folder: Path) -> None:
    first = harness("init", "--ci", "gitlab")
    (folder / ".gitlab-ci.yml").write_text("test: {script: [make]}\n")
    again = harness("init", "--ci=gitlab")

    assert ".gitlab-ci.yml is written." in first.out
    assert not (folder / ".github").exists()
    assert (
        ".gitlab-ci.yml exists already, and is not changed. Add to it: include: [{local: .gitlab/harness.yml}]\n"
        in again.out
    )
