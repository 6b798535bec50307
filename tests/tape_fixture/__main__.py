"""Side by side with pytest-recording: `python -m tests.tape_fixture`, where that is installed (the extra `bench`).

The same project is recorded from the reference server by each contender; then the server is gone, faults are planted
(`faults.py`), and each plays. Times are the processor's; only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.tape_fixture import project
from tests.tape_fixture.faults import FAULTS, HARMLESS, Fault
from tests.tape_fixture.project import SCENARIO, serving

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-secret-of-mine-123456789"
CUT = 3

TOLD = """
import pytest


@pytest.fixture
def vcr_config():
    return {
        "match_on": ["method", "scheme", "host", "port", "path", "query", "body"],
        "filter_headers": ["authorization"],
    }
"""
"""What has pytest-recording compare bodies, and leave the key out of headers."""

MANY = """
import os

import pytest
from agent import Agent

QUESTION = "What is the weather in Paris and in Tokyo? Look both up at once."


@pytest.mark.tape
@pytest.mark.parametrize("number", range(int(os.environ["MANY"])))
def test_many(number):
    with Agent(f"{os.environ['WEATHER_URL']}-whole/v1") as asked:
        assert "31" in asked.ask(QUESTION)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of pytest: whether it was green, the processor's seconds that it took, what it said."""

    green: bool
    seconds: float
    said: str

    def must_be_green(self, what: str) -> Run:
        if not self.green:
            raise SystemExit(f"{what} is red:\n{self.said}")
        return self


@dataclass(frozen=True, slots=True)
class Contender:
    """A way to record and play: the mark on the tests, the plug-in, the option that records, and what is configured."""

    name: str
    mark: str
    plugin: str
    record: str
    conftest: str = ""

    @property
    def lines(self) -> int:
        """Lines beside the tests: their marks, and the configuration."""
        marks = project.TESTS.count("mark.tape")
        return marks + sum(bool(line.strip()) for line in self.conftest.splitlines())

    def write(self, folder: Path) -> None:
        """Lay the project out."""
        project.write(folder, self.mark)
        (folder / "test_many.py").write_text(MANY.replace("mark.tape", f"mark.{self.mark}"), encoding="utf-8")
        if self.conftest:
            (folder / "conftest.py").write_text(self.conftest, encoding="utf-8")

    def run(self, folder: Path, url: str, *words: str, many: int = 0) -> Run:
        """Run its tests."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", self.plugin, *words]
        environment = {
            **os.environ,
            "MANY": str(many),
            "OPENAI_API_KEY": KEY,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, folder))),
            "WEATHER_URL": url,
        }
        begin = _spent()
        where = ["--rootdir", str(folder), "-c", os.devnull]
        done = subprocess.run(
            [*command, *where], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return Run(done.returncode == 0, _spent() - begin, done.stdout)


CONTENDERS = (
    Contender("tape", "tape", "harness.pytest_plugin", "--harness-record=all"),
    Contender("pytest-recording", "vcr", "pytest_recording.plugin", "--record-mode=rewrite"),
    Contender("pytest-recording, told", "vcr", "pytest_recording.plugin", "--record-mode=rewrite", TOLD),
)


def main() -> None:
    options = _options()
    if importlib.util.find_spec("pytest_recording") is None:
        raise SystemExit("pytest-recording is not installed: pip install -e '.[all,dev,bench]'")
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as folder:
        shelf = Path(folder)
        urls = _recorded(shelf)
        console.print(_faults(shelf, urls))
        console.print(_speed(shelf, urls, options.tests, options.rounds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tape_fixture", description=__doc__)
    parser.add_argument("--tests", type=int, default=100, help="in the measuring of speed (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions (default: %(default)s)")
    return parser.parse_args()


def _recorded(shelf: Path) -> dict[str, str]:
    """Have everybody record; the URLs that they did it from, which nobody answers at behind this."""
    urls: dict[str, str] = {}
    with serving(recut=CUT) as origin:
        for number, contender in enumerate(CONTENDERS):
            urls[contender.name] = url = f"{origin}/{SCENARIO}/{number}"
            _record(contender, shelf / contender.name / "sound", url)
            for fault in (each for each in FAULTS if each.while_recording):
                _record(contender, shelf / contender.name / fault.name, f"{url}-{len(fault.name)}", fault)
    return urls


def _record(contender: Contender, folder: Path, url: str, fault: Fault | None = None) -> None:
    contender.write(folder)
    if fault is not None:
        fault.plant(folder)
    contender.run(folder, url, contender.record, "test_agent.py").must_be_green(f"the recording by {contender.name}")


def _faults(shelf: Path, urls: dict[str, str]) -> Table:
    table = Table("planted", *(each.name for each in CONTENDERS), title="ten faults, and two changes that are none")
    found = dict.fromkeys(urls, 0)
    for contender in CONTENDERS:
        sound = contender.run(shelf / contender.name / "sound", urls[contender.name], "test_agent.py")
        sound.must_be_green(f"{contender.name}, before anything was planted,")
    for fault in FAULTS:
        seen = [_is_found(fault, each, shelf, urls[each.name]) for each in CONTENDERS]
        for contender, is_found in zip(CONTENDERS, seen, strict=True):
            found[contender.name] += is_found
        table.add_row(fault.name, *("found" if each else "missed" for each in seen))
    table.add_section()
    table.add_row(f"of {len(FAULTS)} found", *map(str, found.values()))
    table.add_section()
    for change in HARMLESS:
        seen = [_is_found(change, each, shelf, urls[each.name]) for each in CONTENDERS]
        table.add_row(change.name, *("false alarm" if each else "green" for each in seen))
    table.add_section()
    table.add_row("lines beside the two tests", *(str(each.lines) for each in CONTENDERS))
    return table


def _is_found(fault: Fault, contender: Contender, shelf: Path, url: str) -> bool:
    if fault.while_recording:
        return KEY not in project.cassette(shelf / contender.name / fault.name).read_text(encoding="utf-8")
    folder = shelf / contender.name / "planted"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shelf / contender.name / "sound", folder)
    fault.plant(folder)
    return not contender.run(folder, url, f"test_agent.py::{fault.test}").green


def _speed(shelf: Path, urls: dict[str, str], tests: int, rounds: int) -> Table:
    title = f"{tests} tests of two exchanges each, {rounds} rounds, least of each"
    table = Table("contender", "one test, s", f"{tests} tests, s", "ms for each further test", "× tape", title=title)
    rows: list[tuple[str, float, float]] = []
    for contender in CONTENDERS:
        folder = shelf / contender.name / "sound"
        recorded = project.cassette(folder)
        where = folder / "cassettes" / "test_many"
        where.mkdir()
        for number in range(tests):
            shutil.copy(recorded, where / f"test_many[{number}].yaml")
        alone, many = (
            min(_played(contender, folder, urls[contender.name], number) for _ in range(rounds))
            for number in (1, tests)
        )
        rows.append((contender.name, alone, many))
    own = _each(*rows[0][1:], tests)
    for name, alone, many in rows:
        each = _each(alone, many, tests)
        table.add_row(name, f"{alone:.2f}", f"{many:.2f}", f"{1000 * each:.1f}", f"{each / own:.2f}")
    return table


def _played(contender: Contender, folder: Path, url: str, number: int) -> float:
    return contender.run(folder, url, "test_many.py", many=number).must_be_green(contender.name).seconds


def _each(alone: float, many: float, tests: int) -> float:
    return (many - alone) / (tests - 1)


def _spent() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
