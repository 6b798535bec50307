"""Cells that are shared by processes. By commands: a process that has threads, as that of the tests, is not forked."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.checks.generation import search
from harness.cli.main import main
from harness.results import CellResult
from harness.runner.cells import Cell, cells
from harness.runner.executors import CHUNK_CELLS, _chunks
from tests.backends import every_target, shipped_scenarios, shipped_targets

ROOT = Path(__file__).parent.parent.parent


FORKING = """
import signal, sys
from harness.runner import suite_run
suite_run.MIN_CELLS_PER_FORK = suite_run.MIN_FOREIGN_CELLS_PER_FORK = 4
from harness.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores Ctrl-C
sys.exit(main())
"""
"""The command, with forks for as few cells."""


def forks_of(process: int, many: int) -> list[str]:
    """The processes of a run, once there are as many."""
    children = Path(f"/proc/{process}/task/{process}/children")
    while len(found := children.read_text().split()) < many:
        time.sleep(0.01)
    return found


def runs(process: str) -> bool:
    """Whether a process has not ended; an orphan may be left for its new parent to bury."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_cells_that_need_one_sdk_go_to_one_process_and_the_rest_is_cut_small() -> None:
    scenarios = list(shipped_scenarios().values())[:30]
    every = cells(scenarios, [*every_target().values()])

    chunks = [*_chunks(every, 2)]

    assert sorted(number for chunk in chunks for number, _ in chunk) == [*range(len(every))]
    assert all(every[number] is cell for chunk in chunks for number, cell in chunk)
    apis = [{cell.target.api for _, cell in chunk} for chunk in chunks]
    assert apis[:2] == [{"anthropic"}, {"openai-chat", "openai-responses"}]
    assert all(len(chunk) <= CHUNK_CELLS for chunk in chunks[2:])
    assert apis[-1] == {"claude-cli"}


def test_a_fork_that_is_killed_ends_the_run_and_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "run", "--target", "openai-chat", "-n", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as run:
        os.kill(int(forks_of(run.pid, 2)[0]), signal.SIGKILL)
        _, said = run.communicate()
    assert re.fullmatch(r"harness: a process that ran cells, [\w-]+ or later, was ended from outside\n", said)
    assert run.returncode == 2


def documents() -> list[str]:
    """What a seed draws, in any process."""
    drawn: list[str] = []

    def run_one(cell: Cell) -> CellResult:
        drawn.append(cell.scenario.model_dump_json())
        return cell.result()

    assert search(shipped_targets()["gemini-3"], 20, 7, [run_one]) == []
    return drawn


DRAWING = """
import json
from tests.runner.test_processes import documents
with open("drawn.json", "w") as file:
    json.dump(documents(), file)
"""


