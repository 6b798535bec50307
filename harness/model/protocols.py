"""Protocols of all plug-ins (chat clients, message handlers, adapters, tool loops), and their value classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, TypeAlias, runtime_checkable

from harness.model.errors import ToolFailed
from harness.model.messages import (
    JSON,
    File,
    Image,
    Message,
    Opaque,
    ResponseFormat,
    Text,
    ThinkingSettings,
    ToolCall,
    ToolChoice,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence

    from harness.model.http import Command, Completed
    from harness.model.messages import ChatRequest, ChatResponse, StreamEvent, ToolResult, Usage


class Capability(StrEnum):
    """A feature of a request that an adapter supports. An unknown name is a load error.

    An adapter that declares a capability must not decline it (`errors.Unsupported`); that is a fault. A cell that needs
    an undeclared capability is not applicable.
    """

    SYSTEM_PROMPT = "system-prompt"
    TOOLS = "tools"
    PARALLEL_TOOL_CALLS = "parallel-tool-calls"
    TOOL_CHOICE = "tool-choice"
    FORCED_TOOL_CHOICE = "forced-tool-choice"
    """Can force a call of any tool. `TOOL_CHOICE` alone covers "auto" and "none"."""
    NAMED_TOOL_CHOICE = "named-tool-choice"
    """Can force a call of one named tool. Some servers accept only one of the two."""
    JSON_MODE = "json-mode"
    JSON_SCHEMA = "json-schema"
    JSON_WITH_TOOLS = "json-with-tools"
    VISION = "vision"
    IMAGE_RESULTS = "image-results"
    FILES = "files"
    """Accepts documents in user messages: PDF and plain text."""
    AUDIO = "audio"
    """Accepts sound in user messages: WAV and MP3."""
    THINKING = "thinking"
    CACHE_MARKS = "cache-marks"
    """Honours `ChatRequest.cache`. On an API without cache marks that caches every prefix, the adapter does not
    have to do anything.
    """
    HISTORY = "history"
    """Accepts a conversation of several turns."""
    TRUNCATION = "truncation"
    """Returns the part of a response that was written before `max_tokens`. The `claude` command reports an error
    instead.
    """
    STREAMING = "streaming"
    """Has `stream`. An adapter without it runs only in the variant `whole`."""
    RETRIES = "retries"
    """Repeats a request up to five times if the provider fails or cannot be reached. An adapter without this
    capability sends one request per chat.
    """
    PROVIDER_TOOLS = "provider-tools"
    """Passes provider-run tools to the model. They are the entries of `tools` in the request's `provider_metadata`."""
    PROVIDER_FIELDS = "provider-fields"
    """Sends the fields in the `provider_metadata` of the request and its tools unchanged. The request's field
    `extra_headers` has HTTP headers, such as `anthropic-beta`.
    """
    PREVIOUS_RESPONSE = "previous-response"
    """Returns `ChatResponse.id`. With that id in the `provider_metadata` of the next request, such as in
    `previous_response_id`, the provider continues the conversation that it keeps.
    """
    ASYNC_TOOLS = "async-tools"
    """Accepts the result of an asynchronous tool in a later turn than its call."""
    EMBEDDINGS = "embeddings"
    """Has `Adapter.embeddings`: turns texts into vectors."""
    ANSWERS = "answers"
    """For tool loops only: returns the answer that the application gets for each turn."""
    TEMPERATURE = "temperature"
    """For tool loops only: sends `Conversation.temperature`. Adapters send the temperature of each request."""


class Route(StrEnum):
    """Way in which the harness intercepts an adapter's requests."""

    CLIENT = "client"
    """The adapter sends through `Endpoint.http_client`, a synchronous client."""
    LOOPBACK = "loopback"
    """The adapter opens its own connections to `Endpoint.base_url`, a loopback server. All asynchronous adapters
    use this route.
    """
    PROCESS = "process"
    """The adapter runs a command through `Endpoint.processes` and sends no HTTP request."""


@runtime_checkable
class ChatClient(Protocol):
    """A client of one model.

    Each `chat` sends exactly one HTTP request. The client does not follow redirects or continue responses, and it
    retries only with `Capability.RETRIES`.
    """

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Send a request and return the response.

        Raises:
            harness.model.errors.ChatError: the provider refused or failed, or the API cannot express the request.
        """
        ...

    def close(self) -> None:
        """Release the client's resources."""
        ...


@runtime_checkable
class StreamingChatClient(ChatClient, Protocol):
    """A client that can also stream a response; its adapter has `Capability.STREAMING`."""

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Send one request and yield the events of the response. The last event is `Finish`.

        Raises:
            harness.model.errors.ChatError: see `chat`; it may also be raised after the first events. An error inside
            the stream is the provider's error. A truncated stream raises `MalformedResponse` or `ConnectionFailed`.
        """
        ...


@runtime_checkable
class AsyncChatClient(Protocol):
    """An asynchronous `ChatClient`. `Adapter.connect` creates it before its event loop runs."""

    async def chat(self, request: ChatRequest) -> ChatResponse:
        """See `ChatClient.chat`."""
        ...

    async def close(self) -> None:
        """Release the client's resources."""
        ...


