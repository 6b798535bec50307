"""Adapters that end, hold or dirty their process, through the public command: their cell fails, the next is run."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.model.errors import PluginError
from harness.stdio import workers as pool
from harness.stdio.workers import WorkerPool
from tests.cli.conftest import Command, folder, harness

__all__ = ["folder", "harness"]

ROOT = Path(__file__).parent.parent.parent
HERE = r"\(.*misbehaving\.py, line \d+\)"
LATE = rf"the adapter did not come back within 3 seconds {HERE}" + re.escape(
    "; --cell-timeout sets the limit (under pytest, harness_cell_timeout)"
)

BROKEN = {
    "exits": "the adapter ended the process with exit code 0",
    "leaves": rf"SystemExit: 0 {HERE}",
    "crashes": rf"the adapter's process was ended by SIGSEGV {HERE}",
    "recurses": rf"RecursionError: maximum recursion depth exceeded.* {HERE}",
    "hangs": LATE,
    "hangs-in-close": LATE,
    "closes-everything": "the adapter closed its process's connection to the run",
    "long": rf"ValueError: x{{900,1000}} \[\.\.\. \d+ characters are left out \.\.\.\] x{{900,1000}} {HERE}",
    "holds-a-lock": r"TypeError: the response cannot be written as JSON: Unable to serialize unknown type: .*lock.*",
}
"""Reason of the cell, by what the adapter does."""

HARMLESS = ("leaves-a-thread", "chatters", "floods", "looks-around")

SCENARIO = """
version: 1
id: {way}
title: One call
covers: [tools]
requires: [tools]
tools: [{{name: look, description: Looks., results: [{{return: {{seen: nothing}}}}]}}]
turns:
  - user: "{way}: Look."
    model: [{{calls: [{{look: {{}}}}]}}, {{text: Nothing is there.}}]
"""
RUN = ("run", "--mode=reference", "--variant=whole", "--adapter=tests.stdio.misbehaving:ADAPTER")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The cells of all ways, one after the other by one adapter."""
    place = tmp_path_factory.mktemp("played")
    files = [place / f"{way}.yaml" for way in (*BROKEN, *HARMLESS, "changes")]
    for file in files:
        file.write_text(SCENARIO.format(way=file.stem))
    reports = [f"--report=json:{place / 'run.json'}", f"--report=terminal:{place / 'run.txt'}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-real")
        assert main([*RUN, "--cell-timeout=3", "-n1", *map(str, files), *reports]) == 1
    document: dict[str, Any] = json.loads((place / "run.json").read_text())
    assert document["finished"] is True
    return {cell["scenario"]: cell for cell in document["cells"]}


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_process_fails_its_cell(played: dict[str, Any], way: str) -> None:
    assert played[way]["verdict"] == "error"
    assert re.fullmatch(BROKEN[way], played[way]["reason"], flags=re.DOTALL)


@pytest.mark.parametrize("way", HARMLESS)
def test_what_is_only_odd_passes(played: dict[str, Any], way: str) -> None:
    assert (played[way]["verdict"], played[way]["reason"]) == ("pass", None)


def test_output_is_kept_with_its_cell_and_bounded(played: dict[str, Any]) -> None:
    once = "printed by Python\nand by its standard error\nwritten to the descriptor\nsaid by a child\n"
    assert played["chatters"]["printed"] == 2 * once  # the cell has two chats
    assert played["looks-around"]["printed"] is None
    flood = played["floods"]["printed"]
    assert flood.startswith("line 0\nline 1\n")
    assert flood.endswith("line 99999\n")
    assert re.search(r"\n\[\.\.\. \d+ bytes are left out \.\.\.\]\n", flood)
    assert len(flood) <= 4000


@pytest.mark.parametrize("way", ["leaves", "crashes", "hangs", "recurses", "long"])
def test_the_traceback_is_kept_and_bounded(played: dict[str, Any], way: str) -> None:
    traceback = played[way]["traceback"]

    assert "misbehaving.py" in traceback
    assert len(traceback) <= 8000
    assert re.search("0x[0-9a-f]", traceback) is None


def test_a_change_in_place_is_found_once_in_a_worker(played: dict[str, Any]) -> None:
    (found,) = [each for each in played["changes"]["findings"] if each["rule"] == "request-changed-in-place"]
    assert "tools[0].parameters.changed" in found["message"]


