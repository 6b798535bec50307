"""For people at a terminal: the verdict, the score by subject, what is wrong and what to do, then the differences."""

from __future__ import annotations

from harness.reports.terminal import changes
from harness.reports.terminal.screen import MAX_LINES, render
from harness.results import Report

__all__ = ["MAX_LINES", "REPORT", "render"]

REPORT = Report("terminal", render, compare=changes.render)
