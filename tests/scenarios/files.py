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


TWICE: dict[str, Any] = {
    **changed(WITH_TOOLS, "tools.0.results", [{"error": "busy", "times": 1}, {"return": 18}]),
    "turns": [{"user": "Paris?", "model": [*[{"calls": [{"get_weather": {"city": "Paris"}}]}] * 2, {"text": "18"}]}],
}

HISTORY: dict[str, Any] = {
    **WITH_TOOLS,
    "id": "history",
    "requires": ["tools", "history"],
    "history": [
        {"role": "user", "text": "Rome?"},
        {"role": "assistant", "calls": [{"id": "a", "name": "get_weather", "arguments": {"city": "Rome"}}]},
        {"role": "user", "results": [{"call_id": "a", "content": 21}]},
        {"role": "assistant", "text": "21"},
    ],
}


FAILING: dict[str, Any] = {
    **WITH_TOOLS,
    "id": "failing",
    "scripted": True,
    "faults": [{"answer": 1, "status": 429, "retry_after": 7}],
    "turns": [{**WITH_TOOLS["turns"][0], "expect": {"error": "rate-limited"}}],
}
STREAMED: dict[str, Any] = {
    **FAILING,
    "id": "streamed",
    "variants": ["stream"],
    "faults": [{"answer": 1, "connection": "cut", "at": "end"}],
    "turns": [
        {**WITH_TOOLS["turns"][0], "expect": {"error": {"name": ["connection-failed", "malformed-response"]}}},
    ],
}
CUT: dict[str, Any] = {
    **WITH_TOOLS,
    "id": "cut",
    "requires": ["tools", "truncation"],
    "turns": [{"user": "Paris?", "model": [{"calls": [{"get_weather": {"city": "Paris"}}], "truncated": True}]}],
}
MALFORMED: dict[str, Any] = {
    **MINIMAL,
    "id": "malformed",
    "scripted": True,
    "profiles": ["gemini-3-ids", "gemini-3", "gemini-2"],
    "turns": [{"user": "Paris?", "model": [{"text": "", "stop": "malformed_call"}]}],
}

EMBEDDED: dict[str, Any] = {
    "version": 1,
    "id": "embedded",
    "title": "Texts become vectors",
    "covers": ["embeddings"],
    "requires": ["embeddings"],
    "variants": ["whole"],
    "embeddings": {
        "dimensions": 128,
        "texts": ["a"],
        "queries": [{"text": "b"}, {"text": "c", "indexed_with": {"provider": "there"}}],
    },
}


PROVOKED: dict[str, Any] = {**MINIMAL, "provocations": ["unknown-events"], "variants": ["stream"], "scripted": True}

BASES = {
    "minimal": MINIMAL,
    "with-tools": WITH_TOOLS,
    "twice": TWICE,
    "history": HISTORY,
    "failing": FAILING,
    "streamed": STREAMED,
    "cut": CUT,
    "malformed": MALFORMED,
    "provoked": PROVOKED,
    "embedded": EMBEDDED,
}
