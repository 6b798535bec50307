"""What plugs in: chat clients, message handlers, adapters. Structural types only, and the values they share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from harness.contract.loops import Drive
    from harness.contract.model import ChatRequest, ChatResponse, StreamEvent, ToolCall, ToolResult, Usage
    from harness.contract.process import Command, Completed


class Capability(StrEnum):
    """What an adapter can do with a request. Closed: an unknown name is a load error.

    What an adapter declares it does: to decline it then (`errors.Unsupported`) is a fault. A cell that needs what it
    does not declare is not applicable.
    """

    SYSTEM_PROMPT = "system-prompt"
    TOOLS = "tools"
    PARALLEL_TOOL_CALLS = "parallel-tool-calls"
    TOOL_CHOICE = "tool-choice"
    FORCED_TOOL_CHOICE = "forced-tool-choice"
    """Has the model call some tool, or a named one. `TOOL_CHOICE` alone is auto and none."""
    JSON_MODE = "json-mode"
    JSON_SCHEMA = "json-schema"
    JSON_WITH_TOOLS = "json-with-tools"
    VISION = "vision"
    IMAGE_RESULTS = "image-results"
    FILES = "files"
    """Takes documents of the user: PDF and plain text."""
    AUDIO = "audio"
    """Takes sound of the user: WAV and MP3."""
    THINKING = "thinking"
    CACHE_MARKS = "cache-marks"
    """Sets the cache marks that are asked for. An API that has none and caches by itself leaves nothing to set."""
    HISTORY = "history"
    """Takes a conversation of several turns."""
    TRUNCATION = "truncation"
    """Hands on what there is of an answer that reached `max_tokens`; the `claude` command line reports an error."""
    STREAMING = "streaming"
    """Has `stream`. An adapter without it is played whole only."""
    RETRIES = "retries"
    """Sends a request again when the provider fails or cannot be reached, up to five times. An adapter without it sends
    one request for each chat."""
    PROVIDER_TOOLS = "provider-tools"
    """Offers the model tools that the provider runs: those that stand under `tools` in the `provider_metadata` of a
    request, in the words of the API."""
    EMBEDDINGS = "embeddings"
    """Has `Adapter.embeddings`: turns texts into vectors."""


class Route(StrEnum):
    """How what an adapter sends is reached, to answer or to note it."""

    CLIENT = "client"
    """It sends through `Endpoint.http_client`, a synchronous client."""
    LOOPBACK = "loopback"
    """It opens connections of its own, to `Endpoint.base_url`: a loopback server. Every asynchronous adapter does."""
    PROCESS = "process"
    """It runs a command through `Endpoint.processes`, and sends no HTTP request of its own."""


@runtime_checkable
class ChatClient(Protocol):
    """A client of one model. One `chat` is exactly one HTTP request: no continuation, no redirect, and no retry but by
    an adapter with `Capability.RETRIES`."""

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model.

        Raises:
            harness.contract.errors.ChatError: the provider refused or failed, or the API cannot express the request.
        """
        ...

    def close(self) -> None:
        """Give back what the client holds."""
        ...


@runtime_checkable
class StreamingChatClient(ChatClient, Protocol):
    """A client that can also hand on an answer while it arrives; its adapter has `Capability.STREAMING`."""

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Ask the model. The last event is `Finish`; a stream that breaks off raises instead. One HTTP request.

        Raises:
            harness.contract.errors.ChatError: as `chat` does, also behind the first events: an error inside the stream
                is the provider's error, and a stream without its end is `MalformedResponse` (or `ConnectionFailed`).
        """
        ...


@runtime_checkable
class AsyncChatClient(Protocol):
    """The same, asynchronous: used and closed in one event loop, which does not run yet while `connect` makes it."""

    async def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `ChatClient.chat`."""
        ...

    async def close(self) -> None:
        """Give back what the client holds."""
        ...


@runtime_checkable
class AsyncStreamingChatClient(AsyncChatClient, Protocol):
    """The same for an asynchronous client: `stream` is an asynchronous generator."""

    def stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        """Ask the model; see `StreamingChatClient.stream`."""
        ...


@dataclass(frozen=True, slots=True)
class Generation:
    """Text that answers a prompt, and the tokens it took (`None`: the provider did not say)."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None


class GenerationProvider(Protocol):
    """Prompt to text, for callers that need no tools and no history."""

    def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """Answer one prompt. Raises `harness.contract.errors.ChatError`."""
        ...


class AsyncGenerationProvider(Protocol):
    """The same for asynchronous callers."""

    async def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """Answer one prompt; see `GenerationProvider.generate`."""
        ...


class EmbeddingProvider(Protocol):
    """Texts to vectors. Vectors of two providers, models or dimensions must never be compared: `harness.kit.embeddings`
    refuses it."""

    @property
    def provider(self) -> str:
        """Who makes the vectors, by the name that `harness.kit.factories` takes."""
        ...

    @property
    def model(self) -> str:
        """The model that makes them."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text, in their order, each of the declared length. No texts, no request.

        Raises:
            harness.contract.errors.ChatError: the provider refused or failed, or gave other vectors than it was asked
                for.
        """
        ...

    def close(self) -> None:
        """Give back what the provider holds."""
        ...


class AsyncEmbeddingProvider(Protocol):
    """The same for asynchronous callers."""

    @property
    def provider(self) -> str:
        """See `EmbeddingProvider.provider`."""
        ...

    @property
    def model(self) -> str:
        """See `EmbeddingProvider.model`."""
        ...

    @property
    def dimensions(self) -> int:
        """See `EmbeddingProvider.dimensions`."""
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text; see `EmbeddingProvider.embed`."""
        ...

    async def close(self) -> None:
        """Give back what the provider holds."""
        ...


