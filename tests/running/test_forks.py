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

ROOT = Path(__file__).parent.parent.parent

SCRIPT = """
import os, signal
from contextlib import nullcontext
from harness.contract.errors import HarnessError
from harness.running.forks import forked, possible, processors

assert possible() and processors() > 0
here = os.getpid()

def square(numbers):
    return [(number * number, os.getpid()) for number in numbers]

done = dict(forked(square, range(100), 2, nullcontext()))
assert {number: result for number, (result, _) in done.items()} == {number: number**2 for number in range(100)}
assert len({process for _, process in done.values()}) == 2
assert here not in {process for _, process in done.values()}

done = dict(forked(square, range(100), 2, nullcontext(), loads=lambda number: number % 2))
assert sorted(done) == [*range(100)]
players = [{process for number, (_, process) in done.items() if number % 2 == kind} for kind in (0, 1)]
assert [len(each) for each in players] == [1, 1] and players[0] != players[1]

for many, processes in ((40, 1), (100, 2), (600, 2)):
    done = dict(forked(square, range(many), 2, nullcontext(), loads=lambda number: "the same for all"))
    assert len(done) == many and len({process for _, process in done.values()}) == processes

def odd(numbers):
    for number in numbers:
        if number == 37:
            raise OSError(f"raised in {os.getpid()}")
        yield number

try:
    list(forked(odd, range(100), 2, nullcontext()))
except OSError as error:
    assert str(error) == f"raised in {here}"
else:
    raise AssertionError("nothing was raised")

def odd_elsewhere(numbers):
    for number in numbers:
        if number == 37 and os.getpid() != here:
            raise OSError("raised there alone")
        yield number

assert dict(forked(odd_elsewhere, range(100), 2, nullcontext())) == {number: number for number in range(100)}

def fatal(numbers):
    if 37 in numbers:
        os.kill(os.getpid(), signal.SIGKILL)
    return numbers

try:
    list(forked(fatal, range(100), 2, nullcontext()))
except HarnessError as error:
    print(error)
"""


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


def test_what_forks_give_raise_and_leave_behind() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "a process that played cells has ended: exit code -9\n"


def test_a_run_is_the_same_by_one_process_and_by_several(tmp_path: Path) -> None:
    said: list[str] = []
    for jobs in ("1", "3"):
        words = ["run", "-k", "errors and openai", "-n", jobs, "--report", f"json:{jobs}.json"]
        command = [sys.executable, "-m", "harness", *words, "--mode", "reference", "--report", "terminal"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        played = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        said.append(re.sub(r"\(\d+\.\d s\)", "", played.stdout))
    one, several = (json.loads((tmp_path / f"{jobs}.json").read_text()) for jobs in ("1", "3"))
    assert len(one["cells"]) >= 2 * 40
    for each in (one, several):
        del each["timing"]
    assert one == several
    assert said[0] == said[1]


def test_forks_end_with_who_asks_them_however_that_ends(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "run", "--target", "openai-chat", "-n", "3"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL) as run:
        forks = forks_of(run.pid, 3)
        run.kill()
    while any(map(runs, forks)):
        time.sleep(0.01)


@pytest.mark.parametrize("adapter", [[], ["--adapter", "tests.examples.plain_http:ADAPTER"]], ids=["ours", "foreign"])
def test_an_interrupted_run_ends_its_processes_and_keeps_its_report(tmp_path: Path, adapter: list[str]) -> None:
    words = ["run", *adapter, "--target", "openai-chat", "-n", "2", "--report", "json:run.json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    code = (  # what a shell starts behind it ignores Ctrl-C
        "import signal, sys; from harness.cli.main import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        described, *forks = forks_of(run.pid, 3) if adapter else ["", *forks_of(run.pid, 2)]  # it was asked what it can
        workers = [described, *(each for fork in forks for each in forks_of(int(fork), 1))] if adapter else []
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        _, said = run.communicate()
    assert (run.returncode, said) == (130, "harness: interrupted.\n")
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
    words = ["run", "--adapter", "odd:ADAPTER", "--cell-timeout", "3", "--mode", "reference", "-n", "2"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    command = [sys.executable, "-m", "harness", *words, "--report", "json:run.json"]

    played = subprocess.run(command, cwd=tmp_path, env=environment, check=False)

    assert played.returncode == 1
    cells = json.loads((tmp_path / "run.json").read_text())["cells"]
    assert len(cells) >= 2 * 80
    broken = {cell["scenario"]: cell["reason"] for cell in cells if cell["verdict"] == "error"}
    assert broken.keys() == {"call-not-needed", "call-single"}
    assert broken["call-not-needed"].startswith("the adapter ended the process with exit code 3")
    assert broken["call-single"].startswith("the adapter did not come back within 3 seconds (odd.py, line 12)")
    assert {cell["verdict"] for cell in cells} == {"pass", "not-applicable", "error"}
    described, *others = (tmp_path / "loaded").read_text().split()
    assert len({*others} - {described}) == 2 + 2  # one for each fork, and one in the place of each that was ended
