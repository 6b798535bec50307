"""The wrappers of two libraries, where these are installed: short, and right in what they declare."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import RunResult, Verdict

HERE = Path(__file__).parent
WRAPPERS = {
    "litellm_wrapped": ("litellm", "anthropic"),
    "langchain_wrapped": ("langchain_core", "langchain_anthropic"),
}
ITS_OWN = {"litellm_wrapped": {"text-changed"}}
"""Rules that the library itself breaks: LiteLLM 1.106.2 has a streamed answer that only calls tools say "", and sends
"[System: Empty message content sanitised to satisfy protocol]" in the place of that
(`litellm_core_utils/prompt_templates/factory.py`, read on 2026-11-23)."""
LINES = {"litellm_wrapped": 28, "langchain_wrapped": 30}
FEW = (
    "call-parallel-same-tool",
    "history-two-turns",
    "call-results-reordered",
    "stream-parallel-long-arguments",
    "error-429-retry-after",
    "system-plain",
)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_it_is_as_short_as_is_said(wrapper: str) -> None:
    body = (HERE / f"{wrapper}.py").read_text().split('"""', 2)[2]
    lines = [line.strip() for line in body.splitlines()]

    assert len([line for line in lines if line and not line.startswith(("#", "import ", "from "))]) <= LINES[wrapper]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_it_keeps_the_contract(wrapper: str, tmp_path: Path) -> None:
    missing = [name for name in WRAPPERS[wrapper] if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    chosen = [f"--adapter=tests.examples.{wrapper}:ANTHROPIC", "--target=anthropic"]

    main(["run", *FEW, "--mode=reference", "-n", "2", *chosen, f"--report=json:{tmp_path / 'run.json'}"])

    cells = RunResult.from_json((tmp_path / "run.json").read_text()).cells
    played = [cell for cell in cells if cell.verdict is not Verdict.NOT_APPLICABLE]
    assert len(played) >= 2 * len(FEW) - 2
    assert [
        (cell.scenario, cell.target, cell.reason) for cell in played if cell.variant == "whole" and cell.findings
    ] == []
    assert {each.rule for cell in played for each in cell.findings} <= ITS_OWN.get(wrapper, set())
    assert {cell.verdict for cell in played} <= {Verdict.PASS, Verdict.FAIL}
