from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from harness.checks.recognition import recognise_here
from harness.cli import try_command
from harness.cli.app import app
from harness.cli.main import main
from harness.model.protocols import Adapter
from harness.stdio import adapter_specs
from harness.stdio.workers import WorkerPool

RECORDED = ("call-single", "json-mode", "system-plain", "thinking-tool-loop")
FIVE = tuple(f"--target={name}" for name in ("anthropic", "openai-chat", "openai-responses", "gemini-3", "gemini-2.5"))
"""The targets that stream, where cells are counted."""


NO_SUCH_TOOL = """\
api: anthropic
facts:
  - id: anthropic-ours-no-weather
    verdict: refused
    says: Our gateway accepts no tool called get_weather.
    evidence: [{kind: probe, date: 2026-11-01, address: "https://wiki.example.com/gateway"}]
    when: [{at: "tools[].name", is: get_weather}]
    refuses: [{"tools[]": {name: get_weather, input_schema: {type: object}}}]
"""
"""A file of facts of one's own."""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


def command_of(*names: str) -> Any:
    """The command that these words call, as typer has it."""
    found: Any = typer.main.get_command(app)
    for name in names:
        found = found.get_command(None, name)
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder to work in, without keys, colours or a terminal's width. Variables that a command sets go."""
    before = dict(os.environ)
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
    for name in (*keys, "OPENAI_BASE_URL", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in os.environ.keys() - before:
        del os.environ[name]


@pytest.fixture
def harness(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line, in this process and in `folder`."""

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run


def without_workers(patch: pytest.MonkeyPatch) -> None:
    """Run third-party code in this process, since a process of its own takes a second to start. Loops need theirs."""
    of_worker = WorkerPool.adapter

    def adapter(pool: WorkerPool, spec: str) -> Adapter:
        found = adapter_specs.adapter(spec)
        return found if found.drive is None else of_worker(pool, spec)

    patch.setattr(WorkerPool, "adapter", adapter)
    patch.setattr(try_command, "recognise", recognise_here)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_workers(monkeypatch)


@pytest.fixture(scope="session")
def cassettes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of a few scenarios for all targets, from the reference server."""
    folder = tmp_path_factory.mktemp("recorded") / "cassettes"
    reports = [f"--report=json:{folder.parent / 'run.json'}", f"--report=terminal:{folder.parent / 'run.txt'}"]
    assert main(["record", "--from", "reference", *RECORDED, "--cassettes", str(folder), *reports]) == 0
    return folder