def run_command(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", *words, "--report=json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_json_on_the_screen_stays_json_whatever_is_printed(folder: Path) -> None:
    (folder / "loud.py").write_text(
        "import os\nos.write(1, b'imported\\n')\nfrom tests.stdio.misbehaving import ADAPTER\n"
    )
    (folder / "chatters.yaml").write_text(SCENARIO.format(way="chatters"))

    done = run_command(folder, *RUN[:-1], "chatters.yaml", "--adapter=loud:ADAPTER")

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["cells"][0]["printed"].startswith("imported\nprinted by Python\n")


@pytest.mark.parametrize(
    ("adapter", "words", "passed"),
    [
        ("harness.adapters.claude_cli:ADAPTER", ("system-plain",), 1),
        ("tests.examples.async_sdk:OPENAI_CHAT", ("call-single", "--recut=1"), 2),
        ("harness.adapters.openai_chat:ADAPTER", ("-k", "embedding"), 3),
    ],
)
def test_any_kind_of_adapter_runs_in_a_worker(
    harness: Command, adapter: str, words: tuple[str, ...], passed: int
) -> None:
    done = harness("run", *words, "--mode=reference", "--adapter", adapter, "--report=json")

    assert (done.code, json.loads(done.out)["summary"]["pass"]) == (0, passed), done.out


def test_an_event_that_is_no_json_is_named(harness: Command) -> None:
    run = ("run", "call-single", "--mode=reference", "--variant=stream", "--report=json")

    (cell,) = json.loads(harness(*run, "--adapter=tests.stdio.misbehaving:ODD_EVENTS").out)["cells"]

    assert cell["verdict"] == "error"
    assert re.fullmatch(
        r"TypeError: event 0 cannot be written as JSON: Unable to serialize unknown type: .*lock.*", cell["reason"]
    )


def test_a_recording_counts_what_a_worker_sends(harness: Command) -> None:
    options = ("--variant=whole", "--max-requests=1", "--report=json", f"{RUN[-1]}")

    (cell,) = json.loads(harness("record", "--from", "reference", "call-single", *options).out)["cells"]

    assert (cell["verdict"], cell["reason"]) == (
        "missing",
        "not recorded: 1 requests were sent, --max-requests allows no more",
    )


def test_an_import_that_hangs_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "slow_import.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    monkeypatch.setattr(pool, "_LOADING_SECONDS", 3.0)

    with WorkerPool(1.0, offline=True) as workers, pytest.raises(PluginError) as raised:
        workers.adapter("slow_import:ADAPTER")

    assert str(raised.value) == (
        "the adapter 'slow_import:ADAPTER' cannot be used: importing it took longer than 3 seconds "
        "(slow_import.py, line 3); a longer --cell-timeout allows it more (under pytest, harness_cell_timeout). "
        "It printed: begun"
    )


def test_a_worker_ends_with_a_killed_run_and_the_report_says_so(folder: Path) -> None:
    (folder / "waits.py").write_text(
        "import os, time\nfrom dataclasses import replace\n"
        "from harness.adapters.openai_chat import ADAPTER as SHIPPED\n"
        "def connect(endpoint, model):\n"
        "    open('part', 'w').write(str(os.getpid()))\n    os.rename('part', 'pid')\n    time.sleep(600)\n"
        "ADAPTER = replace(SHIPPED, name='waits', connect=connect)\n"
    )
    (folder / "run.json").write_text('{"mode": "replay", "cells": []}')
    run = ["run", "call-single", "--mode", "reference", "--adapter", "waits:ADAPTER", "--report", "json:run.json"]

    with subprocess.Popen(
        [sys.executable, "-m", "harness", *run], cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as running:
        while not (folder / "pid").exists():
            assert running.poll() is None
            time.sleep(0.05)
        running.kill()

    worker = int((folder / "pid").read_text())
    for _ in range(600):
        if not _is_running(worker):
            break
        time.sleep(0.1)
    else:
        os.kill(worker, signal.SIGKILL)
        pytest.fail("the worker outlived the run")
    left = json.loads((folder / "run.json").read_text())
    assert (left["finished"], left["stopped"]) == (False, "the run has not finished")


STOPS = """
import os, signal, subprocess
from tests.stdio.misbehaving import ACTS, ADAPTER

stopped = []

def act():
    if stopped:
        return
    stopped.append(True)
    subprocess.Popen(['/bin/sh', '-c', f'sleep 1.8; kill -CONT {os.getppid()}'], start_new_session=True)
    os.kill(os.getppid(), signal.SIGSTOP)

ACTS['stops'] = act
"""
"""Suspends the run for longer than a cell may take, as Ctrl-Z does."""


def test_a_suspended_run_goes_on(folder: Path) -> None:
    (folder / "stops.py").write_text(STOPS)
    (folder / "stops.yaml").write_text(SCENARIO.format(way="stops"))

    done = run_command(folder, *RUN[:-1], "stops.yaml", "--adapter=stops:ADAPTER", "--cell-timeout=1.5")

    (cell,) = json.loads(done.stdout)["cells"]
    assert (done.returncode, cell["verdict"], cell["reason"]) == (0, "pass", None)


def _is_running(process: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return listed.stdout.strip() not in {"", "Z", "Zs"}
