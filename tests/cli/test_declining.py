"""Adapters that say no: where that is honest the cell is not applicable, and named; where it is not, it is red."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.results import CellResult, RunResult, Verdict
from tests.cli.conftest import Command

ADAPTERS = '''
from dataclasses import replace

import httpx2

from harness.adapters.openai_chat import ADAPTER as SHIPPED
from harness.model.errors import Unsupported, provider_error
from harness.model.messages import ChatResponse, File, Message, NamedTool, Role, StopReason, Text, Usage
from harness.model.protocols import Adapter, Capability, Route


class Declining:
    def __init__(self, client, asks):
        self.client, self.asks = client, asks

    def checked(self, request):
        if self.asks(request):
            raise Unsupported("mine", "that", "the library has no word for it")
        return request

    def chat(self, request):
        return self.client.chat(self.checked(request))

    def close(self):
        self.client.close()


class Late(Declining):
    def chat(self, request):
        response = self.client.chat(request)
        self.checked(request)
        return response


class Shouting(Declining):
    def chat(self, request):
        return super().chat(replace(request, system=request.system.upper()))


def adapter(asks, *lacks, kind=Declining):
    return replace(
        SHIPPED,
        name="mine",
        capabilities=SHIPPED.capabilities - {Capability.STREAMING, *lacks},
        connect=lambda *place: kind(SHIPPED.connect(*place), asks),
    )


def forces(request):
    return request.tool_choice == "required" or isinstance(request.tool_choice, NamedTool)


def stops(request):
    return bool(request.stop)


def has_error(request):
    return any(result.is_error for message in request.messages for result in message.tool_results)


def has_file(request):
    return any(isinstance(part, File) for message in request.messages for part in message.parts)


CACHE_UNDECLARED = adapter(lambda request: request.cache, Capability.CACHE_MARKS)
CACHE_DECLARED = adapter(lambda request: request.cache)
FORCED_UNDECLARED = adapter(forces, Capability.FORCED_TOOL_CHOICE)
FORCED_DECLARED = adapter(forces)
CHOICE_DECLARED = adapter(lambda request: request.tool_choice is not None)
STOP = adapter(stops)
STOP_LATE = adapter(stops, kind=Late)
STOP_SHOUTING = adapter(stops, kind=Shouting)
ERRORS = adapter(has_error)
FILES = adapter(has_file)


class Forcing:
    """Knows the API, and nothing of its models."""

    def __init__(self, endpoint, model):
        self.url, self.model, self.http = endpoint.base_url + "/v1/messages", model, endpoint.http_client

    def chat(self, request):
        tools = [{"name": tool.name, "input_schema": tool.parameters} for tool in request.tools]
        body = {
            "model": self.model,
            "max_tokens": request.max_tokens,
            "messages": [{"role": "user", "content": request.messages[0].text}],
            "tools": tools,
            "tool_choice": {"type": "any"},
        }
        response = self.http.post(self.url, json=body, headers={"anthropic-version": "2023-06-01"})
        if response.status_code >= 400:
            raise provider_error(response.status_code, response.json()["error"]["message"])
        return ChatResponse(Message(Role.ASSISTANT, (Text("?"),)), StopReason.END_TURN, Usage())

    def close(self):
        pass


FORCING = Adapter(
    "forcing",
    "anthropic",
    frozenset({Capability.TOOLS, Capability.TOOL_CHOICE, Capability.FORCED_TOOL_CHOICE}),
    Forcing,
    route=Route.CLIENT,
)
'''

SAID = "mine: that is not supported: the library has no word for it"
BEHIND = "the adapter 'mine' declines behind 1 answer, before anything more is sent"

STOP_IN_THE_SECOND_TURN = """
version: 1
id: stop-in-the-second-turn
title: A stop sequence is asked for in the second turn
covers: [requests]
requires: [system-prompt, history]
system: Be brief.
turns:
  - user: Say hello.
    model: [{text: Hello.}]
  - user: Again.
    settings: {stop: [END]}
    model: [{text: Hello.}]
"""
STOP_AT_ONCE = """
version: 1
id: stop-at-once
title: A stop sequence is asked for
covers: [requests]
requires: [system-prompt]
system: Be brief.
settings: {stop: [END]}
turns:
  - user: Say hello.
    model: [{text: Hello.}]
"""
UNSUPPORTED_EXPECTED = """
version: 1
id: unsupported-expected
title: A stop sequence is to be declined
covers: [requests]
scripted: true
settings: {stop: [END]}
turns:
  - user: Say hello.
    model: [{text: Hello.}]
    expect: {error: {name: unsupported}}
"""


@pytest.fixture
def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module of adapters, with scenarios beside it."""
    (folder / "declining_adapters.py").write_text(ADAPTERS)
    for text in (STOP_AT_ONCE, STOP_IN_THE_SECOND_TURN, UNSUPPORTED_EXPECTED):
        (folder / f"{text.split()[3]}.yaml").write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "declining_adapters", raising=False)
    return "declining_adapters"


def cell(harness: Command, *words: str, model: str = "gpt-4o") -> tuple[int, CellResult]:
    """The exit code and the one cell of a run against the reference server."""
    words = (*words, "--mode", "reference", "--report", "json:run.json", "--report", "terminal:run.txt")
    models = () if "forcing" in " ".join(words).lower() else ("--model", f"openai-chat={model}")
    code = harness("run", *words, *models).code
    (result,) = RunResult.from_json(Path("run.json").read_text()).cells
    return code, result


