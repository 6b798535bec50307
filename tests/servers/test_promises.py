"""The promises are those that the providers' own servers keep: real answers are read strictly, and stand."""

from __future__ import annotations

import pytest

from harness import catalog
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
