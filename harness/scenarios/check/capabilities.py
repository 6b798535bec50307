"""Capabilities: a scenario requires those that it makes use of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.contract.model import StopReason
from harness.contract.protocols import Capability
from harness.scenarios.check.problem import Problem
from harness.scenarios.schema import PartSpec, Scenario


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Capabilities that the scenario uses and does not require, or requires and does not use."""
    needed = needs(scenario)
    for capability in sorted(needed - set(scenario.requires)):
        yield Problem(("requires",), f"the scenario uses {capability.value!r}. Add it here.")
    for index, capability in enumerate(scenario.requires):
        if capability not in needed:
            yield Problem(("requires", index), f"nothing in the scenario uses {capability.value!r}. Remove it.")
        elif capability in scenario.requires[:index]:
            yield Problem(("requires", index), f"{capability.value!r} stands here twice.")


def needs(scenario: Scenario) -> frozenset[Capability]:
    """The capabilities that the scenario makes use of."""
    every = [scenario.settings, *(turn.settings for turn in scenario.turns if turn.settings)]
    formats = {type(settings.format()).__name__ for settings in every} - {"NoneType"}
    steps = [step for turn in scenario.turns for step in turn.model]
    said = [part for turn in scenario.turns if not isinstance(turn.user, str) for part in turn.user]
    uses = {
        Capability.SYSTEM_PROMPT: any([scenario.system, *(turn.system for turn in scenario.turns)]),
        Capability.TOOLS: bool(scenario.tools or any(message.calls for message in scenario.history)),
        Capability.PARALLEL_TOOL_CALLS: any(len(message.calls) > 1 for message in (*steps, *scenario.history)),
        Capability.TOOL_CHOICE: any(settings.tool_choice is not None for settings in every),
        Capability.FORCED_TOOL_CHOICE: any(settings.tool_choice not in (None, "auto", "none") for settings in every),
        Capability.JSON_MODE: "JsonMode" in formats,
        Capability.JSON_SCHEMA: "JsonSchema" in formats,
        Capability.JSON_WITH_TOOLS: bool(formats and scenario.tools),
        Capability.VISION: any(part.image for part in said),
        Capability.IMAGE_RESULTS: any(_has_image(result.parts) for tool in scenario.tools for result in tool.results),
        Capability.FILES: any(part.file for part in said),
        Capability.AUDIO: any(part.audio for part in said),
        Capability.THINKING: any(settings.thinking is not None for settings in every),
        Capability.CACHE_MARKS: any(settings.cache for settings in every),
        Capability.HISTORY: bool(len(scenario.turns) > 1 or scenario.history),
        Capability.PROVIDER_TOOLS: bool(scenario.provider_tools),
        Capability.EMBEDDINGS: scenario.embeddings is not None,
        Capability.TRUNCATION: any(step.truncated or step.stop is StopReason.MAX_TOKENS for step in steps),
    }
    return frozenset(capability for capability, used in uses.items() if used)


def _has_image(parts: Iterable[PartSpec] | None) -> bool:
    return any(part.image is not None for part in parts or ())
