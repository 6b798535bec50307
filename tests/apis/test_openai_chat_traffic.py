from __future__ import annotations

import json
from collections import Counter

from harness.apis import registry
from harness.apis.limits import Violation
from harness.apis.openai_chat import API
from harness.apis.view import CallView, OpaqueView, TextView
from tests.apis import lawful
from tests.apis.pointers import resolve
from tests.traffic import Recorded, needs_traffic, recorded

CONVERSATIONS = ("openai-chat", "openai-compat-chat")
ERRORS = ("errors/openai-chat", "errors/openai-compat-chat")

REFUSED_FOR_THEIR_SHAPE = {
    "errors/openai-chat/pydantic-pydantic-ai-018-400.yaml": "openai-chat-system-unsupported",
    "errors/openai-chat/pydantic-pydantic-ai-019-400.yaml": "openai-chat-system-unsupported",
    "errors/openai-chat/pydantic-pydantic-ai-020-400.yaml": "openai-chat-web-search-options-models",
}
"""The other refusals have causes that no request shows: keys, quotas, unknown models, contexts too long, and what the
model generated."""


def violations(exchange: Recorded) -> list[Violation]:
    profile = registry.api("openai-chat").profile_for(API.model_of(exchange.request) or "")
    return lawful.violations(API, exchange.request, profile)


def accepted() -> list[Recorded]:
    return [
        exchange
        for exchange in recorded(*CONVERSATIONS)
        if exchange.response.status == 200 and API.read(exchange.response).error is None
    ]


@needs_traffic
def test_every_request_is_recognised_and_viewed_with_exact_pointers() -> None:
    seen = Counter[str]()
    for exchange in recorded(*CONVERSATIONS, *ERRORS):
        assert API.recognises(exchange.request), exchange.path
        body = json.loads(exchange.request.body)
        view = API.view(exchange.request)
        for system in view.system:
            assert resolve(body, system.pointer) == system.text
        for part in (part for turn in view.turns for part in turn.parts):
            seen[type(part).__name__] += 1
            if isinstance(part, TextView):
                assert resolve(body, part.pointer) == part.text
            elif isinstance(part, OpaqueView):
                assert resolve(body, part.pointer) == part.raw
            elif isinstance(part, CallView):
                assert resolve(body, part.id_pointer) == part.id
                assert json.loads(resolve(body, part.arguments_pointer)) == part.arguments
        for result in view.results:
            assert resolve(body, result.id_pointer) == result.call_id
        assert [resolve(body, tool.pointer)["function"]["name"] for tool in view.tools] == [t.name for t in view.tools]
        assert len(view.system) + len(view.turns) >= len(body["messages"])
    assert seen["CallView"] == seen["ResultView"] > 150
    assert seen["MediaView"] > 2
    assert seen["OpaqueView"] > 50


@needs_traffic
def test_every_response_is_read() -> None:
    streamed = Counter[bool]()
    for exchange in recorded(*CONVERSATIONS, *ERRORS):
        seen = API.read(exchange.response)
        streamed[seen.streamed] += 1
        assert (seen.error is not None) or seen.parts, exchange.path
        assert seen.error is not None or seen.complete, exchange.path
        for call in seen.calls:
            assert resolve(seen.body, call.pointer)["function"]["name"] == call.name
            assert isinstance(call.arguments, dict), exchange.path
        if seen.error is None:
            assert seen.usage.input_tokens is not None, exchange.path
    assert streamed[True] > 80
    assert streamed[False] > 100


@needs_traffic
def test_the_calls_read_are_those_that_the_next_request_carries_back() -> None:
    pairs = 0
    for folder in CONVERSATIONS:
        exchanges = {(one.path, one.index): one for one in recorded(folder)}
        for exchange in exchanges.values():
            for i, j in exchange.pairs if exchange.index == 0 else ():
                answered = API.read(exchanges[exchange.path, i].response)
                carried = API.view(exchanges[exchange.path, j].request)
                sent = [(call.name, json.dumps(call.arguments, sort_keys=True)) for call in carried.calls]
                for call in answered.calls:
                    assert (call.name, json.dumps(call.arguments, sort_keys=True)) in sent, exchange.path
                pairs += 1
    assert pairs == 110


@needs_traffic
def test_every_error_in_a_refused_exchange_is_read_whatever_its_status() -> None:
    read = [API.read(exchange.response) for exchange in recorded(*ERRORS)]
    assert all(seen.error is not None and seen.error.message for seen in read)
    assert sum(1 for seen in read if seen.error and seen.error.status == 200) == 3


@needs_traffic
def test_nothing_accepted_is_flagged() -> None:
    """By today's law; names that have been retired since then only warn."""
    flagged = {(one.path, one.index): {(found.rule, found.severity) for found in violations(one)} for one in accepted()}
    assert len(flagged) == 217
    said = Counter(found for every in flagged.values() for found in every)
    assert said == {("openai-chat-deepseek-old-names-retired", "warning"): 13}


@needs_traffic
def test_what_was_refused_for_its_own_shape_is_flagged() -> None:
    flagged = {
        one.path: found.rule for one in recorded(*ERRORS) for found in violations(one) if found.severity == "error"
    }
    assert flagged == REFUSED_FOR_THEIR_SHAPE
