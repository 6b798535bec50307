"""Texts so short that they occur in others by chance, or that are equal, are no fault of the shipped adapter."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.runner.backends import GeneratedBackend
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from harness.scenarios.schema import Scenario
from tests.broken.playing import RULES
from tests.stages import shipped_targets

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
    document = {"version": 1, "id": "short", "title": "Short", "covers": ["history"], "scripted": True, "turns": turns}
    scenario = Scenario.model_validate_json(json.dumps({**document, "requires": ["files", "history"]}))
    with Run(GeneratedBackend(), RULES, strict=True) as run:
        found = run([Cell(scenario, shipped_targets()["openai-chat"], "whole")], jobs=1).cells[0].findings
    assert found == ()
