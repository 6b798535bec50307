"""Profiles: what holds for a generation of models of an API. Data, not code paths.

The first profile of an API whose pattern matches the whole model name wins; the last one of each API matches every
name and claims little, so that nothing is refused for a model that nobody here knows. Sources are the rule ids of
wire-facts and of dated-facts (with a D: AN-D1); a generation has an entry of its own where these say something else of
it, and what they contest, or nobody has seen, is not gated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from harness.contract.protocols import Capability

Mechanism = Literal["native", "emulated", "unsupported"]

Ruling = Literal["taken", "refused", "unclear"]
"""What becomes of a request that has something. `unclear`: sources contradict each other, or nothing but a document
says so, which is worth a warning. Where `None` stands beside it, nobody has seen either, and nothing is said."""

Sampling = Literal["any", "default", "refused", "unclear"]
"""What is taken of temperature and its kin: any value, the default value only, none."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What holds for some models of `api`.

    `call_ids`: the API issues ids for tool calls (`None`: some responses have them, some not).
    `prefill`: a request that ends with an assistant turn (AN-18, AN-D19, GM-D7).
    `sampling`: temperature and its kin (OC-10, AN-D24, RS-D1).
    `system_in_messages`: a system turn in mid-conversation (AN-31, AN-D10 to AN-D13).
    `thought_signatures`: what becomes of a call that goes back without its signature (GM-10).
    `thinking`: how reasoning is asked for (AN-50, GM-14).
    `thinking_refused`: the types of thinking that are refused (AN-D4 to AN-D6, AN-D28), or the levels (GM-D3, GM-D15).
    `thinking_up_to_high`: the types that go together with an effort up to high only (AN-D7, AN-D30, AN-A3).
    `tool_types_refused`: versions of the provider's tools that its own service refuses with these models (AN-D31).
    `tools_want_no_reasoning`: function tools are refused unless reasoning is switched off (OC-0).
    `reasons_by_default`: reasoning is on unless the request switches it off (OC-0).
    `strict_requests`: the provider's own servers refuse unknown parameters and ids of a foreign form (RS-1, RS-3).
    `results_adjacent`: no message may stand between a call and its result. Unverified for OpenAI, and refused by
    DeepSeek's Responses endpoint (a recorded 400, and the reports in ranxianglei/billion-context#766).
    `strict_pairing`: all results of a step stand in one turn, under the names of their calls (GM-7, GM-8).
    `mixed_tools`: a server tool beside functions that nothing in the request allows, at the Developer API (GM-D1).
    `json_mode`, `json_schema`, `json_with_tools`: how each is had (AN-40, OC-12, RS-8, GM-13).
    `lacks`: capabilities that no adapter has with these models: tools on Chat (OC-D1), a forced choice (AN-D1).
    `dialect`: how the reference server departs from the API's own grammar and rules, as compatible servers do; one of
    the names that the API's wire package has for them.
    """

    name: str
    api: str
    models: str
    call_ids: bool | None = True
    prefill: Ruling | None = "taken"
    sampling: Sampling = "any"
    system_in_messages: Ruling | None = None
    thought_signatures: Literal["required", "optional", "none"] = "none"
    thinking: Literal["adaptive", "budget", "effort", "level", "none"] = "none"
    thinking_refused: frozenset[str] = frozenset()
    thinking_up_to_high: frozenset[str] = frozenset()
    tool_types_refused: frozenset[str] = frozenset()
    tools_want_no_reasoning: bool = False
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


_NO_BUDGET = frozenset({"enabled"})
_ALWAYS_ON = frozenset({"enabled", "disabled"})
_NO_COMPUTER = frozenset({"computer_20251124"})
_NOT_FORCED = frozenset({Capability.FORCED_TOOL_CHOICE})

PROFILES: tuple[Profile, ...] = (
    Profile(
        "claude-4-5",
        "anthropic",
        r"claude-((opus|sonnet|haiku)-4(-[0-5])?(-\d{8})?|3-7-.*|sonnet-4-5.*|haiku-4-5.*)",
        system_in_messages="refused",
        thinking="budget",
        thinking_refused=frozenset({"adaptive"}),
        json_mode="emulated",
    ),
    Profile(
        "claude-4-6",
        "anthropic",
        r"claude-(opus|sonnet)-4-6\b.*",
        prefill="refused",
        system_in_messages="refused",
        thinking="adaptive",
        json_mode="emulated",
    ),
    Profile(
        "claude-4-7",
        "anthropic",
        r"claude-opus-4-7\b.*",
        prefill="refused",
        sampling="default",
        system_in_messages="refused",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        json_mode="emulated",
    ),
    Profile(
        "claude-4-8",
        "anthropic",
        r"claude-opus-4-8\b.*",
        prefill="refused",
        sampling="default",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        json_mode="emulated",
    ),
    Profile(
        "claude-sonnet-5",
        "anthropic",
        r"claude-sonnet-5\b(?!-\d\b).*",
        prefill="refused",
        sampling="default",
        system_in_messages="unclear",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        json_mode="emulated",
    ),
    Profile(
        "claude-fable-5",
        "anthropic",
        r"claude-(fable|mythos)-5\b(?!-\d\b).*",
        prefill="unclear",
        sampling="default",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_ALWAYS_ON,
        json_mode="emulated",
    ),
    Profile(
        "claude-opus-5",
        "anthropic",
        r"claude-opus-5\b(?!-\d\b).*",
        prefill="refused",
        sampling="default",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        thinking_up_to_high=frozenset({"disabled"}),
        json_mode="emulated",
    ),
    Profile(
        "claude-fable-5-1",
        "anthropic",
        r"claude-(fable|mythos)-5-1\b.*",
        prefill="unclear",
        sampling="unclear",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_ALWAYS_ON,
        json_mode="emulated",
        lacks=_NOT_FORCED,
    ),
    Profile(
        "claude-opus-5-5",
        "anthropic",
        r"claude-opus-5-5\b.*",
        prefill="refused",
        sampling="default",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_ALWAYS_ON,
        tool_types_refused=_NO_COMPUTER,
        json_mode="emulated",
        lacks=_NOT_FORCED,
    ),
    Profile(
        "claude-sonnet-5-5",
        "anthropic",
        r"claude-sonnet-5-5\b.*",
        prefill="unclear",
        sampling="unclear",
        system_in_messages="taken",
        thinking="adaptive",
        thinking_refused=_ALWAYS_ON,
        thinking_up_to_high=frozenset({"between_tools"}),
        tool_types_refused=_NO_COMPUTER,
        json_mode="emulated",
        lacks=_NOT_FORCED,
    ),
    Profile(
        "claude-haiku-5-5",
        "anthropic",
        r"claude-haiku-5-5\b.*",
        prefill="refused",
        sampling="default",
        thinking="adaptive",
        thinking_refused=_NO_BUDGET,
        thinking_up_to_high=frozenset({"disabled"}),
        json_mode="emulated",
    ),
    Profile("claude", "anthropic", r".*", prefill=None, thinking="budget", json_mode="emulated"),
    Profile(
        "gpt-6-astra-chat",
        "openai-chat",
        r"gpt-6-astra.*",
        sampling="default",
        reasons_by_default=True,
        lacks=frozenset({Capability.TOOLS, Capability.THINKING}),
    ),
    Profile(
        "gpt-6.1-chat",
        "openai-chat",
        r"gpt-6\.1.*",
        sampling="unclear",
        reasons_by_default=True,
        lacks=frozenset({Capability.TOOLS, Capability.THINKING}),
    ),
    Profile(
        "gpt-5.5-chat",
        "openai-chat",
        r"gpt-(5\.[5-9]|6).*",
        sampling="unclear",
        tools_want_no_reasoning=True,
        reasons_by_default=True,
        lacks=frozenset({Capability.THINKING}),
    ),
    Profile(
        "gpt-5-chat",
        "openai-chat",
        r"gpt-5\.4.*",
        sampling="default",
        tools_want_no_reasoning=True,
        lacks=frozenset({Capability.THINKING}),
    ),
    Profile(
        "o1-preview-chat",
        "openai-chat",
        r"o1-(mini|preview).*",
        sampling="unclear",
        reasons_by_default=True,
        lacks=frozenset({Capability.SYSTEM_PROMPT, Capability.TOOLS, Capability.THINKING}),
    ),
    Profile(
        "gpt-5-mini-chat",
        "openai-chat",
        r"gpt-5-(mini|nano).*",
        sampling="default",
        reasons_by_default=True,
        lacks=frozenset({Capability.THINKING}),
    ),
    Profile(
        "o-series-chat",
        "openai-chat",
        r"(o[134]|gpt-5(\.[1-3])?)(-(?!chat).*)?",
        sampling="unclear",
        reasons_by_default=True,
        lacks=frozenset({Capability.THINKING}),
    ),
    Profile(
        "mistral-chat",
        "openai-chat",
        r"(mistral|ministral|magistral|codestral|devstral|pixtral)-.*",
        lacks=frozenset({Capability.THINKING}),
        dialect="mistral",
    ),
    Profile("openai-chat", "openai-chat", r".*", lacks=frozenset({Capability.THINKING})),
    Profile(
        "gpt-5.6-responses",
        "openai-responses",
        r"(gpt-5\.[26]|gpt-6-astra)\b.*",
        sampling="refused",
        thinking="effort",
        strict_requests=True,
    ),
    Profile(
        "gpt-5-responses",
        "openai-responses",
        r"(gpt-[56]|o[134]).*",
        sampling="unclear",
        thinking="effort",
        strict_requests=True,
    ),
    Profile(
        "gpt-4-responses",
        "openai-responses",
        r"(gpt-4|chatgpt-4).*",
        strict_requests=True,
        lacks=frozenset({Capability.THINKING}),
    ),
    Profile(
        "deepseek-responses",
        "openai-responses",
        r"deepseek.*",
        results_adjacent=True,
        lacks=frozenset({Capability.THINKING}),
    ),
    Profile("openai-responses", "openai-responses", r".*", lacks=frozenset({Capability.THINKING})),
    Profile(
        "gemini-3.7",
        "gemini",
        r"gemini-3\.[78]\b.*",
        prefill="refused",
        thought_signatures="required",
        strict_pairing=True,
        mixed_tools="refused",
        thinking="level",
        thinking_refused=frozenset({"MINIMAL"}),
    ),
    Profile(
        "gemini-3.6",
        "gemini",
        r"gemini-3\.(6\b|5-flash-lite).*",
        prefill="refused",
        thought_signatures="required",
        strict_pairing=True,
        mixed_tools="refused",
        thinking="level",
    ),
    Profile(
        "gemini-3-ids",
        "gemini",
        r"gemini-3\.[1-9].*",
        thought_signatures="required",
        strict_pairing=True,
        mixed_tools="refused",
        thinking="level",
    ),
    Profile(
        "gemini-3",
        "gemini",
        r"gemini-3.*",
        call_ids=None,
        thought_signatures="required",
        strict_pairing=True,
        mixed_tools="refused",
        thinking="level",
    ),
    Profile(
        "gemini-2",
        "gemini",
        r"gemini-2.*",
        call_ids=False,
        thought_signatures="optional",
        mixed_tools="refused",
        thinking="budget",
        thinking_refused=frozenset({"MINIMAL", "LOW", "MEDIUM", "HIGH"}),
        json_with_tools="unsupported",
        lacks=frozenset({Capability.JSON_WITH_TOOLS, Capability.IMAGE_RESULTS}),
    ),
    Profile("gemini", "gemini", r".*", call_ids=None, thought_signatures="optional", thinking="budget"),
    Profile("claude-cli", "claude-cli", r".*"),
)


def profile_for(api: str, model: str) -> Profile:
    """The profile of a model. Gemini's `models/` prefix does not count."""
    bare = model.removeprefix("models/")
    return next(profile for profile in PROFILES if profile.api == api and re.fullmatch(profile.models, bare, re.DOTALL))


def profile_named(name: str) -> Profile | None:
    """The profile with this name."""
    return next((profile for profile in PROFILES if profile.name == name), None)
