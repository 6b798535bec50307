"""`harness check adapter --generate`: conversations that nobody wrote, and the smallest that shows a fault."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.checks import generation
from harness.checks.generation import MAX_SLOW_CONVERSATIONS, SlowConversations, search, shrink_value
from harness.checks.hypothesis_search import find
from harness.cli.generating import write
from harness.model.errors import ProviderError
from harness.model.messages import ChatRequest, ChatResponse
from harness.results import Blame, CellResult, Finding, Kind, Severity, Verdict
from harness.rules.rule import all_rules
from harness.runner import backends
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from harness.scenarios.load import load_paths
from harness.scenarios.schema import Scenario
from harness.stdio.workers import TIMEOUT_HINT
from tests.backends import shipped_scenarios, shipped_targets
from tests.broken.fault import Wrapped, client, sends
from tests.cli.conftest import Command

BROKEN = """
from dataclasses import replace

from harness.adapters.anthropic import ADAPTER as SHIPPED


class Broken:
    def __init__(self, client):
        self.client = client

    def chat(self, request):
        tools = tuple(replace(tool, name=tool.name.lower()) for tool in request.tools)
        return self.client.chat(replace(request, tools=tools, system=None))

    def close(self):
        self.client.close()


ADAPTER = replace(
    SHIPPED,
    name="broken",
    capabilities=SHIPPED.capabilities - {"streaming"},
    connect=lambda endpoint, model: Broken(SHIPPED.connect(endpoint, model)),
)
"""


def test_no_generated_conversation_fails_with_a_shipped_adapter(harness: Command) -> None:
    done = harness("check", "adapter", "openai-responses", "--generate", "20")

    assert done.code == 0
    assert done.out.startswith("openai-responses: ")
    assert done.out.endswith("20 conversations, 0 causes of failures (seed 0)\n")


@pytest.mark.usefixtures("in_process")
def test_each_fault_is_shown_by_a_small_conversation(
    harness: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_client.py").write_text(BROKEN)
    monkeypatch.chdir(tmp_path)
    done = harness("check", "adapter", "broken_client:ADAPTER", "--generate", "10", "--save", "found")

    assert done.code == 1
    saved = {path.name: path.read_text() for path in Path("found/broken").iterdir()}
    assert {"generated-system-missing.yaml", "generated-tools-declared.yaml"} <= saved.keys()
    assert max(len(text.splitlines()) for text in saved.values()) <= 15
    assert "at fault: adapter; 1 cell, which fails only for this" in done.out


@pytest.mark.parametrize("command", [("run", "--adapter"), ("try",)])
def test_other_commands_run_generated_conversations(harness: Command, command: tuple[str, ...]) -> None:
    done = harness(*command, "gemini", "--generate", "2", "--seed", "3")

    assert done.code == 0
    assert "gemini-4: 2 conversations, 0 causes of failures (seed 3)\n" in done.out


BROKEN_LOOP = """
from dataclasses import replace

from tests.examples.runner_loop import LOOP as RIGHT, drive


LOOP = replace(RIGHT, drive=lambda endpoint, model, given: drive(endpoint, model, replace(given, system=None)))
"""


@pytest.mark.usefixtures("in_process")
def test_loops_run_generated_conversations(harness: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_loop.py").write_text(BROKEN_LOOP)
    monkeypatch.chdir(tmp_path)
    few = ("--generate", "2", "--seed", "4")
    right = harness("check", "agent", "tests.examples.runner_loop:LOOP", *few)
    wrong = harness("check", "agent", "broken_loop:LOOP", *few, "--rule", "loop-system", "--save", "found")

    assert (right.code, right.out) == (0, "tool-runner: 2 conversations, 0 causes of failures (seed 4)\n")
    assert wrong.code == 1
    assert [path.name for path in Path("found/tool-runner").iterdir()] == ["generated-loop-system.yaml"]


def test_about_every_twentieth_conversation_is_run_with_recuts() -> None:
    ran: list[str] = []

    def noting(mark: str) -> Callable[[Cell], CellResult]:
        return lambda cell: ran.append(mark) or cell.result()

    assert search(shipped_targets()["openai-chat"], 60, 0, [noting("once"), *[noting("with recuts")] * 3]) == []
    assert len(ran) == 60
    assert 1 <= ran.count("with recuts") <= 8


class Endless(Wrapped):
    """Retries for ever."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        while True:
            with contextlib.suppress(ProviderError):
                return super().chat(request)


def test_an_adapter_that_retries_for_ever_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "MAX_REQUESTS", 20)
    shipped, slow = shipped_targets()["openai-chat"], SlowConversations()
    refused = sends(lambda _api, body: body.update(messages=[]))(shipped.adapter)
    endless = replace(shipped, adapter=client(Endless)(refused))
    with Run(backends.GeneratedBackend(), all_rules()) as run:
        found = search(endless, 3, 0, [slow.count_slow(lambda cell: run([cell], jobs=1).cells[0])], ["whole"])

    assert ("error", backends.TOO_MANY_REQUESTS) in [each.key for each in found]
    assert slow.are_too_many


def test_a_conversation_that_reaches_the_time_limit_is_slow() -> None:
    cell, slow = (
        Cell(shipped_scenarios()["call-single"], shipped_targets()["openai-chat"], "whole"),
        SlowConversations(),
    )
    late = replace(cell.result(Verdict.ERROR), reason=f"the adapter did not come back within 3 seconds{TIMEOUT_HINT}")
    run_one = slow.count_slow(lambda _cell: late)

    assert [run_one(cell).verdict for _ in range(MAX_SLOW_CONVERSATIONS)] == [Verdict.ERROR] * MAX_SLOW_CONVERSATIONS
    assert run_one(cell) == cell.result()


