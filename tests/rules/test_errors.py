"""Failures: the canonical error for what the wire says, with its status and the time to wait, and nobody blamed for
what the scenario wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from harness.model.errors import ChatError
from harness.model.http import HttpResponse
from harness.model.messages import (
    ArgumentsDelta,
    ChatResponse,
    Message,
    Role,
    StopReason,
    StreamEvent,
    Text,
    TextDelta,
    ToolCall,
    ToolCallStart,
    Usage,
)
from harness.results import Blame, Exchange, Finding, Kind, Severity, Transcript
from harness.scenarios.schema import Expectation, Scenario, Variant
from tests.broken.fault import rescues, sends
from tests.broken.running import run_cell as faulty
from tests.rules.transcripts import found, only, transcript_for, with_chat, with_exchange

NOTHING = ChatResponse(Message(Role.ASSISTANT, (Text(""),)), StopReason.END_TURN, Usage())


@pytest.mark.parametrize("variant", ["whole", "stream"])
@pytest.mark.parametrize("error", ["ServerError", "MalformedResponse", "KeyError"])
def test_another_error_than_the_statuss(error: str, variant: Variant) -> None:
    broken = with_chat(transcript_for("error-429", "gemini-2.5", variant), error=error, crashed=error == "KeyError")
    finding = only(broken, "chat-failure")
    assert (finding.actual, finding.expected, finding.exchange) == (error, "RateLimited", 0)


def test_an_error_in_a_stream_is_named_with_the_status_that_it_means() -> None:
    right = transcript_for("stream-error-behind-text", "openai-chat", "stream")
    finding = only(with_chat(right, error="MalformedResponse"), "chat-failure")

    assert finding.message.startswith("the provider answered 200 and, in its body, error 500: ")


def first(transcript: Transcript) -> Finding:
    """What `chat-failure` says, whatever else follows from it."""
    (finding,) = (each for each in found(transcript) if each.rule == "chat-failure")
    return finding


@pytest.mark.parametrize(("variant", "other"), [("whole", "stream"), ("stream", "whole")])
def test_an_answer_in_the_form_that_was_not_asked_for_is_the_providers(variant: Variant, other: Variant) -> None:
    right, turned = (
        transcript_for("system-absent", variant=variant),
        transcript_for("system-absent", variant=other).exchanges[0],
    )
    failing = with_chat(right, error="MalformedResponse", error_text="no JSON", response=None, events=())
    answered = with_exchange(failing, lambda each: replace(each, response=turned.response))
    finding = first(answered)
    came, wanted = ("a stream", "a whole answer") if variant == "whole" else ("a whole answer", "a stream")
    said = f"the provider answered with {came} where {wanted} was requested, and the adapter raises MalformedResponse"
    assert (finding.message, finding.blame) == (f"{said}: no JSON", Blame.PROVIDER)
    itself = with_exchange(failing, lambda _: turned)
    assert first(itself).blame is Blame.ADAPTER  # it has what it asked for


def swallowed(transcript: Transcript) -> Transcript:
    return with_chat(
        transcript, response=NOTHING, error=None, error_text=None, status=None, retry_after=None, events=()
    )


@pytest.mark.parametrize("scenario", ["error-429", "body-html", "body-invalid-json"])
def test_a_failure_that_becomes_a_response(scenario: str) -> None:
    finding = only(swallowed(transcript_for(scenario, variant="whole")), "chat-failure")
    assert finding.actual == "a response"


def test_a_failure_inside_a_stream_that_becomes_a_response() -> None:
    findings = found(swallowed(transcript_for("stream-error-behind-text")))
    assert ("chat-failure", "a response") in [(finding.rule, finding.actual) for finding in findings]
    assert {finding.rule for finding in findings} <= {"chat-failure", "stream-life-cycle"}  # it has no Finish either


def test_an_error_inside_a_stream_has_the_status_that_it_stands_for_or_the_responses() -> None:
    failed = transcript_for("stream-error-behind-text")
    wanted = failed.chats[0].status
    assert found(with_chat(failed, status=200)) == []
    finding = only(with_chat(failed, status=400), "chat-failure")
    assert finding.expected == wanted == 529


def in_stream(error: dict[str, Any]) -> Callable[[Exchange], Exchange]:
    body = f"event: error\ndata: {json.dumps({'type': 'error', 'error': error})}\n\n".encode()
    return lambda exchange: replace(exchange, response=HttpResponse(200, {"content-type": "text/event-stream"}, body))


@pytest.mark.parametrize("error", ["Overloaded", "ServerError", "ProviderError"])
def test_an_error_whose_code_says_nothing_is_any_of_the_providers(error: str) -> None:
    unheard_of = in_stream({"type": "volcano_error", "message": "it erupts"})
    failed = with_exchange(with_chat(transcript_for("stream-error-at-start"), error=error, status=500), unheard_of)
    assert [f for f in found(failed) if f.rule == "chat-failure"] == []
    finding = [f for f in found(with_chat(failed, error="MalformedResponse")) if f.rule == "chat-failure"]
    assert [f.expected for f in finding] == ["any ProviderError"]


@pytest.mark.parametrize("variant", ["whole", "stream"])
def test_a_body_that_nobody_can_read_is_malformed(variant: Variant) -> None:
    finding = only(
        with_chat(transcript_for("body-html", variant=variant), error="ServerError", status=200), "chat-failure"
    )
    assert "MalformedResponse" in str(finding.expected)


def test_no_answer_is_a_connection_that_failed() -> None:
    failed = transcript_for("error-429")
    silent = with_exchange(failed, lambda exchange: replace(exchange, response=None))
    assert only(silent, "chat-failure").expected == "ConnectionFailed"
    assert only(swallowed(replace(silent, variant="whole", exchanges=whole_exchanges(silent))), "chat-failure")


def whole_exchanges(transcript: Transcript) -> tuple[Exchange, ...]:
    asked = transcript_for("error-429", variant="whole").exchanges
    return tuple(replace(one, response=other.response) for one, other in zip(asked, transcript.exchanges, strict=True))


def without_expectations(transcript: Transcript, **changes: Any) -> Transcript:
    scenario = transcript.scenario
    assert isinstance(scenario, Scenario)
    turns = [turn.model_copy(update={"expect": None}) for turn in scenario.turns]
    return replace(transcript, scenario=scenario.model_copy(update={"turns": turns, **changes}))


def test_a_failure_that_nobody_foresaw_is_the_providers() -> None:
    assert found(without_expectations(transcript_for("error-529"))) == []  # it has faults
    unforeseen = replace(without_expectations(transcript_for("error-529"), faults=[]), scripted=False)
    (finding,) = [f for f in found(unforeseen) if f.severity is Severity.ERROR]
    assert (finding.rule, finding.blame, finding.actual) == ("chat-refused", Blame.PROVIDER, 529)
    cut = replace(without_expectations(transcript_for("connection-cut"), faults=[]), scripted=False)
    (finding,) = [f for f in found(cut) if f.severity is Severity.ERROR]
    assert (finding.rule, finding.blame) == ("chat-failure", Blame.PROVIDER)


@pytest.mark.parametrize("seconds", [None, 0.0, 7.5])
def test_the_time_to_wait_is_the_providers(seconds: float | None) -> None:
    finding = only(with_chat(transcript_for("error-429-retry-after"), retry_after=seconds), "error-retry-after")
    assert (finding.actual, finding.expected) == (seconds, 7)


def test_nobody_waits_who_was_not_asked_to() -> None:
    finding = only(with_chat(transcript_for("error-429"), retry_after=1.0), "error-retry-after")
    assert "asks for no wait" in finding.message


def test_a_date_to_wait_for_comes_nearer() -> None:
    tomorrow = format_datetime(datetime.now(UTC) + timedelta(days=1), usegmt=True)

    def dated(exchange: Exchange) -> Exchange:
        assert exchange.response
        headers = {**exchange.response.headers, "retry-after": tomorrow}
        return replace(exchange, response=replace(exchange.response, headers=headers))

    limited = with_exchange(without_expectations(transcript_for("error-429")), dated)
    assert found(with_chat(limited, retry_after=86_395.0)) == []
    assert only(with_chat(limited, retry_after=86_400.0 / 2), "error-retry-after")


def expecting(transcript: Transcript, error: object) -> Transcript:
    assert transcript.scenario
    expect = Expectation.model_validate({"error": error})
    turns = [turn.model_copy(update={"expect": expect}) for turn in transcript.scenario.turns]
    return replace(transcript, scenario=transcript.scenario.model_copy(update={"turns": turns}))


@pytest.mark.parametrize(
    ("error", "path"),
    [
        ("server-error", "error"),
        ({"name": "overloaded"}, "error.name"),
        ({"name": "rate-limited", "status": 503}, "error.status"),
        ({"name": "rate-limited", "retry_after": 1}, "error.retry_after"),
    ],
    ids=["name", "matcher", "status", "wait"],
)
def test_the_right_error_may_not_be_the_expected_one(error: object, path: str) -> None:
    finding = only(expecting(transcript_for("error-429-retry-after"), error), "expectation")
    assert finding.message.startswith(f"turn 0, expect.{path}: ")
    assert finding.exchange == 0


@pytest.mark.parametrize("error", ["rate-limited", {"name": ["overloaded", "rate-limited"], "status": 429}])
def test_the_expected_error(error: object) -> None:
    assert found(expecting(transcript_for("error-429-retry-after"), error)) == []


def test_an_expected_error_where_nothing_is_sent() -> None:
    sent = transcript_for("system-plain", variant="whole")
    refusing = with_chat(replace(sent, exchanges=()), response=None, error="Unsupported", error_text="no")
    assert only(refusing, "declared-and-declined").actual == "Unsupported"
    assert found(expecting(refusing, "unsupported")) == []
    assert only(expecting(refusing, "not-found"), "declared-and-declined")
    failing = with_chat(replace(sent, exchanges=()), response=None, error="ConnectionFailed", error_text="no")
    assert only(failing, "chat-failure").actual == "ConnectionFailed"


def test_a_redirect_is_no_answer() -> None:
    def elsewhere(exchange: Exchange) -> Exchange:
        return replace(exchange, response=HttpResponse(307, {"location": "https://elsewhere.example"}, b"<html>"))

    redirected = with_exchange(without_expectations(transcript_for("body-html", variant="whole")), elsewhere)
    assert found(with_chat(redirected, error="ConnectionFailed")) == []
    assert only(with_chat(redirected, error="MalformedResponse"), "chat-failure").expected == "ConnectionFailed"


def all_that_came(_error: ChatError, events: list[StreamEvent]) -> ChatResponse:
    """A response of the text and of the calls, all of whose arguments have come."""
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    said: dict[int, str] = {}
    for event in events:
        if isinstance(event, ArgumentsDelta):
            said[event.index] = said.get(event.index, "") + event.text
    starts = [event for event in events if isinstance(event, ToolCallStart)]
    calls = [ToolCall(start.id, start.name, json.loads(said[start.index])) for start in starts]
    return ChatResponse(Message(Role.ASSISTANT, (Text(text), *calls)), StopReason.TOOL_USE, Usage())


@pytest.mark.parametrize("target", ["anthropic", "openai-chat", "openai-responses", "gemini-3"])
def test_to_go_on_from_an_answer_is_as_bad_as_to_take_it_and_no_worse(target: str) -> None:
    cell = faulty("stream-ends-behind-call", target, rescues(ChatError, all_that_came), variant="stream")
    losses = [finding for finding in cell.findings if finding.kind is not Kind.CONVENTION]
    severity = Severity.WARNING if target == "anthropic" else Severity.ERROR  # what Anthropic means is contested
    assert [(each.rule, each.severity, each.blame) for each in losses] == [
        ("request-unexpected", severity, Blame.ADAPTER),
        ("stream-cut", severity, Blame.ADAPTER),
    ]
    assert [each.follows is not None for each in losses] == [True, False]


def _reasoning(_api: str, body: dict[str, Any]) -> None:
    del body["reasoning_effort"]


@pytest.mark.parametrize("scenario", ["error-in-tool-loop", "iteration-limit"])
def test_a_refusal_before_the_failure_of_the_scenario_is_the_cause(scenario: str) -> None:
    cell = faulty(scenario, "openai-chat", sends(_reasoning))
    roots = {finding.rule for finding in cell.findings if finding.fails and finding.follows is None}
    assert roots == {"openai-chat-tools-with-reasoning"}
