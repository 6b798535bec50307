from collections import Counter

from harness.apis import registry
from harness.apis.gemini import API
from harness.apis.jsonvalue import equal, loads, resolve
from harness.apis.profiles import Profile
from harness.apis.view import CallView, JsonView, TextView
from tests.apis import lawful
from tests.traffic import Recorded, needs_traffic, recorded

pytestmark = needs_traffic

CHATS, ERRORS = "gemini-generateContent", "errors/gemini-generateContent"


def profile(exchange: Recorded) -> Profile:
    model = API.model_of(exchange.request)
    assert model is not None
    return registry.api("gemini").profile_for(model)


def accepted() -> list[Recorded]:
    return [exchange for exchange in recorded(CHATS) if exchange.response.status == 200]


def test_every_request_is_recognised_and_viewed_with_exact_pointers() -> None:
    exchanges = recorded(CHATS, ERRORS)
    assert len(exchanges) > 200
    for exchange in exchanges:
        assert API.recognises(exchange.request)
        body = loads(exchange.request.body)
        view = API.view(exchange.request)
        for turn in view.turns:
            assert isinstance(resolve(body, turn.pointer), dict)
            for part in turn.parts:
                found = resolve(body, part.pointer)
                if isinstance(part, TextView):
                    assert found == part.text
                if isinstance(part, CallView):
                    assert equal(resolve(body, part.arguments_pointer), part.arguments)
        for result in view.results:
            payload = [part for part in result.payload if isinstance(part, JsonView)]
            assert all(equal(resolve(body, part.pointer), part.value) for part in payload)
            assert result.call_id is None or resolve(body, result.id_pointer) == result.call_id
        assert [resolve(body, system.pointer) for system in view.system] == [system.text for system in view.system]
        for tool in view.tools:
            resolve(body, tool.pointer)


def test_every_response_is_read() -> None:
    stops: Counter[str] = Counter()
    for exchange in recorded(CHATS, ERRORS):
        view = API.read(exchange.response)
        assert (view.error is not None) == (exchange.response.status != 200)
        assert view.error or (view.complete and view.raw_stop_reason)
        assert view.streamed == (":streamGenerateContent" in exchange.request.url)
        for part in view.parts:
            resolve(view.body, part.pointer)
        stops[view.stop_reason] += 1
    assert stops["tool_use"] > 100
    assert stops["end_turn"] > 50
    assert stops["refusal"] == 2
    assert stops["malformed_call"] == 4
    assert stops["unknown"] == 0


def test_no_accepted_request_has_a_violation_but_one_that_is_only_reported() -> None:
    exchanges = accepted()
    assert len(exchanges) > 200
    flagged = Counter(
        (found.rule, found.severity)
        for exchange in exchanges
        for found in lawful.violations(API, exchange.request, profile(exchange))
    )
    assert flagged == {("gemini-any-mode-with-parameterless-function-refused-2-0", "warning"): 2}


def test_no_recorded_refusal_is_due_to_the_shape_of_the_request() -> None:
    refused = [exchange for exchange in recorded(CHATS, ERRORS) if exchange.response.status != 200]
    reasons = [
        ("URL_ROBOTED", 2),  # the file at a URL, which only the provider can look at
        ("exceeded your current quota", 1),
        ("exceeds the maximum number of tokens", 1),
        ("is not found for API version", 1),  # a misspelt model
    ]
    assert len(refused) == sum(count for _, count in reasons)
    for reason, count in reasons:
        found = [exchange for exchange in refused if reason in exchange.response.body.decode()]
        assert len(found) == count
        assert [lawful.violations(API, exchange.request, profile(exchange)) for exchange in found] == [[]] * count
