"""The promises are those that the providers' own servers keep, and no more: real answers are read strictly, and stand;
so does what is unusual and harms nobody."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness import catalog
from harness.apis.view import ModelStep
from harness.checking.servers.server import Server
from harness.contract.http import HttpResponse
from harness.contract.model import ChatRequest, Message, StopReason
from harness.scenarios.schema import Provocation
from tests.servers.faulty import APIS
from tests.traffic import Recorded, needs_traffic, recorded

DEPARTING = {
    # recorded in March 2025, before events were numbered
    "openai-responses/pydantic-pydantic-ai-020-test-openai-responses-stream.yaml": {"server-events"},
    # answers of the background, which are asked for again
    "openai-responses/pydantic-pydantic-ai-040-test-background-mode-with-tool-vcr.yaml": {
        "server-stop-reason",
        "server-usage",
    },
    # counts no token of the prompt
    "openai-responses/pydantic-pydantic-ai-008-test-openai-responses-model-retry.yaml": {"server-usage"},
}
"""Recordings that depart from what is promised today, and why."""


def _departures(exchange: Recorded) -> set[str]:
    api = catalog.api(exchange.api)
    assert api.departures is not None
    return {each.promise.id for each in api.departures(exchange.response, api.view(exchange.request))}


@needs_traffic
@pytest.mark.parametrize("folder", ["anthropic-messages", "openai-chat", "openai-responses", "gemini-generateContent"])
def test_providers_keep_the_promises(folder: str) -> None:
    chats = [each for each in recorded(folder) if catalog.api(each.api).recognises(each.request)]
    assert len(chats) >= 100
    departing: dict[str, set[str]] = {}
    for each in chats:
        if found := _departures(each):
            departing.setdefault(each.path, set()).update(found)

    known = {path: rules for path, rules in DEPARTING.items() if path.startswith(folder + "/")}
    assert {path: rules for path, rules in departing.items() if rules != known.get(path)} == {}


STEPS = (
    ModelStep(text="It is cold in Reykjavik, and it will stay so."),
    ModelStep(calls=(("ping", {}), ("get_weather", {"city": "Reykjavik"}))),
    ModelStep(text="I look it up.", thinking="Which city?", calls=(("get_weather", {"city": "Reykjavik"}),)),
    ModelStep(text="It is", stop=StopReason.MAX_TOKENS),
    ModelStep(calls=(("get_weather", {"city": "Reykjavik"}),), truncated=True),
    ModelStep(refusal="I would rather not."),
)


def departures(api: str, *, dialect: str | None = None, provocations: frozenset[Provocation] = frozenset()) -> set[str]:
    """The promises that the reference server breaks, as it speaks in a dialect or where it is provoked."""
    wire = catalog.api(api)
    server = Server.of(wire, "toy-1", f"http://127.0.0.1:1{wire.base_path}")
    profile = replace(server.profile, dialect=dialect)
    plain = server.written(ChatRequest("toy-1", [Message.user("Hello.")], max_tokens=64))
    broken: set[str] = set()
    for seed, step in enumerate(STEPS):
        asked = replace(step, provocations=provocations)
        stream = wire.view(server.request(plain, stream=True))
        told = wire.build_stream(asked, str(seed), "toy-1", profile, stream)
        body = json.dumps(wire.build(asked, str(seed), "toy-1", profile)).encode()
        whole = HttpResponse(200, {"content-type": "application/json"}, body)
        broken |= {each.promise.id for each in server.strictly(told, stream)}
        broken |= {each.promise.id for each in server.strictly(whole, wire.view(server.request(plain, stream=False)))}
    return broken


@pytest.mark.parametrize("api", APIS)
def test_what_the_grammar_of_an_api_allows_is_no_departure(api: str) -> None:
    """Calls that are open at once, events of another day, line separators: rare, and right."""
    assert departures(api) == set()
    assert departures(api, provocations=catalog.api(api).provocations) == set()


@pytest.mark.parametrize(
    ("api", "dialect", "broken"),
    [
        ("openai-chat", "empty-ids", {"server-call-id"}),
        ("openai-chat", "no-ids", {"server-call-id"}),
        ("openai-chat", "index-from-one", {"server-index"}),
        ("openai-chat", "no-index", {"server-index"}),
        ("openai-chat", "empty-arguments", {"server-arguments"}),
        ("openai-chat", "no-usage", {"server-usage"}),
        ("openai-chat", "repeated-ids", set()),
        ("openai-chat", "whole-calls", set()),
        ("openai-chat", "early-usage", set()),
        ("openai-chat", "comments", set()),
        ("openai-responses", "no-numbers", {"server-events"}),
        ("openai-responses", "bare-end", {"server-events"}),
        ("openai-responses", "sentinel", set()),
    ],
)
def test_a_dialect_departs_where_clients_would_break_and_nowhere_else(api: str, dialect: str, broken: set[str]) -> None:
    assert departures(api, dialect=dialect) == broken
