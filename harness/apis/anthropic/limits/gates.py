"""What some models refuse of what others take: forced tool choice, types of thinking and of tools, sampling."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.anthropic import limits
from harness.apis.anthropic.limits.conversation import objects
from harness.apis.anthropic.limits.terms import Terms
from harness.apis.jsonvalue import join
from harness.apis.limit import Violation, severity_of
from harness.contract.model import JSON
from harness.contract.protocols import Capability

_BEYOND_HIGH = ("xhigh", "max")
_LEAST_TOP_P = 0.99
"""Of `top_p` no source says which value is the default; one that cuts next to nothing off is taken for it."""


def gate_limits(body: dict[str, JSON], terms: Terms) -> Iterator[Violation]:
    """anthropic-no-forced-choice, anthropic-no-thinking-budget, anthropic-fable-always-thinks,
    anthropic-opus-5-5-always-thinks, anthropic-opus-5-disabled-up-to-high, anthropic-default-sampling-only,
    anthropic-sonnet-5-5-always-thinks, anthropic-between-tools-up-to-high, anthropic-old-computer-tool."""
    yield from _forced_choice(body, terms)
    yield from _thinking(body, terms)
    if terms.knows_tools:
        yield from _tool_types(body, terms)
    if not terms.surface.strict_version:  # which refuses them on every model, whatever their value
        yield from _sampling(body, terms)


def _forced_choice(body: dict[str, JSON], terms: Terms) -> Iterator[Violation]:
    choice = body.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind in ("any", "tool") and Capability.FORCED_TOOL_CHOICE in terms.profile.lacks:
        message = 'tool_choice: type "tool" and "any" are not supported for this model.'
        yield limits.CHOICE_FORCED.broken(message, "/tool_choice", actual=kind, expected="auto")


def _thinking(body: dict[str, JSON], terms: Terms) -> Iterator[Violation]:
    thinking, config = body.get("thinking"), body.get("output_config")
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    effort = config.get("effort") if isinstance(config, dict) else None
    if not isinstance(kind, str):
        return
    refused = severity_of(terms.profile.thinking_types.get(kind))
    if refused:
        message = (
            f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.'
        )
        if kind == "adaptive":
            message = "adaptive thinking is not supported on this model"
        yield limits.THINKING_UNSUPPORTED.broken(message, "/thinking", actual=kind, severity=refused)
    elif kind in terms.profile.thinking_up_to_high and effort in _BEYOND_HIGH:
        message = f'"thinking.type.{kind}" goes together with an effort up to high on this model.'
        yield limits.THINKING_EFFORT.broken(message, "/thinking", actual=effort, expected="high")


def _tool_types(body: dict[str, JSON], terms: Terms) -> Iterator[Violation]:
    for pointer, tool in objects(body.get("tools"), "/tools"):
        kind = tool.get("type")
        severity = severity_of(terms.profile.tool_types.get(kind)) if isinstance(kind, str) else None
        if severity:
            message = f"'{body.get('model')}' does not support tool types: {kind}."
            yield limits.TOOL_TYPE.broken(message, join(pointer, "type"), actual=kind, severity=severity)


def _sampling(body: dict[str, JSON], terms: Terms) -> Iterator[Violation]:
    for key in ("temperature", "top_p", "top_k"):
        value = body.get(key)
        if value is None or terms.profile.sampling == "any" or _is_default(key, value):
            continue
        severity = "warning" if terms.profile.sampling == "unclear" else "error"
        message = f"`{key}` is deprecated for this model."
        yield limits.SAMPLING.broken(message, f"/{key}", actual=value, severity=severity)


def _is_default(key: str, value: JSON) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    match key:
        case "temperature":
            return value == 1
        case "top_p":
            return value >= _LEAST_TOP_P
        case _:
            return False
