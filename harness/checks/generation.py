"""Generated conversations.

Hypothesis generates them, and shrinks those that show a fault. Importing this module imports Hypothesis.
"""

from __future__ import annotations

import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, TypeAlias

import hypothesis
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning
from hypothesis.strategies import SearchStrategy
from pydantic import ValidationError

from harness.apis.registry import Target
from harness.model.messages import JSON
from harness.model.protocols import Capability
from harness.results import CellResult, Finding, Severity, Verdict
from harness.runner.cells import Cell, not_applicable
from harness.scenarios.schema import Scenario, Variant
from harness.scenarios.validation import problems, used_capabilities

CauseKey: TypeAlias = tuple[str, str]
"""A rule, and its case or the field at which it was broken."""


class _CauseSeen(Exception):
    """Raised by a conversation that shows a cause. Each cause has a class of its own, so that its shrinking ends in a
    conversation with the same cause.
    """

    key: CauseKey


def search(target: Target, count: int, seed: int, play: Callable[[Cell], CellResult]) -> dict[CauseKey, Scenario]:
    """Play generated conversations, and return the smallest that shows each cause of a failure.

    After a cause is found and shrunk, the search goes on without it, until `count` conversations in a row show nothing
    new. The same `seed` gives the same result.
    """
    found: dict[CauseKey, Scenario] = {}
    while (shown := _search_once(target, count, seed + len(found), play, found)) is not None:
        key, scenario = shown
        found[key] = scenario
    return found


def _search_once(
    target: Target, count: int, seed: int, play: Callable[[Cell], CellResult], known: Container[CauseKey]
) -> tuple[CauseKey, Scenario] | None:
    """Return a cause that is not yet known, with the smallest conversation that shows it."""
    classes: dict[CauseKey, type[_CauseSeen]] = {}
    smallest: dict[CauseKey, Scenario] = {}

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.filter_too_much],
        phases=(hypothesis.Phase.generate, hypothesis.Phase.shrink),
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
    )
    @hypothesis.given(conversations(target), st.sampled_from(("whole", "stream")))
    def played(scenario: Scenario, variant: Variant) -> None:
        cell = Cell(scenario, target, variant)
        hypothesis.assume(not_applicable(cell, "reference") is None)
        key = next((each for each in causes_of(play(cell)) if each not in known), None)
        if key is not None:
            smallest[key] = scenario  # Hypothesis plays the smallest one last
            raise classes.setdefault(key, type("CauseSeen", (_CauseSeen,), {"key": key}))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)
        try:
            played()
        except _CauseSeen as seen:
            return seen.key, smallest[seen.key]
    return None


def causes_of(result: CellResult) -> list[CauseKey]:
    """Return the causes for which a cell fails, without findings that only follow from others."""
    if result.verdict is Verdict.ERROR:
        return [("error", (result.reason or "").partition(":")[0])]
    failing = (each for each in result.findings if each.severity is Severity.ERROR and each.follows is None)
    return list(dict.fromkeys((each.rule, _place(each)) for each in failing))


def _place(finding: Finding) -> str:
    """Return the case of a finding, or its location without indices."""
    return finding.case or re.sub(r"\d+", "N", finding.pointer or "")


# --- drawing of conversations ---


def conversations(target: Target) -> SearchStrategy[Scenario]:
    """Return a strategy for scenarios that a target can play: within its capabilities and those of its model."""
    able = target.adapter.capabilities - target.profile.lacks

    @st.composite
    def drawn(draw: Draw) -> Scenario:
        return valid_scenario(_Drawing(draw, able).document())

    return drawn()


