"""For people in a browser: one file that holds all of a run, and that loads nothing."""

from __future__ import annotations

from harness.reports.html.page import pieces, render
from harness.results import Report

REPORT = Report("html", render, wants_conversations=True, compares=True, pieces=pieces)
