from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.view import ModelStep
from harness.model.http import HttpRequest, HttpResponse
from harness.results import Blame, Exchange, Severity, Transcript
from harness.rules.decoded_responses import RULES
from harness.rules.evidence import Evidence
from harness.rules.rule import all_rules
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.traffic import needs_traffic, recorded

MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai-chat": "gpt-5.6",
    "openai-responses": "gpt-5.6",
    "gemini": "gemini-3.6-flash",
}
CALL = ModelStep(calls=(("get_weather", {"city": "Paris"}),))


def built(api: str, step: ModelStep = CALL) -> dict[str, Any]:
    model = MODELS[api]
    return json.loads(json.dumps(registry.api(api).build(step, "seed", model, registry.api(api).profile_for(model))))


def departures(api: str, body: Any, model: str | None = None, host: str = "provider.example") -> list[str]:
    model = model or MODELS[api]
    response = HttpResponse(200, {"content-type": "application/json"}, json.dumps(body).encode())
    asked = HttpRequest("POST", f"https://{host}/v1/chat/completions", {}, b"{}")
    transcript = Transcript(api, model, registry.api(api).profile_for(model), (Exchange(asked, response),), "live")
    found = [finding for rule in RULES for finding in rule.findings(Evidence(transcript))]
    assert all((f.severity, f.blame, f.exchange) == (Severity.WARNING, Blame.PROVIDER, 0) for f in found)
    return [finding.rule for finding in found]


@pytest.mark.parametrize("api", MODELS)
def test_a_response_as_the_provider_gives_it_departs_in_nothing(api: str) -> None:
    assert departures(api, built(api)) == []
    assert departures(api, built(api, ModelStep(text="18 °C."))) == []


def no_id(body: Any) -> None:
    del body["candidates"][0]["content"]["parts"][0]["functionCall"]["id"]


def no_signature(body: Any) -> None:
    del body["candidates"][0]["content"]["parts"][0]["thoughtSignature"]


def unknown_word(body: Any) -> None:
    body["candidates"][0]["finishReason"] = "FUNCTION_CALL"


def no_usage(body: Any) -> None:
    del body["usageMetadata"]


def nothing_counted(body: Any) -> None:
    body["usageMetadata"]["promptTokenCount"] = 0


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (no_id, "provider-id-missing"),
        (no_signature, "provider-signature-missing"),
        (unknown_word, "provider-stop-reason"),
        (no_usage, "provider-usage-missing"),
        (nothing_counted, "provider-usage-missing"),
    ],
)
def test_each_departure_has_a_rule_of_its_own(change: Callable[[Any], None], rule: str) -> None:
    body = built("gemini")
    change(body)

    assert departures("gemini", body) == [rule]


def test_calls_without_ids_or_signatures_are_as_they_should_be_before_gemini_3() -> None:
    body = built("gemini")
    no_id(body)
    no_signature(body)

    assert departures("gemini", body, "gemini-2.5-flash") == []


def test_the_old_form_of_a_call_has_no_id() -> None:
    body = built("openai-chat")
    message = body["choices"][0]["message"]
    message["function_call"] = message.pop("tool_calls")[0]["function"]

    assert departures("openai-chat", body) == []


def test_vertex_may_leave_out_the_ids() -> None:
    body = built("gemini")
    no_id(body)

    assert departures("gemini", body, host="aiplatform.googleapis.com") == []


def test_a_stop_reason_that_hides_the_calls_departs() -> None:
    body = built("anthropic")
    body["stop_reason"] = "end_turn"

    assert departures("anthropic", body) == ["provider-stop-reason"]


def test_openai_may_say_stop_to_a_call_that_the_request_had_named() -> None:
    body = built("openai-chat")
    body["choices"][0]["finish_reason"] = "stop"

    assert departures("openai-chat", body) == []


def test_a_blocked_prompt_needs_no_token_count() -> None:
    assert departures("gemini", {"promptFeedback": {"blockReason": "SAFETY"}}) == []


@needs_traffic
@pytest.mark.parametrize("folder", ["anthropic-messages", "openai-chat", "openai-responses", "gemini-generateContent"])
def test_the_providers_themselves_hardly_ever_depart(folder: str) -> None:
    found: list[str] = []
    for each in recorded(folder):
        model = registry.api(each.api).model_of(each.request) or ""
        exchange = Exchange(each.request, each.response)
        transcript = Transcript(each.api, model, registry.api(each.api).profile_for(model), (exchange,), "audit")
        found += [finding.rule for rule in RULES for finding in rule.findings(Evidence(transcript))]

    # One recorded response of OpenAI's counts no tokens at all.
    assert found == (["provider-usage-missing"] if folder == "openai-responses" else [])


def blamed(response: HttpResponse, *, scripted: bool) -> set[tuple[str, Blame]]:
    cell = Cell(shipped_scenarios()["call-single"], shipped_targets()["openai-chat"], "whole")
    result = Run(InProcess(lambda request, session: response, scripted=scripted), all_rules())([cell])
    return {(f.rule, f.blame) for f in result.cells[0].findings if f.severity is Severity.ERROR}


def test_a_response_that_nobody_can_read_is_the_providers_unless_it_is_ours() -> None:
    page = HttpResponse(200, {"content-type": "text/html"}, b"<html>upstream is warming up</html>")

    assert blamed(page, scripted=False) == {("exchange-unreadable", Blame.PROVIDER)}
    assert ("exchange-unreadable", Blame.HARNESS) in blamed(page, scripted=True)
