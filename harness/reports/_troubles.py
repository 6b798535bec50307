"""What keeps a run from being clean, the worst first: for reports that put each into its line of a repository."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.reports import _groups as groups
from harness.reports._causes import Cause, causes
from harness.reports._places import Spot, spot
from harness.reports._words import CRASHED, count, listed, place, plain, values, what_to_do
from harness.results import Finding, Kind, Presentation, RunResult, Severity

_NAMES = 8


@dataclass(frozen=True, slots=True)
class Sign:
    """One place at which a trouble shows: where that is in the repository, if it is there, and what is seen."""

    name: str
    spot: Spot | None
    text: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong. `rule`, `kind` and `at` are those of its findings; `rule` is a word for what has none.
    `signs` gives all that is seen of it, one after the other: of a long run that is much. `advice` says what to do,
    over lines."""

    rule: str
    severity: Severity
    extent: str
    signs: Callable[[], Iterator[Sign]]
    advice: str
    kind: Kind | None = None
    at: str = ""


def troubles(run: RunResult, presentation: Presentation) -> list[Trouble]:
    """Causes by how much fails for them, what broke, what could not be looked at, stale entries; then warnings."""
    return [
        *_unfinished(run),
        *(_cause(run, presentation, cause) for cause in causes(run, Severity.ERROR)),
        *_broken(run, presentation),
        *_missing(run, presentation),
        *_stale(run),
        *(_cause(run, presentation, cause) for cause in causes(run, Severity.WARNING)),
    ]


def _unfinished(run: RunResult) -> Iterator[Trouble]:
    if run.stopped is not None:
        sign = Sign("harness", None, f"the run is not finished: {plain(run.stopped)}")
        yield Trouble("unfinished", Severity.ERROR, count(len(run.cells), "cell") + " done", _one(sign), "")


def _cause(run: RunResult, presentation: Presentation, cause: Cause) -> Trouble:
    def signs() -> Iterator[Sign]:
        for each in cause.places:
            finding = each.findings[0]
            yield Sign(_named(each), spot(run, presentation, each.cells[0].scenario, finding), _seen(finding))

    todo = what_to_do(cause)
    again = "" if run.audit is not None else f"\nPlay again: {groups.rerun(run, cause.places[0])}"
    at = ", ".join(f"{api} {each}".strip() for api, each in cause.at)
    return Trouble(cause.rule, cause.severity, cause.extent, signs, f"{todo}{again}", cause.kind, at)


def _broken(run: RunResult, presentation: Presentation) -> Iterator[Trouble]:
    for reason, places in groups.broken(run):

        def signs(places: Sequence[groups.Place] = places, said: str = plain(reason)) -> Iterator[Sign]:
            for each in places:
                at = spot(run, presentation, each.cells[0].scenario)
                yield Sign(_named(each), at, said or "no reason is known")

        advice = f"{CRASHED}\nPlay again: {groups.rerun(run, places[0])}"
        yield Trouble("error", Severity.ERROR, count(groups.cells_of(places), "cell"), signs, advice)


def _missing(run: RunResult, presentation: Presentation) -> Iterator[Trouble]:
    for each in groups.missing(run):
        name = f"{listed([*each.scenarios], _NAMES)} . {', '.join(each.targets)}"
        at = spot(run, presentation, each.cells[0].scenario)
        advice = f"record: {each.record}\nor play: {each.reference}"
        sign = Sign(name, at, f"could not look: {plain(each.reason)}")
        yield Trouble("missing", Severity.ERROR, count(len(each.cells), "cell"), _one(sign), advice)


def _stale(run: RunResult) -> Iterator[Trouble]:
    for each in run.stale:
        name = f"{each.scenario}{f' [{each.variant}]' if each.variant else ''} . {each.target}"
        sign = Sign(name, None, f"{each.rule} is listed as an expected failure, and did not happen")
        yield Trouble("stale", Severity.ERROR, "1 entry", _one(sign), "take it off the list of expected failures.")


def _one(sign: Sign) -> Callable[[], Iterator[Sign]]:
    return lambda: iter([sign])


def _named(each: groups.Place) -> str:
    return plain(f"{each.name} . {each.target}")


def _seen(finding: Finding) -> str:
    at = place(finding)
    lines = [plain(f"{at}: {finding.message}" if at else finding.message)]
    lines += [f"{name}: {value}" for name, value in values(finding)]
    return "\n".join(lines)
