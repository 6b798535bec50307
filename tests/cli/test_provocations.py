"""What a user sees of scenarios that do what no provider was recorded doing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Command

WRAPPED = """
from dataclasses import replace

from harness.adapters.{package} import ADAPTER as SHIPPED
from {faults} import {wrap}

ADAPTER = replace({expression}, name="wrapped")
"""
BY_LAST_CALL = ("openai_chat", "tests.broken.events", "streams, _arguments_of_the_last")
UNTIL_UNKNOWN = ("anthropic", "tests.broken.deliveries", "arrives, _up_to_an_unknown_event")


def cells(out: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(out)["cells"] if cell["verdict"] != "not-applicable"]


def wrapped(package: str, faults: str, names: str) -> str:
    wrap, fault = names.split(", ")
    return WRAPPED.format(package=package, faults=faults, wrap=names, expression=f"{wrap}({fault})(SHIPPED)")


@pytest.fixture
def play(harness: Command, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays one scenario through a wrapped adapter of a package in the working directory."""
    monkeypatch.syspath_prepend(".")

    def run(source: str, module: str, *arguments: str) -> Any:
        with open(f"{module}.py", "w", encoding="utf-8") as file:  # noqa: PTH123 - in the working directory
            file.write(source)
        return harness("run", f"--adapter={module}:ADAPTER", "--mode=reference", "--report=json", *arguments)

    return run


def test_arguments_that_calls_in_turns_lose_are_a_loss(play: Any) -> None:
    source = wrapped(*BY_LAST_CALL)
    outcome = play(source, "by_last_call", "stream-provoked-interleaved-calls")
    (cell,) = cells(outcome.out)
    assert (outcome.code, cell["verdict"]) == (1, "fail"), outcome.out
    assert {(each["rule"], each["kind"]) for each in cell["findings"]} == {("stream-arguments", "loss")}


def test_who_takes_the_last_call_for_every_piece_s_passes_where_calls_come_as_recorded(play: Any) -> None:
    outcome = play(wrapped(*BY_LAST_CALL), "by_last", "stream-parallel-long-arguments")
    assert (outcome.code, {cell["verdict"] for cell in cells(outcome.out)}) == (0, {"pass"}), outcome.out


def test_an_event_that_nobody_knows_and_an_answer_that_is_lost_by_it_is_a_loss(play: Any) -> None:
    source = wrapped(*UNTIL_UNKNOWN)
    outcome = play(source, "until_unknown", "stream-provoked-unknown-events", "--target=anthropic")
    (cell,) = cells(outcome.out)
    assert (outcome.code, cell["verdict"]) == (1, "fail"), outcome.out
    assert "loss" in {each["kind"] for each in cell["findings"]}
    assert play(source, "until_unknown", "stream-text-then-calls").code == 0
