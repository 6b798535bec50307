from __future__ import annotations

import io
import sys

import pytest

from harness.cli import progress
from tests.reports.runs import cell


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.Progress(2) as bar:
        bar(cell("first-scenario"))
        bar(cell("second-scenario", "gemini-3", variant="stream"))
    return stream.getvalue()


def test_a_long_run_at_a_terminal_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)

    assert "second-scenario [stream] gemini-3" in drawn(Terminal(), monkeypatch)


def test_a_short_run_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "scenario" not in drawn(Terminal(), monkeypatch)


def test_where_nobody_watches_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)

    assert drawn(io.StringIO(), monkeypatch) == ""
