"""Outlines: requests of all APIs with the same meaning have the same lines, and other requests do not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.apis.registry import Target
from harness.cassettes.redact import Redactor
from harness.model.messages import ChatRequest
from harness.rules.conversation_report import build_conversation
from harness.rules.evidence import Evidence
from harness.runner.cells import Cell
from tests.backends import shipped_scenarios, shipped_targets
from tests.rules.transcripts import transcript_of
from tests.wrapped import Chat, chatting

TARGETS = ("anthropic", "openai-chat", "openai-responses", "gemini-4", "gemini-3", "gemini-2.5")
OF_ONE_API = {"thinking", "reasoning effort", "response format: schema"}
"""Lines that some APIs need and others have not."""


def outlines(scenario: str, target: str | Target) -> list[list[list[str]]]:
    """The outline of each request."""
    column = shipped_targets()[target] if isinstance(target, str) else target
    evidence = Evidence(transcript_of(Cell(shipped_scenarios()[scenario], column, "whole")))
    sent = build_conversation(evidence, Redactor([]), 1_000_000).exchanges
    return [json.loads(each.meaning or "[]") for each in sent]


def common(lines: list[list[str]]) -> dict[str, str]:
    return {label: value for label, value, _ in lines if label not in OF_ONE_API}


@pytest.mark.parametrize(
    "scenario", ["call-parallel-same-tool", "system-changed", "schema-nullable", "result-list", "call-after-text"]
)
def test_all_apis_say_the_same(scenario: str) -> None:
    first, *others = ([common(each) for each in outlines(scenario, target)] for target in TARGETS)

    assert first[0]
    assert [other for other in others if other != first] == []


def test_each_line_has_its_place_on_the_wire() -> None:
    places = {target: {label: at for label, _, at in outlines("system-plain", target)[0]} for target in TARGETS}

    assert places["anthropic"]["system prompt"] == "/system/0/text"
    assert places["openai-chat"]["system prompt"] == "/messages/0/content"
    assert places["openai-responses"]["system prompt"] == "/instructions"
    assert places["gemini-4"]["system prompt"] == "/systemInstruction/parts/0/text"


def results_swapped(chat: Chat, request: ChatRequest) -> Any:
    *before, last = request.messages
    if len(before) < 2:
        return chat(request)
    one, other = last.parts
    parts = (replace(one, content=other.content), replace(other, content=one.content))  # type: ignore[arg-type, union-attr]
    return chat(replace(request, messages=(*before, replace(last, parts=parts))))


def test_what_is_sent_wrongly_is_another_line() -> None:
    right = outlines("call-parallel-same-tool", "anthropic")[1]
    wrong = outlines("call-parallel-same-tool", chatting(shipped_targets()["anthropic"], results_swapped))[1]

    assert [one[0] for one, other in zip(right, wrong, strict=True) if one != other] == [
        "message 3 (user): result of call 1",
        "message 3 (user): result of call 2",
    ]
