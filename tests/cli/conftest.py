from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer

from harness.checks.recognition import recognise_here
from harness.cli import try_command
from harness.cli.app import app
from harness.cli.main import main
from harness.model.protocols import Adapter, Capability, Route
from harness.stdio import adapter_specs
from harness.stdio.sync_client import run_awaitable
from harness.stdio.workers import ForeignAdapter, WorkerLease, WorkerPool
from tests.once import once

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
    """An empty folder to work in, without keys, colours or a terminal's width. What a command sets or imports goes."""
    before = dict(os.environ)
    keys = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
    for name in (*keys, "OPENAI_BASE_URL", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in os.environ.keys() - before:
        del os.environ[name]
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def harness(folder: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line, in this process and in `folder`."""

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return run


def without_workers(patch: pytest.MonkeyPatch) -> None:
    """Run third-party Python code in this process, since a process of its own takes a second to start."""
    of_worker, lease_of_worker = WorkerPool.adapter, WorkerPool.lease

    def adapter(pool: WorkerPool, spec: str) -> Adapter:
        if spec.startswith("$ "):
            return of_worker(pool, spec)
        found = adapter_specs.adapter(spec)
        if (drive := found.drive) is None:
            return found
        described = {each.name: getattr(found, each.name) for each in fields(found)}

        def answers(*given: Any) -> tuple[Any, ...]:
            returned = run_awaitable(drive(*given))
            return tuple(cast("list[Any]", returned)) if Capability.ANSWERS in found.capabilities else ()

        described |= {"route": Route.LOOPBACK, "drive": answers}
        return ForeignAdapter(**described, spec=spec, workers=pool)

    @contextmanager
    def lease(pool: WorkerPool, foreign: ForeignAdapter) -> Generator[WorkerLease | SimpleNamespace]:
        if foreign.spec.startswith("$ "):
            with lease_of_worker(pool, foreign) as leased:
                yield leased
        else:
            yield SimpleNamespace(adapter=foreign, printed="")

    patch.setattr(WorkerPool, "adapter", adapter)
    patch.setattr(WorkerPool, "lease", lease)
    patch.setattr(try_command, "recognise", recognise_here)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    without_workers(monkeypatch)


@pytest.fixture(scope="session")
def cassettes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of a few scenarios for all targets, from the reference server."""

    def record(folder: Path) -> Path:
        made = folder / "cassettes"
        reports = [f"--report=json:{folder / 'run.json'}", f"--report=terminal:{folder / 'run.txt'}"]
        assert main(["record", "--from", "reference", *RECORDED, "--cassettes", str(made), *reports]) == 0
        return made

    return once(tmp_path_factory, "cassettes", record)
