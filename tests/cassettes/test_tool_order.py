"""A tape compares the order of tools where the reasoning of the model is bound to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.cassettes.tape_player import request_differences
from harness.model.http import HttpRequest

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}
TOOLS: list[dict[str, Any]] = [{"name": name, "description": name, "input_schema": SCHEMA} for name in ("tide", "wind")]
OTHER_LIST = [{**TOOLS[0], "input_schema": {**SCHEMA, "required": ["b", "a"]}}, TOOLS[1]]
OTHER_KEYS = [dict(reversed(tool.items())) for tool in TOOLS]
REWORDED = [{**TOOLS[0], "description": "The tide."}, TOOLS[1]]


def request(model: str, tools: list[dict[str, Any]]) -> HttpRequest:
    body = {"model": model, "max_tokens": 9, "tools": tools, "messages": [{"role": "user", "content": "Hi"}]}
    return HttpRequest("POST", "https://api.anthropic.com/v1/messages", {}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("model", "tools", "count"),
    [
        ("claude-opus-5-5", TOOLS, 0),
        ("claude-opus-5-5", OTHER_KEYS, 0),
        ("claude-opus-5-5", TOOLS[::-1], 1),
        ("claude-opus-5-5", OTHER_LIST, 1),
        ("claude-opus-5-5", REWORDED, 1),
        ("claude-opus-5", TOOLS[::-1], 0),
        ("claude-opus-5", OTHER_LIST, 0),
    ],
)
def test_another_order_of_tools_is_a_difference_only_where_it_matters(
    model: str, tools: list[dict[str, Any]], count: int
) -> None:
    found = [
        each
        for each in request_differences(request(model, TOOLS), request(model, tools), (), ())
        if each.changes_meaning
    ]
    assert len(found) == count, found
    assert all(each.pointer.startswith("/tools/") for each in found)
