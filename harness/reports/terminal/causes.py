"""What is wrong: each cause with one place as evidence, what to do about it, and how to see it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from harness.reports import _groups as groups
from harness.reports._causes import Cause, causes
from harness.reports._page import hanging, heading, indented
from harness.reports._words import CRASHED, KNOWN, count, place, plain_line, values, what_to_do
from harness.reports.terminal.words import CELLS, LESSER, spot
from harness.results import Blame, Finding, Kind, RunResult, Severity

_BODY = 8  # lines that are shown of a body of which no place matters more than others


def ranked(run: RunResult) -> Iterator[RenderableType]:
    """In a check all causes at a glance, the worst one first, of which alone more is then shown."""
    found = causes(run, Severity.ERROR) if run.check is not None else []
    if len(found) > 1:
        yield heading(f"{len(found)} causes, the worst first; --verbose shows each as it shows the first")
    for number, cause in enumerate(found if len(found) > 1 else (), 1):
        yield hanging(f"{number}", f"{cause.rule} ({cause.blame}), {cause.extent}", width=2)
        yield indented(cause.places[0].findings[0].message, "dim", by=6)


def errors(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """What fails cells: in a check the worst cause alone, which `ranked` lists with the others."""
    found = causes(run, Severity.ERROR)
    for number, cause in enumerate(found if verbose or run.check is None else found[:1], 1):
        yield from [""] if number > 1 else []
        yield from _cause(run, cause, f"Cause {number}", verbose=verbose)
    if any(cause.blame in (Blame.ADAPTER, Blame.CLIENT) for cause in found):
        yield from ("", indented(KNOWN, "dim"))


def lesser(run: RunResult, severity: Severity, *, verbose: bool) -> Iterator[RenderableType]:
    """Findings that fail nothing: by cause, each with one place."""
    found = causes(run, severity)
    if verbose:
        for number, cause in enumerate(found, 1):
            yield from [""] if number > 1 else []
            yield from _cause(run, cause, f"{severity.capitalize()} {number}", verbose=True)
        return
    if found:
        optional = ", none of which has to be mended" if severity is Severity.NOTE else ""
        yield heading(f"{severity.capitalize()}s: {len(found)}{optional}; --verbose shows each")
    for cause in found[:LESSER]:
        first, *others = cause.places
        more = f" and {count(groups.cells_of(others), 'more cell')}" if others else ""
        yield indented(f"{cause.rule} ({cause.blame}): {spot(first)}{more}: {first.findings[0].message}")
    if len(found) > LESSER:
        yield indented(f"and {len(found) - LESSER} more")


def broken(run: RunResult, *, verbose: bool) -> Iterator[RenderableType]:
    """What broke before it could be judged, by its reason."""
    for index, (reason, places) in enumerate(groups.broken(run)):
        shown = places if verbose else places[:CELLS]
        yield from [""] if index else []
        yield heading(f"error in {count(groups.cells_of(places), 'cell')}: {reason or 'no reason is known'}")
        for each in shown:
            yield indented(spot(each), "bold")
        yield from _more(places[len(shown) :])
        yield hanging("What to do", CRASHED, width=11)
        yield from _look(run, places[0])
        yield hanging("Play again", groups.rerun(run, places[0]), width=11)


def _cause(run: RunResult, cause: Cause, title: str, *, verbose: bool) -> Iterator[RenderableType]:
    source = f"; source: {cause.source}" if cause.source else ""
    yield heading(f"{title}: {cause.rule}: {cause.extent}")
    yield indented(f"{cause.kind}; blame: {cause.blame}; {_at(cause)}{source}", "dim")
    shown = cause.places if verbose else cause.places[:1]
    for each in shown:
        yield indented(spot(each), "bold")
        for finding in each.findings if verbose else each.findings[:1]:
            yield from _evidence(finding)
        if not verbose and len(each.findings) > 1:
            yield indented(f"and {count(len(each.findings) - 1, 'more finding')} like it in this cell", "dim", by=4)
        if verbose:
            yield from _followers(each)
    yield from _more(cause.places[len(shown) :])
    if cause.followers and not verbose:
        yield indented(cause.following, "dim")
    first = cause.places[0]
    yield hanging("What to do", what_to_do(cause), width=11)
    yield from _other_model(run, cause)
    yield from _look(run, first)
    yield hanging("Play again", groups.rerun(run, first), width=11)


def _other_model(run: RunResult, cause: Cause) -> Iterator[RenderableType]:
    """The hint to name the model: a provider may accept of one model what it refuses of another."""
    cell = cause.places[0].cells[0]
    model = cell.provenance.model_requested if cell.provenance else None
    if model and run.mode == "reference" and cause.kind is Kind.LIMIT and cause.blame in (Blame.ADAPTER, Blame.CLIENT):
        yield hanging("Or", f"if it is made for other models than {model}: --model {cell.target}=NAME", width=11)


def _look(run: RunResult, place: groups.Place) -> Iterator[RenderableType]:
    shown = groups.look(run, place.cells[0])
    if shown:
        yield hanging("Look", shown, width=11)


def _at(cause: Cause) -> str:
    """The APIs, each with the place in its bodies."""
    return ", ".join(f"{api} {spot}".strip() for api, spot in cause.at)


def _evidence(finding: Finding) -> Iterator[RenderableType]:
    where = place(finding)
    yield indented(f"{where}: {finding.message}" if where else finding.message, by=4)
    for name, value in values(finding):
        yield hanging(name, value, width=8, by=6)
    yield from _lines(finding.piece)
    for body in finding.bodies:
        yield indented(f"{body.end}{': ' if body.piece else ''}{body.piece[0] if body.piece else ''}", by=6)
        yield from _lines(body.piece[1:] or body.text.splitlines()[:_BODY])


def _lines(piece: Sequence[str]) -> Iterator[RenderableType]:
    for line in piece:
        yield Padding(Text(plain_line(line), style="dim", no_wrap=True, overflow="ellipsis"), (0, 0, 0, 6))


def _followers(place: groups.Place) -> Iterator[RenderableType]:
    cell = place.cells[0]
    for follower in cell.findings:
        if follower.follows is not None and cell.findings[follower.follows] in place.findings:
            yield indented(f"follows: {follower.rule}", by=4)
            yield from _evidence(follower)


def _more(left: Sequence[groups.Place]) -> Iterator[RenderableType]:
    if left:
        rest = groups.cells_of(left[CELLS:])
        names = ", ".join(spot(each) for each in left[:CELLS]) + (f" and {count(rest, 'more cell')}" if rest else "")
        yield indented(f"also in {names}; --verbose shows each", "dim")
