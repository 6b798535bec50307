"""What was meant where a file is YAML and no scenario."""

from __future__ import annotations

import json
from collections.abc import Mapping

from harness.contract.errors import FileError
from harness.contract.model import JSON
from harness.scenarios.document import Document, Path
from harness.scenarios.hints.spelling import flow

_ARGUMENTS = ("arguments", "args", "input", "parameters")
_SETTINGS = ("tool_choice", "response_format", "max_tokens", "temperature", "top_p", "stop", "thinking", "cache")
_TEXT = ("equals", "contains", "not_contains", "matches")
_CHOICES = ("auto", "none", "required")
_FORCED = ("any", "force", "forced")

_PLACES: Mapping[tuple[str, ...], str] = {
    (): "scenario",
    ("settings",): "settings",
    ("tools",): "tool",
    ("tools", "results"): "result",
    ("turns",): "turn",
    ("turns", "settings"): "settings",
    ("turns", "model"): "answer",
    ("turns", "expect"): "expectation",
}
"""The keys on the way to a mapping, and what it is."""

_CALLED: Mapping[str, Mapping[str, str]] = {
    "scenario": {"messages": "turns", "steps": "turns", "prompt": "turns", "name": "id", "description": "title"},
    "settings": {"stop_sequences": "stop", "max_output_tokens": "max_tokens", "reasoning": "thinking"},
    "tool": {"input_schema": "parameters", "inputSchema": "parameters", "schema": "parameters", "returns": "results",
             "return": "results"},
    "result": {"arguments": "when", "output": "return", "content": "return", "is_error": "error"},
    "turn": {"assistant": "model", "response": "model", "answer": "model", "role": "user", "content": "user",
             "prompt": "user", "expected": "expect"},
    "answer": {"tool_calls": "calls", "tool_call": "calls", "content": "text", "reasoning": "thinking",
               "stop_reason": "stop", "finish_reason": "stop"},
    "expectation": {"tool_calls": "calls", "stop": "stop_reason", "finish_reason": "stop_reason"},
}  # fmt: skip
"""For each kind of mapping, what other formats call what it has."""


def hint(document: Document, path: Path, *, of_key: bool = False) -> FileError | None:
    """What was meant at a path at which something is wrong; nothing, if that is not known. `of_key`: the key is wrong,
    not its value."""
    for look in (_call, _arguments, _choice, _expectation, _tool, _model, _elsewhere):
        found = look(document, path)
        if found is not None:
            at, sentence = found
            return document.error(at, sentence, of_key=of_key and at == path)
    return None


_Found = tuple[Path, str] | None


def _at(document: Document, path: Path) -> JSON:
    value = document.value
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _place(path: Path) -> str | None:
    return _PLACES.get(tuple(step for step in path if isinstance(step, str)))


def _tools(document: Document) -> set[str]:
    """The names of the tools that are declared."""
    tools = _at(document, ("tools",))
    names = [each.get("name") for each in (tools if isinstance(tools, list) else ()) if isinstance(each, dict)]
    return {name for name in names if isinstance(name, str)}


def _name(value: JSON) -> str | None:
    """The tool that is named, in another format's words."""
    if not isinstance(value, dict):
        return None
    named = value.get("function", value)
    name = named.get("name") if isinstance(named, dict) else named
    return name if isinstance(name, str) else None


