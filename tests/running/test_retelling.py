"""Retellings: what a streamed cell's answers are told again as, and that they reach the adapter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.apis.targets import Target
from harness.contract.http import HttpRequest, HttpResponse
from harness.results import Kind, Transcript
from harness.rules.evidence import Evidence
from harness.rules.rule import Flaw, Rule
from harness.running.retelling import retellings
from harness.running.run import Run
from harness.running.stages import Cell, Reference
from harness.scenarios.schema import Subject, Variant
from harness.tape.transport import Handler
from tests.stages import InProcess, Provider, shipped_scenarios, shipped_targets
from tests.wrapped import asynchronous, without_http_client


def transcript(
    scenario: str, target: Target, *, variant: Variant = "stream", recuts: int = 0, provider: Provider | None = None
) -> Transcript:
    """What the rules are given of a cell."""
    seen: list[Transcript] = []

    def check(evidence: Evidence) -> list[Flaw]:
        seen.append(evidence.transcript)
        return []

    rule = Rule("look", Subject.STREAMING, "It is looked at.", "us", check, Kind.LOSS, "")
    stages = Reference() if provider is None else InProcess(provider)
    run = Run(stages, [rule], recuts=recuts)
    run([Cell(shipped_scenarios()[scenario], target, variant)])
    return seen[0]


@pytest.fixture(params=shipped_targets())
def target(request: pytest.FixtureRequest) -> Target:
    return shipped_targets()[request.param]


@pytest.mark.parametrize(
    "way", [lambda each: each, without_http_client, asynchronous], ids=["injected", "loopback", "async"]
)
def test_a_streamed_cell_is_told_again_whole_and_in_other_pieces(
    target: Target, way: Callable[[Target], Target]
) -> None:
    made = transcript("call-parallel-same-tool", way(target), recuts=3)
    assert [retelling.variant for retelling in made.retellings] == ["whole", "stream", "stream", "stream"]
    assert len({retelling.way for retelling in made.retellings}) == 4
    for retelling in made.retellings:
        assert len(retelling.chats) == len(made.chats) == 2
        assert [chat.response is not None for chat in retelling.chats] == [True, True]
        assert all(bool(chat.events) is (retelling.variant == "stream") for chat in retelling.chats)


def test_a_whole_cell_is_not_told_again(target: Target) -> None:
    assert transcript("call-single", target, variant="whole", recuts=3).retellings == ()


def test_a_stream_that_is_cut_off_has_no_whole(target: Target) -> None:
    def cut(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        return replace(response, body=response.body[: len(response.body) // 2])

    made = transcript("call-single", target, recuts=2, provider=cut)
    assert [retelling.variant for retelling in made.retellings] == ["stream", "stream"]
    assert [chat.error for retelling in made.retellings for chat in retelling.chats] == ["MalformedResponse"] * 2


def test_recuts_repeat(target: Target) -> None:
    once, again = (transcript("call-single", target, recuts=2).retellings for _ in range(2))
    assert [each.way for each in once] == [each.way for each in again]


def test_what_asks_more_often_than_the_cell_did_is_told_so(target: Target) -> None:
    scenario = shipped_scenarios()["call-single"]
    cell = Cell(scenario, target, "stream")
    made = transcript("call-single", target)
    short = Evidence(replace(made, exchanges=made.exchanges[:1]))
    (whole,) = retellings(cell, short, InProcess(), 0)
    assert [chat.error for chat in whole.chats] == [None, "ServerError"]
    assert "fewer requests than it is retold with" in (whole.chats[1].error_text or "")
