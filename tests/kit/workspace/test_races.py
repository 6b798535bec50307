"""A folder or a file is swapped for a link while a tool is at work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from harness.kit.workspace import HAS_OPENAT, Workspace
from harness.model.messages import JSON
from tests.kit.workspace.conftest import SECRET, Place, call

needs_openat = pytest.mark.skipif(not HAS_OPENAT, reason="this platform has no openat")
VICTIMS = ["sub", "sub/deep", "sub/deep/file.txt"]
CALLS: list[tuple[str, dict[str, JSON]]] = [
    ("read_file", {"path": "sub/deep/file.txt"}),
    ("write_file", {"path": "sub/deep/file.txt", "content": "mine"}),
    ("write_file", {"path": "sub/deep/new/new.txt", "content": "mine"}),
    ("list_directory", {"path": "sub/deep"}),
]
SYSTEM_CALLS = ["open", "stat", "fstat", "mkdir", "replace", "scandir", "unlink"]


def swap(place: Place, victim: str) -> None:
    (place.root / victim).rename(place.root / "away")
    (place.root / victim).symlink_to(place.outside / victim)


def swapped_at(number: int, place: Place, victim: str, tool: str, arguments: dict[str, JSON]) -> tuple[str, int]:
    """Run a tool, and swap right before its `number`-th system call: what it said, and how many calls it made."""
    workspace = Workspace(place.root)
    made = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            nonlocal made
            made += 1
            if made == number:
                patch.undo()
                swap(place, victim)
            return real(*args, **kwargs)

        return wrapper

    with pytest.MonkeyPatch.context() as patch:
        for name in SYSTEM_CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        result = call(workspace, tool, arguments)
    return result.text, made


def restore(place: Place, victim: str) -> None:
    (place.root / victim).unlink()
    (place.root / "away").rename(place.root / victim)


@needs_openat
@pytest.mark.parametrize(("tool", "arguments"), CALLS)
@pytest.mark.parametrize("victim", VICTIMS)
def test_no_moment_is_the_right_one(place: Place, victim: str, tool: str, arguments: dict[str, JSON]) -> None:
    (place.outside / "sub" / "deep" / "only-outside").touch()
    before = place.elsewhere()
    for number in range(1, 40):
        text, made = swapped_at(number, place, victim, tool, arguments)

        assert SECRET not in text
        assert "only-outside" not in text
        assert place.elsewhere() == before
        if made < number:
            assert number > 4, "the swaps were not between the calls"
            return
        if (place.root / victim).is_symlink():
            restore(place, victim)
        else:  # a link that stood in the place of the file was replaced by the file that was written
            (place.root / "away").unlink()
    pytest.fail("there were more moments than were tried")


def test_by_path_there_is_a_right_moment_as_the_docstring_says(place: Place, by_path: Callable[[], None]) -> None:
    """The control: the swaps above do find a gap where there is one."""
    by_path()
    said: list[str] = []
    for number in range(1, 40):
        text, made = swapped_at(number, place, "sub/deep", *CALLS[0])
        if made < number:
            break
        said.append(text)
        restore(place, "sub/deep")

    assert SECRET in said


def test_a_pipe_in_the_place_of_a_file_does_not_keep_us_waiting(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = Workspace(place.root)
    file = place.root / "file.txt"
    real = os.open
    texts: list[str] = []

    def swapping(path: str | Path, *args: Any, **kwargs: Any) -> int:
        if path == "file.txt":  # it has been looked at, and is a regular file
            file.unlink()
            os.mkfifo(file)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", swapping)
    reader = Thread(target=lambda: texts.append(call(workspace, "read_file", {"path": "file.txt"}).text))
    reader.start()
    reader.join(30)
    was_waiting = reader.is_alive()
    if was_waiting:
        os.close(real(file, os.O_WRONLY))
    reader.join()

    assert not was_waiting
    assert texts == ["file.txt: it is not a regular file."]


@needs_openat
def test_a_racing_process_never_gets_the_secret(place: Place) -> None:
    workspace = Workspace(place.root)
    done = Event()

    def keep_swapping() -> None:
        deep, away = place.root / "sub" / "deep", place.root / "away"
        while not done.is_set():
            with suppress(OSError):
                deep.rename(away)
            with suppress(OSError):
                deep.symlink_to(place.outside / "sub" / "deep")
            with suppress(OSError):
                deep.unlink()
            shutil.rmtree(deep, ignore_errors=True)  # the tool may have made one meanwhile
            with suppress(OSError):
                away.rename(deep)

    before = place.elsewhere()
    racer = Thread(target=keep_swapping)
    racer.start()
    try:
        texts = {call(workspace, tool, arguments).text for _ in range(300) for tool, arguments in CALLS}
    finally:
        done.set()
        racer.join()

    assert not [text for text in texts if SECRET in text]
    assert place.elsewhere() == before
