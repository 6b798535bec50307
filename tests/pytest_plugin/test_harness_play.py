"""`harness_adapter` and `harness_play`: scenarios in tests of one's own."""

from __future__ import annotations

import pytest

from tests.pytest_plugin.project import configure, run_pytest

OWN = """
import pytest
from forgetful import ADAPTER

@pytest.mark.parametrize("harness_adapter", ["openai-chat", ADAPTER], ids=["shipped", "own"])
@pytest.mark.parametrize("scenario", ["plain", "prompted", "scenarios/plain.yaml", "system-plain"])
def test_contract(harness_play, scenario):
    results = harness_play(scenario)
    assert [each.variant for each in results] == ["whole", "stream"]
    assert {each.verdict for each in results} == {"pass"}

class TestFixture:
    @pytest.fixture
    def harness_adapter(self):
        return ADAPTER

    def test_one_cell(self, harness_play):
        (result,) = harness_play("plain", target="openai-chat", variant="stream")
        assert (result.target, result.variant) == ("forgetful", "stream")

    def test_what_does_not_apply(self, harness_play):
        harness_play("stop-pause")

    def test_a_misspelt_scenario(self, harness_play):
        harness_play("plian")
"""

NAMED = """
def test_adapters(harness_adapter):
    assert harness_adapter.api == "openai-chat"

def test_contract(harness_play):
    harness_play("scenarios/plain.yaml")
"""


@pytest.mark.usefixtures("workers")
def test_a_test_runs_scenarios_with_its_own_adapters(project: pytest.Pytester) -> None:
    (project.path / "tests" / "test_own.py").write_text(OWN)
    configure(project)
    (project.path / "pyproject.toml").write_text('[tool.harness]\nscenarios = ["scenarios"]\n')
    done = run_pytest(project, "tests/test_own.py", "-m", "harness", "--strict-markers", "-rfs")
    done.assert_outcomes(passed=7, failed=3, skipped=1)
    done.stdout.fnmatch_lines(
        [
            "*_ test_contract[[]prompted-own] _*",
            "system-missing (loss, error, blame: adapter): *",
            "  run again:  pytest 'tests/test_own.py::test_contract[[]prompted-own]'",
            "harness_play: neither the project nor harness has a scenario 'plian'. Did you mean 'plain'? *",
            "FAILED tests/test_own.py::test_contract[[]prompted-own] - system-missing *",
            "SKIPPED *not applicable: *",
        ]
    )
    done.stdout.no_fnmatch_line("*Traceback*")


def test_a_test_runs_with_each_adapter_of_the_project(project: pytest.Pytester) -> None:
    (project.path / "tests" / "test_named.py").write_text(NAMED)
    configure(project, harness_adapters="openai-chat forgetful:ADAPTER")
    done = run_pytest(project, "-v", "tests/test_named.py")
    done.assert_outcomes(passed=4)
    for name in ("openai-chat", "forgetful:ADAPTER"):
        done.stdout.fnmatch_lines([f"*::test_adapters[[]{name}] PASSED*", f"*::test_contract[[]{name}] PASSED*"])
    missing = run_pytest(project, "--harness-mode=replay", "tests/test_named.py::test_contract[openai-chat]")
    missing.stdout.fnmatch_lines(
        [
            "not checked: *cassettes/plain/openai-chat.yaml: there is no such cassette.",
            "  record it:              harness record --variant whole scenarios/plain.yaml --target openai-chat",
            "  or while it is tested:  pytest --harness-record=missing 'tests/test_named.py::*[[]openai-chat]'",
        ]
    )
    recorded = run_pytest(project, "--harness-record=missing", "tests/test_named.py::test_contract[openai-chat]")
    recorded.assert_outcomes(passed=1)
    recorded.stdout.fnmatch_lines(
        [
            "harness: 2 cassettes to be recorded from the reference server *",
            "harness: 2 cassettes recorded: cassettes/plain/*",
        ]
    )
    run_pytest(project, "--harness-mode=replay", "tests/test_named.py", "-k", "contract").assert_outcomes(passed=2)
