"""Wording shared by all human-readable reports: verdicts, counts, places, values, advice and costs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Protocol

from harness.results import JSON, Blame, CellResult, CheckResult, Finding, Kind, RunResult, Severity, Spending, Verdict
from harness.results.findings import show_change

MAX_VALUE_CHARACTERS = 240
"""Maximum length of a value that is shown in full. The JSON report always contains the full value."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SMALLEST_PRICE = Decimal("0.0001")

_ADVICE = {
    Blame.ADAPTER: "Compare the actual value with the expected one, and correct what the adapter sends or reads there.",
    Blame.CLIENT: "Compare the actual value with the expected one, and correct what the client sends or reads there.",
    Blame.CASSETTE: "The recording does not fit the scenario: record the cell again with 'harness record'.",
    Blame.PROVIDER: "The server's answer differs from the API's documentation. If the server is yours, correct it. "
    "If not, check the address, try again, and report it to the provider.",
    Blame.MODEL: "The model did something other than the scenario's script. Record again, or write the required "
    "outcome under 'expect'.",
    Blame.SCENARIO: "The scenario asks for something impossible. Correct it; 'harness validate' checks its form.",
    Blame.GATEWAY: "Make the gateway pass it on, or refuse requests that it cannot pass on. The JSON report has "
    "both bodies.",
    Blame.HARNESS: "This is a bug in harness. Please report it, with the JSON report of this run.",
}
_OPTIONAL = (
    "Nothing: this breaks a convention of harness, and neither provider nor caller loses by it. --strict makes it fail."
)

CRASHED = "The adapter or harness broke before the cell could be judged. See the reason, and run the cell again."
ACCEPT_HINT = "Known failures go into a file for --expected-failures; 'harness accept' writes it."

KINDS = {Kind.LIMIT: "the provider refuses it", Kind.LOSS: "data lost or wrong", Kind.CONVENTION: "convention"}
"""Description of each kind of finding."""


class _Advised(Protocol):
    @property
    def kind(self) -> Kind: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def blame(self) -> Blame: ...
    @property
    def remedy(self) -> str: ...


def what_to_do(found: _Advised) -> str:
    """Return the remedy of the finding's rule, or general advice for the party at fault."""
    if found.kind is Kind.CONVENTION and found.severity is Severity.NOTE:
        return _OPTIONAL
    return sentence(found.remedy) if found.remedy else _ADVICE[found.blame]


def sentence(text: str) -> str:
    """Return the text with an initial capital and a full stop. Text that begins with code keeps its first letter."""
    first = text[:1] if re.match(r"\w+[_.(]", text) else text[:1].upper()
    return f"{first}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def plain(text: str) -> str:
    """Return the text on one line with control characters escaped. These could move the cursor or change colours or
    text direction.
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match.group()):04x}", " ".join(text.splitlines()))


def plain_line(text: str) -> str:
    """Escape a line as `plain` does, but keep its indentation."""
    return " " * (len(text) - len(text.lstrip())) + plain(text.lstrip())


def short(value: JSON, length: int = MAX_VALUE_CHARACTERS) -> str:
    """Return a JSON value on one line. If it is longer than `length`, its middle is left out."""
    text = plain(json.dumps(value, ensure_ascii=False))
    if len(text) <= length:
        return text
    half = (length - 20) // 2
    return f"{text[:half]} ...{len(text) - 2 * half} more... {text[-half:]}"


def values(finding: Finding, length: int | None = MAX_VALUE_CHARACTERS) -> list[tuple[str, str]]:
    """Return the actual and the expected value on one line each, with their names.

    Long texts are shortened to the words around the difference, unless `length` is `None`. An unknown expected value is
    left out.
    """
    if finding.actual is None and finding.expected is None:
        return []
    texts = show_change(finding.actual, finding.expected, (length or MAX_VALUE_CHARACTERS) // 2)
    if texts is not None:
        return [*zip(("actual", "expected"), texts, strict=True)]

    def display_value(value: JSON) -> str:
        return json.dumps(value, ensure_ascii=False) if length is None else short(value, length)

    actual = "(nothing)" if finding.actual is None else display_value(finding.actual)
    return [
        ("actual", actual),
        *([("expected", display_value(finding.expected))] if finding.expected is not None else []),
    ]


def shorten(text: str, max_characters: int) -> str:
    """Return a multi-line text. If it has more than about `max_characters` characters, its middle is left out."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters are left out ...\n{text[-half:]}"


