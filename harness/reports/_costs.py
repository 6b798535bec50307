"""What a run costs, in sentences: about to be paid, paid now, paid when it was recorded, or what a provider would have
asked for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from harness.reports._words import count
from harness.results import CellResult, RunResult, Spending

_SMALLEST = Decimal("0.0001")


def money(dollars: Decimal) -> str:
    """US dollars: `$12.35`, below one dollar `$0.0123`; what is too small for that is said to be so, and never 0."""
    if not dollars:
        return "$0"
    if dollars < _SMALLEST:
        return f"less than ${_SMALLEST}"
    cents = dollars.quantize(Decimal("0.01"))
    return f"${cents:,}" if cents >= 1 else f"${dollars.quantize(_SMALLEST)}"


def spent(spending: Spending) -> str:
    """`$0.0123 for 42 requests`, without those whose price is not known."""
    priced = spending.requests - spending.unpriced
    if spending.dollars is None:
        return f"not known for {count(spending.requests, 'request')}"
    unknown = f"; not known for {spending.unpriced} more" if spending.unpriced else ""
    return f"{money(spending.dollars)} for {count(priced, 'request')}{unknown}"


def forecast(parts: Mapping[str, Spending], prices: Mapping[str, str]) -> Iterator[str]:
    """What is about to be sent, and about what it costs, target by target, by the versions of `prices`."""
    if not parts:
        return
    source = " ".join(part for pair in prices.items() for part in pair)
    yield f"To be sent: {_about(Spending.together(parts.values()))}; reasoning comes on top ({source})."
    for target, part in parts.items():
        yield f"  {target} ({part.model}): {_about(part)}"


def _about(spending: Spending) -> str:
    requests = f"about {count(spending.requests, 'request')}"
    if spending.dollars is None:
        return f"{requests}, at a cost that is not known"
    dollars = money(spending.dollars)
    unknown = f", and {spending.unpriced} of them at a cost that is not known" if spending.unpriced else ""
    return f"{requests}, {dollars if dollars.startswith('less') else f'about {dollars}'}{unknown}"


def kind(run: RunResult, cell: CellResult) -> str:
    """What the money of a cell is, as the beginning of a sentence."""
    if cell.provenance is not None and cell.provenance.origin == "reference":
        return "Would cost at the providers, by the reference server's made-up token counts"
    return "Cost when it was recorded" if run.mode == "replay" else "Cost"


def costs(run: RunResult, *, by_target: bool = False) -> Iterator[str]:
    """A sentence for each kind of money, with the models whose price is not known; then, if asked for, the targets.

    Nothing is said of cells that sent nothing.
    """
    kinds: dict[str, list[CellResult]] = {}
    for cell in run.cells:
        if cell.spending is not None and cell.spending.requests:
            kinds.setdefault(kind(run, cell), []).append(cell)
    for beginning, cells in kinds.items():
        models: dict[tuple[str, str], list[Spending]] = {}
        for cell in cells:
            if cell.spending is not None:
                models.setdefault((cell.target, cell.spending.model), []).append(cell.spending)
        parts = {f"{target} ({model})": Spending.together(each) for (target, model), each in models.items()}
        unpriced = ", ".join(name for name, each in parts.items() if each.dollars is None)
        # an answer that broke off says no tokens, whatever its model costs
        broke_off = any(each.unpriced and each.dollars is not None for each in parts.values())
        unknown = f", all of {unpriced} among them" if broke_off else f": {unpriced}"
        unknown = unknown if unpriced else ""
        yield f"{beginning}: {spent(Spending.together(parts.values()))}{unknown}{_source(run)}."
        if by_target:
            yield from (f"  {name}: {spent(each)}" for name, each in parts.items())


def _source(run: RunResult) -> str:
    version = run.versions.get("genai-prices")
    return f" (genai-prices {version})" if version else ""
