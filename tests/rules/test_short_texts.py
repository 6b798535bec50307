"""Texts so short that they occur in others by chance, or that are equal, are no fault of the shipped adapter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.results import Finding
from harness.runner.backends import GeneratedBackend
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from harness.scenarios.schema import Scenario
from tests.backends import shipped_targets
from tests.broken.running import RULES

TEXT_FILE = {"file": {"media_type": "text/plain", "data": "aGk="}}


@pytest.mark.parametrize(
    "turns",
    [
        [{"user": [TEXT_FILE, {"text": "a"}], "model": [{"text": "Yes."}]}],
        [{"user": [{"text": "a"}, TEXT_FILE, {"text": "b"}, {"text": "a"}], "model": [{"text": "Yes."}]}],
        [
            {"user": [{"text": "a"}, TEXT_FILE, {"text": "a"}], "model": [{"text": ""}]},
            {"user": "b", "model": [{"text": "c"}]},
        ],
    ],
    ids=["caption with the letter of a text", "texts around a file", "equal texts before an empty answer"],
)
def test_short_texts_pass(turns: list[dict[str, Any]]) -> None:
    assert _findings("openai-chat", turns, "files") == ()


def test_a_thought_that_begins_as_a_shorter_one_with_white_space_passes() -> None:
    thoughts = "a" + "\n" * 3, "ax", "b"
    steps = [{"thinking": each, "text": "", "calls": [{"t": {"n": at}}]} for at, each in enumerate(thoughts)]
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [{"name": "t", "parameters": schema, "results": [{"return": 1}]}]
    turns = [{"user": "u", "model": [*steps, {"text": "c"}]}]
    settings = {"thinking": {"effort": "low"}, "max_tokens": 8192}

    assert _findings("gemini-3", turns, "thinking", "tools", tools=tools, settings=settings) == ()


def _findings(target: str, turns: list[dict[str, Any]], *requires: str, **more: Any) -> tuple[Finding, ...]:
    document = {"version": 1, "id": "short", "title": "Short", "covers": ["history"], "scripted": True, "turns": turns}
    text = json.dumps({**document, "requires": ["history", *requires], **more})
    with Run(GeneratedBackend(), RULES, strict=True) as run:
        cell = Cell(Scenario.model_validate_json(text), shipped_targets()[target], "whole")
        return run([cell], jobs=1).cells[0].findings
