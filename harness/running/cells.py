"""The cells that there are, those of them that can be played, and what a loop is given of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from http import HTTPStatus

from harness import catalog
from harness.apis.targets import Target
from harness.contract.loops import Conversation, ConversationTool
from harness.contract.model import ToolCall, ToolResult
from harness.contract.protocols import Capability
from harness.results import Mode
from harness.scenarios.canonical import settings_of, user_message
from harness.scenarios.schema import FaultSpec, Scenario, Variant


@dataclass(frozen=True, slots=True)
class Cell:
    """One thing to play: a scenario, a target, whole or streamed."""

    scenario: Scenario
    target: Target
    variant: Variant


UNSEEN = frozenset({Capability.CACHE_MARKS, Capability.EMBEDDINGS, Capability.PROVIDER_TOOLS})
"""What a loop may do well or badly without anybody seeing it, or is given no word for."""

_LONG = 1.5
"""Seconds: a provider that asks to wait longer is left to those who have the time."""


def given(scenario: Scenario, variant: Variant, run: Callable[[ToolCall], ToolResult]) -> Conversation:
    """The scenario as a conversation, of which `run` runs the tools. Those that the loop has itself it is not given."""
    settings = settings_of(scenario, 0)
    return Conversation(
        turns=tuple(map(user_message, scenario.turns)),
        tools=tuple(
            ConversationTool(tool.name, tool.description, tool.arguments_schema, run)
            for tool in scenario.tools
            if tool.answered_by == "scenario"
        ),
        system=scenario.system or None,
        stream=variant == "stream",
        tool_choice=settings.choice(),
        response_format=settings.format(),
        max_tokens=settings.max_tokens,
        thinking=settings.reasoning(),
        max_answers=scenario.max_iterations,
    )


def undrivable(scenario: Scenario, capabilities: AbstractSet[Capability]) -> str | None:
    """Why a loop with these capabilities cannot play a scenario, whatever it asks for; `None` if it can."""
    if scenario.embeddings is not None:
        return "embeddings are no conversation"
    if scenario.history:
        return "a loop begins its conversations itself, and this one continues another"
    if scenario.trim is not None:
        return "what is left out of a history is the loop's own affair"
    if unseen := sorted(UNSEEN.intersection(scenario.requires)):
        return f"what a loop makes of it is not seen from outside: {', '.join(unseen)}"
    return _of_turns(scenario) or _of_answers(scenario) or _of_failures(scenario, capabilities)


def _of_turns(scenario: Scenario) -> str | None:
    every = [settings_of(scenario, index) for index in range(len(scenario.turns))]
    if any("system" in turn.model_fields_set for turn in scenario.turns):
        return "a loop is given one system prompt, and here it changes"
    if any(settings != every[0] for settings in every):
        return "a loop is given its settings once, and here they change"
    if every[0].cache or any(each is not None for each in (every[0].temperature, every[0].top_p, every[0].stop)):
        return "a loop is given no word for these settings"
    return None


def _of_answers(scenario: Scenario) -> str | None:
    if scenario.undeclared_tools:
        return "what to do about a call of a tool that there is not is the loop's own affair"
    steps = [step for turn in scenario.turns for step in turn.model]
    if any(step.truncated for step in steps[:-1]):
        return "how to go on from an answer that is not whole is the loop's own affair"
    for step in steps:
        if step.refusal is not None or step.stop is not None or step.raw:
            return "what to do about an answer that is refused, or not whole, is the loop's own affair"
        if not step.text and not step.calls:
            return "whether to ask again where the model has said nothing is the loop's own affair"
    return None


def _of_failures(scenario: Scenario, capabilities: AbstractSet[Capability]) -> str | None:
    failures = [fault for fault in scenario.faults if fault.fails or fault.body is not None]
    if not failures:
        fails = any(turn.expect is not None and turn.expect.error is not None for turn in scenario.turns)
        return "it ends in an error, which only the loop's caller sees" if fails else None
    if not all(map(_is_mended, failures)):
        return "it ends in a failure, which only the loop's caller sees"
    return None if Capability.RETRIES in capabilities else f"the loop does not have: {Capability.RETRIES.value}"


def _is_mended(fault: FaultSpec) -> bool:
    """Whether the same request sent again, at once, is what mends it."""
    if fault.status is None:
        return False
    again = fault.status >= HTTPStatus.INTERNAL_SERVER_ERROR or fault.status == HTTPStatus.TOO_MANY_REQUESTS
    return again and (fault.retry_after or 0.0) <= _LONG


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
