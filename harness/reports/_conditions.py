"""In what two runs are not runs of the same, so that what changed may have changed for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from harness.reports._words import count, listed
from harness.results import CellResult, RunResult

_NAMES = 6


def conditions(run: RunResult, before: RunResult) -> Iterator[str]:
    """What is other than it was, in sentences: how and by what was played and judged, which scenarios and targets, and
    where the answers came from. Nothing of two runs of the same."""
    yield from _said("mode", before.mode, run.mode)
    yield from _versions(before, run)
    yield from _said("files of facts", _joined(before.facts), _joined(run.facts))
    yield from _said("rules that count", _joined(before.rules), _joined(run.rules))
    yield from _said("rules that are ignored", _joined(before.ignored), _joined(run.ignored))
    yield from _sets("scenario", before, run, lambda cell: cell.scenario)
    yield from _sets("target", before, run, lambda cell: cell.target)
    yield from _sets("variant", before, run, lambda cell: cell.variant)
    yield from _rewritten(before, run)
    for target in _both(before, run, lambda cell: cell.target):
        was, now = (_sources(each, target) for each in (before, run))
        if was and now:
            yield from _said(f"answers of {target}", was, now)
    for name, each in (("earlier", before), ("later", run)):
        if not each.finished:
            yield f"The {name} run was not played to its end: what is gone or new may only not have been played."


def _said(what: str, was: str, now: str) -> Iterator[str]:
    if was != now:
        yield f"{what}: {was or 'none'} before, {now or 'none'} now."


def _joined(names: Iterable[str]) -> str:
    return ", ".join(names)


def _versions(before: RunResult, run: RunResult) -> Iterator[str]:
    then, now = before.versions, run.versions
    other = [each for each in dict.fromkeys((*then, *now)) if then.get(each) != now.get(each)]
    if other:
        told = [f"{each} {then.get(each, 'none')} -> {now.get(each, 'none')}" for each in other]
        yield f"Other versions: {listed(told, _NAMES)}."


def _both(before: RunResult, run: RunResult, key: Callable[[CellResult], str]) -> list[str]:
    later = {key(cell) for cell in run.cells}
    return [name for name in dict.fromkeys(map(key, before.cells)) if name in later]


def _sets(noun: str, before: RunResult, run: RunResult, key: Callable[[CellResult], str]) -> Iterator[str]:
    then, now = (dict.fromkeys(map(key, each.cells)) for each in (before, run))
    for name, some, others in (("earlier", then, now), ("later", now, then)):
        alone = [each for each in some if each not in others]
        if alone:
            yield f"Only in the {name} run: {count(len(alone), noun)}: {listed(alone, _NAMES)}."


def _rewritten(before: RunResult, run: RunResult) -> Iterator[str]:
    """Scenarios that say something else now."""
    common = [name for name in before.definitions if name in run.definitions]
    other = [name for name in common if before.definitions[name].digest != run.definitions[name].digest]
    if other:
        yield f"{count(len(other), 'scenario')} asked something else before: {listed(other, _NAMES)}."


def _sources(run: RunResult, target: str) -> str:
    """The models that a target was asked for, and whose answers they were."""
    known = [cell.provenance for cell in run.cells if cell.target == target and cell.provenance is not None]
    return listed(sorted({f"{each.model_requested or 'a model'} ({each.origin})" for each in known}), _NAMES)
