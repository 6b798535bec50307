"""Many that record at once into one folder: none loses a cassette, and none gets another's."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.cassettes.library import Library
from tests.hardness.commands import commands
from tests.hardness.conftest import Figure
from tests.hardness.provider import ROOT, Provider, providing, write_scenarios

STEPS = 1


def record(provider: Provider, *words: str, cassettes: str = "cassettes") -> tuple[str, ...]:
    base = ("record", "--target", "openai-chat", "--base-url", f"openai-chat={provider.url}")
    return (*base, "--cassettes", cassettes, *words)


def check(folder: Path, provider: Provider, cells: int) -> None:
    """Every cell has a cassette with its own answers, each was asked for once, and nothing else lies there."""
    asked = provider.asked()
    given = {(each.cell, each.step): each.answer for each in asked}
    assert len(given) == len(asked) == cells * (STEPS + 1)
    library = Library(folder / "cassettes")
    assert len(library.paths()) == cells
    for path in library.paths():
        recorded = library.load("openai-chat", path.parent.name, "whole").interactions
        for step, each in enumerate(recorded):
            assert each.response is not None
            assert f"chatcmpl-{given[path.parent.name, step]}".encode() in each.response.body
            assert f"steps in {path.parent.name}".encode() in each.request.body
    assert len([path for path in library.root.rglob("*") if path.is_file()]) == cells


def crowded(folder: Path, processes: int, each: int) -> None:
    """So many processes record so many cells each; all at once."""
    write_scenarios(folder / "scenarios", processes * each, STEPS)
    files = [str(path) for path in sorted((folder / "scenarios").iterdir())]
    with providing(folder) as provider, ThreadPoolExecutor(processes) as pool:

        def one(number: int) -> str:
            place = folder / f"at-{number}"
            place.mkdir()
            (place / "cassettes").symlink_to(folder / "cassettes")
            with commands(place) as harness:
                ended = harness(*record(provider, *files[number * each : (number + 1) * each]))
            return ended.err if ended.code else ""

        (folder / "cassettes").mkdir()
        assert set(pool.map(one, range(processes))) == {""}
        check(folder, provider, processes * each)


def threaded(folder: Path, threads: int, cells: int) -> None:
    """One process records so many cells in so many threads."""
    write_scenarios(folder / "scenarios", cells, STEPS)
    with providing(folder) as provider, commands(folder) as harness:
        ended = harness(*record(provider, "scenarios", "-n", str(threads)))
        assert ended.code == 0, ended.err
        check(folder, provider, cells)


def contended(folder: Path, processes: int, cells: int) -> None:
    """So many processes want to record the same cells: each cell is asked for once, by one of them."""
    write_scenarios(folder / "scenarios", cells, STEPS)
    with providing(folder) as provider, ThreadPoolExecutor(processes) as pool:

        def one(number: int) -> None:
            place = folder / f"at-{number}"
            place.mkdir()
            (place / "cassettes").symlink_to(folder / "cassettes")
            with commands(place) as harness:
                words = record(provider, "--missing", str(folder / "scenarios"), "-n", "2")
                ended = harness(*words)
                while ended.code:  # others were recording some of the cells, and it is said which
                    assert ended.code == 2, ended.out + ended.err
                    said = " ".join((ended.out + ended.err).split())
                    assert "another process is recording it" in said or "may have been paid" in said
                    ended = harness(*words)

        (folder / "cassettes").mkdir()
        list(pool.map(one, range(processes)))
        check(folder, provider, cells)


def test_processes_that_record_at_once_lose_and_cross_nothing(tmp_path: Path) -> None:
    crowded(tmp_path, 2, 4)


def test_threads_that_record_at_once_lose_and_cross_nothing(tmp_path: Path) -> None:
    threaded(tmp_path, 16, 24)


def test_of_those_that_want_the_same_cells_one_records_each(tmp_path: Path) -> None:
    contended(tmp_path, 2, 4)


@pytest.mark.long
def test_eight_processes_with_a_hundred_recordings_each(tmp_path: Path, figure: Figure) -> None:
    crowded(tmp_path, 8, 100)
    figure("8 processes x 100 recordings into one folder", 800, "0 lost, 0 crossed")


@pytest.mark.long
def test_sixty_four_threads(tmp_path: Path, figure: Figure) -> None:
    threaded(tmp_path, 64, 256)
    figure("64 threads, record -n 64", 256, "0 lost, 0 crossed")


@pytest.mark.long
def test_eight_processes_that_want_the_same_cells(tmp_path: Path, figure: Figure) -> None:
    contended(tmp_path, 8, 40)
    figure("8 processes that want the same cells", 40, "each asked for once, 0 lost, 0 crossed")


def in_fresh_processes(folder: Path, times: int) -> None:
    """`record -n 4` in processes that have imported nothing yet: writing what was answered takes imports."""
    write_scenarios(folder / "scenarios", 4, STEPS)
    with providing(folder) as provider:
        for number in range(times):
            place = f"cassettes-{number}"
            command = [sys.executable, "-m", "harness", *record(provider, "scenarios", "-n", "4", cassettes=place)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr + done.stdout
            assert len(Library(folder / place).paths()) == 4


def test_threads_that_first_need_what_writes_cassettes_all_get_it(tmp_path: Path) -> None:
    in_fresh_processes(tmp_path, 1)


@pytest.mark.long
def test_sixty_fresh_processes_with_four_threads_each(tmp_path: Path, figure: Figure) -> None:
    in_fresh_processes(tmp_path, 60)
    figure("record -n 4 in a fresh process", 60, "0 lost")