def errors(result: CellResult) -> list[str]:
    return [finding.rule for finding in result.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    ("scenario", "adapter", "reason"),
    [
        ("seeds-terminal-assistant-cache", "CACHE_UNDECLARED", "the adapter 'mine' does not have: cache-marks"),
        ("choice-required", "FORCED_UNDECLARED", "the adapter 'mine' does not have: forced-tool-choice"),
        ("stop-at-once.yaml", "STOP", f"the adapter 'mine' declines before anything is sent: {SAID}"),
        ("stop-in-the-second-turn.yaml", "STOP", f"{BEHIND}: {SAID}"),
        ("result-error", "ERRORS", f"{BEHIND}: {SAID}"),
        ("file-of-text", "FILES", f"the adapter 'mine' declines before anything is sent: {SAID}"),
    ],
)
def test_what_nobody_has_declared_may_be_declined_and_is_named(
    harness: Command, made: str, scenario: str, adapter: str, reason: str
) -> None:
    code, result = cell(harness, scenario, "--adapter", f"{made}:{adapter}")

    assert (result.verdict, result.reason, result.findings) == (Verdict.NOT_APPLICABLE, reason, ())
    assert code == 2  # nothing else was played
    shown = " ".join(Path("run.txt").read_text().split())
    assert "Not applicable: 1 cell" in shown
    assert reason.replace("the adapter 'mine' ", "the adapter ") in shown


@pytest.mark.parametrize(
    ("scenario", "adapter", "named"),
    [
        ("seeds-terminal-assistant-cache", "CACHE_DECLARED", "cache-marks"),
        ("choice-required", "FORCED_DECLARED", "forced-tool-choice"),
        ("choice-auto", "CHOICE_DECLARED", "tool-choice"),
        ("file-from-user", "FILES", "files"),
    ],
)
def test_what_is_declared_and_declined_is_red(
    harness: Command, made: str, scenario: str, adapter: str, named: str
) -> None:
    code, result = cell(harness, scenario, "--adapter", f"{made}:{adapter}")

    assert (code, result.verdict, errors(result)) == (1, Verdict.FAIL, ["declared-and-declined"])
    assert named in result.findings[0].message
    assert result.findings[0].blame == "adapter"


def test_the_same_adapters_are_right_where_they_are_not_asked(harness: Command, made: str) -> None:
    for adapter in ("FORCED_DECLARED", "ERRORS"):
        code, result = cell(harness, "call-single", "--adapter", f"{made}:{adapter}")
        assert (code, result.verdict) == (0, Verdict.PASS)


def test_saying_no_behind_the_request_is_red(harness: Command, made: str) -> None:
    code, result = cell(harness, "stop-at-once.yaml", "--adapter", f"{made}:STOP_LATE")

    assert (code, result.verdict, errors(result)) == (1, Verdict.FAIL, ["chat-failure"])
    assert result.exchanges == 1


def test_what_was_wrong_before_it_was_declined_is_not_lost(harness: Command, made: str) -> None:
    code, result = cell(harness, "stop-in-the-second-turn.yaml", "--adapter", f"{made}:STOP_SHOUTING")

    assert (code, result.verdict, errors(result)) == (1, Verdict.FAIL, ["system-verbatim"])


def test_declining_what_a_scenario_wants_declined_is_a_pass(harness: Command, made: str) -> None:
    code, result = cell(harness, "unsupported-expected.yaml", "--adapter", f"{made}:STOP")

    assert (code, result.verdict) == (0, Verdict.PASS)


def test_unused_exchanges_of_a_declined_cell_are_no_fault(harness: Command, made: str, folder: Path) -> None:
    scenario = "stop-in-the-second-turn.yaml"
    recorded = ("--target", "openai-chat", "--model", "openai-chat=gpt-4o", "--cassettes", "recorded")
    assert harness("record", "--from", "reference", scenario, *recorded).code == 0

    words = ("--adapter", f"{made}:STOP", *recorded, "--report", "json:run.json")
    harness("run", scenario, *words)

    (result,) = RunResult.from_json((folder / "run.json").read_text()).cells
    assert (result.verdict, result.findings, result.exchanges) == (Verdict.NOT_APPLICABLE, (), 1)
    assert "behind 1 answer" in (result.reason or "")


def test_a_forced_choice_fails_only_where_it_is_refused(harness: Command, made: str) -> None:
    words = ("choice-auto", "--adapter", f"{made}:FORCING")
    _, refused = cell(harness, *words, "--target", "anthropic")
    _, taken = cell(harness, *words, "--target", "anthropic-opus-5")

    assert "anthropic-choice-forced" in errors(refused)
    assert refused.verdict is Verdict.FAIL
    assert not {"anthropic-choice-forced", "chat-refused"} & {*errors(taken)}


@pytest.mark.parametrize("scenario", ["choice-required", "choice-named", "choice-for-one-turn"])
def test_a_forced_choice_is_not_asked_of_a_model_that_refuses_it(harness: Command, made: str, scenario: str) -> None:
    code, result = cell(harness, scenario, "--adapter", f"{made}:FORCING", "--target", "anthropic")
    lacking = "the adapter 'forcing' does not have: history"
    by_model = "claude-opus-5-5 (profile claude-opus-5-5) does not have: forced-tool-choice"

    assert (code, result.verdict) == (2, Verdict.NOT_APPLICABLE)
    assert result.reason == (lacking if scenario == "choice-for-one-turn" else by_model)
