"""Retries: never in silence; declared ones only behind a failure that another try may mend, and not without end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.apis.registry import Target
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.transport import Handler
from harness.model.errors import ChatError, ConnectionFailed
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import ChatRequest, ChatResponse
from harness.model.protocols import Capability
from harness.results import Blame, Finding, Kind
from harness.runner.backends import ReplayBackend
from harness.runner.cells import Cell
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.rules.transcripts import RULES, found, only, transcript_of
from tests.wrapped import Chat, chatting

Asking = Callable[[Chat, ChatRequest], ChatResponse]


def again(times: int, edit: Callable[[ChatRequest], ChatRequest] = lambda request: request) -> Asking:
    """Asks up to `times` times more, whatever the failure."""

    def ask(chat: Chat, request: ChatRequest) -> ChatResponse:
        for _ in range(times):
            try:
                return chat(request)
            except ChatError:
                request = edit(request)
        return chat(request)

    return ask


def retrying(target: str, asking: Asking, *, declared: bool) -> Target:
    made = chatting(shipped_targets()[target], asking)
    added: set[Capability] = {Capability.RETRIES} if declared else set()
    return replace(made, adapter=replace(made.adapter, capabilities=made.adapter.capabilities | added))


def cell(scenario: str, target: Target) -> Cell:
    return Cell(shipped_scenarios()[scenario], target, "whole")


FAILURES = ["error-429", "error-529", "error-500", "body-html", "connection-cut"]
"""Failures that ask for no time to wait: `tests/runner/test_waiting.py` has those that do."""


@pytest.mark.parametrize("scenario", FAILURES)
def test_a_silent_retry_is_found(scenario: str) -> None:
    transcript = transcript_of(cell(scenario, retrying("gemini-2.5", again(1), declared=False)))
    assert transcript.chats[0].response
    findings = [f for f in found(transcript) if f.rule != "expectation"]  # which sees no error
    assert [f.rule for f in findings] == ["one-request-per-chat"]
    assert findings[0].actual == 2
    assert "must declare the capability 'retries'" in findings[0].message


@pytest.mark.parametrize(("edited", "kind"), [("model", Kind.CONVENTION), ("max_tokens", Kind.LOSS)])
def test_a_failed_request_may_be_sent_to_another_model(edited: str, kind: Kind) -> None:
    fields: dict[str, Any] = {"model": {"model": "claude-sonnet-4-6"}, "max_tokens": {"max_tokens": 7}}[edited]
    client = retrying("anthropic", again(1, lambda request: replace(request, **fields)), declared=False)
    (finding,) = (
        each for each in found(transcript_of(cell("error-529", client))) if each.rule == "one-request-per-chat"
    )
    assert finding.kind is kind


@pytest.mark.parametrize("scenario", FAILURES)
def test_a_declared_retry_is_not(scenario: str) -> None:
    transcript = transcript_of(cell(scenario, retrying("anthropic", again(1), declared=True)))
    assert len(transcript.exchanges) == 2
    assert found(transcript) == []


def failing(status: int, times: int) -> InProcess:
    """A provider that fails some times before it answers."""
    left = times

    def provider(request: HttpRequest, session: Handler) -> HttpResponse:
        nonlocal left
        left -= 1
        shape = {"error": {"type": "x", "message": "no"}}
        body = str(shape).replace("'", '"').encode()
        return session(request) if left < 0 else HttpResponse(status, {"content-type": "application/json"}, body)

    return InProcess(provider)


def test_a_failure_of_the_connection_may_be_retried_by_who_says_so() -> None:
    def unreachable_at_first(inner: Chat, request: ChatRequest) -> ChatResponse:
        try:
            return inner(request)
        except ConnectionFailed:
            return inner(request)

    silent = transcript_of(cell("connection-reset", retrying("anthropic", again(1), declared=False)))
    assert "one-request-per-chat" in [finding.rule for finding in found(silent)]
    unanswered = replace(silent, exchanges=(replace(silent.exchanges[0], response=None), silent.exchanges[1]))
    assert "one-request-per-chat" in [finding.rule for finding in found(unanswered)]
    declared = transcript_of(cell("connection-reset", retrying("anthropic", unreachable_at_first, declared=True)))
    assert "one-request-per-chat" not in [finding.rule for finding in found(declared)]
    unanswered = replace(declared, exchanges=(replace(declared.exchanges[0], response=None), *declared.exchanges[1:]))
    assert "one-request-per-chat" not in [finding.rule for finding in found(unanswered)]


@pytest.mark.parametrize(("times", "fails"), [(5, False), (6, True)])
def test_five_retries_and_no_more(times: int, fails: bool) -> None:
    target = retrying("openai-chat", again(times), declared=True)
    transcript = transcript_of(cell("system-plain", target), failing(500, times))
    findings = found(transcript)
    assert [f.rule for f in findings] == (["one-request-per-chat"] if fails else [])
    assert all("more than one and 5 retries" in f.message for f in findings)


def test_a_retry_is_the_same_request() -> None:
    shorter = again(1, lambda request: replace(request, max_tokens=7))
    transcript = transcript_of(cell("system-plain", retrying("openai-chat", shorter, declared=True)), failing(529, 1))
    finding = only(transcript, "one-request-per-chat")
    assert "exchange 1 is not the request that failed before it" in finding.message


def replayed(folder: Path, target: Target) -> list[Finding]:
    """What is found where a cassette of the shipped adapter is replayed by another one."""
    recorded, library = cell("error-529", shipped_targets()["anthropic"]), CassetteLibrary(folder)
    Run(InProcess(), RULES, recorder=Recorder(library))([recorded])
    return list(Run(ReplayBackend([library]), RULES)([cell("error-529", target)]).cells[0].findings)


def test_a_silent_retry_is_found_in_replay_too(tmp_path: Path) -> None:
    assert replayed(tmp_path / "none", shipped_targets()["anthropic"]) == []
    findings = replayed(tmp_path / "one", retrying("anthropic", again(1), declared=False))
    assert {(f.rule, f.exchange) for f in findings} == {("one-request-per-chat", 1), ("request-unexpected", 1)}
    assert {f.blame for f in findings} == {Blame.ADAPTER}


def test_what_an_adapter_that_does_not_retry_recorded_fails_again_for_one_that_declares_it(tmp_path: Path) -> None:
    assert replayed(tmp_path / "five", retrying("anthropic", again(5), declared=True)) == []
    findings = replayed(tmp_path / "more", retrying("anthropic", again(6), declared=True))
    assert [(f.rule, f.blame) for f in findings] == [("one-request-per-chat", Blame.ADAPTER)]


def test_a_failure_is_not_replayed_forever(tmp_path: Path) -> None:
    findings = replayed(tmp_path, retrying("anthropic", again(7), declared=True))
    assert {f.rule for f in findings} == {"one-request-per-chat", "request-unexpected"}


@pytest.mark.parametrize("declared", [False, True])
def test_a_response_takes_a_request(*, declared: bool) -> None:
    answered = transcript_of(cell("system-plain", retrying("anthropic", again(0), declared=declared)))
    made_up = replace(answered, exchanges=())
    assert only(made_up, "one-request-per-chat").message == "chat 0 of the conversation took 0 requests"
