"""Generated conversations: the smallest that shows each fault of an adapter."""

from __future__ import annotations

import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness.apis.registry import Target
from harness.checks.drawing import Document, draw, valid_scenario
from harness.checks.shrinking import smallest
from harness.results import CellResult, Finding, Severity, Verdict
from harness.runner.cells import VARIANTS, Cell, not_applicable
from harness.scenarios.schema import Scenario, Variant

CauseKey: TypeAlias = tuple[str, str]
"""A rule, and its case, its exception or the field at which it was broken."""

Play: TypeAlias = Callable[[Cell], CellResult]


@dataclass(frozen=True, slots=True)
class FoundCause:
    """A cause of a failure, with the smallest conversation that shows it."""

    key: CauseKey
    scenario: Scenario
    variant: Variant


def search(
    target: Target, count: int, seed: int, plays: Sequence[Play], variants: Sequence[Variant] = VARIANTS
) -> list[FoundCause]:
    """Play generated conversations, and return the causes for which they fail, each with its smallest conversation.

    Every tenth is played by the last of `plays`, the others by the first. The same `seed` gives the same conversations.
    More of them begin with those of a smaller `count`.
    """
    shown: dict[CauseKey, tuple[Cell, Play]] = {}
    for number in range(count):
        cell = conversation(target, f"{seed}/{number}", variants[number % len(variants)])
        play = plays[-1 if number % 10 == 9 else 0]
        for key in causes_of(play(cell)):
            shown.setdefault(key, (cell, play))
    found: list[FoundCause] = []
    covered: set[CauseKey] = set()
    for key, (cell, play) in shown.items():
        if key in covered:
            continue
        each = shrink_cause(cell, key, play)
        found.append(each)
        covered |= {*causes_of(play(Cell(each.scenario, target, each.variant)))}
    return found


def conversation(target: Target, seed: str, variant: Variant) -> Cell:
    """Return the cell of a generated conversation on a target."""
    for attempt in range(_MAX_ATTEMPTS):
        _, scenario = draw(target, f"{seed}/{attempt}")
        cell = _cell(scenario, target, variant)
        if cell is not None:
            return cell
    raise ValueError(f"{target.name}: no conversation that it can play in {_MAX_ATTEMPTS} attempts")


_MAX_ATTEMPTS = 1000


def _cell(scenario: Scenario, target: Target, variant: Variant) -> Cell | None:
    """Return the cell of a conversation, in another variant if it has only that one, or `None` if it is not
    applicable.
    """
    for each in (variant, *VARIANTS):
        cell = Cell(scenario, target, each)
        if each in (scenario.variants or VARIANTS) and not_applicable(cell, "reference") is None:
            return cell
    return None


def shrink_cause(cell: Cell, key: CauseKey, play: Play, *, words: bool = True, seconds: float = math.inf) -> FoundCause:
    """Return the smallest conversation that shows a cause, and no other cause than the conversation of `cell` shows.

    Without `words`, texts and names are only removed, so that the conversation remains readable. After `seconds`, the
    smallest conversation that was found so far is returned.
    """
    document = cell.scenario.model_dump(mode="json", exclude_unset=True, by_alias=True)
    kept = {name: document[name] for name in _KEPT if name in document}
    end = time.monotonic() + seconds

    def scenario_of(shrinking: Document) -> Scenario | None:
        return valid_scenario(json.loads(json.dumps(kept | shrinking)))

    def causes(scenario: Scenario | None) -> set[CauseKey]:
        smaller = scenario and _cell(scenario, cell.target, cell.variant)
        return {*causes_of(play(smaller))} if smaller is not None else set()

    whole = {name: value for name, value in document.items() if name not in kept}
    allowed = causes(scenario_of(whole))

    def shows(shrinking: Document) -> bool:
        found = causes(scenario_of(shrinking)) if time.monotonic() < end else set[CauseKey]()
        return key in found and found <= allowed

    small = smallest(whole, shows, atomic=_ATOMIC if words else (*_ATOMIC, *_READABLE_MEMBERS))
    scenario = scenario_of(small)
    if scenario is None:
        raise ValueError("a conversation that cannot be played")
    return FoundCause(key, scenario, cell.variant)


_KEPT = ("version", "id", "title", "covers", "scripted")
"""Members that shrinking leaves as they are."""

_ATOMIC = ("fields", "raw", "provider_tools", "profiles", "image", "file", "audio", "metadata")
"""Members that shrinking only removes."""

_READABLE_MEMBERS = ("user", "text", "name", "system", "description", "id", "refusal")
"""Members that people read."""


def causes_of(result: CellResult) -> list[CauseKey]:
    """Return the causes of a cell's errors and warnings, without expected ones and those that only follow from
    others.
    """
    if result.verdict is Verdict.ERROR and not result.findings:
        return [("error", (result.reason or "").partition(":")[0])]
    failing = (
        each
        for each in result.findings
        if each.severity is not Severity.NOTE and each.follows is None and each.accepted is None
    )
    return list(dict.fromkeys(map(cause_key, failing)))


def cause_key(finding: Finding) -> CauseKey:
    """Return the cause of a finding."""
    return finding.rule, _place(finding)


def _place(finding: Finding) -> str:
    """Return the case or exception of a finding, or its location without indices."""
    return finding.case or finding.raised or re.sub(r"\d+", "N", finding.pointer or "")


def name_conversations(found: Sequence[FoundCause]) -> Iterator[Scenario]:
    """Yield the conversations with ids that name their rules."""
    names: Counter[str] = Counter()
    for each in found:
        rule, _ = each.key
        names[rule] += 1
        number = f"-{names[rule]}" if names[rule] > 1 else ""
        yield each.scenario.model_copy(update={"id": f"generated-{rule}{number}"})
