"""Which cells there are, and which of them can be played."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from harness import catalog
from harness.apis.targets import Target
from harness.contract.protocols import Capability
from harness.results import Mode
from harness.running.driving.given import undrivable
from harness.running.stages import Cell
from harness.scenarios.schema import Scenario, Variant

VARIANTS: tuple[Variant, ...] = ("whole", "stream")


def cells(
    scenarios: Sequence[Scenario], targets: Sequence[Target], variants: Sequence[Variant] = VARIANTS
) -> list[Cell]:
    """Every scenario with every target in every variant that makes sense, in the order of scenarios."""
    return [
        Cell(scenario, target, variant)
        for scenario in scenarios
        for target in targets
        for variant in _playable(scenario, target, variants)
    ]


def scenarios_of(cells: Iterable[Cell]) -> Iterator[Scenario]:
    """The scenarios of cells, each once, in their order."""
    yield from {cell.scenario.id: cell.scenario for cell in cells}.values()


def _playable(scenario: Scenario, target: Target, variants: Sequence[Variant]) -> list[Variant]:
    """An adapter that cannot stream is played whole, unless there is nothing but streams to play: then it is told that
    this is not applicable."""
    wanted: list[Variant] = [each for each in variants if scenario.variants is None or each in scenario.variants]
    if "whole" in wanted and Capability.STREAMING not in target.adapter.capabilities:
        return ["whole"]
    return wanted


def _only_clients(scenario: Scenario) -> str | None:
    """Why a scenario needs a client that owns its tool loop, if it does."""
    if any(tool.answered_by == "client" for tool in scenario.tools):
        return "its tools are answered by what plays it: 'harness serve' or '--agent-command'"
    if any(turn.ends_with_call for turn in scenario.turns):
        return "a turn ends with a call, as only clients with a loop of their own do: 'harness serve', '--conversation'"
    return None


def not_applicable(cell: Cell, mode: Mode) -> str | None:
    """Why a cell is not played at all, or `None`; `mode` is how it would be answered."""
    scenario, target = cell.scenario, cell.target
    if target.adapter.drive is not None and (reason := undrivable(scenario, target.adapter.capabilities)):
        return reason
    required = set(scenario.requires)
    if cell.variant == "stream":
        required.add(Capability.STREAMING)
    by_adapter = sorted(required - target.adapter.capabilities)
    if by_adapter:
        return f"the adapter {target.adapter.name!r} does not have: {', '.join(by_adapter)}"
    by_profile = sorted(required & target.profile.lacks)
    if by_profile:
        return f"{target.model} (profile {target.profile.name}) does not have: {', '.join(by_profile)}"
    if scenario.profiles is not None and target.profile.name not in scenario.profiles:
        return f"it holds only for the profiles {', '.join(scenario.profiles)}"
    foreign = sorted(each for each in scenario.provocations if each not in catalog.api(target.api).provocations)
    if foreign:
        return f"the API {target.api} has nothing that could do it: {', '.join(foreign)}"
    if scenario.provider_tools and target.api not in scenario.provider_tools:
        return f"the scenario has no tool that the provider of {target.api} runs"
    if target.adapter.drive is None and (reason := _only_clients(scenario)):
        return reason
    if scenario.scripted and mode == "live":
        return "scripted: no model does this when asked, so it is never sent to a provider"
    return None
