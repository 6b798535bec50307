"""Variants: the forms in which a streamed cell is repeated, and that they reach the adapter."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.apis import registry
from harness.apis.registry import Target
from harness.apis.response_rules import Subject
from harness.cassettes.transport import Handler
from harness.model.http import Delivery, HttpRequest, HttpResponse
from harness.model.messages import Text, ToolCall
from harness.results import Chat, Exchange, Kind, Transcript
from harness.rules.evidence import Evidence
from harness.rules.rule import Rule, RuleViolation
from harness.runner.backends import ReferenceBackend
from harness.runner.cells import Cell
from harness.runner.replay_variants import replay_variants
from harness.runner.suite_run import Run
from harness.scenarios.schema import Variant
from tests.backends import InProcess, Provider, shipped_scenarios, shipped_targets
from tests.broken.faults import FAULTS
from tests.broken.running import run_cell
from tests.wrapped import asynchronous, without_http_client


def transcript(
    scenario: str, target: Target, *, variant: Variant = "stream", recuts: int = 0, provider: Provider | None = None
) -> Transcript:
    """What the rules are given of a cell."""
    seen: list[Transcript] = []

    def check(evidence: Evidence) -> list[RuleViolation]:
        seen.append(evidence.transcript)
        return []

    rule = Rule("look", Subject.STREAMING, "It is looked at.", "us", check, Kind.LOSS, "")
    backend = ReferenceBackend() if provider is None else InProcess(provider)
    run = Run(backend, [rule], recuts=recuts)
    run([Cell(shipped_scenarios()[scenario], target, variant)])
    return seen[0]


@pytest.fixture(params=shipped_targets())
def target(request: pytest.FixtureRequest) -> Target:
    return shipped_targets()[request.param]


WAYS = {
    "loopback": without_http_client(shipped_targets()["gemini-3"]),
    "async": asynchronous(shipped_targets()["anthropic"]),
}


@pytest.mark.parametrize("target", (shipped_targets() | WAYS).values(), ids=shipped_targets() | WAYS)
def test_a_streamed_cell_is_repeated_whole_and_in_other_pieces(target: Target) -> None:
    assert transcript("call-parallel-same-tool", target, variant="whole", recuts=3).replay_variants == ()
    made = transcript("call-parallel-same-tool", target, recuts=3)
    shapes = [retelling.shape for retelling in made.replay_variants if retelling.shape]
    assert shapes
    assert set(shapes) <= registry.api(target.api).stream_shapes.keys()
    assert [each.variant for each in made.replay_variants] == [
        "whole",
        "stream",
        "stream",
        "stream",
        *["stream"] * len(shapes),
    ]
    assert len({retelling.way for retelling in made.replay_variants}) == 4 + len(shapes)
    for retelling in made.replay_variants:
        assert len(retelling.chats) == len(made.chats) == 2
        assert [chat.response is not None for chat in retelling.chats] == [True, True]
        assert all(bool(chat.events) is (retelling.variant == "stream") for chat in retelling.chats)


def test_a_stream_that_is_cut_off_has_no_whole(target: Target) -> None:
    def cut(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        return replace(response, body=response.body[: len(response.body) // 2])

    made = transcript("call-single", target, recuts=2, provider=cut)
    assert [retelling.variant for retelling in made.replay_variants] == ["stream", "stream"]
    assert [chat.error for retelling in made.replay_variants for chat in retelling.chats] == ["MalformedResponse"] * 2


def test_a_stream_of_a_body_that_no_server_gives_has_no_whole() -> None:
    def without_ids(request: HttpRequest, session: Handler) -> HttpResponse:
        response = session(request)
        return replace(response, body=re.sub(rb'"id":"call_\w+"', b'"id":""', response.body))

    target = shipped_targets()["openai-chat"]
    assert [each.variant for each in transcript("call-single", target).replay_variants] == ["whole"]
    assert transcript("call-single", target, provider=without_ids).replay_variants == ()


def test_more_requests_than_in_the_original_run_are_reported(target: Target) -> None:
    scenario = shipped_scenarios()["call-single"]
    cell = Cell(scenario, target, "stream")
    made = transcript("call-single", target)
    short = Evidence(replace(made, exchanges=made.exchanges[:1]))
    (whole,) = replay_variants(cell, short, InProcess(), ())
    assert [chat.error for chat in whole.chats] == [None, "ServerError"]
    assert "the recorded run of the cell sent fewer requests" in (whole.chats[1].error_text or "")


@pytest.mark.parametrize(
    ("edit", "is_spared"),
    [
        (lambda response: response, True),
        (lambda response: replace(response, headers={**response.headers, "content-type": "text/plain"}), False),
        (lambda response: replace(response, status=201), False),
        (lambda response: replace(response, delivery=Delivery(ending="cut")), False),
        (
            lambda response: replace(
                response, body=response.body.replace(b'"stop_sequence": null', b'"stop_sequence": 0')
            ),
            False,
        ),
        (lambda _response: None, False),
    ],
    ids=["the same", "another type", "another status", "cut off", "another field", "none"],
)
def test_the_answers_of_a_whole_cell_are_the_same_to_the_value(
    edit: Callable[[HttpResponse], HttpResponse | None], *, is_spared: bool
) -> None:
    target = shipped_targets()["anthropic"]
    cell = Cell(shipped_scenarios()["call-single"], target, "stream")
    streamed, whole = (transcript("call-single", target, variant=variant) for variant in ("stream", "whole"))
    first, last = whole.exchanges
    assert first.response is not None
    exchanges = (replace(first, response=edit(first.response)), last)
    beside = Evidence(replace(whole, exchanges=exchanges))
    (reported,) = replay_variants(cell, Evidence(streamed), InProcess(), (), beside)
    assert (reported.chats is whole.chats) is is_spared


@pytest.mark.parametrize(
    ("annotations", "kept", "is_spared"),
    [
        (b"[]", False, True),
        (b"null", False, True),
        (b'["a"]', False, False),
        (b"0", False, False),
        (b"[]", True, False),
    ],
    ids=["an empty list", "nothing", "something", "a number", "what the adapter keeps"],
)
def test_a_member_that_no_stream_has_and_that_holds_nothing_parts_no_answers(
    annotations: bytes, *, kept: bool, is_spared: bool
) -> None:
    target = shipped_targets()["openai-chat"]
    cell = Cell(shipped_scenarios()["call-after-text"], target, "stream")
    streamed, whole = (transcript(cell.scenario.id, target, variant=variant) for variant in ("stream", "whole"))

    def edited(exchange: Exchange) -> Exchange:
        response = exchange.response
        assert response is not None
        assert b'"annotations": []' in response.body
        body = response.body.replace(b'"annotations": []', b'"annotations": ' + annotations)
        return replace(exchange, response=replace(response, body=body))

    chats = tuple(with_annotations(chat) if kept else chat for chat in whole.chats)
    beside = Evidence(replace(whole, exchanges=tuple(map(edited, whole.exchanges)), chats=chats))
    (reported,) = replay_variants(cell, Evidence(streamed), InProcess(), (), beside)
    assert (reported.chats is chats) is is_spared
    if not is_spared:
        assert [chat.response for chat in reported.chats] == [chat.response for chat in whole.chats]


def with_annotations(chat: Chat) -> Chat:
    """What an adapter makes of an answer that keeps all that is in it."""
    response = chat.response
    assert response is not None
    first, *others = response.message.parts
    assert isinstance(first, Text | ToolCall)
    first = replace(first, provider_metadata={"openai-chat": {"annotations": []}})
    return replace(chat, response=replace(response, message=replace(response.message, parts=(first, *others))))


@pytest.mark.parametrize(
    ("fault", "way"),
    [
        ("bytes-decoded-by-piece", r"\(cut after b'.*xf0' at byte \d+, before b'.x9f.*', answer 0\)"),
        ("byte-order-mark-hides-an-event", r"\(a byte order mark in front, in one piece\)"),
    ],
)
def test_a_failing_recut_is_narrowed_to_one_cut_or_spelling(fault: str, way: str) -> None:
    broken = next(each for _, each in FAULTS if each.name == fault)
    result = run_cell(broken.scenario, broken.played_on[0], broken.wrap, variant="stream", recuts=broken.recuts)

    (message,) = (finding.message for finding in result.findings if finding.rule == "stream-recut")
    assert re.search(way, message)
