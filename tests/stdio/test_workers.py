"""Adapters that end, hold or dirty their process, through the public command: their cell fails, the next is played."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.model.errors import PluginError
from harness.stdio import workers as pool
from harness.stdio.workers import WorkerPool
from tests.cli.conftest import Command, cassettes, folder, harness
from tests.stdio import misbehaving

__all__ = ["cassettes", "folder", "harness"]

ROOT = Path(__file__).parent.parent.parent
HERE = r"\(.*misbehaving\.py, line \d+\)"
WAY_OUT = re.escape("; --cell-timeout sets the limit (under pytest, harness_cell_timeout)")
NO_JSON = "TypeError: the response cannot be written as JSON:"

BROKEN = {
    "EXITS": "the adapter ended the process with exit code 0",
    "LEAVES": rf"SystemExit: 0 {HERE}",
    "INTERRUPTS": rf"KeyboardInterrupt: stop {HERE}",
    "RAISES_ITS_OWN": rf"Mine: mine {HERE}",
    "CRASHES": rf"the adapter's process was ended by SIGSEGV {HERE}",
    "KILLED": "the adapter's process was ended by SIGKILL",
    "RECURSES": rf"RecursionError: maximum recursion depth exceeded.* {HERE}",
    "HANGS": rf"the adapter did not come back within 6 seconds {HERE}{WAY_OUT}",
    "HANGS_IN_CLOSE": rf"the adapter did not come back within 6 seconds {HERE}{WAY_OUT}",
    "CLOSES_EVERYTHING": "the adapter closed its process's connection to the run",
    "LONG": rf"Long: x{{900,1000}} \[\.\.\. \d+ characters are left out \.\.\.\] x{{900,1000}} {HERE}",
    "MUTE": rf"Mute: \(its text cannot be had: ZeroDivisionError\) {HERE}",
    "HOLDS_A_LOCK": rf"{NO_JSON} Unable to serialize unknown type: <class '_thread\.lock'>",
    "HOLDS_A_DATE": rf"{NO_JSON} provider_metadata holds datetime\.datetime\(.*\), a datetime, which is no JSON value",
    "HOLDS_A_SET": rf"{NO_JSON} provider_metadata holds \{{1\}}, a set, which is no JSON value",
    "HOLDS_ITSELF": rf"{NO_JSON} ValueError: Circular reference detected \(id repeated\)",
}
"""What the reason of the cell says."""

HARMLESS = ("LEAVES_A_THREAD", "CHATTERS", "FLOODS", "SUBCLASSES", "LOOKS_AROUND")
"""These are odd, and right."""


def spec(name: str) -> str:
    return f"{misbehaving.__name__}:{name}"


def named(name: str) -> str:
    return name.lower().replace("_", "-")


def outcomes(document: Mapping[str, Any], scenario: str) -> dict[str, dict[str, Any]]:
    return {cell["target"]: cell for cell in document["cells"] if cell["scenario"] == scenario}


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One run of two scenarios through all of them, two cells at a time."""
    report = tmp_path_factory.mktemp("played") / "run.json"
    chosen = [word for name in (*BROKEN, *HARMLESS) for word in ("--adapter", spec(name))]
    run = ["run", "call-single", "system-plain", "--mode", "reference", "--variant", "whole", "--cell-timeout", "6"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-real")
        code = main([*run, "-n", "2", *chosen, "--report", f"json:{report}", "--report", f"terminal:{report}.txt"])
    assert code == 1
    document: dict[str, Any] = json.loads(report.read_text())
    assert document["finished"] is True
    return document


@pytest.mark.parametrize("name", BROKEN)
def test_it_breaks_its_cell_and_the_next_one_is_played(played: dict[str, Any], name: str) -> None:
    broken, next_ = (outcomes(played, scenario)[named(name)] for scenario in ("call-single", "system-plain"))

    assert broken["verdict"] == "error"
    assert re.fullmatch(BROKEN[name], broken["reason"], flags=re.DOTALL)
    assert (next_["verdict"], next_["reason"]) == ("pass", None)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_only_odd_passes(played: dict[str, Any], name: str) -> None:
    for scenario in ("call-single", "system-plain"):
        assert outcomes(played, scenario)[named(name)]["verdict"] == "pass"


def test_what_is_printed_is_kept_with_its_cell_and_bounded(played: dict[str, Any]) -> None:
    cells = outcomes(played, "call-single")

    once = "printed by Python\nand by its standard error\nwritten to the descriptor\nsaid by a child\n"
    assert cells["chatters"]["printed"] == 2 * once  # the cell has two chats
    assert outcomes(played, "system-plain")["chatters"]["printed"] is None
    flood = cells["floods"]["printed"]
    assert flood.startswith("line 0\nline 1\n")
    assert flood.endswith("line 99999\n")
    assert re.search(r"\n\[\.\.\. \d+ bytes are left out \.\.\.\]\n", flood)
    assert len(flood) <= 4000


@pytest.mark.parametrize("name", ["LEAVES", "INTERRUPTS", "CRASHES", "HANGS", "RECURSES", "LONG"])
def test_the_traceback_is_kept_and_bounded(played: dict[str, Any], name: str) -> None:
    traceback = outcomes(played, "call-single")[named(name)]["traceback"]

    assert "misbehaving.py" in traceback
    assert len(traceback) <= 8000
    assert re.search("0x[0-9a-f]", traceback) is None


def test_json_on_the_screen_stays_json_whatever_is_printed_where(folder: Path) -> None:
    (folder / "loud.py").write_text(
        "import os\nos.write(1, b'imported\\n')\nfrom tests.stdio.misbehaving import CHATTERS as ADAPTER\n"
    )
    run = ["run", "call-single", "--mode", "reference", "--variant", "whole", "--adapter", "loud:ADAPTER"]

    done = subprocess.run(
        [sys.executable, "-m", "harness", *run, "--report", "json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["cells"][0]["printed"].startswith("imported\nprinted by Python\n")


def test_the_terminal_shows_what_was_printed_where_something_broke_and_the_traceback_if_asked(
    harness: Command, folder: Path
) -> None:
    (folder / "talks.py").write_text(
        "from tests.stdio.misbehaving import doing\n"
        "def act():\n    print('one\\ntwo')\n    raise ValueError('no')\n"
        "ADAPTER = doing('talks', act)\n"
    )
    run = ("run", "call-single", "--mode", "reference", "--variant", "whole", "--adapter", "talks:ADAPTER")

    short, verbose = harness(*run), harness(*run, "-v")

    lines = short.out.splitlines()
    at = lines.index("Printed by the adapter: in 1 cell")
    assert lines[at : at + 4] == [lines[at], "  call-single . talks", "    one", "    two"]
    assert "Traceback" not in short.out
    assert "Traceback of call-single . talks" in verbose.out.splitlines()
    assert "    ValueError: no" in verbose.out.splitlines()


@pytest.mark.parametrize(
    ("adapter", "words"),
    [
        ("harness.adapters.anthropic:ADAPTER", ("call-single", "thinking-tool-loop", "--recut", "1")),
        ("harness.adapters.gemini:ADAPTER", ("call-single", "json-mode")),
        ("harness.adapters.claude_cli:ADAPTER", ("call-single", "system-plain")),
        ("tests.examples.async_sdk:OPENAI_CHAT", ("call-single", "--recut", "1")),
    ],
)
def test_whatever_an_adapter_is_made_of_it_plays_as_well_from_elsewhere(
    harness: Command, cassettes: Path, adapter: str, words: tuple[str, ...]
) -> None:
    chosen = ("--adapter", adapter, "--report", "json")

    replayed = harness("run", *words, *chosen, "--cassettes", str(cassettes))
    referred = harness("run", *words, *chosen, "--mode", "reference")

    for outcome in (replayed, referred):
        assert outcome.code == 0, outcome.out
        assert json.loads(outcome.out)["summary"]["pass"] > 0


def test_an_event_that_cannot_be_told_of_is_named(harness: Command) -> None:
    run = ("run", "call-single", "--mode", "reference", "--variant", "stream")

    done = harness(*run, "--adapter", spec("ODD_EVENTS"), "--report", "json")

    (cell,) = json.loads(done.out)["cells"]
    assert cell["verdict"] == "error"
    assert re.fullmatch(
        r"TypeError: event 0 cannot be written as JSON: Unable to serialize unknown type: .*lock.*", cell["reason"]
    )


CHANGES = """
from dataclasses import replace
from tests.examples.plain_http import ADAPTER as PLAIN, Client

class Changing(Client):
    seen = None
    def chat(self, request):
        first = request.messages[0]
        assert self.seen in (None, first) and (self.seen is None or self.seen is first)
        self.seen = first
        request.tools[0].parameters["changed"] = True
        return super().chat(request)

ADAPTER = replace(PLAIN, name="changing", connect=Changing)
"""


def test_a_change_in_place_is_found_once_in_a_worker(harness: Command, folder: Path) -> None:
    (folder / "changing.py").write_text(CHANGES)

    options = ("--mode=reference", "--variant=whole", "--report=json")
    done = harness("run", "call-single", "--adapter=changing:ADAPTER", *options)

    (cell,) = json.loads(done.out)["cells"]
    (found,) = [each for each in cell["findings"] if each["rule"] == "request-changed-in-place"]
    assert "tools[0].parameters.changed" in found["message"]


def test_embeddings_are_made_elsewhere_as_well(harness: Command) -> None:
    chosen = ("--adapter", "harness.adapters.openai_chat:ADAPTER", "--report", "json")

    done = harness("run", "-k", "embedding", "--mode", "reference", *chosen)

    assert (done.code, json.loads(done.out)["summary"]["pass"]) == (0, 2)


def test_a_recording_counts_what_is_sent_elsewhere(harness: Command) -> None:
    options = ("--variant", "whole", "--max-requests", "1", "--report", "json")

    done = harness("record", "--from", "reference", "call-single", "--adapter", spec("SUBCLASSES"), *options)

    (cell,) = json.loads(done.out)["cells"]
    assert (cell["verdict"], cell["reason"]) == (
        "missing",
        "not recorded: 1 requests were sent, --max-requests allows no more",
    )


def test_an_import_that_hangs_is_said_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "slow_import.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    monkeypatch.setattr(pool, "_LOADING_SECONDS", 4.0)

    with WorkerPool(1.0, offline=True) as workers, pytest.raises(PluginError) as raised:
        workers.adapter("slow_import:ADAPTER")

    assert str(raised.value) == (
        "the adapter 'slow_import:ADAPTER' cannot be used: importing it took longer than 4 seconds "
        "(slow_import.py, line 3); a longer --cell-timeout allows it more (under pytest, harness_cell_timeout). "
        "It printed: begun"
    )


def test_a_worker_ends_with_the_run_even_if_that_is_killed_and_the_report_says_so(folder: Path) -> None:
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
    assert (left["finished"], left["stopped"]) == (False, "the run was begun and did not come to its end")


STOPS = """
import faulthandler, os, signal, subprocess
from tests.stdio.misbehaving import doing

later = faulthandler.dump_traceback_later
faulthandler.dump_traceback_later = lambda seconds, **rest: later(seconds / 20, **rest)

stopped = []

def act():
    if stopped:
        return
    stopped.append(True)
    subprocess.Popen(['/bin/sh', '-c', f'sleep 1.8; kill -CONT {os.getppid()}'], start_new_session=True)
    os.kill(os.getppid(), signal.SIGSTOP)

ADAPTER = doing('stops', act)
"""
"""Stops the run for longer than a cell may take, as Ctrl-Z does. What watches over a worker whose run is gone, which
would take seconds to act, is hastened."""


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(folder: Path) -> None:
    (folder / "stops.py").write_text(STOPS)
    run = ["run", "call-single", "--mode", "reference", "--variant", "whole", "--adapter", "stops:ADAPTER"]

    done = subprocess.run(
        [sys.executable, "-m", "harness", *run, "--cell-timeout", "1.5", "--report", "json"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    (cell,) = json.loads(done.stdout)["cells"]
    assert (done.returncode, cell["verdict"], cell["reason"]) == (0, "pass", None)


def _is_running(process: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return listed.stdout.strip() not in {"", "Z", "Zs"}
