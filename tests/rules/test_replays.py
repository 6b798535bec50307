"""A streamed cell repeated in another form: what must be the same, what need not be, and where the difference is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.model.http import Delivery
from harness.model.messages import (
    JSON,
    ArgumentsDelta,
    ChatResponse,
    Finish,
    Opaque,
    Refusal,
    StopReason,
    Text,
    TextDelta,
    Thinking,
    ToolCall,
    ToolCallStart,
)
from harness.results import Chat, Exchange, Finding, Kind, ReplayVariant, Severity, Transcript
from harness.scenarios.schema import Variant
from tests.rules.transcripts import found, given, only, transcript_for, with_exchange, with_parts

CALLS = "call-after-text"
OURS = ("the provider metadata of the message", "the API's own stop reason")
"""What two tellings may differ in and nobody loses anything by."""


def recorded(target: str = "anthropic", scenario: str = CALLS) -> Transcript:
    return transcript_for(scenario, target, "stream", 4)


def with_changed_variants(
    transcript: Transcript, variant: Variant, edit: Callable[[Chat], Chat], *, times: int = 1
) -> Transcript:
    """The transcript of which the first `times` replay_variants of a variant have another first chat."""
    left = times
    replay_variants: list[ReplayVariant] = []
    for variant_run in transcript.replay_variants:
        if variant_run.variant == variant and left:
            left -= 1
            first, *others = variant_run.chats
            replay_variants.append(replace(variant_run, chats=(edit(first), *others)))
        else:
            replay_variants.append(variant_run)
    assert not left
    return replace(transcript, replay_variants=tuple(replay_variants))


def streamed(transcript: Transcript, edit: Callable[[Chat], Chat]) -> Transcript:
    """The transcript whose first chat came out otherwise, and the replay_variants not."""
    first, *others = transcript.chats
    return replace(transcript, chats=(edit(first), *others))


def against_whole(transcript: Transcript) -> Finding:
    """The one finding of the whole body; what is wrong with the answer itself other rules report."""
    (finding,) = [each for each in found(transcript) if each.rule == "stream-equals-whole"]
    return finding


def answering(edit: Callable[[ChatResponse], ChatResponse]) -> Callable[[Chat], Chat]:
    def change(chat: Chat) -> Chat:
        assert chat.response
        return replace(chat, response=edit(chat.response))

    return change


def parts(edit: Callable[[Any], Any]) -> Callable[[Chat], Chat]:
    """Each part of the answer edited."""
    return answering(lambda response: with_parts(response, [edit(part) for part in response.message.parts]))


def of_kind(kind: type, edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda part: edit(part) if isinstance(part, kind) else part


DIFFERENT = [
    pytest.param(parts(of_kind(Text, lambda p: replace(p, text=p.text + " "))), "the text", id="text"),
    pytest.param(parts(of_kind(ToolCall, lambda p: replace(p, id="x"))), "the id of the call (search_issues)", id="id"),
    pytest.param(parts(of_kind(ToolCall, lambda p: replace(p, name="x"))), "the name of the call", id="name"),
    pytest.param(
        parts(of_kind(ToolCall, lambda p: replace(p, arguments={**p.arguments, "query": 1}))),
        "the arguments of the call (search_issues) at /query",
        id="arguments",
    ),
    pytest.param(parts(of_kind(ToolCall, lambda p: Refusal(p.name))), "the refusal", id="another-part"),
    pytest.param(answering(lambda r: with_parts(r, r.message.parts[:1])), "the call (search_issues)", id="call-lost"),
    pytest.param(
        answering(lambda r: with_parts(r, [*r.message.parts, Opaque("anthropic", {"type": "x"})])),
        "the part of an unknown type",
        id="more",
    ),
    pytest.param(
        parts(of_kind(ToolCall, lambda p: replace(p, provider_metadata={"gemini": {"thoughtSignature": "x"}}))),
        "the provider metadata of the message",
        id="state",
    ),
    pytest.param(answering(lambda r: replace(r, stop_reason=StopReason.UNKNOWN)), "the stop reason", id="stop"),
    pytest.param(answering(lambda r: replace(r, raw_stop_reason="x")), "the API's own stop reason", id="raw-stop"),
    pytest.param(
        answering(lambda r: replace(r, usage=replace(r.usage, output_tokens=0))), "the count output_tokens", id="usage"
    ),
    pytest.param(answering(lambda r: replace(r, model="x")), "the model", id="model"),
]


@pytest.mark.parametrize(("edit", "path"), DIFFERENT)
def test_a_whole_answer_that_is_another(edit: Callable[[Chat], Chat], path: str) -> None:
    mistaken = against_whole(with_changed_variants(recorded(), "whole", edit))
    finding = against_whole(streamed(recorded(), edit))
    way = "chat 0 has a different result when its stream is replayed as a whole body"
    assert f"{way}. It differs in " in finding.message
    assert (finding.severity, mistaken.severity) == (Severity.ERROR, Severity.ERROR)
    for each in (finding, mistaken):
        assert way in each.message
        assert path in each.message.rpartition(". It differs in ")[2]
        assert (each.kind is Kind.CONVENTION) is (path in OURS)
        assert each.actual != each.expected
        assert each.exchange == 0
    if path in OURS or "of an unknown type" in path:
        return  # what the wire has there is no value of the answer's
    assert f"{way}, whose framing no client has to accept. It" in mistaken.message
    assert (mistaken.actual, mistaken.expected) == (finding.actual, finding.expected)


@pytest.mark.parametrize(("edit", "path"), DIFFERENT)
def test_an_answer_that_depends_on_the_cut(edit: Callable[[Chat], Chat], path: str) -> None:
    finding = only(with_changed_variants(recorded(), "stream", edit), "stream-recut")
    start, _, places = finding.message.rpartition(" forms do. It differs in ")
    assert start.startswith("the same stream gives another answer in another form (each byte by itself), as 1 of ")
    assert path in places


def test_a_whole_answer_that_fails() -> None:
    edit = lambda chat: replace(chat, response=None, error="MalformedResponse")  # noqa: E731
    finding = against_whole(with_changed_variants(recorded(), "whole", edit))
    assert (finding.actual, finding.expected) == ("MalformedResponse", None)
    edit = lambda chat: replace(chat, response=None, error="MalformedResponse", error_text="no JSON")  # noqa: E731
    assert against_whole(with_changed_variants(recorded(), "whole", edit)).actual == "MalformedResponse: no JSON"


SIGNED: dict[str, JSON] = {"gemini": {"thoughtSignature": "c2ln"}}


def telling(streamed: list[Any], whole: list[Any]) -> list[str]:
    """What is found where a stream came to some parts, and the whole body to others."""
    transcript = transcript_for("system-plain")
    said = "".join(part.text for part in streamed if isinstance(part, Text))
    thought = "".join(part.text for part in streamed if isinstance(part, Thinking))
    response = with_parts(given(transcript), streamed)
    chat = replace(transcript.chats[0], response=response)
    variant_run = ReplayVariant("as a whole body", "whole", (replace(chat, response=with_parts(response, whole)),))
    events = [kind(text) for kind, text in ((TextDelta, said),) if text]
    assert not thought or said
    broken = replace(
        transcript, chats=(replace(chat, events=(*events, Finish(response))),), replay_variants=(variant_run,)
    )
    return [
        finding.message.rpartition("It differs in ")[2]
        for finding in found(broken)
        if finding.rule == "stream-equals-whole"
    ]


def test_what_stands_between_texts_makes_one() -> None:
    between = Opaque("gemini", {"executableCode": {}})
    assert telling([Text("a"), between, Text("b")], [Text("ab"), between]) == ["the text and the text 2"]
    kept = "the provider metadata of the message"
    assert telling([Text("a", SIGNED)], [Text("a")]) == [kept]
    assert telling([Text("a", SIGNED), Text("b", {"gemini": {"x": 1}})], [Text("ab", SIGNED)]) == [kept]
    assert telling([Text("a"), Refusal("b")], [Text("a"), Text("b")]) == ["the text and the refusal"]
    assert telling([Text("a"), Opaque("x", 1)], [Text("a"), Opaque("x", True)]) == ["the part of an unknown type"]


def test_all_that_differs_is_named_at_once_and_what_is_ours_apart() -> None:
    def edit(response: ChatResponse) -> ChatResponse:
        parts = [replace(p, text="no") if isinstance(p, Text) else p for p in response.message.parts]
        return replace(with_parts(response, parts), stop_reason=StopReason.UNKNOWN, raw_stop_reason="x")

    broken = streamed(recorded(), answering(edit))
    lost, ours = [finding for finding in found(broken) if finding.rule == "stream-equals-whole"]
    assert lost.message == (
        "chat 0 has a different result when its stream is replayed as a whole body. It differs in the text and the "
        "stop reason"
    )
    assert isinstance(lost.expected, dict)
    assert lost.expected["the stop reason"] == "tool_use"
    assert lost.actual == {"the text": "no", "the stop reason": "unknown"}
    assert (lost.kind, ours.kind) == (Kind.LOSS, Kind.CONVENTION)
    assert ours.message.endswith("It differs in the API's own stop reason")


UNCOUNTED = [
    (answering(lambda r: replace(r, usage=replace(r.usage, output_tokens=None))), "the count output_tokens"),
    (answering(lambda r: replace(r, model=None)), "the model"),
]


@pytest.mark.parametrize(("edit", "path"), UNCOUNTED)
def test_what_only_one_telling_offers_is_no_loss(edit: Callable[[Chat], Chat], path: str) -> None:
    finding = only(with_changed_variants(recorded(), "whole", edit), "stream-equals-whole")
    assert (finding.kind, finding.message.rpartition("It differs in ")[2]) == (Kind.CONVENTION, path)


def with_ids(*ids: str) -> Callable[[Chat], Chat]:
    """A telling in which the calls have these ids, in the events as well."""

    def renamed(chat: Chat) -> Chat:
        left = iter(ids)
        assert chat.response
        parts = [replace(p, id=next(left)) if isinstance(p, ToolCall) else p for p in chat.response.message.parts]
        following = iter(ids)
        said = [replace(e, id=next(following)) if isinstance(e, ToolCallStart) else e for e in chat.events]
        return replace(chat, response=with_parts(chat.response, parts), events=tuple(said))

    return renamed


@pytest.mark.parametrize("variant", ["whole", "stream"])
def test_ids_that_no_api_issued_may_be_others_each_time_and_issued_ones_may_not(variant: Variant) -> None:
    made_up = recorded("gemini-2.5", "call-parallel-same-tool")
    rule = "stream-equals-whole" if variant == "whole" else "stream-recut"
    assert found(with_changed_variants(made_up, variant, with_ids("call_x81f", "call_77b2"))) == []
    assert "the id of the call 2" in only(with_changed_variants(made_up, variant, with_ids("one", "one")), rule).message
    issued = recorded("openai-chat", "call-parallel-same-tool")
    other = with_changed_variants(issued, variant, with_ids("call_x81f", "call_77b2"))
    assert "the id of the call 1" in (against_whole(other) if variant == "whole" else only(other, rule)).message


def test_the_order_in_which_text_and_calls_come_is_ours() -> None:
    def text_last(said: list[Any]) -> list[Any]:
        texts = [event for event in said if isinstance(event, TextDelta)]
        return [*(event for event in said[:-1] if event not in texts), *texts, said[-1]]

    finding = only(with_changed_variants(recorded(), "stream", events(text_last)), "stream-recut")
    assert finding.kind is Kind.CONVENTION
    assert finding.message.endswith("It differs in the order of the events")


@pytest.mark.parametrize(
    ("target", "way", "kind"),
    [
        ("anthropic", "a byte order mark in front, in three pieces", Kind.CONVENTION),
        ("gemini-3", "a byte order mark in front, in three pieces", Kind.CONVENTION),
        ("openai-chat", "a byte order mark in front, in three pieces", Kind.LOSS),
        ("gemini-3", "keep-alive comments between the events, each by itself", Kind.CONVENTION),
        ("openai-chat", "keep-alive comments between the events, each by itself", Kind.LOSS),
        ("gemini-3", "CR line ends, cut behind each", Kind.LOSS),
    ],
)
def test_a_spelling_that_the_official_sdk_cannot_read_is_no_loss(target: str, way: str, kind: Kind) -> None:
    transcript = recorded(target)
    *others, last = transcript.replay_variants
    following = tuple(replace(chat, response=None, error="MalformedResponse") for chat in last.chats)
    broken = replace(transcript, replay_variants=(*others, replace(last, way=way, chats=following, shape="")))
    assert only(broken, "stream-recut").kind is kind


def events(edit: Callable[[list[Any]], list[Any]]) -> Callable[[Chat], Chat]:
    return lambda chat: replace(chat, events=tuple(edit(list(chat.events))))


def test_the_pieces_of_events_make_no_difference() -> None:
    def letters(said: list[Any]) -> list[Any]:
        cut: list[Any] = []
        for event in said:
            if isinstance(event, TextDelta | ArgumentsDelta):
                cut += [replace(event, text=letter) for letter in event.text] + [replace(event, text="")]
            else:
                cut.append(event)
        return cut

    assert found(with_changed_variants(recorded(), "stream", events(letters))) == []


@pytest.mark.parametrize(
    ("edit", "path"),
    [
        pytest.param(lambda said: said[1:], "the text of the events", id="text"),
        pytest.param(
            lambda said: [e for e in said if not isinstance(e, ToolCallStart)],
            "the id of the call of the events (search_issues) and the name of the call of the events (search_issues)",
            id="start",
        ),
        pytest.param(
            lambda said: [replace(e, id="x") if isinstance(e, ToolCallStart) else e for e in said],
            "the id of the call of the events (search_issues)",
            id="id",
        ),
        pytest.param(
            lambda said: [e for e in said if not isinstance(e, ArgumentsDelta)],
            "the arguments of the call of the events (search_issues) at /query",
            id="arguments",
        ),
        pytest.param(
            lambda said: [*said[:-2], said[-1]], "the end of the call of the events (search_issues)", id="end"
        ),
        pytest.param(lambda said: said[:-1], "whether the events finish", id="finish"),
    ],
)
def test_events_that_depend_on_the_cut(edit: Callable[[list[Any]], list[Any]], path: str) -> None:
    finding = only(with_changed_variants(recorded(), "stream", events(edit)), "stream-recut")
    assert finding.message.endswith(f". It differs in {path}")


def failing(scenario: str) -> Transcript:
    """The transcript of a chat that failed, retold twice."""
    transcript = transcript_for(scenario)
    return replace(
        transcript, replay_variants=tuple(ReplayVariant("cut", "stream", transcript.chats) for _ in range(2))
    )


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"error": "ServerError"}, "the error"),
        ({"status": 500}, "the status of the error"),
        ({"retry_after": None}, "the time to wait"),
        ({"retry_after": 70.0}, "the time to wait"),
        ({"error": None}, "the error"),
    ],
    ids=["class", "status", "no-wait", "another-wait", "none"],
)
def test_an_error_that_depends_on_the_cut(change: dict[str, Any], path: str) -> None:
    broken = with_changed_variants(failing("error-429-retry-after"), "stream", lambda chat: replace(chat, **change))
    finding = only(broken, "stream-recut")
    assert finding.message.endswith(f". It differs in {path}")


def test_events_before_an_error_count_unless_the_connection_broke() -> None:
    broken = with_changed_variants(failing("connection-cut-clean"), "stream", events(lambda said: said[:-1]))
    assert only(broken, "stream-recut").message.startswith("the same stream gives another answer")

    def reset(exchange: Exchange) -> Exchange:
        assert exchange.response
        return replace(exchange, response=replace(exchange.response, delivery=Delivery(ending="reset")))

    assert found(with_exchange(broken, reset)) == []
    own, other = (
        with_changed_variants(
            failing("connection-cut-clean"), "stream", lambda chat, name=name: replace(chat, error=name)
        )
        for name in ("ChatError", "ConnectionFailed")
    )
    assert found(with_exchange(own, reset)) == found(with_exchange(other, reset)) == []
    assert str(only(other, "stream-recut").expected).startswith("MalformedResponse: ")
