"""Clients for applications: chat, text generation from a prompt, and embeddings.

Each client has a name and capabilities, and a `with` statement closes it. `EmbeddingRecord` prevents comparisons
between vectors of different models. `LocalRunner` runs the commands of adapters that use a command-line program.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import signal
import subprocess
import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import ConfigDict, TypeAdapter, ValidationError

from harness.apis import registry
from harness.model.errors import EmbeddingMismatch, Unsupported, UsageError
from harness.model.http import Command, Completed
from harness.model.messages import ChatRequest, ChatResponse, Message
from harness.model.protocols import (
    AsyncChatClient,
    AsyncEmbeddingProvider,
    Capability,
    ChatClient,
    EmbeddingProvider,
    Generation,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator, Sequence

    from harness.model.messages import ChatResponse, StreamEvent
    from harness.model.protocols import Adapter, Embeddings, Endpoint


class Closing(ABC):
    """Base class of clients that a `with` statement closes."""

    @abstractmethod
    def close(self) -> None:
        """Release the client's resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class AsyncClosing(ABC):
    """Base class of clients that an `async with` statement closes."""

    @abstractmethod
    async def close(self) -> None:
        """Release the client's resources."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


class _Named:
    """Name and capabilities of a client.

    `name` is the adapter's name. `model` is used for requests that do not name a model. `capabilities` are those that
    the adapter has with that model.
    """

    def __init__(self, adapter: Adapter, model: str) -> None:
        self.name = adapter.name
        self.model = model
        self.capabilities: frozenset[Capability] = (
            adapter.capabilities - registry.api(adapter.api).profile_for(model).lacks
        )


class Client(_Named, Closing):
    """A `harness.model.protocols.StreamingChatClient` that uses an adapter. A `with` statement closes it.

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
        """See `harness.model.protocols.ChatClient.chat`."""
        return self._client.chat(request)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """See `harness.model.protocols.StreamingChatClient.stream`.

        Raises:
            Unsupported: the adapter cannot stream.
        """
        return _streaming(self.name, self._client)(request)

    def close(self) -> None:
        """Release the client's resources."""
        self._client.close()


class AsyncClient(_Named, AsyncClosing):
    """A `harness.model.protocols.AsyncStreamingChatClient` that uses an adapter. An `async with` statement closes it.

    A synchronous adapter, such as the shipped ones, runs in another thread, so the event loop is not blocked. If the
    caller cancels a request, that thread still finishes it.

    Raises:
        MissingDependency: the adapter's SDK is not installed.
    """

    def __init__(self, adapter: Adapter, endpoint: Endpoint, model: str) -> None:
        super().__init__(adapter, model)
        self._client: Any = adapter.connect(endpoint, model)
        self._is_async = inspect.iscoroutinefunction(self._client.chat)

    async def chat(self, request: ChatRequest) -> ChatResponse:
        """See `harness.model.protocols.ChatClient.chat`."""
        if self._is_async:
            return await self._client.chat(request)
        return await asyncio.to_thread(self._client.chat, request)

    async def stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        """See `harness.model.protocols.StreamingChatClient.stream`.

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
            with suppress(ValueError):  # still running in its thread, which closes it
                events.close()

    async def close(self) -> None:
        """Release the client's resources."""
        if self._is_async:
            await self._client.close()
        else:
            self._client.close()


class _NamedEmbedder(_Named):
    def __init__(
        self, adapter: Adapter, embeddings: Embeddings, endpoint: Endpoint, model: str, dimensions: int
    ) -> None:
        super().__init__(adapter, model)
        self._provider = embeddings.connect(endpoint, model, dimensions)
        self.dimensions = dimensions

    @property
    def provider(self) -> str:
        """The adapter's name. `EmbeddingRecord` stores it."""
        return self.name


class Embedder(_NamedEmbedder, Closing):
    """A `harness.model.protocols.EmbeddingProvider` that uses an adapter. A `with` statement closes it.

    Raises:
        MissingDependency: the adapter's SDK is not installed.
    """

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `harness.model.protocols.EmbeddingProvider.embed`."""
        return self._provider.embed(texts)

    def close(self) -> None:
        """Release the provider's resources."""
        self._provider.close()


class AsyncEmbedder(_NamedEmbedder, AsyncClosing):
    """A `harness.model.protocols.AsyncEmbeddingProvider` that uses an adapter. An `async with` statement closes it.

    The adapter runs in another thread, as in `AsyncClient`.

    Raises:
        MissingDependency: the adapter's SDK is not installed.
    """

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `harness.model.protocols.EmbeddingProvider.embed`."""
        return await asyncio.to_thread(self._provider.embed, texts)

    async def close(self) -> None:
        """Release the provider's resources."""
        self._provider.close()


def _streaming(name: str, client: Any) -> Any:
    if not hasattr(client, "stream"):
        raise Unsupported(name, "streaming", "the adapter has no `stream`")
    return client.stream


