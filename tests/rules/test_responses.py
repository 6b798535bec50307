"""What an adapter may make of a response whose calls are none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.cassettes.transport import Handler
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import Refusal, StopReason, Text, ToolCall
from harness.results import Kind, Transcript
from harness.runner.cells import Cell
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.rules.transcripts import found, given, only, transcript_for, transcript_of, with_chat, with_parts

CUT = '{"city": "Par'


def malformed() -> Transcript:
    """A chat that ends in a call whose arguments are no JSON, though the API says that all is well."""

    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        body = json.loads(response.body)
        body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = CUT
        return replace(response, body=json.dumps(body).encode())

    scenario = shipped_scenarios()["call-single"]
    silent = scenario.model_copy(update={"turns": [scenario.turns[0].model_copy(update={"expect": None})]})
    return transcript_of(Cell(silent, shipped_targets()["openai-chat"], "whole"), InProcess(provider))


def test_a_call_that_is_none_is_the_reason_though_the_api_says_that_all_is_well() -> None:
    transcript = malformed()
    assert given(transcript).stop_reason is StopReason.MALFORMED_CALL
    assert found(transcript) == []
    believing = with_chat(transcript, response=replace(given(transcript), stop_reason=StopReason.TOOL_USE))
    assert only(believing, "stop-reason").expected == "malformed_call"
    general = with_chat(transcript, response=replace(given(transcript), stop_reason=StopReason.ERROR))
    assert only(general, "stop-reason").kind is Kind.CONVENTION


@pytest.mark.parametrize(("word", "kind"), [("other", Kind.CONVENTION), ("strange", Kind.LOSS)])
def test_a_library_may_have_one_word_for_rare_stop_reasons(word: str, kind: Kind) -> None:
    transcript = malformed()
    reported = replace(given(transcript), stop_reason=StopReason.UNKNOWN, raw_stop_reason=word)
    assert only(with_chat(transcript, response=reported), "stop-reason").kind is kind


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses"])
def test_the_words_of_a_refusal_may_be_text_beside_the_stop_reason(target: str) -> None:
    transcript = transcript_for("stop-refusal", target, "whole")
    response = given(transcript)
    (refusal,) = response.message.parts
    assert isinstance(refusal, Refusal)
    reported = with_parts(response, [Text(refusal.text)])
    finding = only(with_chat(transcript, response=reported), "response-text")
    assert finding.kind is Kind.CONVENTION
    assert finding.message == "a refusal is returned as text, with the stop reason of a refusal"
    other = only(with_chat(transcript, response=with_parts(response, [Text("No.")])), "response-text")
    assert (other.kind, other.message) == (Kind.LOSS, "the adapter returns a different text than the answer has")
    answered = with_chat(transcript, response=replace(reported, stop_reason=StopReason.END_TURN))
    assert {each.rule: each.kind for each in found(answered)}["response-text"] is Kind.LOSS


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("openai-responses", "the provider's stop reason 'completed' of a refusal ({words})"),
        ("openai-chat", "the provider's stop reason 'stop' of a refusal ({words})"),
        ("anthropic", "the provider's stop reason 'refusal'"),
    ],
)
def test_another_stop_reason_of_a_refusal_is_reported_with_the_refusal(target: str, said: str) -> None:
    transcript = transcript_for("stop-refusal", target, "whole")
    response = given(transcript)
    ended = with_chat(transcript, response=replace(response, stop_reason=StopReason.END_TURN))
    (finding,) = (each for each in found(ended) if each.rule == "stop-reason")
    words = "".join(part.text for part in response.message.parts if isinstance(part, Refusal))
    assert finding.message == f"{said.format(words=repr(words))} means refusal, and the adapter reports end_turn"


def test_a_malformed_call_is_handed_on_as_none() -> None:
    transcript = malformed()
    response = given(transcript)
    for arguments in ({}, {"city": "Par"}):
        (wire,) = json.loads((transcript.exchanges[0].response or HttpResponse(0)).body)["choices"][0]["message"][
            "tool_calls"
        ]
        handed_on = with_parts(response, [ToolCall(wire["id"], "get_weather", dict(arguments))])
        finding = only(with_chat(transcript, response=handed_on), "truncated-call")
        assert (finding.actual, finding.pointer) == (CUT, "/choices/0/message/tool_calls/0/function/arguments")
