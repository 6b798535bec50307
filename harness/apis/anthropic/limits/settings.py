"""The fields of a request besides messages and system, and how they go together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits import strictness
from harness.apis.anthropic.limits.blocks import is_prefill
from harness.apis.anthropic.limits.conversation import Entry, nested, objects
from harness.apis.anthropic.limits.gates import gate_limits
from harness.apis.anthropic.limits.shapes import (
    ANY,
    BOOLEAN,
    INTEGER,
    LIST,
    NUMBER,
    OBJECT,
    STRING,
    TEXT_OR_LIST,
    Shape,
    member_limits,
)
from harness.apis.anthropic.limits.terms import Surface, Terms
from harness.apis.anthropic.limits.tools import is_custom
from harness.apis.anthropic.requests import is_continued
from harness.apis.entries import entrywise
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation
from harness.contract.model import JSON

_BODY = Shape(
    "anthropic-required-fields",
    {"model": STRING, "max_tokens": INTEGER, "messages": LIST},
    {
        "cache_control": OBJECT,
        "container": ANY,
        "diagnostics": OBJECT,
        "inference_geo": STRING,
        "metadata": OBJECT,
        "output_config": OBJECT,
        "service_tier": STRING,
        "speed": STRING,
        "stop_sequences": LIST,
        "stream": BOOLEAN,
        "system": TEXT_OR_LIST,
        "temperature": NUMBER,
        "thinking": OBJECT,
        "tool_choice": OBJECT,
        "tools": LIST,
        "top_k": INTEGER,
        "top_p": NUMBER,
    },
    {
        "billing_policy": ANY,
        "compaction": ANY,
        "context_management": ANY,
        "fallback_credit_token": ANY,
        "fallbacks": ANY,
        "mcp_servers": LIST,
        "output_format": OBJECT,
        "thread": ANY,
    },
)
_TOOL = Shape(
    "anthropic-tool-schema-object",
    {},  # name and schema are for `tools`
    {
        "allowed_callers": LIST,
        "cache_control": OBJECT,
        "defer_loading": BOOLEAN,
        "description": STRING,
        "eager_input_streaming": BOOLEAN,
        "input_examples": LIST,
        "input_schema": ANY,
        "name": ANY,
        "strict": BOOLEAN,
        "type": STRING,
    },
)
_PARALLEL = {"disable_parallel_tool_use": BOOLEAN}
_CHOICES = {
    "auto": Shape("anthropic-choice-form", {"type": STRING}, _PARALLEL),
    "any": Shape("anthropic-choice-form", {"type": STRING}, _PARALLEL),
    "none": Shape("anthropic-choice-form", {"type": STRING}),
    "tool": Shape("anthropic-choice-form", {"type": STRING, "name": STRING}, _PARALLEL),
}
_THINKING = {
    "adaptive": Shape("anthropic-thinking-form", {"type": STRING}, {"display": STRING}, {"block_binding": ANY}),
    "between_tools": Shape("anthropic-thinking-form", {"type": STRING}, {"display": STRING}, {"block_binding": ANY}),
    "disabled": Shape("anthropic-thinking-form", {"type": STRING}),
    "enabled": Shape(
        "anthropic-thinking-budget-form",
        {"type": STRING, "budget_tokens": INTEGER},
        {"display": STRING},
        {"block_binding": ANY},
    ),
}
_LEAST_BUDGET = 1024
_OUTPUT = Shape("anthropic-output-format", {}, {"effort": STRING, "format": OBJECT}, {"task_budget": OBJECT})
_FORMAT = Shape("anthropic-output-format", {"type": STRING, "schema": OBJECT})
_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_SAMPLING = ("temperature", "top_p", "top_k")


def setting_limits(body: dict[str, JSON], conversation: Sequence[Entry], terms: Terms) -> Iterator[Violation]:
    """anthropic-required-fields, anthropic-tools-with-history, anthropic-choice-form, anthropic-parallel-switch,
    anthropic-no-extra-inputs, anthropic-output-format, anthropic-effort-levels, anthropic-thinking-form, and what holds
    for some models only."""
    yield from _BODY.limits(body, "", terms.surface)
    yield from _sizes(body)
    if terms.surface.strict_version:
        for key in _SAMPLING:
            if body.get(key) is not None:
                message = f"{key}: Extra inputs are not permitted"
                yield limits.SAMPLING.broken(message, f"/{key}", actual=body[key])
    yield from _tools(body, conversation, terms)
    yield from _choice(body, terms)
    yield from _thinking(body, terms)
    yield from _output(body, conversation, terms)
    yield from gate_limits(body, terms)


def _sizes(body: dict[str, JSON]) -> Iterator[Violation]:
    messages, most = body.get("messages"), body.get("max_tokens")
    if messages == []:
        yield limits.MESSAGES_EMPTY.broken("messages: at least one message is required", "/messages")
    for key in ("messages", "tools"):
        yield from member_limits(body.get(key), join("", key))
    if isinstance(most, int) and most < 0:  # 0 only warms the cache
        message = "max_tokens: Input should be greater than or equal to 0"
        yield limits.MAX_TOKENS.broken(message, "/max_tokens", actual=most)
    if body.get("model") == "":
        message = "model: String should have at least 1 character"
        yield limits.FIELD_MISSING.broken(message, "/model", actual="")


def _tools(body: dict[str, JSON], conversation: Sequence[Entry], terms: Terms) -> Iterator[Violation]:
    for found in _shapes(terms.surface)(body.get("tools"), "/tools"):
        yield from found
    if not body.get("tools") and not is_continued(body):
        used = [block for entry in conversation for block in entry.blocks if block.kind in ("tool_use", "tool_result")]
        if used:
            message = "Requests which include `tool_use` or `tool_result` blocks must define tools."
            yield limits.TOOLS_MISSING.broken(message, used[0].pointer)


@cache
def _shapes(surface: Surface) -> Callable[[JSON, str], Sequence[Sequence[Violation]]]:
    """What is wrong with the fields of each tool that the caller runs."""

    def of(tool: JSON, pointer: str) -> Sequence[Violation]:
        return [*_TOOL.limits(tool, pointer, surface)] if isinstance(tool, dict) and is_custom(tool) else ()

    return entrywise(of)


def _choice(body: dict[str, JSON], terms: Terms) -> Iterator[Violation]:
    choice, thinking, place = body.get("tool_choice"), body.get("thinking"), "/tool_choice"
    if not isinstance(choice, dict):
        return
    kind = choice.get("type")
    shape = _CHOICES.get(kind) if isinstance(kind, str) else None
    if shape is None:
        message = f"tool_choice: Input tag {kind!r} does not match any of the expected tags: {', '.join(_CHOICES)}"
        yield limits.CHOICE_TYPE.broken(message, place, actual=kind, expected=[*_CHOICES])
        return
    yield from shape.limits(choice, place, terms.surface)
    if kind in ("any", "tool") and isinstance(thinking, dict) and thinking.get("type") == "enabled":
        message = "Thinking may not be enabled when tool_choice forces tool use."
        yield limits.CHOICE_THINKING.broken(message, place, actual=kind)
    if is_continued(body) and not body.get("tools"):  # the server remembers them
        return
    if not body.get("tools"):
        message = "tool_choice: may only be specified while providing tools"
        yield limits.CHOICE_WITHOUT_TOOLS.broken(message, place, actual=kind)
    elif kind == "tool" and choice.get("name") not in [tool.get("name") for _, tool in objects(body["tools"], "")]:
        message = f"tool_choice: Tool '{choice.get('name')}' not found in provided tools"
        yield limits.CHOICE_UNKNOWN.broken(message, place, actual=choice.get("name"))


def _thinking(body: dict[str, JSON], terms: Terms) -> Iterator[Violation]:
    thinking = body.get("thinking")
    if not isinstance(thinking, dict):
        return
    kind = thinking.get("type")
    shape = _THINKING.get(kind) if isinstance(kind, str) else None
    if shape is None:
        message = f"thinking: Input tag {kind!r} does not match any of the expected tags: {', '.join(_THINKING)}"
        yield limits.THINKING_TYPE.broken(
            message, "/thinking", actual=kind, expected=[*_THINKING], severity=terms.surface.unknown
        )
        return
    yield from shape.limits(thinking, "/thinking", terms.surface)
    budget, most = thinking.get("budget_tokens"), body.get("max_tokens")
    place = "/thinking/budget_tokens"
    if not isinstance(budget, int):
        return
    if budget < _LEAST_BUDGET:
        message = f"thinking.enabled.budget_tokens: Input should be greater than or equal to {_LEAST_BUDGET}"
        yield limits.THINKING_BUDGET.broken(message, place, actual=budget, expected=_LEAST_BUDGET)
    elif (
        isinstance(most, int) and budget >= most and not terms.surface.betas_named
    ):  # interleaved thinking lifts this bound
        message = "`max_tokens` must be greater than `thinking.budget_tokens`"
        yield limits.THINKING_BUDGET.broken(message, place, actual=budget, expected=most)


def _output(body: dict[str, JSON], conversation: Sequence[Entry], terms: Terms) -> Iterator[Violation]:
    config = body.get("output_config")
    if not isinstance(config, dict):
        return
    yield from _OUTPUT.limits(config, "/output_config", terms.surface)
    effort, place = config.get("effort"), "/output_config/format"
    if isinstance(effort, str) and effort not in _EFFORTS:
        message = f"output_config.effort: Input should be one of {', '.join(_EFFORTS)}"
        yield limits.EFFORT.broken(message, "/output_config/effort", actual=effort, expected=[*_EFFORTS])
    wanted = config.get("format")
    if not isinstance(wanted, dict):
        return
    yield from _FORMAT.limits(wanted, place, terms.surface)
    kind, schema = wanted.get("type", "json_schema"), wanted.get("schema")
    if kind != "json_schema":
        message = "output_config.format.type: Input should be 'json_schema'"
        yield limits.FORMAT_TYPE.broken(message, place, actual=kind, expected="json_schema")
    if isinstance(schema, dict):
        yield from strictness.schema_limits(schema, join(place, "schema"))
    yield from _format_company(conversation, place)


def _format_company(conversation: Sequence[Entry], place: str) -> Iterator[Violation]:
    if conversation and is_prefill(conversation[-1]):
        message = "output_config.format: not supported together with a prefilled assistant message"
        yield limits.FORMAT_PREFILL.broken(message, place)
    for entry in conversation:
        for block in entry.blocks:
            for inner in (block, *nested(block)):
                citations = inner.data.get("citations")
                if isinstance(citations, dict) and citations.get("enabled") is True:
                    message = f"{inner.path}.citations: not supported together with output_config.format"
                    pointer = join(inner.pointer, "citations")
                    yield limits.FORMAT_CITATIONS.broken(message, pointer)
