"""Examples of asynchronous adapters, on the SDKs' own asynchronous clients.

The SDKs send the requests. The readers of the shipped adapters read the raw responses. Try one
with `harness run --mode reference --adapter tests.examples.async_sdk:ANTHROPIC`.
"""

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any

import anthropic
import httpx2
import openai

from harness.adapters import anthropic as messages
from harness.adapters import openai_chat
from harness.adapters._common import loads, merge_fields, own
from harness.adapters.anthropic.client import translate_error as anthropic_failure
from harness.adapters.anthropic.requests import encode as encode_messages
from harness.adapters.anthropic.responses import read_response as read_message
from harness.adapters.anthropic.responses import read_stream as message_events
from harness.adapters.openai_chat.requests import encode as encode_chat
from harness.adapters.openai_chat.responses import read_response as read_completion
from harness.adapters.openai_chat.streams import read_stream as chat_events
from harness.model.errors import ConnectionFailed, Unsupported, provider_error
from harness.model.messages import ChatRequest, ChatResponse, StreamEvent
from harness.model.protocols import Adapter, Capability, Connect, Endpoint

TIMEOUT_SECONDS = 600.0

TLS = ssl.create_default_context()
"""Shared by all clients, since reading the certificates takes longer than a chat with the reference server."""


class Client(ABC):
    """An `AsyncStreamingChatClient`. A subclass sends a request and reads the response."""

    def __init__(self, model: str, http: httpx2.AsyncClient) -> None:
        self._model = model
        self._http = http

    async def chat(self, request: ChatRequest) -> ChatResponse:
        with failures_translated():
            async with self._sent(request, stream=False) as response:
                data = await response.aread()
        return self._decoded(data, request)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[StreamEvent]:
        with failures_translated():
            async with self._sent(request, stream=True) as response:
                async for event in arriving(lambda body: self._events(body, request), response.aiter_bytes()):
                    yield event

    async def close(self) -> None:
        await self._http.aclose()

    @abstractmethod
    def _sent(self, request: ChatRequest, *, stream: bool) -> AbstractAsyncContextManager[httpx2.Response]: ...

    @abstractmethod
    def _decoded(self, data: bytes, request: ChatRequest) -> ChatResponse: ...

    @abstractmethod
    def _events(self, body: Iterable[bytes], request: ChatRequest) -> Iterator[StreamEvent]: ...


async def arriving(
    parse: Callable[[Iterable[bytes]], Iterator[StreamEvent]], body: AsyncIterator[bytes]
) -> AsyncGenerator[StreamEvent]:
    """Yield events while their bytes arrive. A parser pulls its bytes, so it waits for them in a thread."""
    loop = asyncio.get_running_loop()

    async def piece() -> bytes | None:
        return await anext(body, None)

    events = parse(iter(lambda: asyncio.run_coroutine_threadsafe(piece(), loop).result(), None))
    while (event := await asyncio.to_thread(next, events, None)) is not None:
        yield event


@contextmanager
def failures_translated() -> Generator[None]:
    try:
        yield
    except anthropic.AnthropicError as error:
        raise anthropic_failure(error) from error
    except openai.APIStatusError as error:
        headers, code = error.response.headers, error.code or error.type
        seconds = float(headers.get("retry-after-ms", 0)) / 1000 or float(headers.get("retry-after", 0)) or None
        raise provider_error(error.status_code, error.message, code=code, retry_after=seconds) from error
    except (openai.APIConnectionError, httpx2.HTTPError) as error:
        raise ConnectionFailed(str(error)) from error
    except UnicodeEncodeError as error:
        raise Unsupported("this adapter", "a lone surrogate in a text", "UTF-8 has no code for it") from error


class Messages(Client):
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        super().__init__(model, httpx2.AsyncClient(trust_env=False, verify=TLS))
        options = {"api_key": endpoint.api_key, "base_url": endpoint.base_url, "http_client": self._http}
        self._sdk = anthropic.AsyncAnthropic(**options, max_retries=0)

    @asynccontextmanager
    async def _sent(self, request: ChatRequest, *, stream: bool) -> AsyncIterator[httpx2.Response]:
        body: Any = encode_messages(request, self._model)
        headers = body.pop("extra_headers", None)
        send: Any = self._sdk.messages.with_streaming_response.create
        required = {
            "model": body["model"],
            "max_tokens": body["max_tokens"],
            "messages": (),
            "timeout": TIMEOUT_SECONDS,
        }
        given = {"extra_body": body, "extra_headers": headers}
        async with send(**required, **({"stream": True} if stream else {}), **given) as response:
            yield response.http_response

    def _decoded(self, data: bytes, request: ChatRequest) -> ChatResponse:
        return read_message(loads(data))

    def _events(self, body: Iterable[bytes], request: ChatRequest) -> Iterator[StreamEvent]:
        return message_events(body)


class Chat(Client):
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        super().__init__(model, httpx2.AsyncClient(trust_env=False, verify=TLS))
        options = {"api_key": endpoint.api_key, "base_url": endpoint.base_url, "http_client": self._http}
        self._sdk = openai.AsyncOpenAI(**options, max_retries=0)

    @asynccontextmanager
    async def _sent(self, request: ChatRequest, *, stream: bool) -> AsyncIterator[httpx2.Response]:
        switches: Any = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        wire = encode_chat(request, request.model or self._model) | switches
        body = merge_fields(wire, own(request.provider_metadata, openai_chat.ADAPTER.api))
        send: Any = self._sdk.chat.completions.with_streaming_response.create
        async with send(model=body["model"], messages=(), extra_body=body) as response:
            yield response.http_response

    def _decoded(self, data: bytes, request: ChatRequest) -> ChatResponse:
        return read_completion(loads(data), 200, request.messages)

    def _events(self, body: Iterable[bytes], request: ChatRequest) -> Iterator[StreamEvent]:
        return chat_events(body, 200, request.messages)


def asynchronous(shipped: Adapter, connect: Connect) -> Adapter:
    can = shipped.capabilities - {Capability.EMBEDDINGS}
    return Adapter(f"{shipped.name}-async", shipped.api, can, connect)


ANTHROPIC = asynchronous(messages.ADAPTER, Messages)
OPENAI_CHAT = asynchronous(openai_chat.ADAPTER, Chat)
