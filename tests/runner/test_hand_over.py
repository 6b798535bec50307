"""Conversations that begin on one target and continue on another."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from harness.apis import registry
from harness.model.messages import ChatRequest, Image, Message, Part, Refusal, Text, Thinking, ToolCall, ToolResult
from harness.results import CellResult, HandOverOutcome, Verdict
from harness.runner.cells import Cell
from harness.runner.hand_over import CASES, HandOverCell, hand_over_cells
from harness.runner.suite_run import Run
from harness.scenarios.schema import Variant
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.broken.fault import Wrap, asks, asks_messages, asks_parts, sends
from tests.broken.running import RULES, said
from tests.examples import plain_http

TARGETS = ("anthropic", "openai-chat", "openai-responses", "gemini-4", "gemini-2.5")


@cache
def _cells(variant: Variant = "whole") -> dict[tuple[str, str, str], HandOverCell]:
    targets = [shipped_targets()[name] for name in TARGETS]
    scenarios = {case.scenario: shipped_scenarios()[case.scenario] for case in CASES}
    cells = hand_over_cells(scenarios.values(), targets, targets, [variant])
    return {(cell.case.name, cell.source.name, cell.target.name): cell for cell in cells}


def handed(case: str, source: str, target: str, wrap: Wrap | None = None, variant: Variant = "whole") -> CellResult:
    """The result of a hand-over to a shipped adapter, or to what `wrap` makes of it."""
    cell: Cell = _cells(variant)[case, source, target]
    if wrap is not None:
        cell = replace(cell, target=replace(cell.target, adapter=wrap(cell.target.adapter)))
    return Run(InProcess(), RULES, strict=True)([cell]).cells[0]


def test_no_shipped_adapter_loses_anything() -> None:
    result = Run(InProcess(), RULES)(list(_cells().values()), jobs=1)
    found = [cell for cell in result.cells if cell.hand_over is not None]
    assert {cell.hand_over.outcome for cell in found if cell.hand_over} == {*HandOverOutcome} - {HandOverOutcome.LOST}
    assert not [
        (cell.scenario, cell.target, said(cell.findings)) for cell in result.cells if cell.verdict is Verdict.FAIL
    ]
    assert not [cell.reason for cell in result.cells if cell.verdict is Verdict.ERROR]
    pairs = {(cell.hand_over.source, cell.target) for cell in found if cell.hand_over}
    assert len(pairs) == len(TARGETS) * (len(TARGETS) - 1)


@pytest.mark.parametrize(
    ("case", "source", "target", "outcome", "words"),
    [
        ("ids-illegal", "openai-chat", "anthropic", "translated", "'functions.list_files:0' becomes 'toolu_"),
        ("ids-illegal", "anthropic", "openai-chat", "preserved", "keep their id"),
        ("ids-repeated", "openai-chat", "anthropic", "preserved", "keep their id"),
        ("ids-absent", "anthropic", "openai-responses", "translated", "a call without an id gets 'call_"),
        ("ids-own", "gemini-2.5", "gemini-4", "translated", "without ids"),
        ("reasoning-results", "anthropic", "gemini-4", "dropped", "another model's"),
        ("state-results", "gemini-2.5", "gemini-4", "preserved", "belongs to this API"),
        ("provider-tools", "anthropic", "openai-chat", "dropped", "no other API can read it"),
        ("media-result", "anthropic", "openai-chat", "translated", "user message"),
        ("media-result", "anthropic", "gemini-2.5", "refused", "takes JSON only"),
        ("error-text", "openai-chat", "anthropic", "preserved", "field for errors"),
        ("refusal", "openai-responses", "gemini-4", "translated", "sent as text"),
        ("unanswered", "gemini-4", "openai-responses", "dropped", "refuses calls without results"),
        ("name-dotted", "gemini-4", "openai-chat", "refused", "requires names that match"),
    ],
)
def test_the_outcome_follows_the_subject(case: str, source: str, target: str, outcome: str, words: str) -> None:
    result = handed(case, source, target)
    assert result.hand_over is not None
    assert (result.hand_over.outcome.value, result.verdict is Verdict.FAIL) == (outcome, False)
    assert words in result.hand_over.reason


def test_an_id_that_the_caller_repeats_may_become_one_id() -> None:
    mistral = registry.target_for(registry.target_named("mistral"), shipped_targets()["openai-chat"].adapter, {})
    scenarios = [shipped_scenarios()["call-parallel-twice"]]
    cells = hand_over_cells(scenarios, [mistral], [shipped_targets()["anthropic"]])
    found = [cell for cell in cells if (cell.case.name, cell.target.name) == ("ids-repeated", "mistral")]
    [result] = Run(InProcess(), RULES)(found).cells
    assert result.hand_over is not None
    assert (result.verdict, result.hand_over.outcome) == (Verdict.PASS, HandOverOutcome.TRANSLATED)


def _of_own_api(api: str, fields: Callable[[str], dict[str, Any]]) -> Wrap:
    """State of another API is sent in the fields of this one."""

    def edit(part: Part) -> Part:
        if not isinstance(part, Thinking | ToolCall) or not part.provider_metadata or api in part.provider_metadata:
            return part
        state = next(
            (text for value in part.provider_metadata.values() for text in _texts(value) if len(text) > 20), None
        )
        return part if state is None else replace(part, provider_metadata={api: fields(state)})

    return asks_parts(edit)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in held for text in _texts(each)]


def _first_id_changed(api: str, body: dict[str, Any]) -> None:
    """The id of the first call is made anew, and that of its result is not."""
    if api == "anthropic":
        next(block for message in body["messages"] for block in message["content"] if block["type"] == "tool_use")[
            "id"
        ] = "toolu_anew"
    elif api == "openai-chat":
        next(message for message in body["messages"] if "tool_calls" in message)["tool_calls"][0]["id"] = "call_anew"
    elif api == "openai-responses":
        next(item for item in body["input"] if item.get("type") == "function_call")["call_id"] = "call_anew"
    else:
        parts = [part for content in body["contents"] for part in content["parts"]]
        next(part for part in parts if "functionCall" in part)["functionCall"]["id"] = "anew"


def _long_ids(_api: str, body: dict[str, Any]) -> None:
    """Calls and their results keep ids that are too long."""
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call["id"] += "x" * 70
        if message["role"] == "tool":
            message["tool_call_id"] += "x" * 70


def _one_id(_api: str, body: dict[str, Any]) -> None:
    """All calls without an id get the same one."""
    for block in (block for message in body["messages"] for block in message["content"]):
        if block["type"] == "tool_use":
            block["id"] = "tool_use_id"
        if block["type"] == "tool_result":
            block["tool_use_id"] = "tool_use_id"


def _without_images(part: Part) -> Part:
    if isinstance(part, ToolResult) and isinstance(part.content, tuple):
        return replace(part, content=tuple(each for each in part.content if not isinstance(each, Image)))
    return part


def _without_error(part: Part) -> Part:
    return replace(part, is_error=False) if isinstance(part, ToolResult) else part


def _by_last_id(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Results are looked up by their id alone, over the whole conversation."""
    known = {result.call_id: result.content for message in messages for result in message.tool_results}

    def edit(part: Part) -> Part:
        return replace(part, content=known[part.call_id]) if isinstance(part, ToolResult) else part

    return tuple(replace(message, parts=tuple(map(edit, message.parts))) for message in messages)


