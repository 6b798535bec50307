"""Response rules require no more than the providers' own servers keep: recorded answers of providers violate none.
Neither do unusual but harmless answers."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.response_rules import RESPONSE_RULES
from harness.apis.view import ModelStep, Provocation, RequestView
from harness.checks.server_session import ServerUnderTest
from harness.model.http import HttpResponse
from harness.model.messages import JSON, ChatRequest, Message, StopReason
from tests.servers.faulty import APIS, Json, payloads, spelled
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
"""Recordings that violate rules of today, and why."""


def _departures(exchange: Recorded) -> set[str]:
    api = registry.api(exchange.api)
    assert api.check_response is not None
    return {each.rule.id for each in api.check_response(exchange.response, api.view(exchange.request))}


@needs_traffic
@pytest.mark.parametrize("folder", ["anthropic-messages", "openai-chat", "openai-responses", "gemini-generateContent"])
def test_providers_keep_the_response_rules(folder: str) -> None:
    chats = [each for each in recorded(folder) if registry.api(each.api).recognises(each.request)]
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
    """The response rules that the reference server violates in a dialect or with provocations."""
    wire = registry.api(api)
    server = ServerUnderTest.of(wire, "toy-1", f"http://127.0.0.1:1{wire.base_path}")
    profile = replace(server.profile, dialect=dialect)
    plain = server.body_of(ChatRequest("toy-1", [Message.user("Hello.")], max_tokens=64))
    broken: set[str] = set()
    for seed, step in enumerate(STEPS):
        asked = replace(step, provocations=provocations)
        stream = wire.view(server.request(plain, stream=True))
        events = wire.build_stream(asked, str(seed), "toy-1", profile, stream)
        body = json.dumps(wire.build(asked, str(seed), "toy-1", profile)).encode()
        whole = HttpResponse(200, {"content-type": "application/json"}, body)
        broken |= {each.rule.id for each in server.strictly(events, stream)}
        broken |= {each.rule.id for each in server.strictly(whole, wire.view(server.request(plain, stream=False)))}
    return broken


@pytest.mark.parametrize("api", APIS)
def test_what_the_grammar_of_an_api_allows_is_no_departure(api: str) -> None:
    """Calls that are open at once, events of another day, line separators: rare, and right."""
    assert departures(api) == set()
    assert departures(api, provocations=registry.api(api).provocations - {Provocation.EMPTY_ARGUMENTS}) == set()


@pytest.mark.parametrize(
    ("api", "dialect", "broken"),
    [
        ("openai-chat", "empty-ids", {"server-call-id"}),
        ("openai-chat", "no-ids", {"server-call-id"}),
        ("openai-chat", "index-from-one", {"server-index"}),
        ("openai-chat", "no-index", {"server-index"}),
        ("openai-chat", "empty-arguments", {"server-arguments"}),
        ("openai-chat", "no-usage", {"server-usage"}),
        ("openai-chat", "repeated-ids", {"server-call-id", "server-fields"}),  # OpenAI's SDK joins them
        ("openai-chat", "whole-calls", set()),
        ("openai-chat", "early-usage", set()),
        ("openai-chat", "comments", set()),
        ("openai-responses", "no-numbers", {"server-events"}),
        ("openai-responses", "bare-end", {"server-events"}),
        ("openai-responses", "sentinel", set()),
    ],
)
def test_dialects_violate_only_the_expected_rules(api: str, dialect: str, broken: set[str]) -> None:
    assert departures(api, dialect=dialect) == broken


@pytest.mark.parametrize(("stopped", "broken"), [("max_tokens", set()), ("tool_use", {"server-arguments"})])
def test_a_bound_cuts_the_arguments_of_the_last_block(stopped: str, broken: set[str]) -> None:
    """As a small model of llama.cpp did: the pieces are no JSON, and the stream says why."""
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    block = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}
    piece = {"type": "input_json_delta", "partial_json": '{"cit'}
    sent: list[Json] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": piece},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stopped}, "usage": {"output_tokens": 16}},
        {"type": "message_stop"},
    ]
    wire = registry.api("anthropic")
    server = ServerUnderTest.of(wire, "toy-1", "http://127.0.0.1:1")
    plain = server.body_of(ChatRequest("toy-1", [Message.user("Hello.")], max_tokens=64))
    answer = HttpResponse(200, {"content-type": "text/event-stream"}, spelled("anthropic", sent))

    found = server.strictly(answer, wire.view(server.request(plain, stream=True)))

    assert {each.rule.id for each in found} == broken


VALUES: tuple[JSON, ...] = (None, True, -1, 1.5, 10**400, "", "{", [], [1], {}, [{}])


def places(value: JSON, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places(member, (*path, key))


def put(value: Any, path: tuple[str | int, ...], other: JSON) -> Any:
    """A value with another one at a place."""
    if not path:
        return other
    made = copy.copy(value)
    made[path[0]] = put(value[path[0]], path[1:], other)
    return made


@pytest.mark.parametrize("api", APIS)
def test_whatever_stands_in_an_answer_it_is_read(api: str) -> None:
    """Values of other types, at each place of a whole answer, of an event and of an error."""
    wire = registry.api(api)
    server = ServerUnderTest.of(wire, "toy-1", f"http://127.0.0.1:1{wire.base_path}")
    plain = server.body_of(ChatRequest("toy-1", [Message.user("Hello.")], max_tokens=64))
    whole, stream = (wire.view(server.request(plain, stream=stream)) for stream in (False, True))
    body: JSON = wire.build(STEPS[2], "1", "toy-1", server.profile)
    sent = payloads(wire.build_stream(STEPS[2], "1", "toy-1", server.profile, stream))
    refusal = json.loads(wire.fail(400, None, "1").body)
    values = cycle(VALUES)

    def is_read(status: int, content_type: str, written: bytes, asked: RequestView) -> None:
        found = server.strictly(HttpResponse(status, {"content-type": content_type}, written), asked)
        assert all(each.rule.id in RESPONSE_RULES for each in found)

    for path in places(body):
        for value in islice(values, 4):
            is_read(200, "application/json", json.dumps(put(body, path, value)).encode(), whole)
    for path in places(refusal):
        for value in islice(values, 4):
            is_read(400, "application/json", json.dumps(put(refusal, path, value)).encode(), whole)
    for at, event in enumerate(sent):
        for path in islice(places(event), at % 2, None, 2):
            changed = [*sent[:at], put(event, path, next(values)), *sent[at + 1 :]]
            named = [f"event: {each.get('type') if isinstance(each, dict) else 'x'}\n" for each in changed]
            lines = zip(named, map(json.dumps, changed), strict=True)
            is_read(200, "text/event-stream", "".join(f"{n}data: {d}\n\n" for n, d in lines).encode(), stream)
