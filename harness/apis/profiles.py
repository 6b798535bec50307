"""Model profiles, traits and terms of an API, and the opaque state that its provider has issued."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, cast

from harness.apis.fact import Fact, Mechanism, Ruling, Thinking
from harness.apis.limits import Violation
from harness.apis.view import RequestView, ResponseView
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiTerms:
    """Words of one API for remedies; the defaults fit any API.

    `results` is the place of a turn's results, `failed` the mark of a failed tool, `state` the state that must come
    back unchanged, `end` the end of a complete stream.
    """

    system: str = "the field of the API that is made for it"
    call: str = "a call"
    call_id: str = "the id of the call"
    arguments: str = "the arguments of the call"
    result: str = "a result"
    result_id: str = "the call's id in the result"
    results: str = "the turn right after the calls"
    failed: str = "the words of the error"
    tools: str = "the declarations of tools"
    parameters: str = "the schema of the tool's parameters"
    choice: str = "the field for the tool choice"
    json: str = "the field for the form of the answer"
    state: str = "the opaque state of the answer"
    stop: str = "the reason why the model stopped"
    usage: str = "the token counts"
    stream: str = "the API's way of asking for a stream"
    end: str = "the event that ends the stream"

    def fill(self, remedy: str) -> str:
        """Replace placeholders such as `{system}` in a remedy by this API's terms."""
        return remedy.format_map(asdict(self)) if "{" in remedy else remedy


Framing: TypeAlias = Literal["byte-order-mark", "comments"]
"""Legal contents of an event stream besides its events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Differences of an API from others.

    `calls_apart`: a message has one field for text and one for calls, without an order between them.
    `flags_errors`: a result has a field for the failure of its tool. Elsewhere the model gets only the error's text.
    `ids_optional`: a call may go back without an id. Elsewhere it is refused (anthropic-call-fields,
    openai-chat-call-form, openai-responses-call-form).
    `one_turn_for_results`: results of parallel calls in several turns are accepted and do harm. Elsewhere they are
    refused (gemini-responses-counted), or each result is an entry.
    `stop_reason_may_end`: the official SDK accepts a stream with a stop reason and without its last event
    (anthropic-stream-cut-unnoticed).
    `counts_when_asked`: a stream counts its tokens only on request (openai-chat-stream-usage).
    `schema_by_tool`: released libraries request a JSON schema by a forced tool.
    `files_are_pdf`: a file of the user is a PDF; the text of other files goes into a text part
    (openai-chat-file-inline-pdf).
    `strict_unless_told`: a tool without `strict` is strict if its schema can be (openai-responses-strict-default).
    `unread_framings`: framings that no recorded stream has and the official SDK cannot read.
    """

    calls_apart: bool = False
    flags_errors: bool = False
    ids_optional: bool = False
    one_turn_for_results: bool = False
    stop_reason_may_end: bool = False
    counts_when_asked: bool = False
    schema_by_tool: bool = False
    files_are_pdf: bool = False
    strict_unless_told: bool = False
    unread_framings: frozenset[Framing] = frozenset()


class IssuedState:
    """The opaque state that an API has issued in one conversation. This base class never objects.

    `foreign`: the conversation began elsewhere, with state that this provider did not issue here.
    """

    def __init__(self, *, foreign: bool) -> None:
        self.foreign = foreign

    def note(self, response: ResponseView) -> None:
        """Record the state in a response."""

    def objection(self, request: RequestView) -> Violation | None:  # noqa: ARG002 - others look at it
        """Return a violation if a request sends state back altered."""
        return None
