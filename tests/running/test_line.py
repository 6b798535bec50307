"""A client is kept from one conversation to the next by leave of its adapter alone, and nothing else differs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from harness import catalog
from harness.contract.protocols import ChatClient, Endpoint
from harness.results import CellResult
from harness.rules.rule import Rule
from harness.running.cells import cells
from harness.running.run import Run
from harness.running.stages import Reference, Replay
from harness.scenarios import suite
from harness.tape.library import Library
from tests.stages import shipped_scenarios, shipped_targets

CHOSEN = ("call-single", "connection-cut", "error-429")


def played(mode: str, name: str, *, lasting: bool, jobs: int = 1) -> tuple[list[CellResult], Counter[str]]:
    """What some cells of a target come to, and how often its adapter was connected and a client of it closed."""
    target, told = shipped_targets()[name], Counter[str]()

    class Counted:
        def __init__(self, client: ChatClient) -> None:
            self.chat = client.chat
            self.stream = getattr(client, "stream", None)
            self._client = client

        def close(self) -> None:
            told["closed"] += 1
            self._client.close()

    def connect(endpoint: Endpoint, model: str) -> Counted:
        told["connected"] += 1
        return Counted(target.adapter.connect(endpoint, model))  # pyright: ignore[reportArgumentType] - ours are not asynchronous

    adapter = replace(target.adapter, connect=connect, lasting=lasting)  # pyright: ignore[reportArgumentType] - as above
    scenarios = [each for each in shipped_scenarios().values() if each.id in CHOSEN]
    assert len(scenarios) == len(CHOSEN)
    stages = Reference() if mode == "reference" else Replay([Library(suite.shipped("cassettes"))])
    rules: list[Rule] = catalog.rules()
    run = Run(stages, rules)(cells(scenarios, [replace(target, adapter=adapter)], ["whole", "stream"]), jobs=jobs)
    return [*run.cells], told


@pytest.mark.parametrize("mode", ["replay", "reference"])
@pytest.mark.parametrize("name", ["anthropic", "openai-chat", "openai-responses", "gemini-3"])
def test_a_lasting_client_leads_one_conversation_after_another(mode: str, name: str) -> None:
    apart, often = played(mode, name, lasting=False)
    together, once = played(mode, name, lasting=True)
    assert together == apart
    assert often["connected"] == often["closed"] >= len(apart)
    is_told_again = often["connected"] > len(apart)  # a stream of what the whole cell was not given
    lines = 2 if is_told_again and mode == "reference" else 1  # what is told again goes no way over loopback
    assert once == {"connected": lines, "closed": lines}


def test_two_conversations_at_once_have_a_client_each() -> None:
    _, told = played("replay", "anthropic", lasting=True, jobs=3)
    assert 1 <= told["connected"] == told["closed"] <= 3


def test_nobody_is_lasting_who_does_not_say_so() -> None:
    says = {name: catalog.adapter(name).lasting for name in catalog.ADAPTERS.modules()}
    assert says == {
        "anthropic": True,
        "claude-cli": False,
        "gemini": True,
        "openai-chat": True,
        "openai-responses": True,
    }
    assert catalog.adapter("tests.examples.plain_http:ADAPTER").lasting is False
