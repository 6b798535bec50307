"""An adapter's client as an application has it: named, closed by `with`, for synchronous and asynchronous callers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from harness.kit.client import (
    AsyncChatGeneration,
    AsyncClient,
    AsyncEmbedder,
    ChatGeneration,
    Client,
    Embedder,
    EmbeddingRecord,
)
from harness.kit.thread import Thread
from harness.model.errors import EmbeddingMismatch, Unsupported, UsageError
from harness.model.messages import ChatRequest, ChatResponse, Finish, Message, StopReason, StreamEvent, TextDelta, Usage
from harness.model.protocols import (
    Adapter,
    AsyncStreamingChatClient,
    Capability,
    EmbeddingProvider,
    Embeddings,
    Endpoint,
    StreamingChatClient,
)

ENDPOINT = Endpoint("http://127.0.0.1:9", "key")
REQUEST = ChatRequest(messages=(Message("user", "Hi"),))
ANSWER = ChatResponse(Message("assistant", "Ahoy"), StopReason.END_TURN, Usage())
EVENTS = [TextDelta("Ahoy"), Finish(ANSWER)]


class Plain:
    def __init__(self) -> None:
        self.log: list[str] = []
        self.threads: set[int] = set()

    def chat(self, request: ChatRequest) -> ChatResponse:
        self.threads.add(threading.get_ident())
        return ANSWER

    def close(self) -> None:
        self.log.append("close")


class Streaming(Plain):
    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        self.threads.add(threading.get_ident())
        try:
            yield from EVENTS
        finally:
            self.log.append("stream closed")


class Asynchronous:
    def __init__(self) -> None:
        self.log: list[str] = []

    async def chat(self, request: ChatRequest) -> ChatResponse:
        return ANSWER

    async def stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        for event in EVENTS:
            yield event

    async def close(self) -> None:
        self.log.append("close")


def adapter(client: object) -> Adapter:
    abilities = frozenset({Capability.TOOLS, Capability.FORCED_TOOL_CHOICE})
    return Adapter("mine", "anthropic", abilities, lambda endpoint, model: client)  # type: ignore[arg-type, return-value]


def test_with_closes_a_client() -> None:
    plain = Streaming()
    with Client(adapter(plain), ENDPOINT, "claude-opus-5-5") as client:
        assert isinstance(client, StreamingChatClient)
        assert client.chat(REQUEST) == ANSWER
        assert [*client.stream(REQUEST)] == EVENTS
        assert (client.name, client.model) == ("mine", "claude-opus-5-5")
        assert client.capabilities == {Capability.TOOLS}  # the model takes no forced choice
        assert Thread().send(client, "Hi", lambda call: None) == ANSWER
        assert plain.log == ["stream closed"]
    assert plain.log == ["stream closed", "close"]


@pytest.mark.parametrize("made", [Streaming, Asynchronous])
def test_async_with_closes_a_client(made: type[Streaming | Asynchronous]) -> None:
    own = made()

    async def use() -> None:
        async with AsyncClient(adapter(own), ENDPOINT, "claude-opus-5") as client:
            assert isinstance(client, AsyncStreamingChatClient)
            assert await client.chat(REQUEST) == ANSWER
            assert [event async for event in client.stream(REQUEST)] == EVENTS
            assert (client.name, client.capabilities) == ("mine", {Capability.TOOLS, Capability.FORCED_TOOL_CHOICE})
        assert own.log[-1] == "close"

    asyncio.run(use())


def test_a_synchronous_adapter_does_not_block_the_event_loop() -> None:
    own = Streaming()

    async def use() -> None:
        client = AsyncClient(adapter(own), ENDPOINT, "claude-opus-5")
        await client.chat(REQUEST)
        assert [event async for event in client.stream(REQUEST)] == EVENTS

    asyncio.run(use())
    assert threading.get_ident() not in own.threads


def test_a_stream_that_is_left_is_closed() -> None:
    own = Streaming()

    async def use() -> None:
        events = AsyncClient(adapter(own), ENDPOINT, "claude-opus-5").stream(REQUEST)
        assert await anext(events) == EVENTS[0]
        await events.aclose()  # type: ignore[attr-defined]

    asyncio.run(use())
    assert own.log == ["stream closed"]


def test_an_adapter_without_streaming_raises_unsupported() -> None:
    said = "mine: streaming is not supported: the adapter has no `stream`"
    with pytest.raises(Unsupported) as raised:
        Client(adapter(Plain()), ENDPOINT, "claude-opus-5").stream(REQUEST)
    assert str(raised.value) == said

    async def use() -> None:
        await anext(AsyncClient(adapter(Plain()), ENDPOINT, "claude-opus-5").stream(REQUEST))

    with pytest.raises(Unsupported) as raised:
        asyncio.run(use())
    assert str(raised.value) == said


def test_an_asynchronous_adapter_is_for_asynchronous_callers() -> None:
    with pytest.raises(UsageError) as raised:
        Client(adapter(Asynchronous()), ENDPOINT, "claude-opus-5")
    assert str(raised.value) == "the adapter 'mine' is asynchronous. Use harness.AsyncClient."


def test_with_closes_what_generates_text() -> None:
    plain = Plain()
    with ChatGeneration(Client(adapter(plain), ENDPOINT, "claude-opus-5")) as provider:
        assert provider.generate("Hi").text == "Ahoy"
        assert (provider.name, Capability.TOOLS in provider.capabilities) == ("mine", True)
    assert plain.log == ["close"]
    assert (ChatGeneration(plain).name, ChatGeneration(plain).capabilities) == ("", frozenset())


@pytest.mark.parametrize("made", [Plain, Asynchronous])
def test_async_with_closes_what_generates_text(made: type[Plain | Asynchronous]) -> None:
    own = made()

    async def use() -> None:
        async with AsyncChatGeneration(AsyncClient(adapter(own), ENDPOINT, "claude-opus-5")) as provider:
            assert (await provider.generate("Hi")).text == "Ahoy"
            assert (provider.name, Capability.TOOLS in provider.capabilities) == ("mine", True)
            assert own.log == []

    asyncio.run(use())
    assert own.log == ["close"]


class Vectors:
    provider = "whoever"

    def __init__(self, model: str, dimensions: int) -> None:
        self.model, self.dimensions = model, dimensions
        self.closed = False

    def embed(self, texts: list[str]) -> list[list[float]]:
        self.thread = threading.get_ident()
        return [[1.0] * self.dimensions for _ in texts]

    def close(self) -> None:
        self.closed = True


def vectors(made: list[Vectors]) -> Embeddings:
    def connect(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
        made.append(Vectors(model, dimensions))
        return made[-1]  # type: ignore[return-value]

    return Embeddings("vectors-1", 2, connect)


def test_with_closes_what_embeds() -> None:
    made: list[Vectors] = []
    with Embedder(adapter(Plain()), vectors(made), ENDPOINT, "vectors-1", 2) as embedder:
        assert embedder.embed(["a", "b"]) == [[1.0, 1.0], [1.0, 1.0]]
        assert EmbeddingRecord.of(embedder) == EmbeddingRecord("mine", "vectors-1", 2)
        assert not made[0].closed
    assert made[0].closed


def test_async_with_closes_what_embeds() -> None:
    made: list[Vectors] = []

    async def use() -> None:
        async with AsyncEmbedder(adapter(Plain()), vectors(made), ENDPOINT, "vectors-1", 2) as embedder:
            assert await embedder.embed(["a", "b"]) == [[1.0, 1.0], [1.0, 1.0]]
            record = EmbeddingRecord.of(embedder)
            assert record == EmbeddingRecord("mine", "vectors-1", 2)
            assert await record.query_async(embedder, "a") == [1.0, 1.0]
            with pytest.raises(EmbeddingMismatch):
                await EmbeddingRecord("mine", "vectors-2", 2).query_async(embedder, "a")
            assert (embedder.name, Capability.TOOLS in embedder.capabilities, made[0].closed) == ("mine", True, False)

    asyncio.run(use())
    assert made[0].closed
    assert made[0].thread != threading.get_ident()  # the event loop went on
