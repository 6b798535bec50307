"""Adapters that end, hold or dirty their process, through the public command: their cell fails, the next is run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from tests.cli.conftest import Command, folder, harness
from tests.once import once

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
    "odd-events": r"TypeError: event 0 cannot be written as JSON: Unable to serialize unknown type: .*lock.*",
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
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The cells of all ways, one after the other by one adapter, and of a stream by another one."""

    def run_ways(place: Path) -> dict[str, dict[str, Any]]:
        files = {way: place / f"{way}.yaml" for way in (*BROKEN, *HARMLESS, "changes")}
        for way, file in files.items():
            file.write_text(SCENARIO.format(way=way))
        odd = files.pop("odd-events")
        reports = [f"--report=json:{place / 'run.json'}", f"--report=terminal:{place / 'run.txt'}"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_API_KEY", "sk-real")
            assert main([*RUN, "--cell-timeout=3", "-n1", *map(str, files.values()), *reports]) == 1
            of_stream = ("--variant=stream", "--adapter=tests.stdio.misbehaving:ODD_EVENTS")
            assert main(["run", "--mode=reference", str(odd), *of_stream, f"--report=json:{place / 'odd'}"]) == 1
        documents: list[dict[str, Any]] = [json.loads((place / name).read_text()) for name in ("run.json", "odd")]
        assert documents[0]["finished"] is True
        return {cell["scenario"]: cell for document in documents for cell in document["cells"]}

    return once(tmp_path_factory, "workers", run_ways)


@pytest.mark.parametrize("way", BROKEN)
def test_a_broken_process_fails_its_cell(results: dict[str, Any], way: str) -> None:
    assert results[way]["verdict"] == "error"
    assert re.fullmatch(BROKEN[way], results[way]["reason"], flags=re.DOTALL)


@pytest.mark.parametrize("way", HARMLESS)
def test_what_is_only_odd_passes(results: dict[str, Any], way: str) -> None:
    assert (results[way]["verdict"], results[way]["reason"]) == ("pass", None)


def test_output_is_kept_with_its_cell_and_bounded(results: dict[str, Any]) -> None:
    once = "printed by Python\nand by its standard error\nwritten to the descriptor\nsaid by a child\n"
    assert results["chatters"]["printed"] == 2 * once  # the cell has two chats
    assert results["looks-around"]["printed"] is None
    flood = results["floods"]["printed"]
    assert flood.startswith("line 0\nline 1\n")
    assert flood.endswith("line 99999\n")
    assert re.search(r"\n\[\.\.\. \d+ bytes are left out \.\.\.\]\n", flood)
    assert len(flood) <= 4000


@pytest.mark.parametrize("way", ["leaves", "crashes", "hangs", "recurses", "long"])
def test_the_traceback_is_kept_and_bounded(results: dict[str, Any], way: str) -> None:
    traceback = results[way]["traceback"]

    assert "misbehaving.py" in traceback
    assert len(traceback) <= 8000
    assert re.search("0x[0-9a-f]", traceback) is None


def test_a_change_in_place_is_found_once_in_a_worker(results: dict[str, Any]) -> None:
    (found,) = [each for each in results["changes"]["findings"] if each["rule"] == "request-changed-in-place"]
    assert "tools[0].parameters.changed" in found["message"]


LOUD = """
import os, signal, subprocess
os.write(1, b'imported\\n')
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
"""Prints when it is imported, and suspends the run for longer than a cell may take, as Ctrl-Z does."""


def test_json_on_the_screen_stays_json_and_a_suspended_run_goes_on(folder: Path) -> None:
    """As a console script starts: without the current folder, which has the adapter, on the path."""
    (folder / "loud.py").write_text(LOUD)
    files = ["chatters.yaml", "stops.yaml"]
    for file in files:
        (folder / file).write_text(SCENARIO.format(way=file.removesuffix(".yaml")))
    command = [sys.executable, "-P", "-m", "harness", *RUN[:-1], *files, "--adapter=loud:ADAPTER", "--report=json"]

    done = subprocess.run(
        [*command, "--cell-timeout=1.5", "-n1"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    chatters, stops = json.loads(done.stdout)["cells"]
    assert chatters["printed"].startswith("imported\nprinted by Python\n")
    assert (stops["scenario"], stops["verdict"], stops["reason"]) == ("stops", "pass", None)


@pytest.mark.parametrize(
    ("adapter", "words", "passed"),
    [
        ("harness.adapters.claude_cli:ADAPTER", ("system-plain",), 1),
        ("tests.stdio.asynchronous:ADAPTER", ("call-single", "--recut=1"), 2),
        ("harness.adapters.openai_chat:ADAPTER", ("-k", "embedding"), 3),
    ],
)
def test_any_kind_of_adapter_runs_in_a_worker(
    harness: Command, adapter: str, words: tuple[str, ...], passed: int
) -> None:
    done = harness("run", *words, "--mode=reference", "--adapter", adapter, "--report=json")

    assert (done.code, json.loads(done.out)["summary"]["pass"]) == (0, passed), done.out
