"""The wire readers against what providers really sent and accepted."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from harness.apis import registry
from harness.apis.jsonvalue import equal, loads
from harness.apis.view import CallView, OpaqueView, RequestView, ResultView, TextView
from tests.apis.samples import MODELS, resolve, violations
from tests.traffic import Recorded, needs_traffic, recorded

pytestmark = needs_traffic

ACCEPTED = {
    "anthropic": ("anthropic-messages",),
    "openai-chat": ("openai-chat", "openai-compat-chat"),
    "openai-responses": ("openai-responses", "openai-compat-responses"),
    "gemini": ("gemini-generateContent",),
}
REFUSED = {
    "anthropic": ("errors/anthropic-messages",),
    "openai-chat": ("errors/openai-chat", "errors/openai-compat-chat"),
    "openai-responses": ("errors/openai-responses", "errors/openai-compat-responses"),
    "gemini": ("errors/gemini-generateContent",),
}
ENTRIES = {"anthropic": "messages", "openai-chat": "messages", "openai-responses": "input", "gemini": "contents"}


def exchanges(api: str) -> list[Recorded]:
    return recorded(*ACCEPTED[api], *REFUSED[api])


def is_refused(item: Recorded) -> bool:
    return item.response.status != 200 or registry.api(item.api).read(item.response).error is not None


@pytest.mark.parametrize("api", MODELS)
def test_every_request_is_recognised_and_every_pointer_leads_to_its_value(api: str) -> None:
    checked = 0
    for item in exchanges(api):
        assert registry.api(api).recognises(item.request), item.path
        body, view = loads(item.request.body), registry.api(api).view(item.request)
        checked += _check_parts(body, view)
        assert [resolve(body, system.pointer) for system in view.system] == [system.text for system in view.system]
        for place in (*view.tools, *view.settings.values()):
            resolve(body, place.pointer)
        listed = body[ENTRIES[api]]
        read = {turn.pointer for turn in view.turns}
        read |= {"/".join(each.pointer.split("/")[:3]) for each in view.system if each.place.startswith("message")}
        wanted = [f"/{ENTRIES[api]}/{at}" for at in range(len(listed))] if isinstance(listed, list) else ["/input"]
        assert read >= {*wanted}, "no entry is left out"
    assert checked > 500


def _check_parts(body: Any, view: RequestView) -> int:
    parts = [part for turn in view.turns for part in turn.parts]
    for part in parts:
        found = resolve(body, part.pointer)
        match part:
            case TextView():
                assert found == part.text
            case CallView():
                assert part.id is None or resolve(body, part.id_pointer) == part.id
                arguments = resolve(body, part.arguments_pointer)
                assert equal(json.loads(arguments or "{}") if isinstance(arguments, str) else arguments, part.arguments)
            case ResultView():
                assert part.call_id is None or resolve(body, part.id_pointer) == part.call_id
                for piece in part.payload:
                    resolve(body, piece.pointer)
            case OpaqueView() if view.api == "openai-chat":
                assert found == part.raw
            case _:
                pass
    return len(parts)


STOPS = {
    "anthropic": {"end_turn", "tool_use", "error"},
    "openai-chat": {"end_turn", "tool_use", "max_tokens", "error", "unknown"},
    "openai-responses": {"end_turn", "tool_use", "pause", "error"},
    "gemini": {"end_turn", "tool_use", "refusal", "malformed_call", "error"},
}


@pytest.mark.parametrize("api", MODELS)
def test_every_response_is_read(api: str) -> None:
    seen: set[str] = set()
    for item in exchanges(api):
        view = registry.api(api).read(item.response)
        seen.add(view.stop_reason.value)
        assert view.complete or view.error, item.path
        assert view.error is not None or item.response.status == 200
        for part in view.parts:
            resolve(view.body, part.pointer)
        if view.error is not None:
            assert view.error.message
        elif view.stop_reason.value not in ("pause", "malformed_call", "refusal"):
            assert view.usage.input_tokens is not None, item.path
            assert view.usage.output_tokens is not None, item.path
            assert all(isinstance(call.arguments, dict) for call in view.calls), item.path
    assert seen == STOPS[api]


def test_deltas_of_responses_alone_add_up_to_its_items() -> None:
    """Without the events that repeat what came in pieces."""
    compared = 0
    endings = (b"response.completed", b"response.output_item.done", b"_text.done", b"arguments.done", b"part.done")
    api = registry.api("openai-responses")
    for item in recorded(*ACCEPTED["openai-responses"]):
        whole = api.read(item.response)
        if not whole.streamed:
            continue
        events = item.response.body.replace(b"\r\n", b"\n").split(b"\n\n")
        kept = [one for one in events if not any(b'"' + end in one or end + b'"' in one for end in endings)]
        added = api.read(replace(item.response, body=b"\n\n".join(kept)))
        assert (added.complete, added.text) == (False, whole.text)
        compared += len(whole.calls)
        for one, other in zip(added.calls, whole.calls, strict=True):
            assert one.arguments == other.arguments or (one.malformed == "" and other.arguments == {})
    assert compared > 25


WARNED = {
    "openai-chat": {("openai-chat-deepseek-old-names-retired", "warning"): 13},
    "gemini": {("gemini-any-mode-with-parameterless-function-refused-2-0", "warning"): 2},
}
"""What today's facts say of accepted requests: some names have been retired since."""


@pytest.mark.parametrize("api", MODELS)
def test_no_accepted_request_has_an_error(api: str) -> None:
    accepted = [item for item in recorded(*ACCEPTED[api]) if not is_refused(item)]
    assert len(accepted) >= 170
    found = Counter(
        (each.rule, each.severity) for item in accepted for each in violations(registry.api(api), item.request)
    )
    expected = WARNED.get(api, {})
    assert {key: count for key, count in found.items() if key[1] == "error" or key in expected} == expected


REFUSED_FOR_THEIR_FORM = {
    "anthropic": {"anthropic-effort-xhigh-opus-4-6"},
    "openai-chat": {"openai-chat-system-unsupported", "openai-chat-web-search-options-models"},
    "openai-responses": {
        "openai-responses-parameter-range",
        "openai-responses-reasoning-alone",
        "openai-responses-result-detached",
    },
    "gemini": set(),
}
"""The other refusals have causes that no request shows: keys, quotas, unknown models, long contexts, files at URLs."""


@pytest.mark.parametrize("api", MODELS)
def test_requests_that_were_refused_for_their_form_have_an_error(api: str) -> None:
    refused = [item for item in exchanges(api) if is_refused(item)]
    found = [each for item in refused for each in violations(registry.api(api), item.request)]
    assert {each.rule for each in found if each.severity == "error"} == REFUSED_FOR_THEIR_FORM[api]
    assert len(refused) > 3
