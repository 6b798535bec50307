"""The example in another language: the official npm SDKs, all four APIs, as commands on standard input and output."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.results import CellResult, RunResult, Verdict

INSTALLED = os.environ.get("HARNESS_NODE_DIR")
pytestmark = pytest.mark.skipif(
    not INSTALLED, reason="HARNESS_NODE_DIR names no folder with the npm SDKs; .ci/run installs them where Node is"
)

HERE = Path(__file__).parent / "node"
APIS = ("anthropic", "openai-chat", "openai-responses", "gemini")
SCENARIOS = (
    "call-parallel-same-tool",
    "history-foreign-metadata",
    "thinking-tool-loop",
    "json-with-tools",
    "system-changed",
    "stream-parallel-long-arguments",
    "error-429-retry-after",
    "connection-cut",
    "arguments-large-integers",
)
ROUNDED = {"npm-anthropic", "npm-gemini-3"}
"""Their SDKs parse the answer with `JSON.parse`, which rounds 2^53+1 before the adapter sees it."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[CellResult]:
    folder = tmp_path_factory.mktemp("node")
    for module in HERE.glob("*.mjs"):
        shutil.copy(module, folder)
    (folder / "node_modules").symlink_to(Path(INSTALLED or "") / "node_modules")
    commands = [f"--adapter-command={shlex.join(['node', str(folder / 'adapter.mjs'), api])}" for api in APIS]
    targets = [f"--target={name}" for name in ("anthropic", "openai-chat", "openai-responses", "gemini-3")]
    reports = [f"--report={name}:{folder / name}" for name in ("json", "terminal")]
    main(["run", *SCENARIOS, "--mode=reference", "-n", "2", "--recut=1", *commands, *targets, *reports])
    return list(RunResult.from_json((folder / "json").read_text()).cells)


def test_all_four_are_run_whole_and_streamed(results: list[CellResult]) -> None:
    passed = {(cell.api, cell.variant) for cell in results if cell.verdict is Verdict.PASS}

    assert passed == {(api, variant) for api in APIS for variant in ("whole", "stream")}
    assert len(results) > 60


def test_what_fails_is_what_the_sdks_round(results: list[CellResult]) -> None:
    failed = [cell for cell in results if cell.verdict not in (Verdict.PASS, Verdict.NOT_APPLICABLE)]

    assert {(cell.scenario, cell.target) for cell in failed} == {("arguments-large-integers", name) for name in ROUNDED}
    first = failed[0].findings[0]
    assert (first.actual, first.expected) == ({"event_id": 2**53}, {"event_id": 2**53 + 1})
