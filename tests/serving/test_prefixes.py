"""A client of `harness serve` that changes its prefix is found, unless the scenario asks for the change."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from harness.apis.fact_files import FactSelection
from harness.model.http import HttpRequest
from harness.runner.serve_router import ServeRouter
from harness.runner.served_session import SessionOptions
from harness.scenarios.schema import Scenario
from tests.backends import shipped_scenarios
from tests.reference_server.test_prefixes import CONTINUED, FIRST, other_system, reversed_tools, shortened, unchanged
from tests.serving.served import KEYS

Body = dict[str, Any]
PATHS = {"anthropic": "messages", "openai-responses": "responses"}


def found(
    api: str, model: str, edit: Callable[[Body], None], given: Scenario | None = None, at: int = 3
) -> set[tuple[str, str]]:
    """What is found about the prefix if a client changes request `at`, as rule and severity."""
    scenario = given or shipped_scenarios()["prefix-with-thinking"]
    server = ServeRouter([scenario], {}, SessionOptions(fact_selection=FactSelection()), lambda _line: None)
    server.origin = "http://127.0.0.1:1"
    base = f"{server.origin}/{scenario.id}/one/v1/{PATHS[api]}"
    body = FIRST[api](model)
    for number in range(4):
        if number == at:
            edit(body)
        response = server(HttpRequest("POST", base, dict(KEYS[api]), json.dumps(body).encode()))
        assert number == 3 or response.status == 200, response.body
        if number < 3:
            CONTINUED[api](body, json.loads(response.body))
    reported = server(HttpRequest("GET", f"{server.origin}/_harness/{scenario.id}/one", {}, b""))
    return {
        (each["rule"], each["severity"])
        for each in json.loads(reported.body)["findings"]
        if each["rule"] in {"prefix-changed", "anthropic-thinking-bound", "state-dropped"}
    }


@pytest.mark.parametrize(
    ("api", "model", "edit", "rules"),
    [
        ("anthropic", "claude-opus-5-5", unchanged, set()),
        ("anthropic", "claude-opus-5-5", reversed_tools, {("prefix-changed", "error")}),
        ("anthropic", "claude-opus-5-5", shortened, {("prefix-changed", "error")}),
        ("openai-responses", "gpt-6-astra", reversed_tools, {("prefix-changed", "note")}),
        (
            "openai-responses",
            "gpt-6.2-astra",
            reversed_tools,
            {("prefix-changed", "error"), ("state-dropped", "error")},
        ),
    ],
)
def test_a_changed_prefix_of_a_client_is_found(
    api: str, model: str, edit: Callable[[Body], None], rules: set[tuple[str, str]]
) -> None:
    assert found(api, model, edit) == rules


def added(body: Body) -> None:
    new = deepcopy(body["tools"][-1])
    new["name"] = "count_boats"
    body["tools"].append(new)


def test_a_client_that_does_what_the_scenario_asks_gets_a_note() -> None:
    given = shipped_scenarios()["prefix-with-thinking"]
    last = given.tools[-1].model_copy(update={"name": "count_boats", "from_turn": 1})
    first, second, *others = given.turns
    prompted = second.model_copy(update={"system": "It is 10:04."})
    adds = given.model_copy(update={"tools": [*given.tools, last]})
    prompts = given.model_copy(update={"turns": [first, prompted, *others]})

    assert found("anthropic", "claude-opus-5-5", added, adds, 2) == {("prefix-changed", "note")}
    assert found("anthropic", "claude-opus-5-5", other_system, prompts, 2) == {("prefix-changed", "note")}
    assert found("anthropic", "claude-opus-5-5", added, adds, 3) == {("prefix-changed", "error")}