def _object(value: JSON) -> dict[str, JSON] | None:
    """A mapping that is one, or is written as JSON in a text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _call(document: Document, path: Path) -> _Found:
    end = path.index("calls") if "calls" in path else 0
    if not end or _place(path[:end]) != "answer":
        return None
    calls = _at(document, path[: end + 1])
    if isinstance(calls, dict):
        return path[: end + 1], f"calls is a list: write calls: {flow([calls])}."
    at = path[: end + 2]
    call = _at(document, at)
    if isinstance(call, str):
        return at, f"a call is a pair of a tool and its arguments: write {flow({call: {}})}."
    name = _name(call)
    if name is None or not isinstance(call, dict) or _tools(document) & call.keys():
        return None
    function = call.get("function")
    given = function if isinstance(function, dict) else call
    arguments = next((_object(given[key]) for key in _ARGUMENTS if key in given), None)
    return at, f"a call is a pair of a tool and its arguments: write {flow({name: arguments or {}})}."


def _arguments(document: Document, path: Path) -> _Found:
    if len(path) < 3 or (path[-3] != "calls" and path[-1] != "arguments"):
        return None
    value = _at(document, path)
    arguments = _object(value) if isinstance(value, str) else None
    if arguments is None:
        return None
    return path, f"arguments are a mapping, not JSON in a text: write {path[-1]}: {flow(arguments)}."


def _choice(document: Document, path: Path) -> _Found:
    end = path.index("tool_choice") if "tool_choice" in path else 0
    if not end or _place(path[:end]) != "settings" or (len(path) > end + 1 and path[end + 1] == "tool"):
        return None
    at = path[: end + 1]
    meant = _chosen(_at(document, at))
    if meant is None:
        return None
    return at, f"a choice is {', '.join(_CHOICES)} or {{tool: NAME}}: write tool_choice: {flow(meant)}."


def _chosen(value: JSON) -> JSON:
    """A choice in this format's words, where it is in another's."""
    kind = value.get("type") if isinstance(value, dict) else value
    if value in _CHOICES:
        return None
    if kind in _CHOICES:
        return kind
    if kind in _FORCED:
        return "required"
    name = _name(value) if isinstance(value, dict) else value
    return {"tool": name} if isinstance(name, str) else None


def _expectation(document: Document, path: Path) -> _Found:
    place, key = _place(path[:-1]), path[-1] if path else None
    if key == "expect" and place in ("scenario", "answer"):
        turn: Path = path[:2] if place == "answer" else ("turns", 0)
        column = document.key_marks.get((*turn, "model"), (0, 5))[1]
        return path, f"expect belongs to its turn: let it begin in column {column}, as the turn's model does."
    if place == "turn" and key in ("user", "model"):
        turn = path[:-1]
        at = turn[-1]
        value = _at(document, turn)
        if isinstance(value, dict) and isinstance(at, int) and at and value.keys() == {"expect"}:
            column = document.key_marks.get((*turn[:-1], at - 1, "model"), (0, 5))[1]
            return turn, f"expect belongs to the turn above it: write it without a dash, from column {column} on."
    if place == "expectation" and key in _TEXT:
        return path, f"a text is matched under text: write text: {flow({str(key): _at(document, path)})}."
    value = _at(document, path)
    if place == "expectation" and key == "text" and isinstance(value, str):
        return path, f"a text is matched in one of several ways: write text: {flow({'contains': value})}."
    return None


def _tool(document: Document, path: Path) -> _Found:
    value = _at(document, path)
    if path == ("tools",) and isinstance(value, dict):
        first = next(iter(value), "NAME")
        return path, f"tools is a list of mappings: write - name: {first}, and what belongs to it below."
    if len(path) == 2 and path[0] == "tools" and isinstance(value, str):
        sentence = f"a tool is defined here by more than its name: write - name: {value}, with parameters and results."
        return path, sentence
    if path[-1:] == ("results",) and _place(path[:-1]) == "tool" and not isinstance(value, list):
        return path, f"results is a list: write results: {flow([_result(value)])}."
    if _place(path[:-1]) == "result" and isinstance(path[-1], int) and not isinstance(value, dict):
        return path, f"a result says what it is: write {flow(_result(value))}."
    if path[-1:] == ("type",) and _place(path[:-1]) == "tool" and value == "function":
        return path, "every tool is a function here: leave type out."
    return None


def _result(value: JSON) -> JSON:
    known = {"return", "error", "raise", "parts"}
    return value if isinstance(value, dict) and value.keys() & known else {"return": value}


def _model(document: Document, path: Path) -> _Found:
    value = _at(document, path)
    if path[-1:] == ("model",) and _place(path[:-1]) == "turn" and isinstance(value, str | dict):
        answer: JSON = {"text": value} if isinstance(value, str) else value
        return path, f"model is a list of answers: write model: {flow([answer])}."
    if _place(path[:-1]) == "answer" and isinstance(path[-1], int) and isinstance(value, str):
        return path, f"an answer says what it is: write {flow({'text': value})}."
    return None


def _elsewhere(document: Document, path: Path) -> _Found:
    """Keys that have another name here, or another place."""
    place, key = _place(path[:-1]), path[-1] if path else None
    if place is None or not isinstance(key, str):
        return None
    if place in ("scenario", "turn") and key in _SETTINGS:
        value = _at(document, path)
        meant = _chosen(value) if key == "tool_choice" else None
        return path, f"{key} belongs under settings: write settings: {flow({key: meant or value})}."
    called = _CALLED.get(place, {}).get(key)
    if called is None:
        return None
    article = "an" if place[0] in "ae" else "a"
    return path, f"{article} {place} has no {key!r}: write {called!r}, which is what that is called here."
