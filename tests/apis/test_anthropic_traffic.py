"""The witness for Anthropic against what the provider really sent and took."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from harness.apis import registry
from harness.apis.anthropic import API
from harness.apis.limits import Violation
from harness.apis.view import CallView, MediaView, OpaqueView, RequestView, ResultView, TextView
from harness.model.http import HttpRequest
from harness.model.messages import StopReason
from tests.apis import lawful
from tests.apis.pointers import resolve
from tests.traffic import Recorded, needs_traffic, recorded

FOLDERS = ("anthropic-messages", "errors/anthropic-messages")

pytestmark = needs_traffic


def violations(request: HttpRequest) -> list[Violation]:
    return lawful.violations(API, request, registry.api("anthropic").profile_for(API.model_of(request) or ""))


def accepted() -> list[Recorded]:
    return [exchange for exchange in recorded("anthropic-messages") if exchange.response.status == 200]


def test_every_request_is_recognised() -> None:
    assert len(recorded(*FOLDERS)) == 174
    assert all(API.recognises(exchange.request) for exchange in recorded(*FOLDERS))


def _check(body: Any, view: RequestView) -> int:
    """Every pointer leads to what the view says. Gives the number of parts that were looked at."""
    checked = 0
    for turn in view.turns:
        assert resolve(body, turn.pointer)["role"] == turn.wire_role
        for part in turn.parts:
            checked += 1
            found = resolve(body, part.pointer)
            match part:
                case TextView():
                    assert found == part.text
                case CallView():
                    assert resolve(body, part.id_pointer) == part.id
                    assert resolve(body, part.arguments_pointer) == part.arguments
                case ResultView():
                    assert resolve(body, part.id_pointer) == part.call_id
                case MediaView() | OpaqueView():
                    assert "type" in found
    for tool in view.tools:
        assert resolve(body, tool.pointer)["name"] == tool.name
    for system in view.system:
        assert resolve(body, system.pointer) == system.text
    for setting in view.settings.values():
        assert resolve(body, setting.pointer) == setting.value
    return checked


def test_every_request_is_viewed_with_pointers_that_lead_there() -> None:
    checked = sum(_check(json.loads(item.request.body), API.view(item.request)) for item in recorded(*FOLDERS))
    assert checked > 500


def test_no_block_of_a_request_vanishes() -> None:
    for exchange in recorded(*FOLDERS):
        messages = json.loads(exchange.request.body)["messages"]
        blocks = sum(1 if isinstance(message["content"], str) else len(message["content"]) for message in messages)
        view = API.view(exchange.request)
        in_system = sum(system.place != "system" for system in view.system)
        assert sum(len(turn.parts) for turn in view.turns) + in_system == blocks


def test_every_response_is_read() -> None:
    seen = Counter[StopReason]()
    for exchange in recorded(*FOLDERS):
        view = API.read(exchange.response)
        assert view.complete
        assert (view.error is None) is (exchange.response.status == 200)
        seen[view.stop_reason] += 1
        if view.error is None:
            assert view.usage.input_tokens is not None
            assert view.usage.output_tokens is not None
            assert (view.stop_reason is StopReason.TOOL_USE) is bool(view.calls)
            assert not any(call.malformed for call in view.calls)
            for call in view.calls:
                assert resolve(view.body, call.arguments_pointer) == call.arguments
        else:
            assert view.error.message
    assert set(seen) == {StopReason.END_TURN, StopReason.TOOL_USE, StopReason.ERROR}


def test_nothing_accepted_is_flagged() -> None:
    found = [(item.path, item.index, violation) for item in accepted() for violation in violations(item.request)]
    assert len(accepted()) >= 170
    assert found == []


def test_refusals_are_for_reasons_that_no_request_shows() -> None:
    """Too long a prompt, an unknown model, and an image by URL, which Bedrock does not fetch; but an effort that the
    model does not have is one that a request shows."""
    refused = [item for item in recorded(*FOLDERS) if item.response.status != 200]
    assert [API.recognises(item.request) for item in refused] == [True] * 4
    found = [each.rule for item in refused for each in violations(item.request)]
    assert found == ["anthropic-effort-xhigh-opus-4-6"]