def valid_scenario(document: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a document, or reject the draw if it is none."""
    try:
        scenario = Scenario.model_validate_json(json.dumps(document))
    except (ValidationError, ValueError):
        hypothesis.reject()
    scenario = scenario.model_copy(update={"requires": sorted(used_capabilities(scenario))})
    scenario.model_fields_set.add("requires")
    if any(True for _ in problems(scenario)):
        hypothesis.reject()
    return scenario


Draw: TypeAlias = Callable[[SearchStrategy[Any]], Any]

_CHARACTERS = st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"))
_PLAIN = st.text(_CHARACTERS, min_size=1, max_size=30).filter(lambda text: bool(text.strip()))
_ODD = st.sampled_from(
    ("\u2028", "\u0085", "👩‍👩‍👧", "ß\u0301", "\\n", '"', "{{x}}", "<tool_call>", "\t", "\u00a0", "data: [DONE]\n\n")
)
_TEXTS = st.one_of(st.just("Hello."), _PLAIN, _ODD.map(lambda odd: f"a{odd}x"), st.just("lighthouse " * 400))
"""Texts: short and long, and with characters that parsers confuse."""

_NAMES = st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,20}", fullmatch=True)
_LONG_NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}", fullmatch=True)
_TOOL_NAMES = _LONG_NAMES | st.sampled_from(("get", "get_2", "get-2"))
_INTEGERS = st.integers(-(2**53), 2**53)
_NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
_LEAVES = st.one_of(st.none(), st.booleans(), _INTEGERS, _NUMBERS, st.sampled_from(("", "0", "null")), _TEXTS)
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class _Drawing:
    """Draws the parts of a conversation. `able` are the capabilities that it may use."""

    def __init__(self, draw: Draw, able: Container[Capability]) -> None:
        self._draw = draw
        self._able = able
        self._tools: list[dict[str, Any]] = []

    def document(self) -> dict[str, Any]:
        """Return the document of a scenario, as in its file."""
        if Capability.TOOLS in self._able:
            self._tools = [self._tool() for _ in range(self._count(0, 3))]
        settings = self._settings()
        turns = [
            {"user": self._user(), "model": [*self._steps(), self._last(as_json="response_format" in settings)]}
            for _ in range(self._count(1, 3 if Capability.HISTORY in self._able else 1))
        ]
        document: dict[str, Any] = {
            "version": 1,
            "id": "generated",
            "title": "A conversation that was generated",
            "covers": ["history"],
            "scripted": True,
            "turns": turns,
        }
        if self._tools:
            document["tools"] = self._tools
        if Capability.SYSTEM_PROMPT in self._able and self._maybe():
            document["system"] = self._draw(_TEXTS)
        return {**document, "settings": settings} if settings else document

    def _count(self, least: int, most: int) -> int:
        return self._draw(st.integers(least, most))

    def _maybe(self) -> bool:
        return self._draw(st.booleans())

    def _one_of(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if self._maybe():
            settings["max_tokens"] = self._one_of(256, 1024, 4096)
        if Capability.TOOL_CHOICE in self._able and self._tools and self._maybe():
            settings["tool_choice"] = self._one_of("auto", "none")
        if Capability.JSON_MODE in self._able and not self._tools and self._maybe():
            settings["response_format"] = "json"
        if Capability.CACHE_MARKS in self._able and self._maybe():
            settings["cache"] = True
        return settings

    def _user(self) -> Any:
        text = {"text": self._draw(_TEXTS)}
        if Capability.VISION not in self._able or not self._maybe():
            return text["text"]
        image = {"image": {"media_type": "image/png", "data": _PIXEL}}
        return self._one_of([text, image], [image, text])

    def _steps(self) -> Iterator[dict[str, Any]]:
        """Yield the model's answers with calls."""
        most = 3 if Capability.PARALLEL_TOOL_CALLS in self._able else 1
        for _ in range(self._count(0, 2) if self._tools else 0):
            step: dict[str, Any] = {"calls": [self._call() for _ in range(self._count(1, most))]}
            yield {**step, "text": self._draw(_TEXTS)} if self._maybe() else step

    def _last(self, *, as_json: bool) -> dict[str, Any]:
        if as_json:
            return {"text": json.dumps({"a": self._json(2)}, ensure_ascii=False)}
        text = self._draw(_TEXTS)
        return self._one_of({"text": text}, {"refusal": text}, {"text": text, "stop": "max_tokens"})

    def _tool(self) -> dict[str, Any]:
        tool: dict[str, Any] = {"name": self._draw(_TOOL_NAMES), "description": self._draw(_TEXTS)}
        text = self._draw(_TEXTS)
        result = self._one_of("return", "error", "raise", "parts")
        value = {"return": self._json(2), "parts": [{"text": text}]}.get(result, text)
        tool["results"] = [{result: value}]
        return {**tool, "parameters": self._object(2)} if self._maybe() else tool

    def _call(self) -> dict[str, Any]:
        tool = self._one_of(*self._tools)
        return {tool["name"]: self._value(tool["parameters"]) if "parameters" in tool else {}}

    def _object(self, depth: int) -> dict[str, Any]:
        names = self._draw(st.lists(_NAMES, min_size=1, max_size=3, unique=True))
        properties = {name: self._schema(depth - 1) for name in names}
        return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}

    def _schema(self, depth: int) -> dict[str, Any]:
        kind = self._one_of("string", "integer", "number", "boolean", "enum", *(("array", "object") if depth else ()))
        if kind == "enum":
            return {"type": "string", "enum": ["a", "b c", "ü"]}
        if kind == "array":
            return {"type": "array", "items": self._schema(depth - 1)}
        return self._object(depth) if kind == "object" else {"type": kind}

    def _value(self, schema: dict[str, Any]) -> Any:
        """Return a value that conforms to a schema of `_schema`."""
        if "enum" in schema:
            return self._one_of(*schema["enum"])
        match schema["type"]:
            case "object":
                return {name: self._value(each) for name, each in schema["properties"].items()}
            case "array":
                return [self._value(schema["items"]) for _ in range(self._count(0, 3))]
            case "string":
                return self._draw(st.just("") | _TEXTS)
            case "integer":
                return self._draw(_INTEGERS)
            case "number":
                return self._draw(_NUMBERS | st.integers(-100, 100))
            case _:
                return self._maybe()

    def _json(self, depth: int) -> JSON:
        kind = self._one_of("leaf", *(("list", "object") if depth else ()))
        if kind == "list":
            return [self._json(depth - 1) for _ in range(self._count(0, 3))]
        if kind == "object":
            return {name: self._json(depth - 1) for name in self._draw(st.lists(st.sampled_from("abü"), unique=True))}
        return self._draw(_LEAVES)


def named(found: Mapping[CauseKey, Scenario]) -> Iterator[Scenario]:
    """Yield the conversations with ids that name their rules."""
    names: Counter[str] = Counter()
    for (rule, _), scenario in found.items():
        names[rule] += 1
        number = f"-{names[rule]}" if names[rule] > 1 else ""
        yield scenario.model_copy(update={"id": f"generated-{rule}{number}"})