def label(cell: CellResult) -> str:
    """Return the scenario's name, plus the variant if it is streamed. The label is unique among the
    cells of a target.
    """
    return cell.scenario if cell.variant == "whole" else f"{cell.scenario} [{cell.variant}]"


def place(finding: Finding) -> str:
    """Return where the evidence is: `request 2 /messages/3`, or an empty string if there is no such place.

    Requests and responses count from 1. In an audit the result is `FILE, interaction 1 /messages/3`, counted from 0 as
    in the file.
    """
    if finding.file is not None:
        at = "" if finding.index is None else f", interaction {finding.index}"
        return f"{finding.file}{at} {finding.pointer or ''}".rstrip()
    side = "response" if finding.of_response else "request"
    request = "" if finding.exchange is None else f"{side} {finding.exchange + 1}"
    return " ".join(part for part in (request, finding.pointer) if part)


def count(number: int, noun: str) -> str:
    """Return `1 cell`, `2 cells`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def list_names(names: list[str], limit: int) -> str:
    """Join at most `limit` names with commas, followed by the number of others."""
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def counts(run: RunResult) -> str:
    """Return the number of cells for each verdict: `448 pass, 1 fail, 6 not applicable`."""
    return ", ".join(f"{number} {verdict.replace('-', ' ')}" for verdict, number in run.summary.items() if number)


def verdict(run: RunResult) -> tuple[str, str]:
    """Return the verdict as one word and as a sentence."""
    summary = run.summary
    total = _total(run)
    if run.stopped is not None:
        return "UNFINISHED", f"{run.stopped}; {total} done: {counts(run) or 'nothing'}"
    if run.exit_code == 1:
        stale = f"; {count(len(run.stale), 'expected failure')} did not happen" if run.stale else ""
        skipped = f"; stopped there, {count(run.unplayed, 'cell')} not run" if run.unplayed else ""
        return "FAIL", f"{total}: {counts(run)}{stale}{skipped}"
    if summary[Verdict.MISSING]:
        return "INCOMPLETE", f"{total}: {counts(run)}; a missing cell is neither right nor wrong"
    if run.exit_code:
        why = "no cell is applicable" if run.cells else "there was no cell to run"
        if summary[Verdict.INCONCLUSIVE]:
            why = "the model did nothing that could be judged"
        return "NOTHING RAN", f"{total}: {why}"
    return "PASS", f"{total}: {counts(run)}"


def _total(run: RunResult) -> str:
    """Return the number of cells in total and by variant: `4 cells (2 whole, 2 streamed, 6 recuts)`."""
    streamed = sum(cell.variant == "stream" for cell in run.cells)
    recuts = sum(cell.recuts for cell in run.cells)
    numbers = {"whole": len(run.cells) - streamed, "streamed": streamed}
    variants = [f"{number} {name}" for name, number in numbers.items() if number]
    details = [name for name, number in numbers.items() if number] if len(variants) == 1 else variants
    if recuts:
        details.append(count(recuts, "recut"))
    return count(len(run.cells), "cell") + (f" ({', '.join(details)})" if details else "")


def check_notes(checked: CheckResult) -> Iterator[tuple[str, str]]:
    """Yield the results of a check that are not cells, each as a heading and a sentence."""
    if checked.model_note:
        yield "Model", checked.model_note
    for tried in checked.broken:
        of = count(tried.played, "cell")
        yield (
            "Declared, but does not work",
            f"{tried.capability} ({tried.target}): none of {of} passed. Correct it, or do not declare it.",
        )
    for tried in checked.undeclared:
        of = count(tried.played, "cell")
        yield (
            "Works, but is not declared",
            f"{tried.capability} ({tried.target}): {tried.worked} of {of} passed. Declare it to have it checked.",
        )
    for rate in checked.rates:
        share = f"{rate.share:.0%}; between {rate.low:.0%} and {rate.high:.0%}"
        yield (
            "How often (no verdict; 95 % interval; --repeat N narrows it)",
            f"{rate.name}: {rate.hits} of {rate.played} ({share})",
        )
    for text in checked.not_played:
        yield "Not run", text


def money(dollars: Decimal) -> str:
    """Return US dollars: `$12.35`, or `$0.0123` below one dollar. An amount too small for that is never shown as 0."""
    if not dollars:
        return "$0"
    if dollars < _SMALLEST_PRICE:
        return f"less than ${_SMALLEST_PRICE}"
    cents = dollars.quantize(Decimal("0.01"))
    return f"${cents:,}" if cents >= 1 else f"${dollars.quantize(_SMALLEST_PRICE)}"


def spending_text(spending: Spending) -> str:
    """Return `$0.0123 for 42 requests`, and the number of requests without a known price."""
    priced = spending.requests - spending.unpriced
    if spending.dollars is None:
        return f"not known for {count(spending.requests, 'request')}"
    unknown = f"; not known for {spending.unpriced} more" if spending.unpriced else ""
    return f"{money(spending.dollars)} for {count(priced, 'request')}{unknown}"


def forecast(parts: Mapping[str, Spending], prices: Mapping[str, str]) -> Iterator[str]:
    """Yield the requests that a command will send and their estimated cost, by target. `prices`
    names the price list.
    """
    if not parts:
        return
    source = " ".join(part for pair in prices.items() for part in pair)
    yield f"To be sent: {estimate_text(Spending.sum_of(parts.values()))}; reasoning costs extra ({source})."
    for target, part in parts.items():
        yield f"  {target} ({part.model}): {estimate_text(part)}"


def estimate_text(spending: Spending, about: str = "about", what: str = "") -> str:
    """Return an estimate: `about 42 requests, about $0.12, and 2 of them at an unknown cost`. `what` follows the number
    of requests.
    """
    requests = f"{about} {count(spending.requests, 'request')}{what}"
    if spending.dollars is None:
        return f"{requests}, at an unknown cost"
    dollars = money(spending.dollars)
    unknown = f", and {spending.unpriced} of them at an unknown cost" if spending.unpriced else ""
    return f"{requests}, {dollars if dollars.startswith('less') else f'{about} {dollars}'}{unknown}"


def cost_heading(run: RunResult, cell: CellResult) -> str:
    """Return the heading for a cell's cost: an estimate, spent now, or spent when it was recorded."""
    if cell.provenance is not None and cell.provenance.origin == "reference":
        return "Estimated cost at the providers, by the reference server's token counts"
    return "Cost when it was recorded" if run.mode == "replay" else "Cost"


