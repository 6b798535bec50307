"""Model profiles, and the targets that an API ships."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from harness.apis.fact import Fact, Mechanism, Ruling, Thinking
from harness.model.protocols import Capability

Sampling = Literal["any", "default", "refused", "unclear"]
"""Accepted values of temperature and similar settings: any, the default only, none."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Capabilities of some models of an API: those whose whole name fits the pattern `models`.

    A profile is data, not code. The first profile of an API that matches the whole model name applies; the last one
    matches every name and claims little, so that nothing is refused for an unknown model. Facts change profiles.

    `call_ids`: the API issues ids for tool calls (`None`: in some responses).
    `prefill`: acceptance of a request that ends with an assistant turn (anthropic-no-prefill,
    gemini-no-model-turn-last).
    `sampling`: accepted values of temperature and similar settings (openai-chat-max-completion-tokens,
    anthropic-default-sampling-only, openai-responses-no-temperature).
    `system_in_messages`: acceptance of a system turn in mid-conversation (anthropic-system-in-messages,
    anthropic-system-not-first, anthropic-system-directive, anthropic-sonnet-5-system-role,
    anthropic-system-role-unknown).
    `thought_signatures`: whether a call may go back without its signature (gemini-thought-signature).
    `thinking`: control of reasoning (anthropic-thinking-form, gemini-level-or-budget).
    `thinking_types`: acceptance of the types of thinking (anthropic-no-thinking-budget, anthropic-fable-always-thinks,
    anthropic-opus-5-5-always-thinks, anthropic-sonnet-5-5-always-thinks), or of the levels (gemini-no-levels,
    gemini-no-minimal-level).
    `thinking_up_to_high`: types that only work with an effort up to high (anthropic-opus-5-disabled-up-to-high,
    anthropic-between-tools-up-to-high, anthropic-haiku-5-5-thinking).
    `tool_types`: acceptance of versions of the provider's tools at its own service (anthropic-old-computer-tool).
    `tools_want_no_reasoning`: function tools are refused unless reasoning is off (openai-chat-tools-want-no-reasoning).
    `tools_want_effort_none`: function tools are refused without an effort (openai-chat-tools-want-effort-none).
    `reasons_by_default`: the model reasons unless the request disables it (openai-chat-tools-want-no-reasoning).
    `strict_requests`: the provider's servers refuse unknown parameters and ids of a foreign form
    (openai-responses-input, openai-responses-call-form).
    `results_adjacent`: no message may come between a call and its result. Unverified for OpenAI; DeepSeek's Responses
    endpoint refuses it (a recorded 400, and the reports in ranxianglei/billion-context#766).
    `strict_pairing`: one turn must hold all results of a step, under the names of their calls
    (gemini-function-response-form, gemini-responses-counted).
    `mixed_tools`: acceptance of a server tool with functions, without a permission in the request, at the Developer
    API (gemini-mixed-tools-refused).
    `json_mode`, `json_schema`, `json_with_tools`: availability of each (anthropic-output-format, openai-chat-word-json,
    openai-responses-word-json, gemini-json-output).
    `lacks`: capabilities that no adapter has with these models: tools on Chat (openai-chat-tools-want-no-reasoning), a
    forced choice (anthropic-no-forced-choice).
    `facts`: all facts about the model on the day, at any service.
    `dialect`: name of the dialect in which the reference server departs from the API, as compatible servers do.
    """

    name: str
    models: str
    call_ids: bool | None = True
    prefill: Ruling | None = "taken"
    sampling: Sampling = "any"
    system_in_messages: Ruling | None = None
    thought_signatures: Literal["required", "optional", "none"] = "none"
    thinking: Thinking = "none"
    thinking_types: Mapping[str, Ruling] = field(default_factory=dict[str, Ruling])
    thinking_up_to_high: frozenset[str] = frozenset()
    tool_types: Mapping[str, Ruling] = field(default_factory=dict[str, Ruling])
    tools_want_no_reasoning: bool = False
    tools_want_effort_none: bool = False
    reasons_by_default: bool = False
    strict_requests: bool = False
    results_adjacent: bool = False
    strict_pairing: bool = False
    mixed_tools: Ruling | None = None
    json_mode: Mechanism = "native"
    json_schema: Mechanism = "native"
    json_with_tools: Mechanism = "native"
    lacks: frozenset[Capability] = frozenset()
    dialect: str | None = None
    facts: tuple[Fact, ...] = field(default=(), compare=False, repr=False)


def matching(profiles: Sequence[Profile], model: str) -> Profile:
    """Return the profile of a model. Gemini's prefix `models/` is ignored."""
    bare = model.removeprefix("models/")
    return next(profile for profile in profiles if re.fullmatch(profile.models, bare, re.DOTALL))


def derived(generation: Profile, facts: Sequence[Fact]) -> Profile:
    """Return the profile of a generation with the effects of facts; later facts override earlier ones.

    An uncertain refusal becomes `unclear`.
    """
    said: dict[str, Any] = {}
    for fact in facts:
        for name in fact.profile.model_fields_set if fact.profile else ():
            value: Any = getattr(fact.profile, name)
            before = said.get(name, getattr(generation, name))
            said[name] = _merged(before, value, certain=fact.is_certain)
    return replace(generation, facts=tuple(facts), **said)


def _merged(before: Any, value: Any, *, certain: bool) -> Any:
    if isinstance(value, list):
        return frozenset[Any](before).union(cast("list[Any]", value))
    if isinstance(value, dict):
        told = cast("dict[str, Any]", value)
        return {**before, **{key: _ruling(each, certain=certain) for key, each in told.items()}}
    return _ruling(value, certain=certain)


def _ruling(value: Any, *, certain: bool) -> Any:
    return "unclear" if not certain and value in ("refused", "default") else value


@dataclass(frozen=True, slots=True)
class ShippedTarget:
    """A built-in target with recordings. Its adapter is not loaded."""

    name: str
    adapter: str
    api: str
    model: str
