"""How a run is put into words: the same for every report that people read."""

from __future__ import annotations

import json
import re
from typing import Protocol

from harness.results import JSON, Blame, CellResult, Finding, Kind, RunResult, Severity, Verdict
from harness.results.findings import contrasted

VALUE_LENGTH = 240
"""Characters that are shown of a value; the JSON report has all of it."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

_WHAT_TO_DO = {
    Blame.ADAPTER: "correct what the adapter sends or reads there.",
    Blame.CLIENT: "correct what the client sends, or what it makes of the answer.",
    Blame.CASSETTE: "the recording does not fit: record the cell again with 'harness record'.",
    Blame.PROVIDER: "the provider, or the server in its place, answered against the API's documentation, or not at "
    "all: if it is yours, mend it there; if not, check the address, try again, and report it if it stays.",
    Blame.MODEL: "the model chose otherwise than the scenario's script: record again, or say what matters under "
    "'expect' in the scenario.",
    Blame.SCENARIO: "the scenario asks for what cannot be: correct it; 'harness validate' checks its form.",
    Blame.GATEWAY: "correct what the gateway makes of it, or have it refuse what it cannot pass on: both bodies are in "
    "the JSON report.",
    Blame.HARNESS: "this is a defect of harness itself: please report it, with the JSON report of this run.",
}
"""For each blame, who has to do what."""

_OPTIONAL = (
    "nothing has to be done: it is a convention of ours, by which no provider and no caller loses. --strict holds an "
    "adapter to it."
)

CRASHED = "the adapter or harness broke before it could be judged: see the reason, and play the cell again."


KNOWN = "What is known already goes into a file for --expected-failures: 'harness accept' writes it."


class Advised(Protocol):
    """A finding, or a cause of several."""

    @property
    def kind(self) -> Kind: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def blame(self) -> Blame: ...
    @property
    def remedy(self) -> str: ...


def what_to_do(found: Advised) -> str:
    """The remedy of a finding: that of its rule, or the general one for whom it blames."""
    if found.kind is Kind.CONVENTION and found.severity is Severity.NOTE:
        return _OPTIONAL
    return f"{found.remedy}." if found.remedy else _WHAT_TO_DO[found.blame]


def plain(text: str) -> str:
    """The text on one line, without what would move a terminal's cursor, switch its colours or its direction of
    writing."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", " ".join(text.splitlines()))


def plain_line(text: str) -> str:
    """A line that keeps the margin which shows how deep it lies."""
    return " " * (len(text) - len(text.lstrip())) + plain(text.lstrip())


def short(value: JSON, length: int = VALUE_LENGTH) -> str:
    """A JSON value on one line, its middle left out where it is longer than `length`."""
    text = plain(json.dumps(value, ensure_ascii=False))
    if len(text) <= length:
        return text
    half = (length - 20) // 2
    return f"{text[:half]} ...{len(text) - 2 * half} more... {text[-half:]}"


def values(finding: Finding, length: int | None = VALUE_LENGTH) -> list[tuple[str, str]]:
    """The actual and the expected value by their names, each on one line: of long texts the change, with some words
    around it. Nothing is said of what should be where a finding does not know it. `None`: values are not cut."""
    if finding.actual is None and finding.expected is None:
        return []
    texts = contrasted(finding.actual, finding.expected, (length or VALUE_LENGTH) // 2)
    if texts is not None:
        return [*zip(("actual", "expected"), texts, strict=True)]

    def told(value: JSON) -> str:
        return json.dumps(value, ensure_ascii=False) if length is None else short(value, length)

    actual = "(nothing)" if finding.actual is None else told(finding.actual)
    return [("actual", actual), *([("expected", told(finding.expected))] if finding.expected is not None else [])]


def bounded(text: str, most: int) -> str:
    """A text over lines, its middle left out where it has more than about so many characters."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters are left out ...\n{text[-half:]}"


def label(cell: CellResult) -> str:
    """The scenario, with its variant if it is streamed: unique among the cells of a target."""
    return cell.scenario if cell.variant == "whole" else f"{cell.scenario} [{cell.variant}]"


def place(finding: Finding) -> str:
    """Where the evidence is: `request 2 /messages/3`. Both requests and responses count from 1. Empty where there is no
    such place. In an audit: `FILE, interaction 1 /messages/3`, counted from 0 as the file has it."""
    if finding.file is not None:
        at = "" if finding.index is None else f", interaction {finding.index}"
        return f"{finding.file}{at} {finding.pointer or ''}".rstrip()
    side = "response" if finding.of_response else "request"
    request = "" if finding.exchange is None else f"{side} {finding.exchange + 1}"
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


def _unplayed(run: RunResult) -> str:
    """That cells were left out since enough had failed."""
    return f"; stopped there, {count(run.unplayed, 'cell')} not played" if run.unplayed else ""


def verdict(run: RunResult) -> tuple[str, str]:
    """The verdict in one word, and the sentence that goes with it."""
    summary = run.summary
    total = _total(run)
    if run.stopped is not None:
        return "UNFINISHED", f"{run.stopped}; {total} done: {counts(run) or 'nothing'}"
    if run.exit_code == 1:
        stale = f"; {count(len(run.stale), 'expected failure')} did not happen" if run.stale else ""
        return "FAIL", f"{total}: {counts(run)}{stale}{_unplayed(run)}"
    if summary[Verdict.MISSING]:
        return "INCOMPLETE", f"{total}: {counts(run)}; what is missing is neither right nor wrong"
    if run.exit_code:
        why = "no cell is applicable" if run.cells else "there was no cell to play"
        if summary[Verdict.INCONCLUSIVE]:
            why = "nothing could be judged by what the model did"
        return "NOTHING RAN", f"{total}: {why}"
    return "PASS", f"{total}: {counts(run)}"