class LocalRunner:
    """Runs each command in an empty temporary folder."""

    def run(self, command: Command, timeout: float) -> Completed:
        """See `harness.model.protocols.ProcessRunner.run`."""
        environment = {name: os.environ[name] for name in command.inherited if name in os.environ}
        with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as folder:
            try:
                process = subprocess.Popen(  # noqa: S603 - no shell; the adapter's own command, its prompt on stdin
                    command.argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=folder,
                    env={**environment, **command.environment},
                    start_new_session=True,  # its own process group, which `_kill` kills whole
                )
            except ValueError as error:  # a null byte among the arguments
                raise OSError(str(error)) from error
            try:
                stdout, stderr = process.communicate(command.stdin.encode(), timeout)
            except BaseException as error:
                _kill(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise TimeoutError(f"{command.argv[0]} has not ended after {timeout:g} seconds") from error
                raise
        return Completed(process.returncode, _text(stdout), _text(stderr))


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):  # the command has just ended
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


class _Prompted:
    """Default model, system prompt, name and capabilities of a generation provider.

    `model` is used for calls that pass no model. If it is empty, the client uses its own default. `name` and
    `capabilities` are those of the chat client. They are empty if it has none, as with clients that adapters create.
    """

    def __init__(self, client: ChatClient | AsyncChatClient, model: str, system: str | None) -> None:
        self.name: str = getattr(client, "name", "")
        self.capabilities: frozenset[Capability] = getattr(client, "capabilities", frozenset[Capability]())
        self._model = model
        self._system = system

    def _request(self, prompt: str, model: str | None, max_tokens: int | None) -> ChatRequest:
        return ChatRequest(
            model=model or self._model,
            messages=(Message.user(prompt),),
            system=self._system,
            max_tokens=max_tokens,
        )


class ChatGeneration(_Prompted, Closing):
    """A `harness.model.protocols.GenerationProvider` that sends each prompt as a chat with one message. A `with`
    statement closes the chat client.
    """

    def __init__(self, client: ChatClient, *, model: str = "", system: str | None = None) -> None:
        super().__init__(client, model, system)
        self._client = client

    def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """See `harness.model.protocols.GenerationProvider.generate`."""
        return _generation(self._client.chat(self._request(prompt, model, max_tokens)))

    def close(self) -> None:
        """Close the chat client."""
        self._client.close()


class AsyncChatGeneration(_Prompted, AsyncClosing):
    """A `harness.model.protocols.AsyncGenerationProvider` that sends each prompt as a chat with one message."""

    def __init__(self, client: AsyncChatClient, *, model: str = "", system: str | None = None) -> None:
        super().__init__(client, model, system)
        self._client = client

    async def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """See `harness.model.protocols.GenerationProvider.generate`."""
        return _generation(await self._client.chat(self._request(prompt, model, max_tokens)))

    async def close(self) -> None:
        """Close the chat client."""
        await self._client.close()


def _generation(response: ChatResponse) -> Generation:
    return Generation(response.text, response.usage.input_tokens, response.usage.output_tokens)


@dataclass(frozen=True, slots=True)
class EmbeddingRecord:
    """The provider and the model that produced vectors, and the vectors' length. Store the record together with the
    vectors.
    """

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    provider: str
    model: str
    dimensions: int

    @staticmethod
    def of(provider: EmbeddingProvider | AsyncEmbeddingProvider) -> EmbeddingRecord:
        """Return the record for vectors of this provider."""
        return EmbeddingRecord(provider.provider, provider.model, provider.dimensions)

    def check(self, provider: EmbeddingProvider | AsyncEmbeddingProvider) -> None:
        """Check that vectors of `provider` can be compared with those of this record. No request is sent.

        Raises:
            EmbeddingMismatch: the provider, the model or the length differs.
        """
        current = EmbeddingRecord.of(provider)
        if current != self:
            raise EmbeddingMismatch(astuple(self), astuple(current))

    def query(self, provider: EmbeddingProvider, text: str) -> list[float]:
        """Embed a text, so that its vector can be compared with vectors of this record.

        Raises:
            EmbeddingMismatch: `provider` makes vectors that cannot be compared; no request was sent.
            ChatError: the provider refused or failed.
        """
        self.check(provider)
        (vector,) = provider.embed([text])
        return vector

    async def query_async(self, provider: AsyncEmbeddingProvider, text: str) -> list[float]:
        """See `query`."""
        self.check(provider)
        (vector,) = await provider.embed([text])
        return vector

    def to_json(self) -> str:
        """Return the record as a JSON object, for `from_json`."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> EmbeddingRecord:
        """Read a record written by `to_json`.

        Raises:
            UsageError: the text is not a record.
        """
        try:
            return _RECORD.validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            reason = f"{place}: {first['msg']}" if place else first["msg"]
            raise UsageError(f"this is not a record of embeddings ({reason}). Embed the texts again.") from None


_RECORD = TypeAdapter(EmbeddingRecord)