def _without_refusals(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(message for message in messages if not any(isinstance(part, Refusal) for part in message.parts))


def _without_assistant_texts(part: Part) -> Part:
    return replace(part, text="") if isinstance(part, Text) and part.text.startswith("The first lighthouse") else part


BROKEN: list[tuple[str, str, str, str, Wrap]] = [
    ("foreign-state-sent", "reasoning-results", "anthropic", "gemini-4",
     _of_own_api("gemini", lambda state: {"thoughtSignature": state})),
    ("foreign-state-sent", "state-results", "gemini-4", "anthropic",
     _of_own_api("anthropic", lambda state: {"signature": state})),
    ("foreign-state-sent", "reasoning-past", "anthropic", "openai-responses",
     _of_own_api("openai-responses", lambda state: {"type": "reasoning", "summary": [], "encrypted_content": state})),
    ("foreign-state-sent", "reasoning-results", "openai-responses", "openai-chat",
     _of_own_api("openai-chat", lambda state: {"reasoning_details": [{"data": state}]})),
    ("openai-chat-call-id-at-most-64", "ids-long", "anthropic", "openai-chat", sends(_long_ids)),
    *(("result-orphan", "ids-own", source, target, sends(_first_id_changed)) for source, target in (
        ("openai-chat", "anthropic"), ("anthropic", "openai-chat"), ("gemini-4", "openai-responses"),
        ("anthropic", "gemini-4"))),
    *(("result-changed", "media-result", source, target, asks_parts(_without_images)) for source, target in (
        ("openai-responses", "anthropic"), ("anthropic", "openai-chat"), ("gemini-4", "openai-responses"),
        ("anthropic", "gemini-4"))),
    *(("error-flag", "error-text", source, target, asks_parts(_without_error)) for source, target in (
        ("openai-chat", "anthropic"), ("anthropic", "openai-chat"), ("gemini-4", "openai-responses"),
        ("anthropic", "gemini-4"))),
    *(("result-swapped", "ids-repeated", source, target, asks_messages(_by_last_id)) for source, target in (
        ("openai-chat", "anthropic"), ("anthropic", "openai-chat"))),
    ("call-id-unique", "ids-absent", "openai-chat", "anthropic", sends(_one_id)),
    ("text-changed", "cut-text", "anthropic", "openai-chat", asks_parts(_without_assistant_texts)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "case", "source", "target", "wrap"), BROKEN, ids=[f"{each[0]}-{each[2]}-{each[3]}" for each in BROKEN]
)
def test_a_broken_adapter_is_caught(rule: str, case: str, source: str, target: str, wrap: Wrap) -> None:
    result = handed(case, source, target, wrap)
    failing = [finding for finding in result.findings if finding.fails]
    assert rule in {finding.rule for finding in failing}, said(result.findings)
    assert result.hand_over is not None
    assert result.hand_over.outcome in (HandOverOutcome.LOST, HandOverOutcome.REFUSED)
    assert [body.end for body in failing[0].bodies] == [f"the last request to {source}", f"the request to {target}"]


@pytest.mark.parametrize("fault", [BROKEN[0], BROKEN[4], BROKEN[-1]], ids=lambda fault: fault[0])
def test_a_streamed_hand_over_has_the_same_outcome(fault: tuple[str, str, str, str, Wrap]) -> None:
    rule, case, source, target, wrap = fault
    whole, streamed = handed(case, source, target), handed(case, source, target, variant="stream")
    assert (streamed.variant, streamed.verdict) == ("stream", Verdict.PASS)
    assert streamed.hand_over == whole.hand_over
    found = handed(case, source, target, wrap, "stream").findings
    assert rule in {finding.rule for finding in found if finding.fails}, said(found)


def test_an_unanswered_call_that_is_kept_is_refused() -> None:
    plain = replace(shipped_targets()["openai-chat"], name="plain", adapter=plain_http.ADAPTER)
    cells = hand_over_cells([shipped_scenarios()["call-single"]], [plain], [shipped_targets()["anthropic"]])
    found = [cell for cell in cells if (cell.case.name, cell.target.name) == ("unanswered", "plain")]
    [result] = Run(InProcess(), RULES)(found).cells
    assert result.hand_over is not None
    assert result.hand_over.outcome is HandOverOutcome.REFUSED
    assert "result-missing" in {finding.rule for finding in result.findings if finding.fails}


def _mapped(request: ChatRequest) -> ChatRequest:
    """Ids are mapped to others that every API accepts, the same way in calls and results."""

    def edit(part: Part) -> Part:
        match part:
            case ToolCall(id=call_id):
                return replace(part, id=_other(call_id), provider_metadata={})
            case ToolResult(call_id=call_id):
                return replace(part, call_id=_other(call_id))
            case _:
                return part

    messages = [replace(message, parts=tuple(map(edit, message.parts))) for message in request.messages]
    return replace(request, messages=tuple(messages))


def _other(call_id: str) -> str:
    return (
        f"toolu_{uuid.uuid5(uuid.NAMESPACE_URL, call_id).hex[:16]}" if len(call_id) > 64 or "." in call_id else call_id
    )


def _without_thinking(part: Part) -> Part:
    """Reasoning is left out, and so is all state of other APIs."""
    return Text("") if isinstance(part, Thinking) else part


def _as_text(part: Part) -> Part:
    return Text(f"<thinking>{part.text}</thinking>") if isinstance(part, Thinking) else part


def _with_results(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """An unanswered call gets a result that says so."""
    answered = {result.call_id for message in messages for result in message.tool_results}
    made: list[Message] = []
    for message in messages:
        made.append(message)
        left = [call for call in message.tool_calls if call.id not in answered]
        if left:
            results = [ToolResult(call.id, call.name, "interrupted", is_error=True) for call in left]
            made.append(Message("user", results))
    return tuple(made)


def _renamed(request: ChatRequest) -> ChatRequest:
    """The tool gets a legal name, in its declaration and in its call."""

    def part(given: Part) -> Part:
        return replace(given, name="weather", provider_metadata={}) if isinstance(given, ToolCall) else given

    messages = (replace(message, parts=tuple(map(part, message.parts))) for message in request.messages)
    tools = (replace(tool, name="weather") for tool in request.tools)
    return replace(request, messages=tuple(messages), tools=tuple(tools))


UNUSUAL: list[tuple[str, str, str, Wrap, str]] = [
    ("ids-long", "anthropic", "openai-chat", asks(_mapped), "translated"),
    ("ids-illegal", "openai-chat", "anthropic", asks(_mapped), "translated"),
    ("ids-composite", "openai-responses", "gemini-4", asks(_mapped), "translated"),
    ("reasoning-results", "gemini-4", "anthropic", asks_parts(_without_thinking), "dropped"),
    ("reasoning-past", "anthropic", "openai-responses", asks_parts(_as_text), "translated"),
    ("unanswered", "openai-chat", "anthropic", asks_messages(_with_results), "translated"),
    ("unanswered", "anthropic", "gemini-4", asks_messages(_with_results), "translated"),
    ("refusal", "openai-chat", "anthropic", asks_messages(_without_refusals), "dropped"),
    ("name-dotted", "gemini-4", "openai-chat", asks(_renamed), "translated"),
]


@pytest.mark.parametrize(("case", "source", "target", "wrap", "outcome"), UNUSUAL)
def test_an_unusual_adapter_passes(case: str, source: str, target: str, wrap: Wrap, outcome: str) -> None:
    result = handed(case, source, target, wrap)
    assert [finding for finding in result.findings if finding.fails] == [], said(result.findings)
    assert result.hand_over is not None
    assert result.hand_over.outcome.value == outcome
