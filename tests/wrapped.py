"""Adapters that differ from a shipped one, for tests of what plays them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from harness.apis.registry import Target
from harness.model.messages import ChatRequest, ChatResponse, StreamEvent
from harness.model.protocols import AsyncChatClient, ChatClient, Endpoint, Route, StreamingChatClient

Chat = Callable[[ChatRequest], ChatResponse]


class _Client:
    def __init__(self, inner: ChatClient, chat: Callable[[Chat, ChatRequest], ChatResponse]) -> None:
        self._inner = inner
        self._chat = chat

    def chat(self, request: ChatRequest) -> ChatResponse:
        return self._chat(self._inner.chat, request)

    def close(self) -> None:
        self._inner.close()


class _AsyncClient:
    def __init__(self, inner: StreamingChatClient) -> None:
        self._inner = inner
        self._open = asyncio.Event()

    async def chat(self, request: ChatRequest) -> ChatResponse:
        return await asyncio.to_thread(self._inner.chat, request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        events = self._inner.stream(request)
        while (event := await asyncio.to_thread(next, events, None)) is not None:
            yield event

    async def close(self) -> None:
        self._open.set()
        await self._open.wait()
        self._inner.close()


def connecting(target: Target, connect: Callable[[Endpoint, str], ChatClient | AsyncChatClient]) -> Target:
    """The target with another way to get a client."""
    return replace(target, adapter=replace(target.adapter, connect=connect))


def inner(target: Target, endpoint: Endpoint, model: str) -> StreamingChatClient:
    client = target.adapter.connect(endpoint, model)
    assert isinstance(client, StreamingChatClient)
    return client


def chatting(target: Target, chat: Callable[[Chat, ChatRequest], ChatResponse]) -> Target:
    """The target with `chat(inner chat, request)` in the place of its client's chat."""
    return connecting(target, lambda endpoint, model: _Client(inner(target, endpoint, model), chat))


def without_http_client(target: Target) -> Target:
    """The target with an adapter that takes no HTTP client, as those in other languages."""
    adapter = target.adapter
    return replace(target, adapter=replace(adapter, route=Route.LOOPBACK))


def asynchronous(target: Target) -> Target:
    """The target with an asynchronous adapter."""
    plain = without_http_client(target)
    return connecting(plain, lambda endpoint, model: _AsyncClient(inner(target, endpoint, model)))
