"""`kill -9` at any moment of a recording: nothing is damaged, nothing that was answered is asked again, and what the
next run says of what it found is true."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cassettes.cell_recording import answers
from harness.cassettes.library import CassetteLibrary, read_journal
from tests.hardness.commands import Ended, harness
from tests.hardness.conftest import Figure
from tests.hardness.provider import Provider, providing, write_scenarios

CELLS, STEPS = 8, 2
MOST = 9
"""Requests of a run after which it is killed at the latest."""

FOUND = re.compile(r"(\S+)\.journal has (\d+) answered exchanges? of an unfinished recording\. They ")
TOOK_UP = re.compile(r"Reused (\d+) answered exchanges? of (\S+) without sending a request\.")
FRESH = re.compile(r"(\d+) chosen cells? with a fresh cassette: ")
CLEARED = re.compile(r"(\S+)\.journal was left by a recording that was killed after its cassette was complete\. ")


@dataclass(frozen=True)
class Disk:
    """What lies on the disk: the complete cells, and how many answers each journal has."""

    complete: frozenset[str]
    journals: dict[str, int]

    @staticmethod
    def read(library: CassetteLibrary) -> Disk:
        """Raises `harness.model.errors.CassetteError` if anything is damaged."""
        for path in library.paths():
            library.load("openai-chat", path.parent.name, "whole")
        journals = {path.parent.name: answers(read_journal(path)) for path in library.journals()}
        complete = frozenset(path.parent.name for path in library.paths())
        return Disk(complete, {name: len(left) for name, left in journals.items()})

    @property
    def unfinished(self) -> dict[str, int]:
        """Of the cells that are not complete, those with answers."""
        return {name: left for name, left in self.journals.items() if left and name not in self.complete}


def check_said(before: Disk, ended: Ended) -> None:
    """All that a run has said is true; one that was not killed has said all."""
    found = {Path(name).parent.name: int(number) for name, number in FOUND.findall(ended.err)}
    taken = {Path(name).parent.name: int(number) for number, name in TOOK_UP.findall(ended.err)}
    cleared = {Path(name).parent.name for name in CLEARED.findall(ended.err)}
    fresh = [int(number) for number in FRESH.findall(ended.err)]
    useless = {name for name, left in before.journals.items() if left and name in before.complete}
    assert found.items() <= before.unfinished.items()
    assert cleared <= useless
    assert fresh in ([], [len(before.complete)])
    if not ended.killed:
        assert ended.code == 0, ended.err
        assert (found, taken, cleared) == (before.unfinished, before.unfinished, useless)
        assert fresh == [len(before.complete)] * bool(before.complete)


def check_asked(provider: Provider, lost: int) -> None:
    """What a later request shows to have been answered was not asked again; each kill has at most `lost` on the way."""
    seen: Counter[str] = Counter()
    again = 0
    for asked in provider.asked():
        assert asked.step >= seen[asked.cell] - 1, f"{asked.cell}: answer {asked.step} was there, and is asked again"
        again += asked.step == seen[asked.cell] - 1
        seen[asked.cell] = asked.step + 1
    assert again <= lost


def check_complete(library: CassetteLibrary, provider: Provider) -> None:
    """Every cell is complete, with its own answers in their order, each as the provider gave it last."""
    given = {(asked.cell, asked.step): asked.answer for asked in provider.asked()}
    assert len(library.paths()) == CELLS
    for path in library.paths():
        recorded = library.load("openai-chat", path.parent.name, "whole").interactions
        assert len(recorded) == STEPS + 1
        for step, each in enumerate(recorded):
            assert each.response is not None
            assert f"chatcmpl-{given[path.parent.name, step]}".encode() in each.response.body
    left = [path.name for path in library.root.rglob("*") if path.is_file() and path.suffix != ".yaml"]
    assert left == []


def once_asked(provider: Provider, chance: random.Random) -> Callable[[Callable[[], bool]], None]:
    """Waits for some more requests and then for some milliseconds, in which a run does what it does with an answer."""
    wanted = provider.size() + chance.randrange(MOST + 1)
    pause = chance.random() * 0.1

    def until(runs: Callable[[], bool]) -> None:
        while runs() and provider.size() < wanted:
            time.sleep(0.001)
        time.sleep(pause)

    return until


def measured(folder: Path, jobs: int, kills: int) -> Counter[str]:
    """Record, and be killed, until it was killed often enough; what was met."""
    write_scenarios(folder / "scenarios", CELLS, STEPS)
    chance, met = random.Random(jobs), Counter[str]()  # noqa: S311 - no secret
    with providing(folder) as provider:
        while met["kills"] < kills:
            library, mine, before = (
                CassetteLibrary(folder / f"cassettes-{met['cells']}"),
                provider.from_now(),
                met["kills"],
            )
            words = ("record", "scenarios", "--target", "openai-chat", "--base-url", f"openai-chat={provider.url}")
            words += ("--missing", "-n", str(jobs), "--cassettes", str(library.root))
            ended = None
            while ended is None or ended.killed:
                found = Disk.read(library)
                ended = harness(folder, *words, until=once_asked(provider, chance) if met["kills"] < kills else None)
                check_said(found, ended)
                taken = sum(int(number) for number, _ in TOOK_UP.findall(ended.err))
                met.update(runs=1, kills=ended.killed, runs_that_found_journals=bool(found.unfinished), taken_up=taken)
            check_asked(mine, (met["kills"] - before) * jobs)
            check_complete(library, mine)
            asked = len(mine.asked())
            met.update(cells=CELLS, requests=asked, asked_again_on_the_way=asked - CELLS * (STEPS + 1))
    return met


@pytest.mark.long
@pytest.mark.parametrize("jobs", [1, 4])
def test_five_hundred_killed_recordings_lose_nothing(tmp_path: Path, figure: Figure, jobs: int) -> None:
    met = measured(tmp_path, jobs, 500)
    assert met["runs_that_found_journals"] > 0
    figure(f"kill -9 of record -n {jobs}", met["kills"], "0 damaged, 0 answered exchanges lost, all true", **met)
