"""The difference tables say what the wire says, whoever is on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import pytest

from harness.apis.registry import Target
from harness.model.errors import Overloaded
from harness.model.messages import ChatRequest, ChatResponse, Message, Role, Text
from harness.results import RunResult
from harness.runner.cells import Cell, cells
from harness.runner.differences import ASPECTS, NOT_OBSERVED, Observations, ObservedValues, difference_rows
from harness.runner.suite_run import Run
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.wrapped import Chat, chatting

SCENARIOS = ("call-parallel-same-tool", "result-error", "system-changed", "json-mode", "choice-required")


def run_on(targets: Sequence[Target], *names: str) -> RunResult:
    return Run(InProcess(), [])(cells([shipped_scenarios()[name] for name in names], targets))


@cache
def shipped() -> RunResult:
    return run_on(list(shipped_targets().values()), *SCENARIOS)


def row(result: RunResult, aspect: str) -> dict[str, str]:
    (found,) = (dict(difference.values) for difference in result.differences if difference.aspect == aspect)
    return found


def test_the_shipped_adapters_differ_as_their_apis_do() -> None:
    nobody, by_order = "nobody: no id on the wire", "none: by name and order"
    issuers = row(shipped(), "who issues a call's id")
    assert issuers == {**dict.fromkeys(shipped_targets(), "the API"), "gemini-4": nobody, "gemini-2.5": nobody}
    assert row(shipped(), "field of the result's id") == {
        **dict.fromkeys(("anthropic", "anthropic-opus-5"), "messages[].content[].tool_use_id"),
        **dict.fromkeys(("gemini-4", "gemini-2.5"), by_order),
        "openai-chat": "messages[].tool_call_id",
        "openai-responses": "input[].call_id",
        "gemini-3": "contents[].parts[].functionResponse.id",
    }
    assert row(shipped(), "results of parallel calls")["openai-chat"] == "an entry each"
    assert row(shipped(), "results of parallel calls")["anthropic"] == "together in one entry"
    assert row(shipped(), "where the system prompt sits")["anthropic"] == "system"
    assert row(shipped(), "where the system prompt sits")["gemini-3"] == "systemInstruction"
    assert row(shipped(), "a changed system prompt")["anthropic"] == "the old one goes"
    assert row(shipped(), "JSON without a schema")["openai-chat"] == "response_format: json_object"
    assert row(shipped(), "JSON without a schema")["anthropic"] == "no field for it"
    assert row(shipped(), "how an error is marked")["anthropic"] == "a field of its own"
    assert row(shipped(), "word for a forced call")["anthropic"] == NOT_OBSERVED
    assert row(shipped(), "word for a forced call")["anthropic-opus-5"] == "any"


def test_only_rows_that_differ_are_flagged() -> None:
    for difference in shipped().differences:
        seen = {value for value in difference.values.values() if value != NOT_OBSERVED}
        assert difference.differs is (len(seen) > 1)
    flagged = {difference.aspect: difference.differs for difference in shipped().differences}
    assert flagged["where the system prompt sits"]
    assert not flagged["system prompt inside a message"]
    assert set(row(shipped(), "system prompt inside a message").values()) == {"no"}


def test_there_is_a_row_for_each_aspect_and_a_column_for_each_target() -> None:
    assert [(d.subject, d.aspect) for d in shipped().differences] == [
        (aspect.subject.value, aspect.name) for aspect in ASPECTS
    ]
    assert all(list(difference.values) == list(shipped_targets()) for difference in shipped().differences)
    assert len({aspect.name for aspect in ASPECTS}) == len(ASPECTS)


def system_as_user_text(inner: Chat, request: ChatRequest) -> ChatResponse:
    first, *rest = request.messages
    moved = Message(Role.USER, (Text(f"{request.system}\n\n{first.text}"), *first.parts[1:]))
    return inner(replace(request, system=None, messages=(moved, *rest)))


def system_dropped(inner: Chat, request: ChatRequest) -> ChatResponse:
    return inner(replace(request, system=None))


def system_twice(inner: Chat, request: ChatRequest) -> ChatResponse:
    return inner(replace(request, system=f"{request.system}\n{request.system}"))


def json_ignored(inner: Chat, request: ChatRequest) -> ChatResponse:
    return inner(replace(request, response_format=None))


def errors_hidden(inner: Chat, request: ChatRequest) -> ChatResponse:
    def plain(message: Message) -> Message:
        return replace(
            message, parts=tuple(replace(p, is_error=False) if hasattr(p, "is_error") else p for p in message.parts)
        )  # type: ignore[call-arg]

    return inner(replace(request, messages=tuple(map(plain, request.messages))))


def choice_hard_wired(inner: Chat, request: ChatRequest) -> ChatResponse:
    return inner(replace(request, tool_choice="auto" if request.tools else None))


def asked_again(inner: Chat, request: ChatRequest) -> ChatResponse:
    try:
        return inner(request)
    except Overloaded:
        return inner(request)


Fault = Callable[[Chat, ChatRequest], ChatResponse]
INSIDE, GOES = "system prompt inside a message", "the old one goes"


@pytest.mark.parametrize(
    ("cell", "fault", "change"),
    [
        ("anthropic system-plain", system_as_user_text, "where the system prompt sits: system -> not observed"),
        ("anthropic system-plain", system_as_user_text, f"{INSIDE}: no -> messages[].content[].text"),
        ("gemini-3 system-plain", system_as_user_text, f"{INSIDE}: no -> contents[].parts[].text"),
        ("openai-chat system-plain", system_twice, "copies of the system prompt in a request: 1 -> 2"),
        ("openai-chat system-plain", system_dropped, "copies of the system prompt in a request: 1 -> 0"),
        (
            "openai-responses system-changed",
            system_dropped,
            f"a changed system prompt: {GOES} -> {GOES}, the new one is not sent",
        ),
        (
            "gemini-3 json-mode",
            json_ignored,
            "JSON without a schema: responseMimeType: application/json -> no field for it",
        ),
        ("anthropic result-error", errors_hidden, "how an error is marked: a field of its own -> not at all"),
        ("openai-chat choice-required", choice_hard_wired, "word for a forced call: required -> none is sent"),
        ("anthropic error-529", asked_again, "requests for an answer that fails: 1 -> 2"),
    ],
)
def test_a_broken_adapter_changes_its_row(cell: str, fault: Fault, change: str) -> None:
    name, scenario = cell.split()
    aspect, _, values = change.partition(": ")
    target = shipped_targets()[name]
    broken = replace(chatting(target, fault), name="broken")
    found = row(run_on([target, broken], scenario), aspect)
    assert [found[name], found["broken"]] == values.split(" -> ")


@cache
def streamed() -> RunResult:
    scenarios = [shipped_scenarios()[name] for name in ("call-parallel-same-tool", "error-529")]
    every = [Cell(each, target, "stream") for each in scenarios for target in shipped_targets().values()]
    return Run(InProcess(), [])(every)


def test_streams_differ_as_their_apis_do() -> None:
    gemini = dict.fromkeys(("gemini-4", "gemini-3", "gemini-2.5"), "streamGenerateContent")
    asked = dict.fromkeys(shipped_targets(), "stream: true") | gemini
    assert row(streamed(), "how a stream is asked for") == asked
    by_option = {"openai-chat": "asked for by stream_options.include_usage"}
    assert row(streamed(), "token count of a stream") == dict.fromkeys(shipped_targets(), "unasked") | by_option
    assert row(streamed(), "arguments arrive")["anthropic"] == "in pieces"
    assert row(streamed(), "arguments arrive")["gemini-3"] == "at once"
    assert set(row(streamed(), "requests for an answer that fails").values()) == {"1"}
    whole = Run(InProcess(), [])([Cell(shipped_scenarios()["system-plain"], shipped_targets()["anthropic"], "whole")])
    assert row(whole, "how a stream is asked for") == {"anthropic": NOT_OBSERVED}


def test_several_values_of_one_target_stand_side_by_side() -> None:
    name = ASPECTS[0].name
    none: Observations = {aspect.name: frozenset() for aspect in ASPECTS}
    seen = [none | {name: frozenset({"y", "x"})}, none | {name: frozenset({"x"})}]
    rows = difference_rows({"a": ObservedValues(seen), "b": ObservedValues([none])})
    assert dict(rows[0].values) == {"a": "x · y", "b": NOT_OBSERVED}
    assert not rows[0].differs
    one, two = ObservedValues([none | {name: frozenset("x")}]), ObservedValues([none | {name: frozenset("xy")}])
    assert difference_rows({"a": one, "b": two})[0].differs
