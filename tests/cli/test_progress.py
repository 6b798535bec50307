from __future__ import annotations

import io
import re
import sys
from decimal import Decimal

import pytest

from harness.cli import progress
from harness.model.messages import Usage
from harness.results import Spending
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
    monkeypatch.setattr(progress, "_BAR_DELAY_SECONDS", 0.0)

    assert "second-scenario [stream] gemini-3" in drawn(Terminal(), monkeypatch)


def test_a_short_run_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "scenario" not in drawn(Terminal(), monkeypatch)


def test_where_nobody_watches_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_BAR_DELAY_SECONDS", 0.0)

    assert drawn(io.StringIO(), monkeypatch) == ""


def test_it_says_how_fast_it_goes_and_what_was_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr(progress, "_BAR_DELAY_SECONDS", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "stderr", stream)
    cost = Spending("m", 1, Usage(1, 1), Decimal("0.75"))

    with progress.Progress(3, paid=True) as bar:
        for number in range(3):
            bar(cell(f"scenario-{number}", spending=cost))

    assert "3/3" in stream.getvalue()
    assert re.search(r"\d+\.\d cells/s, \$2\.25", stream.getvalue())