@runtime_checkable
class AsyncStreamingChatClient(AsyncChatClient, Protocol):
    """An asynchronous `StreamingChatClient`: `stream` is an asynchronous generator."""

    def stream(self, request: ChatRequest) -> AsyncIterator[StreamEvent]:
        """See `StreamingChatClient.stream`."""
        ...


@dataclass(frozen=True, slots=True)
class Generation:
    """The text generated for a prompt, and its token counts. A count is `None` if the provider reported none."""

    text: str
    input_tokens: int | None = None
    output_tokens: int | None = None


class GenerationProvider(Protocol):
    """Generates text from a prompt, for callers that need neither tools nor a history."""

    def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """Send one prompt. Raises `harness.model.errors.ChatError`."""
        ...


class AsyncGenerationProvider(Protocol):
    """An asynchronous `GenerationProvider`."""

    async def generate(self, prompt: str, *, model: str | None = None, max_tokens: int | None = None) -> Generation:
        """See `GenerationProvider.generate`."""
        ...


class EmbeddingProvider(Protocol):
    """Converts texts to vectors.

    Vectors of different providers, models or lengths must never be compared; `harness.kit.client` prevents it.
    """

    @property
    def provider(self) -> str:
        """The provider's name in `harness.kit.factories`."""
        ...

    @property
    def model(self) -> str:
        """The model that makes the vectors."""
        ...

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        ...

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector for each text, in the order of the texts. Without texts, no request is sent.

        Raises:
            harness.model.errors.ChatError: the provider refused or failed, or its vectors do not match the request.
        """
        ...

    def close(self) -> None:
        """Release the provider's resources."""
        ...


class AsyncEmbeddingProvider(Protocol):
    """An asynchronous `EmbeddingProvider`."""

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
        """See `EmbeddingProvider.embed`."""
        ...

    async def close(self) -> None:
        """Release the provider's resources."""
        ...


class MessageHandler(Protocol):
    """Observer of a conversation (`harness.kit.thread.Thread`). It may also have the methods of `PauseHandler` and
    `UsageHandler`.
    """

    def on_text(self, text: str) -> None:
        """Handle a text from the model."""
        ...

    def on_tool_use(self, call: ToolCall) -> None:
        """Handle a tool call, before the tool runs."""
        ...

    def on_tool_result(self, result: ToolResult) -> None:
        """Handle the result of the call `result.call_id`."""
        ...

    def on_done(self, error: BaseException | None = None) -> None:
        """Handle the end of the turn. `error` is the exception that ended it, if any. A cancellation counts as an
        exception.
        """
        ...


@runtime_checkable
class PauseHandler(Protocol):
    """Optional method of a `MessageHandler`."""

    def on_pause(self, response: ChatResponse) -> None:
        """Handle a pause of the model. The thread then sends the history again, with `response` at its end."""
        ...


@runtime_checkable
class UsageHandler(Protocol):
    """Optional method of a `MessageHandler`."""

    def on_usage(self, usage: Usage) -> None:
        """Handle the token counts after each response; `usage` is the sum over all responses of the turn so far."""
        ...


@runtime_checkable
class ProcessRunner(Protocol):
    """Runs commands, without a shell."""

    def run(self, command: Command, timeout: float) -> Completed:
        """Run a command to its end.

        Raises:
            TimeoutError: the command took longer than `timeout` seconds and was killed together with its children.
            OSError: the command cannot be started; `FileNotFoundError` if the executable does not exist.
        """
        ...


