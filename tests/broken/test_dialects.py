"""What only some servers do shows a fault that OpenAI's own streams hide: through the command, with their models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.results import RunResult, Verdict
from tests.broken.fault import arrives
from tests.broken.playing import said
from tests.stages import shipped_targets

MISTRAL = "openai-chat=mistral-small-latest"


def _doubled(body: Iterable[bytes]) -> Iterator[bytes]:
    """The arguments of a call's first piece come twice (simonw/llm#1130), which shows nothing where it has none."""
    for line in b"".join(body).splitlines(keepends=True):
        yield _twice(line) if line.startswith(b"data: {") else line


def _twice(line: bytes) -> bytes:
    chunk: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
    for choice in chunk["choices"]:
        for piece in choice["delta"].get("tool_calls") or ():
            if "id" in piece:
                piece["function"]["arguments"] *= 2
    return b"data: " + json.dumps(chunk).encode() + b"\n"


DOUBLED = arrives(_doubled)(shipped_targets()["openai-chat"].adapter)


def _run(folder: Path, mode: str, adapter: str, *model: str) -> RunResult:
    shared = ["--target", "openai-chat", *model, "--variant", "stream", "--cassettes", str(folder / "cassettes")]
    if mode == "replay":
        main(["record", "--from", "reference", "call-single", *shared])
    report = folder / "run.json"
    main(["run", "--mode", mode, "call-single", "--adapter", adapter, *shared, f"--report=json:{report}"])
    return RunResult.from_json(report.read_text())


@pytest.mark.parametrize("mode", ["reference", "replay"])
def test_a_call_that_comes_whole_is_read_as_it_is(tmp_path: Path, mode: str) -> None:
    (cell,) = _run(tmp_path, mode, "openai-chat", "--model", MISTRAL).cells
    assert cell.verdict is Verdict.PASS, said(cell.findings)


@pytest.mark.parametrize("mode", ["reference", "replay"])
def test_who_doubles_the_first_piece_is_caught_where_it_has_arguments(tmp_path: Path, mode: str) -> None:
    (cell,) = _run(tmp_path, mode, "tests.broken.test_dialects:DOUBLED", "--model", MISTRAL).cells
    assert cell.verdict is Verdict.FAIL, cell.reason
    assert "response-calls" in {finding.rule for finding in cell.findings}


def test_and_not_where_it_has_none(tmp_path: Path) -> None:
    (cell,) = _run(tmp_path, "reference", "tests.broken.test_dialects:DOUBLED").cells
    assert cell.verdict is Verdict.PASS, said(cell.findings)
