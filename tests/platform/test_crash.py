"""What is said of an exception: its text whatever it does, the line to look at, a traceback that has an end."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import pytest

from harness.platform import exceptions
from harness.platform.exceptions import exception_text, line_to_show, shorten, text_with_line, traceback_text

LIBRARY = f"{sysconfig.get_path('purelib')}/sdk/client.py"
PYTHON = json.__file__
OURS = exceptions.__file__
MINE = "/somewhere/mine.py"


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ([OURS, MINE, LIBRARY, PYTHON], f" ({MINE}, line 2)"),
        ([OURS, MINE, MINE, LIBRARY], f" ({MINE}, line 3)"),
        ([OURS, LIBRARY, LIBRARY, PYTHON, OURS], f" ({LIBRARY}, line 3)"),
        ([OURS, "/usr/lib/python3/dist-packages/sdk.py", PYTHON], " (/usr/lib/python3/dist-packages/sdk.py, line 2)"),
        ([OURS, PYTHON, "<string>"], ""),
        ([], ""),
    ],
)
def test_the_last_line_of_somebodys_own_is_named_or_that_of_a_library(
    files: list[str], shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert line_to_show([(file, line) for line, file in enumerate(files, 1)]) == shown


def test_a_file_below_the_current_folder_is_named_from_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert line_to_show([(str(tmp_path / "a" / "b.py"), 7)]) == " (a/b.py, line 7)"


class Mute(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


def test_an_exception_without_a_text_is_said_to_have_none() -> None:
    assert exception_text(Mute()) == "(its text cannot be had: ZeroDivisionError)"


def test_a_traceback_names_what_led_to_it_and_keeps_its_end_whatever_the_texts_are() -> None:
    def break_down() -> None:
        try:
            {}["x" * 1_000_000]
        except KeyError as error:
            raise ValueError("the last") from error

    try:
        break_down()
    except ValueError as error:
        text = traceback_text(error)
        message = text_with_line(error)

    assert text.startswith("Traceback (most recent call last):\n")
    assert "KeyError: 'xxx" in text
    assert "\nwhich led to:\n" in text
    assert text.endswith("ValueError: the last\n")
    assert len(text) <= exceptions.MAX_TRACEBACK_CHARACTERS
    assert message.startswith("the last (")


def test_a_long_text_keeps_both_ends_and_counts_what_is_missing() -> None:
    assert shorten("x" * 100, 100) == "x" * 100
    assert shorten("a" * 500 + "b" * 500, 100) == f"{'a' * 20} [... 960 characters are left out ...] {'b' * 20}"
    for length in (80, 2000, 20_000):
        once = shorten("x" * 50_000_000, length)
        assert len(once) <= length
        assert shorten(once, length) == once
