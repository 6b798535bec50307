"""Disks that fail, signals that end, connections that break: at each step of a recording, what was answered is kept,
what stands is whole, what is said is what happened, and the command that is named goes on."""

from __future__ import annotations

import os
import shlex
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cassettes.library import CassetteLibrary
from harness.results import RunResult
from tests.hardness.commands import Ended, harness
from tests.hardness.conftest import Figure
from tests.hardness.faults import NUMBERS, STEPS
from tests.hardness.provider import FAILURES, Provider, providing, write_scenarios
from tests.hardness.test_kills import Disk

CELLS, STEPS_TAKEN = 2, 2
FIRST = {"write of the journal": 2, "fsync of the journal": 2}
"""Steps at which an occurrence behind the first is worth more: one answer is kept, and the next cannot be."""

DISK = [(step, error) for step in STEPS if not step.startswith("unlink") for error in NUMBERS]
SIGNALLED = (
    "open of the journal",
    "write of the journal",
    "fsync of the journal",
    "rename of the cassette",
    "unlink of the journal",
)
SIGNALS = [(step, number) for step in SIGNALLED for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]


@dataclass(frozen=True)
class Place:
    folder: Path
    provider: Provider

    @property
    def library(self) -> CassetteLibrary:
        return CassetteLibrary(self.folder / "cassettes")

    @property
    def report(self) -> RunResult:
        return RunResult.from_json((self.folder / "run.json").read_text())

    def record(self, *more: str, fault: tuple[str, int, str] | None = None) -> Ended:
        words = ("record", "scenarios", "--target", "openai-chat", "--base-url", f"openai-chat={self.provider.url}")
        return harness(self.folder, *words, "--cassettes", "cassettes", "--report", "json:run.json", *more, fault=fault)

    def tidy(self) -> None:
        """Nothing is damaged, and nothing half written lies about."""
        Disk.read(self.library)
        assert list(self.folder.rglob("*.tmp")) == []
        assert "Traceback" not in (self.folder / "err.txt").read_text()

    def goes_on(self, said: Ended) -> None:
        """The command that was named records the rest, and asks for nothing that was answered."""
        (command,) = (
            line.removeprefix("To go on: ") for line in said.err.splitlines() if line.startswith("To go on: ")
        )
        before = Disk.read(self.library)
        ended = harness(self.folder, *shlex.split(command)[1:])
        assert ended.code == 0, ended.err
        assert len(self.library.paths()) == CELLS
        assert self.library.journals() == []
        found = sum(before.unfinished.values())
        assert ended.err.count("Reused ") == len(before.unfinished)
        assert len(self.provider.asked()) <= CELLS * (STEPS_TAKEN + 1) + 1, found


def begun(place: Place) -> None:
    """The report of an earlier run, which a fault must not spoil."""
    (place.folder / "run.json").write_text(RunResult("replay", ()).to_json())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with providing(tmp_path_factory.mktemp("running")) as provider:
        yield provider


def full_disk(place: Place, step: str, error: str) -> None:
    begun(place)
    ended = place.record(fault=(step, FIRST.get(step, 0), error))
    place.tidy()
    if ended.code == 0:  # a report whose folder takes no other file is written in its place
        assert step.endswith("of the report")
        assert error in {"EACCES", "EROFS"}
        assert place.report.finished
        return
    assert ended.code == 2
    assert any(said in ended.err for said in ("annot be written", "annot be opened", "can be written")), ended.err
    assert os.strerror(NUMBERS[error]) in ended.err
    if "report" in step:
        assert place.report == RunResult("replay", ())
        assert place.provider.asked() == []
        return
    assert not place.report.finished
    if step == "open of the journal" and not ended.err.count("To go on: "):  # found before anything was sent
        assert place.provider.asked() == []
        return
    place.goes_on(ended)


def signalled(place: Place, step: str, number: int) -> None:
    begun(place)
    occurrence = CELLS if step == "open of the journal" else FIRST.get(step, 0)  # the first are looks at what was left
    ended = place.record(fault=(step, occurrence, str(int(number))))
    place.tidy()
    assert ended.code == 130
    assert "harness: interrupted." in ended.err
    report = place.report
    assert report.stopped == "interrupted"
    recorded = len(place.library.paths())
    assert f"Recorded before it stopped: {recorded} of {CELLS} cells" in ended.err
    assert len(report.cells) <= recorded
    place.goes_on(ended)


def broken(place: Place, failure: str) -> None:
    place.provider.fail(failure)
    ended = place.record()
    place.tidy()
    assert ended.code == 1, ended.err
    assert Disk.read(place.library).unfinished == {"steps-00": 1}
    assert "Its responses so far (1 exchange) are in openai-chat.yaml.journal" in ended.err
    again = place.record("--missing")
    assert again.code == 0, again.err
    assert "Reused 1 answered exchange of cassettes/steps-00/openai-chat.yaml" in again.err
    asked = Counter((each.cell, each.step) for each in place.provider.asked())
    assert asked == {(f"steps-{cell:02}", step): 1 + (cell == 0 and step == 1) for cell in (0, 1) for step in (0, 1, 2)}


def suffer(place: Place, what: str, happens: str | signal.Signals) -> None:
    if what in FAILURES:
        broken(place, what)
    elif isinstance(happens, signal.Signals):
        signalled(place, what, happens)
    else:
        full_disk(place, what, happens)


EVERY = [*DISK, *SIGNALS, *((failure, "") for failure in FAILURES)]


@pytest.mark.long
def test_all_faults(tmp_path: Path, running: Provider, figure: Figure) -> None:
    for number, (what, happens) in enumerate(EVERY):
        folder = tmp_path / str(number)
        folder.mkdir()
        write_scenarios(folder / "scenarios", CELLS, STEPS_TAKEN)
        suffer(Place(folder, running.from_now()), what, happens)
    kinds = {"disk": len(DISK), "signals": len(SIGNALS), "streams": len(FAILURES)}
    figure("faults of disk, signals and streams", len(EVERY), f"{len(EVERY)} as promised", **kinds)
    assert len(EVERY) == 65