MaxTokensField: TypeAlias = Literal["max_completion_tokens", "max_tokens"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The server that an adapter sends its requests to.

    - `base_url` has the format that the API's official SDK expects: with `/v1` for OpenAI, without it for Anthropic and
      Gemini.
    - `http_client` is an `httpx2.Client` for adapters of `Route.CLIENT`; the caller closes it. Asynchronous adapters
      use the loopback server instead.
    - `processes` runs the commands of adapters of `Route.PROCESS`, which ignore the other fields.
    - `max_tokens_field` is only for OpenAI Chat. It names the field that limits a response, for servers that do not use
      OpenAI's name.
    - `server` is the name of the compatible server behind `base_url`, such as `deepseek`, or `None` for the provider.
    """

    base_url: str
    api_key: str
    http_client: object | None = None
    processes: ProcessRunner | None = None
    max_tokens_field: MaxTokensField | None = None
    server: str | None = None


@dataclass(frozen=True, slots=True)
class FinalCall:
    """A call that ends a turn of a tool loop, in place of an answer without calls.

    The loop declares the tool itself. `argument` is the argument that holds the answer, and `others` are the other
    arguments that the tool requires.
    """

    tool: str
    argument: str
    others: Mapping[str, JSON] = field(default_factory=dict[str, JSON], hash=False)


Connect: TypeAlias = "Callable[[Endpoint, str], ChatClient | AsyncChatClient]"


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Embedding support of an adapter.

    `connect(endpoint, model, dimensions)` imports the SDK. `model` and `dimensions` are the defaults.
    """

    model: str
    dimensions: int
    connect: Callable[[Endpoint, str, int], EmbeddingProvider]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A dependency of an adapter: a package with the pip extra that installs it, or a command if there is no extra.

    `at_least` is the lowest version, as numbers separated by dots.
    """

    name: str
    extra: str | None = None
    at_least: str | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """The code under test: a name, the API that it speaks, its capabilities, and a factory for clients.

    - `connect(endpoint, model)` imports the SDK. Listing the adapters does not import it.
    - `embeddings` is set together with `Capability.EMBEDDINGS`.
    - `requires` lists the dependencies that `harness providers` looks for without importing them.
    - `route` is how the harness intercepts its requests. `LOOPBACK` works for any adapter, in any language.
    - `drive` is set if the adapter runs its own tool loop (see `Drive`). It then receives whole conversations, and
      `connect` is never called.
    - `final_call` is set if turns of this loop end with a call.
    """

    name: str
    api: str
    capabilities: frozenset[Capability]
    connect: Connect
    embeddings: Embeddings | None = None
    requires: Requirement | None = None
    route: Route = Route.LOOPBACK
    drive: Drive | None = None
    final_call: FinalCall | None = None


ToolFunction: TypeAlias = "Callable[[ToolCall], object]"
"""Runs a tool. It returns a `ToolResult` or only the content: a JSON value, a part or several parts. An exception
becomes an error result.
"""

StatefulToolFunction: TypeAlias = "Callable[[ToolCall, Any], object]"
"""A `ToolFunction` that also receives the state of its `harness.kit.thread.Thread`, as the second argument."""

AsyncToolFunction: TypeAlias = "Callable[[ToolCall], Awaitable[object]]"
"""An asynchronous `ToolFunction`."""

AsyncStatefulToolFunction: TypeAlias = "Callable[[ToolCall, Any], Awaitable[object]]"
"""An asynchronous `StatefulToolFunction`."""


@dataclass(frozen=True, slots=True)
class ConversationTool:
    """A tool of a conversation, executed for real. `parameters` is the JSON Schema of its arguments.

    Use `call` or `text` with most libraries. `run` takes a complete call and ignores its id, because the library
    handles ids.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    run: Callable[[ToolCall], ToolResult]

    def call(self, arguments: Mapping[str, JSON]) -> JSON | tuple[Text | Image | File | Opaque, ...]:
        """Run the tool and return a JSON value, or parts if the result has media.

        Raises:
            ToolFailed: the tool failed. Send the message to the model as the result.
        """
        return self._result(arguments).content

    def text(self, arguments: Mapping[str, JSON]) -> str:
        """Run the tool and return the result as text. Values other than text are serialised as JSON.

        Raises:
            ToolFailed: see `call`.
        """
        return self._result(arguments).text

    def _result(self, arguments: Mapping[str, JSON]) -> ToolResult:
        result = self.run(ToolCall("", self.name, dict(arguments)))
        if result.is_error:
            raise ToolFailed(result.text)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation for a library that runs its own tool loop.

    `turns` are the user messages. Send each one after the final response to the previous one. The other fields apply to
    all turns; `None` means not set. If `stream` is set, the library must stream. `max_answers` limits the responses per
    turn.
    """

    turns: tuple[Message, ...]
    tools: tuple[ConversationTool, ...] = ()
    system: str | None = None
    stream: bool = False
    tool_choice: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    max_tokens: int | None = None
    thinking: ThinkingSettings | None = None
    temperature: float | None = None
    max_answers: int = 10


Drive: TypeAlias = Callable[[Endpoint, str, Conversation], object]
"""Function that runs a whole conversation in a library, against the model at an endpoint.

With `Capability.ANSWERS`, return a list with a `ChatResponse` for each turn: what the application gets. Use `None`
for an answer that cannot be expressed in this way; it is not judged. Without this capability, the return value is
ignored. The function may be asynchronous. Raise `harness.Unsupported` before sending anything to decline the
conversation. Any other exception ends it.
"""

PLAIN_LOOP = frozenset(
    {
        Capability.SYSTEM_PROMPT,
        Capability.TOOLS,
        Capability.PARALLEL_TOOL_CALLS,
        Capability.HISTORY,
        Capability.TRUNCATION,
    }
)
"""Capabilities that every loop has."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A library that runs its own tool loop, as code under test. It receives only scenarios that its capabilities
    cover. If the model has to end each turn with a call, `final_call` names it.
    """

    name: str
    api: str
    drive: Drive
    capabilities: frozenset[Capability] = PLAIN_LOOP
    final_call: FinalCall | None = None

    def adapter(self) -> Adapter:
        """Return the loop as an adapter. It has no client, because the library sends all requests itself."""
        return Adapter(self.name, self.api, self.capabilities, _no_client, drive=self.drive, final_call=self.final_call)


def _no_client(_endpoint: Endpoint, _model: str) -> NoReturn:
    raise AssertionError("a loop is driven, and never connected")
