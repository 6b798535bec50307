"""Every feature of `harness list features` that an adapter loses fails, on every API that has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.model.messages import (
    ChatRequest,
    ChatResponse,
    File,
    Image,
    Opaque,
    Part,
    Role,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from harness.model.protocols import Adapter
from harness.reports.published_reports import FEATURES
from harness.results import Verdict
from harness.runner.cells import not_applicable_reason
from tests.broken.fault import Wrap, answers, asks, edited_message, edited_parts
from tests.broken.running import cell, run_cell

TARGETS = ("anthropic-opus-5", "openai-chat", "openai-responses", "gemini-3")
"""One target for each API. It has every feature of its API."""

OTHER_NAME = "tides_read"

Loss = Callable[[ChatRequest], ChatRequest]


def setting(**values: object) -> Loss:
    return lambda request: replace(request, **values)  # type: ignore[arg-type]


def part(kind: type, *, of: Role | None = None) -> Loss:
    """Drop the parts of this kind, and those in results."""

    def kept(each: Part) -> Part | None:
        if isinstance(each, ToolResult) and isinstance(each.content, tuple):
            return replace(each, content=tuple(inner for inner in each.content if not isinstance(inner, kind)))
        return None if isinstance(each, kind) else each

    def lose(request: ChatRequest) -> ChatRequest:
        messages = (edited_message(each, kept) if of in (None, each.role) else each for each in request.messages)
        return replace(request, messages=tuple(each for each in messages if each.parts))

    return lose


def metadata(kind: type) -> Loss:
    return lambda request: edited_parts(
        request, lambda each: replace(each, provider_metadata={}) if isinstance(each, kind) else each
    )


def of_tools(request: ChatRequest) -> ChatRequest:
    return replace(request, tools=tuple(replace(tool, provider_metadata={}) for tool in request.tools))


def with_another_name(each: Part) -> Part:
    return replace(each, name=OTHER_NAME) if isinstance(each, ToolCall | ToolResult) else each


def with_other_names(request: ChatRequest) -> ChatRequest:
    tools = tuple(replace(tool, name=OTHER_NAME) for tool in request.tools)
    return replace(edited_parts(request, with_another_name), tools=tools)


def with_the_names_given(response: ChatResponse) -> ChatResponse:
    def renamed(part: Part) -> Part:
        return replace(part, name="tides/read") if isinstance(part, ToolCall) else part

    return replace(response, message=edited_message(response.message, renamed))


def all_but_one_call(response: ChatResponse) -> ChatResponse:
    first = response.tool_calls[:1]
    parts = (each for each in response.message.parts if not isinstance(each, ToolCall) or each in first)
    return replace(response, message=replace(response.message, parts=tuple(parts)))


FIELDS, CALL_STATE, OPAQUE = setting(provider_metadata={}), metadata(ToolCall), part(Opaque, of=Role.ASSISTANT)
LOSSES: dict[str, Wrap] = {
    name: asks(loss)
    for name, loss in {
        "system prompt": setting(system=None),
        "system prompt that changes": setting(system="You are a pilot."),
        "system prompt in blocks": FIELDS,
        "system text in mid-conversation": part(Opaque, of=Role.USER),
        "parallel calls switched off": FIELDS,
        "forced tool choice": setting(tool_choice="auto"),
        "named tool choice": setting(tool_choice="auto"),
        "choice among some tools": FIELDS,
        "strict tools": of_tools,
        "deferred tools, tool search": of_tools,
        "tool names beyond the API's alphabet": with_other_names,
        "calls by programs": CALL_STATE,
        "asynchronous tools": CALL_STATE,
        "provider tools": OPAQUE,
        "free-form tools": part(Opaque, of=Role.USER),
        "computer use": part(Opaque, of=Role.USER),
        "approval of calls": part(Opaque, of=Role.USER),
        "compaction": OPAQUE,
        "context editing": FIELDS,
        "conversations kept by the provider": FIELDS,
        "responses not stored": FIELDS,
        "thinking sent back": lambda request: part(Thinking)(CALL_STATE(request)),
        "cache marks": setting(cache=False),
        "JSON mode": setting(response_format=None),
        "JSON schema": setting(response_format=None),
        "JSON with tools": setting(response_format=None),
        "images": part(Image),
        "files": part(File),
        "audio": part(File),
        "images in results": part(Image),
        "citations": lambda request: OPAQUE(metadata(Text)(request)),
        "service tier": FIELDS,
        "request metadata": FIELDS,
        "seed": FIELDS,
        "safety settings": FIELDS,
        "fields for one turn": FIELDS,
    }.items()
} | {
    "parallel calls": answers(all_but_one_call),
    "continued responses": answers(lambda response: replace(response, id=None)),
    "paused turns": answers(lambda response: replace(response, stop_reason=StopReason.END_TURN)),
    "refusals": answers(lambda response: replace(response, stop_reason=StopReason.END_TURN)),
    "calls with empty arguments": answers(
        lambda response: replace(response, message=replace(response.message, parts=()))
    ),
}
"""Adapters that each lose one feature."""

UNSEEN = {
    *(("cache marks", target) for target in TARGETS[1:]),  # these APIs cache every prefix and have no marks
    ("responses not stored", "openai-responses"),  # the shipped adapter asks for it anyway
}

CASES = [
    (name, target)
    for name in LOSSES
    for target in TARGETS
    if (name, target) not in UNSEEN and not_applicable_reason(cell(FEATURES[name][0], target), "reference") is None
]


def test_every_feature_is_lost_by_an_adapter() -> None:
    assert LOSSES.keys() | {"embeddings"} == FEATURES.keys()  # for embeddings, see tests/broken/embeddings.py


@pytest.mark.parametrize("target", TARGETS)
def test_a_name_that_is_replaced_and_given_back_passes(target: str) -> None:
    def replaced(adapter: Adapter) -> Adapter:
        return answers(with_the_names_given)(asks(with_other_names)(adapter))

    assert run_cell("tool-name-uncommon", target, replaced).verdict is Verdict.PASS


@pytest.mark.parametrize(("feature", "target"), CASES)
def test_a_lost_feature_fails(feature: str, target: str) -> None:
    assert run_cell(FEATURES[feature][0], target, LOSSES[feature]).verdict is Verdict.FAIL
