"""The smallest request that breaks a fact, and its twin, which differs in the fact's first condition and is taken.

Both are made from the conditions alone, for probes of a provider and for tests of the checks.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from harness.apis.condition import Condition
from harness.apis.conditions import Asked, SchemaPlaces, met
from harness.apis.fact import Fact
from harness.scenarios.patterns import covers

_SEGMENT = re.compile(r"([^\[\]]*)((?:\[[^\]]*\])*)")

_EXAMPLES: dict[str, Any] = {
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "stop": ["x"],
    "max_tokens": 100,
    "max_completion_tokens": 100,
    "thinking": {"type": "adaptive"},
    "logprobs": True,
    "top_logprobs": 2,
    "n": 2,
    "seed": 1,
    "googleSearch": {},
    "urlContext": {},
    "codeExecution": {},
    "functionDeclarations": [{"name": "f"}],
    "responseSchema": {"type": "string"},
    "responseJsonSchema": {"type": "string"},
    "parameters": {"type": "object", "properties": {"p": {"type": "string"}}},
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "toolConfig": {"functionCallingConfig": {"mode": "AUTO"}},
    "functionCallingConfig": {"mode": "AUTO"},
    "parametersJsonSchema": {"type": "object", "properties": {"p": {"type": "string"}}},
    "response_format.type": "text",
    "tool_calls": {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    "thinkingLevel": "low",
    "thinkingBudget": 128,
    "tool_choice": "required",
    "effort": "low",
    "reasoning_effort": "none",
    "metadata": {"a": "b"},
    "web_search_options": {},
    "include": ["reasoning.encrypted_content"],
    "instructions": "Be brief.",
    "store": False,
    "presence_penalty": 0.5,
    "maxOutputTokens": 16,
    "max_output_tokens": 16,
    "frequencyPenalty": 0.5,
    "presencePenalty": 0.5,
    "frequency_penalty": 0.5,
    "stream_options": {"include_usage": True},
    "defer_loading": True,
    "cache_control": {"type": "ephemeral"},
    "input_examples": [{}],
    "context_management": {"edits": []},
    "output_config": {"effort": "low"},
    "output_config.format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}},
}
"""What stands in a field where a condition only asks that something does, or that it is none of some values: by its
path without brackets, or its key."""

_HOLDERS: dict[str, Any] = {
    "functionDeclarations": {"name": "f"},
    "output_config.format": {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}},
    "text.format": {"type": "json_schema", "name": "n"},
    "system": {"type": "text", "text": "Be brief."},
    "cache_control": {"type": "ephemeral"},
}
"""What an object, or an element of a list, needs beside what is put into it: by its path without brackets, or key."""


def twins(fact: Fact, smallest: dict[str, Any], schemas: SchemaPlaces) -> tuple[Request, Request] | None:
    """The request that breaks the fact and its twin, made from the smallest body that is taken.

    They are made of the fact's example, or else of its conditions. `None`: the conditions do not tell them apart, as
    they contradict the smallest body or each other, so that no such pair can be made.
    """
    if fact.example is not None:
        broken = Request({**smallest, **fact.example.broken}, schemas.tool)
        return _told_apart(fact, broken, Request({**smallest, **fact.example.twin}, schemas.tool), schemas)
    broken, twin = Request(smallest, schemas.tool), Request(smallest, schemas.tool)
    for condition in reversed(fact.when):
        broken.meet(condition, schemas)
    for condition in reversed(fact.when[1:]):
        twin.meet(condition, schemas)
    if fact.when and fact.when[0].there is False:
        twin.put(fact.when[0].at or "", _example(fact.when[0].at or ""))
    return _told_apart(fact, broken, twin, schemas)


def _told_apart(fact: Fact, broken: Request, twin: Request, schemas: SchemaPlaces) -> tuple[Request, Request] | None:
    """The two requests, if the conditions of the fact tell them apart."""
    pair = broken.meets(fact.when, schemas), twin.meets(fact.when, schemas)
    return (broken, twin) if pair == (True, False) else None


class Request:
    """A body and headers in the making."""

    def __init__(self, body: dict[str, Any], tool: Mapping[str, Any]) -> None:
        self.body: dict[str, Any] = copy.deepcopy(body)
        self._tool = tool
        self.headers: dict[str, str] = {}

    def meets(self, conditions: Sequence[Condition], schemas: SchemaPlaces) -> bool:
        """Whether it meets them all."""
        return met(conditions, Asked(self.body, self.headers, schemas)) is not None

    def meet(self, condition: Condition, schemas: SchemaPlaces) -> None:
        """Change as little as makes it meet a condition."""
        if self.meets([condition], schemas):
            return
        if condition.header is not None:
            self.headers[condition.header.lower()] = str(_value(condition, "header"))
        elif condition.at is not None and condition.there is not False:
            key = condition.at.rpartition(".")[2]
            if key == "tools" and condition.operator in ("there", "longer"):
                self.put(key, self._tools(condition.longer or 0))
            else:
                self.put(condition.at, _value(condition, key))
        elif condition.keyword is not None and condition.there is not False:
            self._put_schema(condition, schemas)

    def _tools(self, most: int) -> list[dict[str, Any]]:
        """One tool more than so many, whose names differ where a name stands at their top."""
        tools = [copy.deepcopy(dict(self._tool)) or {"functionDeclarations": [{"name": "f"}]} for _ in range(most + 1)]
        for number, tool in enumerate(tools if most else ()):
            for holder in (tool, tool.get("function", {})):
                holder.update({"name": f"f{number}"} if "name" in holder else {})
        return tools

    def put(self, path: str, value: Any) -> None:
        """Put a value at a path; objects and lists on the way are made. A new element stands at the end of its list."""
        place: Any = self.body
        steps = [_SEGMENT.fullmatch(segment) for segment in path.split(".")]
        for number, step in enumerate(steps):
            if step is None or not isinstance(place, dict):
                return
            holder = cast("dict[str, Any]", place)
            key, lists = step[1], step[2].count("[")
            last = number == len(steps) - 1
            if not lists:
                if last:
                    holder[key] = value
                    if (key, value) == ("type", "enabled"):  # thinking by a budget, which Anthropic wants to be named
                        holder.setdefault("budget_tokens", 1024)
                else:
                    beside = _HOLDERS.get(_named(steps[: number + 1]), _HOLDERS.get(key, {}))
                    place = holder.setdefault(key, copy.deepcopy(beside))
                continue
            if not isinstance(holder.setdefault(key, []), list):
                holder[key] = [{"type": "text", "text": holder[key]}]
            members: list[Any] = holder[key]
            if last:
                members.append(value)
            else:
                element = dict(self._tool) if key == "tools" else _HOLDERS.get(key, {})
                members.extend([] if members else [copy.deepcopy(element)])
                place = members[-1]

    def _put_schema(self, condition: Condition, schemas: SchemaPlaces) -> None:
        paths = schemas.response if condition.schemas == "response" else schemas.tools
        keyword = condition.keyword or ""
        member = {"type": _TYPE_OF.get(keyword, "string"), keyword: _value(condition, keyword)}
        root: dict[str, Any] = {"type": "object", "properties": {"p": member}, "required": ["p"]}
        root |= {"additionalProperties": False} if schemas.closed else {}
        if condition.root:
            root = {"type": "object", "properties": {}, keyword: _value(condition, keyword)}
        if condition.schemas == "strict-tools":
            self.put(f"{paths[0].rpartition('.')[0]}.strict", value=True)
        self.put(paths[0], root)


def _named(steps: Sequence[re.Match[str] | None]) -> str:
    return ".".join(step[1] for step in steps if step is not None)


_TYPE_OF = {
    "minItems": "array",
    "maxItems": "array",
    "items": "array",
    "prefixItems": "array",
    "uniqueItems": "array",
} | dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "integer")
_KINDS: dict[str, Any] = {"string": "x", "number": 1, "boolean": True, "object": {}, "array": [], "null": None}
_KEYWORDS: dict[str, Any] = {
    "anyOf": [{"type": "string"}, {"type": "null"}],
    "oneOf": [{"type": "string"}, {"type": "null"}],
    "allOf": [{"type": "string"}],
    "not": {"type": "null"},
    "enum": ["a"],
    "pattern": "^a$",
    "format": "date",
    "items": {"type": "string"},
    "prefixItems": [{"type": "string"}],
    "additionalProperties": True,
    "propertyNames": {"pattern": "^a$"},
    "patternProperties": {"^a$": {"type": "string"}},
    "$ref": "#/$defs/d",
    "$defs": {"d": {"type": "string"}},
    "title": "T",
    "default": "a",
    "const": "a",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
}


def _value(condition: Condition, key: str) -> Any:
    """A value that meets a condition."""
    operand: Any = condition.operand
    match condition.operator:
        case "is":
            return operand
        case "in":
            return operand[0]
        case "out":
            return _other([*operand], _EXAMPLES.get(condition.at or "", _EXAMPLES.get(key)))
        case "over":
            return int(operand) + 1
        case "under":
            return int(operand) - 1 if operand == int(operand) else operand / 2
        case "longer":
            return _long(key, int(operand) + 1)
        case "kind":
            return _KINDS[operand]
        case "like":
            return _like(operand)
        case _:
            return _KEYWORDS[key] if condition.keyword and key in _KEYWORDS else _example(condition.at or key)


def _example(path: str) -> Any:
    """What may stand at a path."""
    key = path.rpartition(".")[2].split("[")[0]
    known = _EXAMPLES | {name: value for name, value in _KEYWORDS.items() if name not in _EXAMPLES}
    return known.get(path, known.get(key, 1 if key.startswith(("min", "max")) else "x"))


def _long(key: str, length: int) -> Any:
    if key == "functionDeclarations":
        return [{"name": f"f{number}"} for number in range(length)]
    return ["x"] * length if key in ("tools", "messages", "stop") else "x" * length


def _other(known: list[Any], example: Any) -> Any:
    """Something of the kind of these values that is none of them."""
    first = known[0] if known else "x"
    if isinstance(first, str) and isinstance(example, str) and example not in known:
        return example
    if isinstance(first, bool):
        return not first
    if isinstance(first, int | float):
        is_another = isinstance(example, int | float) and example not in known
        return example if is_another else max(each for each in known if isinstance(each, int | float)) - 0.5
    return next(each for each in ("medium", "other", "x") if each not in known)


def _like(pattern: str) -> Any:
    """One of a few texts that matches, if one does."""
    samples = (
        "a",
        "a b",
        "a.b",
        "1",
        "x" * 65,
        "x" * 129,
        "é",
        "function",
        "web_search_20250305",
        "",
        "^a$",
        "(?=a)",
        "\\d",
    )
    return next((each for each in samples if covers(pattern, each)), "x")
