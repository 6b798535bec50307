"""Whether an adapter can do what it declares, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.apis.targets import Target
from harness.contract.protocols import Adapter, Capability
from harness.results import CellResult, Tried, Verdict
from harness.running.cells import cells
from harness.running.stages import Cell
from harness.scenarios.schema import Scenario

_TRIED = 2
"""Scenarios that are played to see whether an undeclared capability works."""

_UNTRIED = frozenset({Capability.RETRIES, Capability.EMBEDDINGS, Capability.CACHE_MARKS})
"""What trying does not show: who sends a request once, or leaves a mark out, breaks nothing, and embeddings need a
client of their own."""

_WORKED = (Verdict.PASS, Verdict.NOTE, Verdict.WARN)

Play = Callable[[Sequence[Cell]], Sequence[CellResult]]
"""Plays cells and gives back how they ended, in their order."""


def undeclared(scenarios: Sequence[Scenario], target: Target, play: Play) -> tuple[Tried, ...]:
    """The capabilities that the target's adapter does not declare and that work in all cells that need them."""
    can = set(target.adapter.capabilities)
    found: list[Tried] = []
    for capability in Capability:
        if capability in can | target.profile.lacks | _UNTRIED:
            continue
        able = _able(target, frozenset({*can, capability}))
        tried = cells([each for each in scenarios if _needs(each, can) == {capability}], [able], ["whole"])[:_TRIED]
        if capability is Capability.STREAMING:
            plain = [each for each in scenarios if not _needs(each, can) and not each.faults]
            tried = cells(plain, [able], ["stream"])[:_TRIED]
        worked = sum(result.verdict in _WORKED for result in play(tried)) if tried else 0
        if tried and worked == len(tried):
            can.add(capability)
            found.append(Tried(target.name, capability.value, worked, len(tried)))
    return tuple(found)


def broken(played: Sequence[Cell], results: Sequence[CellResult]) -> tuple[Tried, ...]:
    """The capabilities that the cells' adapters declare, and with which no cell passed though others did without."""
    found: list[Tried] = []
    judged = [
        (cell, result)
        for cell, result in zip(played, results, strict=True)
        if result.verdict not in (Verdict.NOT_APPLICABLE, Verdict.MISSING)
    ]
    for target in dict.fromkeys(cell.target.name for cell in played):
        of_target = [(cell, result) for cell, result in judged if cell.target.name == target]
        for capability in Capability:
            able = [result for cell, result in of_target if capability in _uses(cell)]
            others = [result for cell, result in of_target if capability not in _uses(cell)]
            works_without = any(result.verdict in _WORKED for result in others)
            if able and works_without and not any(result.verdict in _WORKED for result in able):
                found.append(Tried(target, capability.value, 0, len(able)))
    return tuple(found)


def _uses(cell: Cell) -> set[Capability]:
    return {*cell.scenario.requires, *([Capability.STREAMING] if cell.variant == "stream" else [])}


def _needs(scenario: Scenario, can: set[Capability]) -> set[Capability]:
    return set(scenario.requires) - can


def _able(target: Target, capabilities: frozenset[Capability]) -> Target:
    adapter: Adapter = replace(target.adapter, capabilities=capabilities)
    return replace(target, adapter=adapter)
