"""Streamed responses are driven through `stream`: as they were recorded, as a whole, and cut elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

import httpx2
import pytest

from harness import plugins
from harness.audit.redrive import Redrive
from harness.model.errors import MalformedResponse
from harness.model.messages import ChatRequest, ChatResponse, Finish, StreamEvent, TextDelta, Usage
from harness.model.protocols import Adapter, Endpoint, StreamingChatClient
from harness.results import RedriveResult
from harness.stdio import adapter_specs
from tests.audit.redrive.samples import CALL, CHUNKS, cassette, chat, chat_answer, exchange, streamed

ASKED = {"role": "user", "content": "Weather in Paris?"}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "18"}
SPOKEN = {"role": "assistant", "content": "Ich prüfe das.", "tool_calls": [CALL]}
RECORDING = cassette(
    streamed(chat(ASKED), *CHUNKS, "[DONE]"), exchange(chat(ASKED, SPOKEN, RESULT), chat_answer(text="18"))
)

Wrap = Callable[[StreamingChatClient], object]


def redriven(recuts: int = 3) -> RedriveResult:
    with Redrive(recuts) as redrive:
        redrive.add("it.yaml", RECORDING)
        return redrive.result()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the adapter asks with, as it comes."""
    seen: list[dict[str, Any]] = []
    shipped = adapter_specs.adapter("openai-chat")

    def connect(endpoint: Endpoint, model: str) -> object:
        http = cast("httpx2.Client", endpoint.http_client)
        http.event_hooks["request"].append(
            lambda request: seen.append(httpx2.Response(200, content=request.read()).json())
        )
        return shipped.connect(endpoint, model)

    use(monkeypatch, replace(shipped, connect=cast("Any", connect)))
    return seen


def use(monkeypatch: pytest.MonkeyPatch, adapter: Adapter) -> None:
    monkeypatch.setattr(plugins, "adapter", lambda _name: adapter)


def broken(monkeypatch: pytest.MonkeyPatch, wrap: Wrap) -> None:
    shipped = adapter_specs.adapter("openai-chat")

    def connect(endpoint: Endpoint, model: str) -> object:
        return wrap(cast("StreamingChatClient", shipped.connect(endpoint, model)))

    use(monkeypatch, replace(shipped, connect=cast("Any", connect)))


class Passing:
    """Hands everything on. A fault is a subclass."""

    def __init__(self, client: StreamingChatClient) -> None:
        self.client = client

    def chat(self, request: ChatRequest) -> ChatResponse:
        return self.client.chat(request)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        return self.client.stream(request)

    def close(self) -> None:
        self.client.close()


def test_streamed_response_is_streamed_again(asked: list[dict[str, Any]]) -> None:
    result = redriven(recuts=2)
    assert result.disagreements == ()
    counts = result.apis["openai-chat"]
    assert (counts.pairs, counts.agreeing, counts.streamed, result.recuts) == (1, 1, 1, 2)
    # as recorded, as a whole, and in two other cuts: each time the response, and the follow-up
    assert [body.get("stream", False) for body in asked] == [True, False, False, False, True, False, True, False]
    assert [body["messages"][-1] for body in asked[1::2]] == [RESULT] * 4


def test_without_recuts_it_is_driven_as_recorded_and_as_a_whole(asked: list[dict[str, Any]]) -> None:
    assert redriven(recuts=0).disagreements == ()
    assert [body.get("stream", False) for body in asked] == [True, False, False, False]


def test_a_whole_response_is_not_streamed(asked: list[dict[str, Any]]) -> None:
    recording = cassette(
        exchange(chat(ASKED), chat_answer(CALL, text="Ich prüfe das.")),
        exchange(chat(ASKED, SPOKEN, RESULT), chat_answer(text="18")),
    )
    with Redrive() as redrive:
        redrive.add("it.yaml", recording)
        counts = redrive.result().apis["openai-chat"]
    assert (counts.agreeing, counts.streamed) == (1, 0)
    assert [body.get("stream", False) for body in asked] == [False, False]