def test_a_run_is_the_same_by_one_process_and_by_several_that_hash_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "a folder with spaces"
    other.mkdir()
    words = ["run", "-k", "error-4 and openai-chat", "--mode", "reference", "--report", "terminal"]
    command = [sys.executable, "-c", DRAWING + FORKING, *words, "-n", "3", "--report", "json:run.json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "29"}
    finished = subprocess.run(command, cwd=other, env=environment, capture_output=True, text=True, check=True)
    monkeypatch.chdir(tmp_path)
    assert main([*words, "-n", "1", "--report", "json:run.json"]) == 0

    one, several = (json.loads((folder / "run.json").read_text()) for folder in (tmp_path, other))
    assert len(one["cells"]) >= 2 * 4
    for each in (one, several):
        del each["timing"], each["checkout"]["project"]  # which has the name of its folder
    assert one == several
    said = [re.sub(r"\(\d+\.\d s\)", "", each) for each in (capsys.readouterr().out, finished.stdout)]
    assert said[0] == said[1]
    assert json.loads((other / "drawn.json").read_text()) == documents()


WAITS = """
import os, time
from dataclasses import replace
from tests.examples.plain_http import ADAPTER as PLAIN

def connect(endpoint, model):
    open(f"waits-{os.getpid()}", "w").close()
    time.sleep(600)

ADAPTER = replace(PLAIN, name="waits", connect=connect)
"""


def test_forks_and_workers_end_with_a_killed_run_and_the_report_says_so(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(WAITS)
    (tmp_path / "run.json").write_text('{"mode": "replay", "cells": []}')
    words = [
        "run",
        "-k",
        "call-",
        "--adapter",
        "waits:ADAPTER",
        "-n",
        "2",
        "--cell-timeout",
        "3",
        "--report",
        "json:run.json",
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    with subprocess.Popen([sys.executable, "-c", FORKING, *words], cwd=tmp_path, env=environment) as run:
        while len(waiting := [*tmp_path.glob("waits-*")]) < 2:
            assert run.poll() is None
            time.sleep(0.01)
        forks = forks_of(run.pid, 2)
        run.kill()
    while any(map(runs, [*forks, *(path.name.removeprefix("waits-") for path in waiting)])):
        time.sleep(0.01)
    left = json.loads((tmp_path / "run.json").read_text())
    assert (left["finished"], left["stopped"]) == (False, "the run has not finished")


def test_an_interrupted_run_ends_its_processes_and_keeps_its_report(tmp_path: Path) -> None:
    words = [
        "run",
        "--adapter",
        "tests.examples.plain_http:ADAPTER",
        "--target",
        "openai-chat",
        "-n",
        "2",
        "--report",
        "json:run.json",
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, *words],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        described, *forks = forks_of(run.pid, 3)  # the first one described the adapter
        workers = [described, *(each for fork in forks for each in forks_of(int(fork), 1))]
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        out, said = run.communicate()
    assert (run.returncode, said) == (130, "harness: interrupted.\n")
    assert out.startswith("UNFINISHED  interrupted; ")
    assert json.loads((tmp_path / "run.json").read_text())["stopped"] == "interrupted"
    assert not any(map(runs, forks))
    while any(map(runs, workers)):  # each ends by itself when nobody asks it any more
        time.sleep(0.01)


ODD = """
import os, time
from dataclasses import replace
from tests.examples.plain_http import ADAPTER as PLAIN, Client

class Odd(Client):
    def chat(self, request):
        said = request.messages[0].text
        if "Portugal" in said:
            os._exit(3)
        if "Reykjavik" in said:
            time.sleep(60)
        return super().chat(request)

ADAPTER = replace(PLAIN, name="odd", connect=Odd)
with open("loaded", "a") as loaded:
    print(os.getpid(), file=loaded)
"""


def test_a_foreign_adapter_has_a_process_in_each_fork_and_breaks_its_cells_there(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD)
    words = [
        "run",
        "-k",
        "call- and not call-name",
        "--adapter",
        "odd:ADAPTER",
        "--cell-timeout",
        "3",
        "--mode",
        "reference",
        "-n",
        "2",
    ]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = [sys.executable, "-c", FORKING, *words, "--report", "json:run.json"]

    finished = subprocess.run(command, cwd=tmp_path, env=environment, check=False)

    assert finished.returncode == 1
    cells = json.loads((tmp_path / "run.json").read_text())["cells"]
    broken = {cell["scenario"]: cell["reason"] for cell in cells if cell["verdict"] == "error"}
    assert broken.keys() == {"call-not-needed", "call-single"}
    assert broken["call-not-needed"].startswith("the adapter ended the process with exit code 3")
    assert broken["call-single"].startswith("the adapter did not come back within 3 seconds (odd.py, line 12)")
    assert {cell["verdict"] for cell in cells} == {"pass", "not-applicable", "error"}
    described, *others = (tmp_path / "loaded").read_text().split()
    # one for each fork, and one in the place of each that was ended if its fork had another cell
    assert 2 + 1 <= len({*others} - {described}) <= 2 + 2
