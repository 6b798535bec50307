"""A server for programs that bring their own prompts and tools. It makes the script from a conversation's first
request.

The model calls the first declared tool twice in parallel, then the next tool once, and then answers. If the request
allows one call at a time, the first tool is also called once. Arguments are the simplest values that fit a tool's
schema. Without tools, the model answers immediately. The answer has the JSON format that the request asks for, if any.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from harness.apis.api import Api
from harness.apis.view import RequestView, TextView, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.runner.serve_router import Notify, ServeRouter, served_apis
from harness.runner.served_session import SessionOptions
from harness.scenarios.schema import Scenario

BASE_PATH = "/program/1"
"""Path of the base URL of all conversations."""

_MAX_DEPTH = 6
_ANSWER = "Done. The answer is 42."


class ImprovisedRouter(ServeRouter):
    """Responds to every request below `BASE_PATH` with a script that fits its conversation.

    A conversation is recognised by its first user message.
    """

    def __init__(self, terms: SessionOptions, notify: Notify) -> None:
        plain = improvised_scenario(0, None)
        super().__init__([plain], {}, terms, notify)
        self._plain = plain
        self._improvised: dict[str, Scenario] = {}

    def _response(self, request: HttpRequest) -> HttpResponse:
        for wire in served_apis():
            if wire.recognises(replace(request, body=wire.least_body)):
                return self._answered(self._scenario_for(wire, request), "1", wire, request)
        return self._to_conversation(request, self._plain, "1")

    def _scenario_for(self, wire: Api, request: HttpRequest) -> Scenario:
        try:
            view = wire.view(request)
        except WireError:
            return self._plain
        first = next((part.text for turn in view.turns for part in turn.parts if isinstance(part, TextView)), "")
        key = hashlib.sha256(f"{wire.name} {first}".encode()).hexdigest()
        with self._lock:
            if key not in self._improvised:
                try:
                    made = improvised_scenario(len(self._improvised) + 1, view, first)
                except (
                    ValueError,
                    TypeError,
                    LookupError,
                    AttributeError,
                ):  # no script fits such a tool
                    made = self._plain
                self._improvised[key] = self._scenarios[made.id] = made
            return self._improvised[key]

    def _base_url(self, scenario: Scenario, session: str) -> str:  # noqa: ARG002 - all conversations share it
        return self.origin + BASE_PATH


def improvised_scenario(number: int, view: RequestView | None, user: str = "") -> Scenario:
    """Return a scenario for a conversation that begins with this request."""
    declared = [] if view is None else [each for each in view.tools if each.kind == "function"]
    tools: list[JSON] = [
        {
            "name": each.name,
            "description": each.description or each.name,
            "parameters": each.parameters if isinstance(each.parameters, dict) else {"type": "object"},
            "answered_by": "client",
        }
        for each in declared
    ]
    calls: list[dict[str, JSON]] = [{each.name: example_value(each.parameters or {}, {})} for each in declared[:2]]
    one_call = view is not None and "one_call" in view.settings
    script: list[JSON] = [{"calls": [call]} for call in calls]
    if calls and not one_call:
        script[0] = {"calls": [calls[0], calls[0]]}
    answer = _ANSWER
    if view is not None and view.response_format is not None:
        answer = json.dumps(example_value(view.response_format.schema or {"type": "object"}, {}))
    made = {
        "version": 1,
        "id": f"conversation-{number}",
        "title": "A conversation of the program",
        "covers": ["tools"],
        "requires": [*(["tools"] if calls else []), *(["parallel-tool-calls"] if calls and not one_call else [])],
        "system_from": "client",
        "tools": tools,
        "turns": [{"user": user or "Hello", "model": [*script, {"text": answer}]}],
    }
    return Scenario.model_validate_json(json.dumps(made))


def example_value(schema: JSON, definitions: Mapping[str, JSON], depth: int = 0) -> JSON:
    """Return a simple value that fits a schema. Only common keywords are considered."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    known: Mapping[str, JSON] = {**definitions, **cast("dict[str, JSON]", schema.get("$defs") or {})}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return example_value(known.get(reference.rpartition("/")[2], {}), known, depth + 1)
    given = [schema[key] for key in ("const", "default") if schema.get(key) is not None]
    listed = [values[0] for key in ("enum", "examples") if (values := cast("Sequence[JSON]", schema.get(key) or ()))]
    if given or listed:
        return [*given, *listed][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if choices := cast("Sequence[JSON]", schema.get(key) or ()):
            return example_value(choices[0], known, depth + 1)
    return _value_of_type(schema, known, depth)


def _value_of_type(schema: Mapping[str, Any], known: Mapping[str, JSON], depth: int) -> JSON:
    kind: Any = schema.get("type") or "object"
    word = str(kind if isinstance(kind, str) else kind[0]).lower()
    if word == "object":
        properties: Mapping[str, JSON] = schema.get("properties") or {}
        required: Sequence[str] = schema.get("required") or ()
        return {name: example_value(properties.get(name, {}), known, depth + 1) for name in required}
    if word == "array":
        return [example_value(schema.get("items") or {}, known, depth + 1)] * schema.get("minItems", 0)
    if word in ("integer", "number"):
        return schema.get("minimum", 1)
    if word == "string":
        return "example".ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
    return True if word == "boolean" else None
