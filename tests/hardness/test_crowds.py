"""Many that record at once into one folder: none loses a cassette, and none gets another's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.cassettes.library import CassetteLibrary
from tests.hardness.commands import harness
from tests.hardness.conftest import Figure
from tests.hardness.provider import Provider, providing, write_scenarios

STEPS = 1


def words(provider: Provider, *more: str) -> tuple[str, ...]:
    there = ("--target", "openai-chat", "--base-url", f"openai-chat={provider.url}", "--cassettes", "cassettes")
    return ("record", *there, *more)


def check(folder: Path, provider: Provider, cells: int) -> None:
    """Every cell has a cassette with its own answers, each was requested once, and there are no other files."""
    asked = provider.asked()
    given = {(each.cell, each.step): each.answer for each in asked}
    assert len(given) == len(asked) == cells * (STEPS + 1)
    library = CassetteLibrary(folder / "cassettes")
    assert len(library.paths()) == cells
    for path in library.paths():
        recorded = library.load("openai-chat", path.parent.name, "whole").interactions
        for step, each in enumerate(recorded):
            assert each.response is not None
            assert f"chatcmpl-{given[path.parent.name, step]}".encode() in each.response.body
            assert f"steps in {path.parent.name}".encode() in each.request.body
    assert len([path for path in library.root.rglob("*") if path.is_file()]) == cells


def place(folder: Path, number: int) -> Path:
    """A folder for one process, with the cassettes of all."""
    made = folder / f"at-{number}"
    made.mkdir()
    (made / "cassettes").symlink_to(folder / "cassettes")
    return made


def crowded(folder: Path, processes: int, each: int) -> None:
    """So many processes record so many cells each, all at once."""
    write_scenarios(folder / "scenarios", processes * each, STEPS)
    (folder / "cassettes").mkdir()
    files = [str(path) for path in sorted((folder / "scenarios").iterdir())]
    with providing(folder) as provider, ThreadPoolExecutor(processes) as pool:

        def record(number: int) -> str:
            mine = files[number * each : (number + 1) * each]
            ended = harness(place(folder, number), *words(provider, *mine))
            return ended.err if ended.code else ""

        assert set(pool.map(record, range(processes))) == {""}
        check(folder, provider, processes * each)


def threaded(folder: Path, threads: int, cells: int) -> None:
    """One process records so many cells in so many threads."""
    write_scenarios(folder / "scenarios", cells, STEPS)
    with providing(folder) as provider:
        ended = harness(folder, *words(provider, "scenarios", "-n", str(threads)))
        assert ended.code == 0, ended.err
        check(folder, provider, cells)


def contended(folder: Path, processes: int, cells: int) -> None:
    """So many processes record the same cells: each cell is requested once, by one of them."""
    write_scenarios(folder / "scenarios", cells, STEPS)
    (folder / "cassettes").mkdir()
    with providing(folder) as provider, ThreadPoolExecutor(processes) as pool:

        def record(number: int) -> None:
            mine = place(folder, number)
            command = words(provider, "--missing", str(folder / "scenarios"), "-n", "2")
            ended = harness(mine, *command)
            while ended.code:  # others were recording some of the cells, and the message names them
                assert ended.code == 2, ended.output
                said = " ".join(ended.output.split())
                assert "another process is recording it" in said or "may have been paid" in said
                ended = harness(mine, *command)

        list(pool.map(record, range(processes)))
        check(folder, provider, cells)


@pytest.mark.long
def test_eight_processes_with_a_hundred_recordings_each(tmp_path: Path, figure: Figure) -> None:
    crowded(tmp_path, 8, 100)
    figure("8 processes x 100 recordings into one folder", 800, "0 lost, 0 crossed")


@pytest.mark.long
def test_sixty_four_threads(tmp_path: Path, figure: Figure) -> None:
    threaded(tmp_path, 64, 256)
    figure("64 threads, record -n 64", 256, "0 lost, 0 crossed")


@pytest.mark.long
def test_eight_processes_that_record_the_same_cells(tmp_path: Path, figure: Figure) -> None:
    contended(tmp_path, 8, 40)
    figure("8 processes that record the same cells", 40, "each requested once, 0 lost, 0 crossed")


@pytest.mark.long
def test_sixty_processes_with_four_threads_each(tmp_path: Path, figure: Figure) -> None:
    for number in range(60):
        (tmp_path / str(number)).mkdir()
        threaded(tmp_path / str(number), 4, 4)
    figure("record -n 4 in a fresh process", 60, "0 lost")