@pytest.mark.usefixtures("in_process")
def test_a_search_that_ends_early_does_not_claim_all_conversations(
    harness: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "MAX_SLOW_CONVERSATIONS", 0)
    done = harness("check", "adapter", "gemini", "--generate", "3")

    assert "fewer than 3 conversations, 0 causes of failures (seed 0)\nStopped early" in done.out


def test_failed_conversations_run_first_in_the_next_search(tmp_path: Path) -> None:
    def failing(count: int) -> list[bool]:
        """Whether each conversation failed."""
        ran: list[bool] = []

        def run_one(cell: Cell) -> CellResult:
            ran.append(bool(cell.scenario.system))
            finding = Finding("system-missing", Kind.LOSS, Severity.ERROR, Blame.ADAPTER, "no system prompt")
            return replace(cell.result(), findings=(finding,) * ran[-1])

        assert len(search(shipped_targets()["openai-chat"], count, 4, [run_one], database=tmp_path)) == 1
        return ran

    first, *others = failing(40)
    assert (first, any(others)) == (False, True)
    assert failing(1)[0]


def test_a_failure_that_does_not_happen_again_is_reported(tmp_path: Path) -> None:
    seen: list[int] = []

    def fails_once(value: int) -> bool:
        seen.append(value)
        return len(seen) == 3

    assert find(lambda random: random.randrange(100), fails_once, 20, "1", tmp_path) == seen[2]


def test_generated_conversations_need_hypothesis(harness: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("harness.checks.hypothesis_search", raising=False)
    monkeypatch.setitem(sys.modules, "harness.checks.hypothesis_search", None)
    done = harness("run", "--adapter", "gemini", "--generate", "2")

    assert done.code == 2
    assert "pip install 'toolcall-harness[generate]'" in done.err


def test_a_saved_conversation_is_read_back_the_same(tmp_path: Path) -> None:
    texts = ["a\x85b", "\u2028", "x \u2029", "\ufeffa", "a: b\n", "'", '"\\', "no", "1", "\t"]
    turns = [{"user": text, "model": [{"text": text}]} for text in texts]
    document = {"version": 1, "id": "odd", "title": "Odd texts", "covers": ["history"], "turns": turns}
    scenario = Scenario.model_validate_json(json.dumps({**document, "requires": ["history"]}))

    assert load_paths([write(tmp_path, scenario)]) == [scenario]


def test_generated_conversations_are_not_replayed(harness: Command) -> None:
    done = harness("run", "--generate", "2", "--mode", "replay")

    assert done.code == 2
    assert "works only with the reference server: leave --mode out" in done.err


FAILING = """
version: 1
id: too-short
title: A scenario that expects another end
covers: [tools]
requires: [history, system-prompt, tools]
system: You are a guide.
scripted: true
tools:
  - name: get_tide
    parameters: {type: object, properties: {place: {type: string}}}
    results: [{return: {metres: 3}}]
turns:
  - user: Hello. Who are you?
    model: [{text: A guide.}]
  - user: When is high water?
    model: [{calls: [{get_tide: {place: Harlesiel}}]}, {text: At noon.}]
    expect: {stop_reason: max_tokens, text: {contains: noon}}
"""


def test_a_failing_scenario_is_shrunk(harness: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("too-short.yaml").write_text(FAILING)

    done = harness("shrink", "too-short.yaml", "--target", "anthropic")

    assert done.code == 1
    assert done.out.startswith("generated/too-short-small-1.yaml: 10 lines, for expectation\n")
    small = Path("generated/too-short-small-1.yaml").read_text()
    assert "stop_reason: max_tokens" in small
    assert "tools:" not in small


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("call-single", "--target", "anthropic"), "call-single: it does not fail, so there is nothing to shrink"),
        (("call-single",), "call-single: name one target, as in --target anthropic"),
    ],
)
def test_only_a_failing_cell_is_shrunk(harness: Command, arguments: tuple[str, ...], message: str) -> None:
    done = harness("shrink", *arguments)

    assert done.code == 2
    assert message in done.err


@pytest.mark.parametrize(
    ("value", "fails", "small"),
    [
        ({"a": [1, {"b": "long text"}], "c": 7}, lambda value: "b" in json.dumps(value), {"a": [{"b": ""}]}),
        ([3.5, -40, "x" * 900 + "y" + "x" * 99], lambda value: "y" in str(value), ["y"]),
        ({"n": 2**60}, lambda value: value.get("n", 0) > 5, {"n": 2**60}),
        ({"n": {"n": {"n": {}}}}, lambda value: "n" in value, {"n": {}}),
        ([True, None, 812.0], lambda value: len(value) == 3, [True, None, 0]),
    ],
)
def test_a_value_is_shrunk_while_it_fails(value: Any, fails: Callable[[Any], bool], small: Any) -> None:
    before = json.dumps(value)

    assert shrink_value(value, fails) == small
    assert json.dumps(value) == before


def test_shrinking_ends_after_a_number_of_tries_and_keeps_atomic_members() -> None:
    tried: list[object] = []

    assert shrink_value({"a": ["x"] * 5, "b": "long"}, lambda value: not tried.append(value), tries=0) == {
        "a": ["x"] * 5,
        "b": "long",
    }
    assert tried == []
    assert shrink_value({"a": ["x"] * 5, "b": "long"}, lambda value: len(value) == 2, atomic=("a",)) == {
        "a": ["x"] * 5,
        "b": "",
    }


def test_options_of_generated_conversations_need_them(harness: Command) -> None:
    done = harness("check", "adapter", "openai-chat", "--seed", "4")

    assert done.code == 2
    assert "--seed: it is for generated conversations: add --generate N." in done.err
