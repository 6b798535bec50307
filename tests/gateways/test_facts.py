"""What a fact says of one request and its answer, at both ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness import catalog
from harness.checking.gateways.fact import Fared, Fate
from harness.checking.gateways.facts import FACTS
from harness.checking.gateways.passage import Passage, Way, side
from harness.contract.http import EXHAUSTED, HttpRequest, HttpResponse
from harness.results import Exchange

CHAT = catalog.api("openai-chat")
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def fared(fact: str, asked: Exchange, arrived: Exchange) -> list[Fared]:
    passage = Passage(Way(CHAT, CHAT), 0, side(CHAT, asked), (side(CHAT, arrived),))
    return [each for known in FACTS if known.id == fact for each in known.check(passage)]


def exchange(said: str | None = None, /, *, made_up: bool = False, **body: Any) -> Exchange:
    chat = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **body}
    request = HttpRequest("POST", "http://x/v1/chat/completions", {}, json.dumps(chat).encode())
    if said is None:
        return Exchange(request, None)
    error = json.dumps({"error": {"message": said}}).encode()
    return Exchange(request, HttpResponse(400, {EXHAUSTED: "1"} if made_up else {}, error))


@pytest.mark.parametrize(
    ("given", "lost"),
    [
        ({"tools": [TOOL], "reasoning_effort": "none"}, False),  # which a model wants that takes no tools otherwise
        ({"tools": [TOOL], "reasoning_effort": "high"}, True),
        ({"reasoning_effort": "none"}, True),
    ],
)
def test_reasoning_that_is_switched_off_for_tools_is_no_setting_made_up(given: dict[str, Any], lost: bool) -> None:
    assert bool(fared("gateway-thinking", exchange(), exchange(**given))) is lost


def test_an_error_inside_of_other_words_is_said_however_it_is_escaped() -> None:
    theirs = "no 'x' in \"y\""
    for text in (theirs, f"upstream: {theirs}", "b'no \\'x\\' in \"y\"'", json.dumps({"message": theirs})):
        assert [each.fate for each in fared("gateway-error-text", exchange(text), exchange(theirs))] != [Fate.LOST]
    assert [each.fate for each in fared("gateway-error-text", exchange("it failed"), exchange(theirs))] == [Fate.LOST]


@pytest.mark.parametrize("fact", ["gateway-error-text", "gateway-error"])
def test_what_the_harness_says_for_want_of_an_answer_is_no_error_of_an_upstream(fact: str) -> None:
    assert fared(fact, exchange("it failed"), exchange("no answer is left", made_up=True)) == []
