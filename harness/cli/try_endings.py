"""Conversations that a program ended itself, before the model's last answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from harness.checks.programs import RETURNED_CALLS, EndedProgram
from harness.results import CellResult, RunResult, verdict_of
from harness.runner.improvised_router import ImprovisedRouter


def without_missing_end(ended: EndedProgram, result: RunResult, router: ImprovisedRouter, seconds: float) -> RunResult:
    """Return the result of a program without the findings that it ended its conversations too early, if it may do so.
    It ran for at most `seconds`.

    If it exceeded its time limit, or asked for the consent of its user, their rest is unknown, and the run is
    unfinished. Code that returns calls of tools leaves the rest to its caller. The arguments of a call may also be the
    result of the program.
    """
    every = {cell.scenario: {"script-unplayed"} for cell in result.cells}
    if ended.is_stopped:
        return _without(result, every, f"it was stopped after {seconds:.0f} seconds, before it had all answers")
    if RETURNED_CALLS in ended.printed:
        return _without(result, every)
    if _ASKS_FOR_CONSENT.search(ended.printed):
        return _without(result, every, "it asks whether a tool may run, and ended without consent")
    by_call = {each: {"script-unplayed", "request-unexpected"} for each in router.ended_with_call()}
    return result if ended.note else _without(result, by_call)


_ASKS_FOR_CONSENT = re.compile(r"[\[(]\s*y(?:es)?\s*/\s*no?\s*[\])]", re.IGNORECASE)
"""Question for the user. Programs get no consent, because their tools need not be harmless."""


def _without(result: RunResult, rules: Mapping[str, Collection[str]], stopped: str | None = None) -> RunResult:
    """Return the result without the findings of these rules, by conversation. If there were any, the run is unfinished
    for the reason `stopped`.
    """
    cells: list[CellResult] = []
    for cell in result.cells:
        kept = tuple(each for each in cell.findings if each.rule not in rules.get(cell.scenario, ()))
        is_changed = len(kept) < len(cell.findings)
        cells.append(replace(cell, findings=kept, verdict=verdict_of(kept) if is_changed else cell.verdict))
    if all(new.findings == old.findings for new, old in zip(cells, result.cells, strict=True)):
        return result
    return replace(result, cells=cells, stopped=stopped)
