"""A profile: what holds for a model of an API on a day. Data, not code paths: a generation, and what facts say of it.

The first profile of an API whose pattern matches the whole model name wins; the last one of each API matches every
name and claims little, so that nothing is refused for a model that nobody here knows. Sources are facts, by their ids;
a generation has an entry of its own where these say something else of it, and what they contest, or nobody has seen, is
not gated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from harness.apis.fact import Fact, Mechanism, Thinking
from harness.contract.protocols import Capability

Ruling = Literal["taken", "refused", "unclear"]
"""What becomes of a request that has something. `unclear`: sources contradict each other, or nothing but a document
says so, which is worth a warning. Where `None` stands beside it, nobody has seen either, and nothing is said."""

Sampling = Literal["any", "default", "refused", "unclear"]
"""What is taken of temperature and its kin: any value, the default value only, none."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What holds for some models of an API: those whose whole name fits the pattern `models`.

    `call_ids`: the API issues ids for tool calls (`None`: some responses have them, some not).
    `prefill`: a request that ends with an assistant turn (anthropic-no-prefill, gemini-no-model-turn-last).
    `sampling`: temperature and its kin (openai-chat-max-completion-tokens, anthropic-default-sampling-only,
    openai-responses-no-temperature).
    `system_in_messages`: a system turn in mid-conversation (anthropic-system-in-messages, anthropic-system-not-first,
    anthropic-system-directive, anthropic-sonnet-5-system-role, anthropic-system-role-unknown).
    `thought_signatures`: what becomes of a call that goes back without its signature (gemini-thought-signature).
    `thinking`: how reasoning is asked for (anthropic-thinking-form, gemini-level-or-budget).
    `thinking_types`: what becomes of the types of thinking (anthropic-no-thinking-budget,
    anthropic-fable-always-thinks, anthropic-opus-5-5-always-thinks, anthropic-sonnet-5-5-always-thinks), or the levels
    (gemini-no-levels, gemini-no-minimal-level).
    `thinking_up_to_high`: the types that go together with an effort up to high only
    (anthropic-opus-5-disabled-up-to-high, anthropic-between-tools-up-to-high, anthropic-haiku-5-5-thinking).
    `tool_types`: what becomes of versions of the provider's tools at its own service
    (anthropic-old-computer-tool).
    `tools_want_no_reasoning`: function tools are refused unless reasoning is switched off
    (openai-chat-tools-want-no-reasoning).
    `tools_want_effort_none`: function tools are refused where the effort is left out
    (openai-chat-tools-want-effort-none).
    `reasons_by_default`: reasoning is on unless the request switches it off (openai-chat-tools-want-no-reasoning).
    `strict_requests`: the provider's own servers refuse unknown parameters and ids of a foreign form
    (openai-responses-input, openai-responses-call-form).
    `results_adjacent`: no message may stand between a call and its result. Unverified for OpenAI, and refused by
    DeepSeek's Responses endpoint (a recorded 400, and the reports in ranxianglei/billion-context#766).
    `strict_pairing`: all results of a step stand in one turn, under the names of their calls
    (gemini-function-response-form, gemini-responses-counted).
    `mixed_tools`: a server tool beside functions that nothing in the request allows, at the Developer API
    (gemini-mixed-tools-refused).
    `json_mode`, `json_schema`, `json_with_tools`: how each is had (anthropic-output-format, openai-chat-word-json,
    openai-responses-word-json, gemini-json-output).
    `lacks`: capabilities that no adapter has with these models: tools on Chat (openai-chat-tools-want-no-reasoning), a
    forced choice (anthropic-no-forced-choice).
    `facts`: all that hold for the model on the day, at any service.
    `dialect`: how the reference server departs from the API's own grammar and rules, as compatible servers do; one of
    the names that the API's wire package has for them.
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
    """The profile of a model, of those of its API. Gemini's `models/` prefix does not count."""
    bare = model.removeprefix("models/")
    return next(profile for profile in profiles if re.fullmatch(profile.models, bare, re.DOTALL))


def derived(generation: Profile, facts: Sequence[Fact]) -> Profile:
    """The profile of a generation on which these facts hold, in their order: what a later one says overrides.

    A refusal that nobody captured or probed, or that is contested, is unclear.
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
