"""What the contenders play back: recorded once, in this process, from the reference server's session."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path

import httpx2

from harness.apis.registry import Target
from harness.cassettes.library import CassetteLibrary
from harness.runner.cells import cells
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.scenarios.schema import Scenario
from tests.backends import InProcess
from tests.benchmarks.conversations import Conversation


def record(folder: Path, conversations: Sequence[Conversation], targets: Sequence[Target]) -> CassetteLibrary:
    """Cassettes of the harness's own, one per conversation and target."""
    return record_scenarios(folder, [conversation.scenario() for conversation in conversations], targets)


def record_scenarios(folder: Path, scenarios: Sequence[Scenario], targets: Sequence[Target]) -> CassetteLibrary:
    """The same for scenarios."""
    library = CassetteLibrary(folder)
    chosen = cells(scenarios, targets, ["whole"])
    result = Run(InProcess(), (), recorder=Recorder(library))(chosen)
    if result.summary["pass"] != len(chosen):
        raise SystemExit(f"the recording failed: {result.summary}, {result.cells[0].reason}")
    return library


class Canned(httpx2.BaseTransport):
    """Answers from memory, in the order of `bodies`, whatever is asked: the least that a transport can do."""

    def __init__(self, bodies: Sequence[bytes] = ()) -> None:
        self.bodies = deque(bodies)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "application/json"}, content=self.bodies.popleft())


def bodies(library: CassetteLibrary, conversation: Conversation, target: Target) -> list[bytes]:
    """The responses of one conversation."""
    interactions = library.load(target.cassettes, conversation.id, "whole").interactions
    return [each.response.body for each in interactions if each.response is not None]