class CountsNothing(Passing):
    """Its streams lack what `chat` has."""

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        for event in self.client.stream(request):
            yield Finish(replace(event.response, usage=Usage(7))) if isinstance(event, Finish) else event


def test_a_stream_that_is_not_what_chat_gives_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, CountsNothing)
    result = redriven()
    (found,) = result.disagreements
    assert (found.kind, found.file, found.i, found.j) == ("stream-whole", "it.yaml", 0, 1)
    assert found.pointer == "/messages/1/content"
    assert found.recorded == {"at": "/answer/usage/input_tokens", "value": 7}
    assert found.produced == {"delivery": "as a whole body", "value": None}
    assert result.apis["openai-chat"].agreeing == 0


class ChangesEvents(Passing):
    """What it makes of a stream depends on how often it was asked, as on the cuts in one that loses track of them."""

    asks = 0

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        self.asks += 1
        return self.events_for(request)

    def events_for(self, request: ChatRequest) -> Iterator[StreamEvent]:
        raise NotImplementedError


class Shuffles(ChangesEvents):
    def events_for(self, request: ChatRequest) -> Iterator[StreamEvent]:
        for event in self.client.stream(request):
            if isinstance(event, Finish) and self.asks > 1:
                text, *others = event.response.message.parts
                message = replace(event.response.message, parts=(*others, text))
                yield Finish(replace(event.response, message=message))
            else:
                yield event


class Breaks(ChangesEvents):
    def events_for(self, request: ChatRequest) -> Iterator[StreamEvent]:
        for event in self.client.stream(request):
            if isinstance(event, TextDelta) and self.asks > 1:
                raise MalformedResponse("the second half of an ü")
            yield event


class Endless(ChangesEvents):
    def events_for(self, request: ChatRequest) -> Iterator[StreamEvent]:
        events = self.client.stream(request)
        return (event for event in events if self.asks == 1 or not isinstance(event, Finish))


class Remembers(ChangesEvents):
    """Its answers are the same, and its follow-ups are not."""

    def events_for(self, request: ChatRequest) -> Iterator[StreamEvent]:
        return self.client.stream(request)

    def chat(self, request: ChatRequest) -> ChatResponse:
        return self.client.chat(replace(request, provider_metadata={"openai-chat": {"seed": self.asks}}))


@pytest.mark.parametrize(
    ("fault", "recorded", "produced"),
    [
        (Shuffles, {"at": "/answer/message/parts/0/is", "value": "Text"}, {"value": "ToolCall"}),
        (Breaks, None, {"error": "malformed response: the second half of an ü"}),
        (Endless, None, {"error": "malformed response: the stream ended without Finish, which is its last event"}),
        (Remembers, {"at": "/follow-up/body/seed", "value": 1}, {"value": 2}),
    ],
)
def test_stream_that_depends_on_its_cuts_disagrees(
    monkeypatch: pytest.MonkeyPatch, fault: Wrap, recorded: object, produced: dict[str, object]
) -> None:
    broken(monkeypatch, fault)
    result = redriven(recuts=1)
    (found,) = result.disagreements
    assert (found.kind, found.pointer) == ("stream-recut", "/messages/1/content")
    events_for = cast("dict[str, object]", found.produced)
    assert events_for.pop("delivery") == "each byte by itself"
    assert (found.recorded, events_for) == (recorded, produced)
    assert result.apis["openai-chat"].agreeing == 0


class Fails(Passing):
    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        raise MalformedResponse("no stream for me")


def test_unreadable_recorded_stream_disagrees_once(monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch, Fails)
    result = redriven()
    assert [(each.kind, each.produced) for each in result.disagreements] == [
        ("adapter-failed", "malformed response: no stream for me")
    ]
    assert result.apis["openai-chat"].streamed == 1
