"""Agents whose tools fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.results import RunResult
from tests.cli.conftest import Command
from tests.cli.test_reproduce_agents import FUNCTIONS

CALLED = '                result = function(**json.loads(call["function"]["arguments"]))\n'
OWN = "class ToolError(Exception): ...\n\n\nclass Agent:"


def guarded(handler: str) -> str:
    """Return the call of a function with a handler of its exceptions."""
    return (
        f"                try:\n    {CALLED}                except Exception as error:\n                    {handler}\n"
    )


@pytest.mark.parametrize(
    ("called", "verdict", "rules"),
    [
        (guarded("raise RuntimeError('failed') from error"), "not-applicable", []),
        (guarded("raise ToolError('failed')"), "not-applicable", []),
        (guarded("result = str(error)"), "note", ["error-flag"]),
        (CALLED, "fail", ["loop-failed", "script-unplayed"]),
        (guarded("result = error.text"), "fail", ["loop-failed", "script-unplayed"]),
    ],
    ids=["raised again", "raised as an own class", "sent", "not handled", "a fault in the handler"],
)
def test_an_agent_may_leave_the_failures_of_tools_to_its_caller(
    harness: Command, folder: Path, called: str, verdict: str, rules: list[str]
) -> None:
    code = FUNCTIONS.replace("class Agent:", OWN)
    assert CALLED in code
    (folder / "own_tools.py").write_text(code.replace(CALLED, called))

    harness(
        *("run", "--conversation", "own_tools:Agent@openai-chat", "--target", "openai-chat", "--mode", "reference"),
        *("--model", "Agent=gpt-4.1"),
        *("-k", "result-error", "--ignore", "loop-tools", "--report", "json:run.json"),
    )

    cells = RunResult.from_json((folder / "run.json").read_text(encoding="utf-8")).cells
    (cell,) = [each for each in cells if (each.scenario, each.variant) == ("result-error", "whole")]
    assert (str(cell.verdict), [each.rule for each in cell.findings]) == (verdict, rules)