class MessageHandler(Protocol):
    """Sees a thread at work: text, tool use, tool result, done."""

    def on_text(self, text: str) -> None:
        """The model said something."""
        ...

    def on_tool_use(self, call: ToolCall) -> None:
        """The model called a tool, which has not run yet."""
        ...

    def on_tool_result(self, result: ToolResult) -> None:
        """The tool has answered; `result.call_id` is the call's id."""
        ...

    def on_done(self, error: BaseException | None = None) -> None:
        """The turn is over, by `error` if there is one, be it a cancellation."""
        ...


@runtime_checkable
class PauseHandler(Protocol):
    """What a `MessageHandler` may have besides: it is told that a turn goes on though the model has stopped."""

    def on_pause(self, response: ChatResponse) -> None:
        """The model has paused, and is asked again with what it has said so far: `response`."""
        ...


@runtime_checkable
class UsageHandler(Protocol):
    """What a `MessageHandler` may have besides: it is told what a turn takes."""

    def on_usage(self, usage: Usage) -> None:
        """The model has answered, once more; `usage` is that of all answers of this turn so far."""
        ...


@runtime_checkable
class ProcessRunner(Protocol):
    """Runs commands, without a shell."""

    def run(self, command: Command, timeout: float) -> Completed:
        """Run a command to its end.

        Raises:
            TimeoutError: it took longer than `timeout` seconds, and was ended with all that it had started.
            OSError: it cannot be started; `FileNotFoundError` if there is no such executable.
        """
        ...


MaxTokensField: TypeAlias = Literal["max_completion_tokens", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an adapter sends its requests.

    `base_url` has the form that the API's official SDK takes: with `/v1` for OpenAI, without for Anthropic and Gemini.
    `http_client` is an `httpx2.Client` to send through, for adapters of `Route.CLIENT`; it stays the caller's to
    close. An asynchronous adapter does without: it is played through the loopback server. `processes` runs
    the commands of adapters of `Route.PROCESS`, which have no use for the rest. `max_tokens_field` is for
    adapters of OpenAI Chat: the field that bounds an answer, where the server knows another one than OpenAI does.
    """

    base_url: str
    api_key: str
    http_client: object | None = None
    processes: ProcessRunner | None = None
    max_tokens_field: MaxTokensField | None = None


Connect: TypeAlias = "Callable[[Endpoint, str], ChatClient | AsyncChatClient]"


@dataclass(frozen=True, slots=True)
class Embeddings:
    """How to get embeddings from an API: `connect(endpoint, model, dimensions)`, which imports the SDK.

    `model` and `dimensions` are the ones to take where nobody asks for others.
    """

    model: str
    dimensions: int
    connect: Callable[[Endpoint, str, int], EmbeddingProvider]


@dataclass(frozen=True, slots=True)
class Requirement:
    """What an adapter needs beside this package: a package with the pip extra that brings it, or, without an extra, a
    command on the path. `at_least` is the first version that will do, in numbers with points between them."""

    name: str
    extra: str | None = None
    at_least: str | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """The code under test: a name, the API it speaks, what it can do, and how to get a client for a model.

    `connect(endpoint, model)` imports the SDK, so that listing adapters imports none. `embeddings` is there where
    `Capability.EMBEDDINGS` is. `requires` is what `harness providers` looks for, without importing it. `route` is how
    its requests are reached: `LOOPBACK` is possible for anybody, in any language. `drive` is there where the tool loop
    is its own (`harness.contract.loops`): it is then given whole conversations, and never connected.
    """

    name: str
    api: str
    capabilities: frozenset[Capability]
    connect: Connect
    embeddings: Embeddings | None = None
    requires: Requirement | None = None
    route: Route = Route.LOOPBACK
    drive: Drive | None = None


ToolFunction: TypeAlias = "Callable[[ToolCall], object]"
"""Runs a tool. It returns a `ToolResult`, or only what would be its content: a JSON value, a part, several parts. What
it raises becomes an error result."""

StatefulToolFunction: TypeAlias = "Callable[[ToolCall, Any], object]"
"""The same for a thread with a state, which is the second argument."""

AsyncToolFunction: TypeAlias = "Callable[[ToolCall], Awaitable[object]]"
"""The same, asynchronous."""

AsyncStatefulToolFunction: TypeAlias = "Callable[[ToolCall, Any], Awaitable[object]]"
"""The same for a thread with a state."""
