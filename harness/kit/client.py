"""Clients as an application has them: with a name, with what they can do, closed by `with`.

An adapter's own client has `chat`, perhaps `stream`, and `close`. These are the same for any adapter, a shipped one
(`harness.kit.factories` makes them by name) or one of somebody's own.
"""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from harness import catalog
from harness.contract.errors import Unsupported, UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator, Sequence

    from harness.contract.model import ChatRequest, ChatResponse, StreamEvent
    from harness.contract.protocols import Adapter, Capability, Embeddings, Endpoint


class _Named:
    """Who a client is, and what it can do.

    `name` is the adapter's, `model` what is asked where a request names no other, and `capabilities` what the adapter
    can do with that model.
    """

    def __init__(self, adapter: Adapter, model: str) -> None:
        self.name = adapter.name
        self.model = model
        self.capabilities: frozenset[Capability] = (
            adapter.capabilities - catalog.api(adapter.api).profile_for(model).lacks
        )


class Client(_Named):
    """A client of a model through an adapter: a `harness.contract.protocols.StreamingChatClient`, closed by `with`.

    Raises:
        MissingDependency: the adapter's SDK is not installed.
        UsageError: the adapter is asynchronous.
    """

    def __init__(self, adapter: Adapter, endpoint: Endpoint, model: str) -> None:
        super().__init__(adapter, model)
        self._client: Any = adapter.connect(endpoint, model)
        if inspect.iscoroutinefunction(self._client.chat):
            raise UsageError(f"the adapter {self.name!r} is asynchronous. Use harness.AsyncClient.")

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `harness.contract.protocols.ChatClient`."""
        return self._client.chat(request)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Ask the model; see `harness.contract.protocols.StreamingChatClient`.

        Raises:
            Unsupported: the adapter cannot stream.
        """
        return _streaming(self.name, self._client)(request)

    def close(self) -> None:
        """Give back what the client holds."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncClient(_Named):
    """`Client` for asynchronous callers: `harness.contract.protocols.AsyncStreamingChatClient`, closed by `async with`.

    An adapter that is asynchronous itself is used as it is. One that is not, as those that ship, is asked in another
    thread: the event loop goes on meanwhile, and a request that is cancelled is still sent to its end.

    Raises:
        MissingDependency: the adapter's SDK is not installed.
    """

    def __init__(self, adapter: Adapter, endpoint: Endpoint, model: str) -> None:
        super().__init__(adapter, model)
        self._client: Any = adapter.connect(endpoint, model)
        self._is_async = inspect.iscoroutinefunction(self._client.chat)

    async def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `harness.contract.protocols.AsyncChatClient`."""
        if self._is_async:
            return await self._client.chat(request)
        return await asyncio.to_thread(self._client.chat, request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        """Ask the model; see `harness.contract.protocols.AsyncStreamingChatClient`.

        Raises:
            Unsupported: the adapter cannot stream.
        """
        stream = _streaming(self.name, self._client)
        if self._is_async:
            async for event in stream(request):
                yield event
            return
        events: Generator[StreamEvent] = stream(request)
        try:
            while (event := await asyncio.to_thread(next, events, None)) is not None:
                yield event
        finally:
            with suppress(ValueError):  # it is still at work in its thread, and closed when that lets go of it
                events.close()

    async def close(self) -> None:
        """Give back what the client holds."""
        if self._is_async:
            await self._client.close()
        else:
            self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


class Embedder(_Named):
    """Texts to vectors through an adapter: a `harness.contract.protocols.EmbeddingProvider`, closed by `with`.

    Raises:
        MissingDependency: the adapter's SDK is not installed.
    """

    def __init__(
        self, adapter: Adapter, embeddings: Embeddings, endpoint: Endpoint, model: str, dimensions: int
    ) -> None:
        super().__init__(adapter, model)
        self._provider = embeddings.connect(endpoint, model, dimensions)
        self.dimensions = dimensions

    @property
    def provider(self) -> str:
        """The adapter's name, which goes into a record of the vectors."""
        return self.name

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text; see `harness.contract.protocols.EmbeddingProvider.embed`."""
        return self._provider.embed(texts)

    def close(self) -> None:
        """Give back what the provider holds."""
        self._provider.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncEmbedder(_Named):
    """`Embedder` for asynchronous callers: a `harness.contract.protocols.AsyncEmbeddingProvider`, closed by
    `async with`. The adapter is asked in another thread, as in `AsyncClient`.

    Raises:
        MissingDependency: the adapter's SDK is not installed.
    """

    def __init__(
        self, adapter: Adapter, embeddings: Embeddings, endpoint: Endpoint, model: str, dimensions: int
    ) -> None:
        super().__init__(adapter, model)
        self._provider = embeddings.connect(endpoint, model, dimensions)
        self.dimensions = dimensions

    @property
    def provider(self) -> str:
        """The adapter's name, which goes into a record of the vectors."""
        return self.name

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text; see `harness.contract.protocols.EmbeddingProvider.embed`."""
        return await asyncio.to_thread(self._provider.embed, texts)

    async def close(self) -> None:
        """Give back what the provider holds."""
        self._provider.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


def _streaming(name: str, client: Any) -> Any:
    if not hasattr(client, "stream"):
        raise Unsupported(name, "streaming", "the adapter has no `stream`")
    return client.stream