def is_paid(run: RunResult) -> bool:
    """Return whether this run itself incurred costs at a provider."""
    return any(
        cell.spending is not None and cell.spending.requests and cost_heading(run, cell) == "Cost" for cell in run.cells
    )


def costs(run: RunResult, *, by_target: bool = False) -> Iterator[str]:
    """Yield a sentence for each kind of cost, including models without a known price. If `by_target`, add the costs by
    target.

    Cells that sent no request are left out.
    """
    kinds: dict[str, list[CellResult]] = {}
    for cell in run.cells:
        if cell.spending is not None and cell.spending.requests:
            kinds.setdefault(cost_heading(run, cell), []).append(cell)
    version = run.versions.get("genai-prices")
    source = f" (genai-prices {version})" if version else ""
    for beginning, cells in kinds.items():
        models: dict[tuple[str, str], list[Spending]] = {}
        for cell in cells:
            if cell.spending is not None:
                models.setdefault((cell.target, cell.spending.model), []).append(cell.spending)
        parts = {f"{target} ({model})": Spending.sum_of(each) for (target, model), each in models.items()}
        unpriced = ", ".join(name for name, each in parts.items() if each.dollars is None)
        # a response that broke off reports no tokens, whatever its model costs
        broke_off = any(each.unpriced and each.dollars is not None for each in parts.values())
        unknown = f", all of {unpriced} among them" if broke_off else f": {unpriced}"
        yield f"{beginning}: {spending_text(Spending.sum_of(parts.values()))}{unknown if unpriced else ''}{source}."
        if by_target:
            yield from (f"  {name}: {spending_text(each)}{_from_cache(each)}" for name, each in parts.items())


def _from_cache(spending: Spending) -> str:
    read, every = spending.usage.cache_read_tokens, spending.usage.input_tokens
    return f"; {read:,} of {every:,} input tokens from the prompt cache" if read and every else ""
