"""How a run is put into words: the same for every report that people read."""

from __future__ import annotations

import json
import re

from harness.results import JSON, Blame, CellResult, Finding, RunResult, Verdict

VALUE_LENGTH = 240
"""Characters that are shown of a value; the JSON report has all of it."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

WHAT_TO_DO = {
    Blame.ADAPTER: "the adapter sends or reads this wrongly: correct it. If it is known, list the scenario, target and "
    "rule with a reason in a file for --expected-failures.",
    Blame.CASSETTE: "the recording does not fit: record the cell again with 'harness record'.",
    Blame.PROVIDER: "the provider answered against its own documentation, or not at all: check the address, try again, "
    "and report it to the provider if it stays.",
    Blame.MODEL: "the model chose otherwise than the scenario's script: record again, or say what matters under "
    "'expect' in the scenario.",
    Blame.SCENARIO: "the scenario asks for what cannot be: correct it; 'harness validate' checks its form.",
    Blame.HARNESS: "this is a defect of harness itself: please report it, with the JSON report of this run.",
}
"""For each blame, who has to do what."""

CRASHED = "the adapter or harness broke before it could be judged: see the reason, and play the cell again."


def plain(text: str) -> str:
    """The text on one line, without what would move a terminal's cursor, switch its colours or its direction of
    writing."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", " ".join(text.splitlines()))


def short(value: JSON, length: int = VALUE_LENGTH) -> str:
    """A JSON value on one line, its middle left out where it is longer than `length`."""
    text = plain(json.dumps(value, ensure_ascii=False))
    if len(text) <= length:
        return text
    half = (length - 20) // 2
    return f"{text[:half]} ...{len(text) - 2 * half} more... {text[-half:]}"


def label(cell: CellResult) -> str:
    """The scenario, with its variant if it is streamed: unique among the cells of a target."""
    return cell.scenario if cell.variant == "whole" else f"{cell.scenario} [{cell.variant}]"


def place(finding: Finding) -> str:
    """Where the evidence is: `request 2 /messages/3`. Requests count from 1. Empty where there is no such place."""
    request = "" if finding.exchange is None else f"request {finding.exchange + 1}"
    return " ".join(part for part in (request, finding.pointer) if part)


def count(number: int, noun: str) -> str:
    """`1 cell`, `2 cells`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def listed(names: list[str], limit: int) -> str:
    """Names with commas, at most `limit` of them."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def counts(run: RunResult) -> str:
    """How many cells ended how: `448 pass, 1 fail, 6 not applicable`."""
    return ", ".join(f"{number} {verdict.replace('-', ' ')}" for verdict, number in run.summary.items() if number)


def _total(run: RunResult) -> str:
    """How many cells there are, and in which variants: `4 cells (2 whole, 2 streamed, 6 recuts)`."""
    streamed = sum(cell.variant == "stream" for cell in run.cells)
    recuts = sum(cell.recuts for cell in run.cells)
    numbers = {"whole": len(run.cells) - streamed, "streamed": streamed}
    variants = [f"{number} {name}" for name, number in numbers.items() if number]
    details = [name for name, number in numbers.items() if number] if len(variants) == 1 else variants
    if recuts:
        details.append(count(recuts, "recut"))
    return count(len(run.cells), "cell") + (f" ({', '.join(details)})" if details else "")


def verdict(run: RunResult) -> tuple[str, str]:
    """The verdict in one word, and the sentence that goes with it."""
    summary = run.summary
    total = _total(run)
    if not run.finished:
        return "UNFINISHED", f"{run.stopped}; {total} done: {counts(run) or 'nothing'}"
    if run.exit_code == 1:
        stale = f"; {count(len(run.stale), 'expected failure')} did not happen" if run.stale else ""
        return "FAIL", f"{total}: {counts(run)}{stale}"
    if summary[Verdict.MISSING]:
        return "INCOMPLETE", f"{total}: {counts(run)}; what is missing is neither right nor wrong"
    if run.exit_code:
        why = "no cell is applicable" if run.cells else "there was no cell to play"
        return "NOTHING RAN", f"{total}: {why}"
    return "PASS", f"{total}: {counts(run)}"
