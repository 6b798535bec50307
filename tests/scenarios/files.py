"""A small scenario, and scenarios that differ from it."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from harness.scenarios.load import load_file
from harness.scenarios.schema import Scenario

MINIMAL: dict[str, Any] = {
    "version": 1,
    "id": "minimal",
    "title": "The model answers",
    "covers": ["responses"],
    "turns": [{"user": "Hello", "model": [{"text": "Hi"}]}],
}

WITH_TOOLS: dict[str, Any] = {
    "version": 1,
    "id": "with-tools",
    "title": "The model calls a tool",
    "covers": ["tools"],
    "requires": ["tools"],
    "tools": [
        {
            "name": "get_weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "results": [{"when": {"city": "Paris"}, "return": {"temp_c": 18}}, {"return": None}],
        }
    ],
    "turns": [{"user": "Paris?", "model": [{"calls": [{"get_weather": {"city": "Paris"}}]}, {"text": "18"}]}],
}

ABSENT = object()


def changed(base: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy of `base` with the value at a dotted path set, or taken away if it is `ABSENT`."""
    copy = deepcopy(base)
    *before, last = [int(key) if key.isdigit() else key for key in path.split(".")]
    node: Any = copy
    for key in before:
        node = node[key]
    if value is ABSENT:
        del node[last]
    elif isinstance(node, list) and last == len(node):
        node.append(value)
    else:
        node[last] = value
    return copy


def written(folder: Path, content: dict[str, Any]) -> Path:
    """The scenario as a file, one line of JSON, which is YAML as well."""
    file = folder / f"{content.get('id', 'file')}.yaml"
    file.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return file


def scenario(folder: Path, content: dict[str, Any]) -> Scenario:
    return load_file(written(folder, content))
