"""Adapter `openai-chat`: OpenAI's Chat Completions on the official SDK `openai`.

Differences between the contract and the API:

- gpt-5.4 and later refuse reasoning together with function tools (openai-chat-tools-want-no-reasoning). With tools the
  adapter sends `reasoning_effort: "none"`; `thinking` together with tools is `Unsupported`.
- A tool message holds text only (openai-chat-result-text-only): media of results move to a user message after all tool
  messages.
- There is no error flag: the text of a failed result is the JSON object `{"error": …}`.
- `max_tokens` is sent as `max_completion_tokens`, since reasoning models refuse `max_tokens`
  (openai-chat-max-completion-tokens). Mistral's models get `max_tokens`, the only field that they know. For other such
  servers, set `Endpoint.max_tokens_field`; the adapter guesses nothing from an address.
- `cache` sends nothing: the API caches without cache marks.
- `strict` of a tool comes from its `provider_metadata` only.
- `provider_metadata` of the request is merged into the body: objects merge, lists grow, other values replace.
- An `Opaque` with a `role` in a user message is a message of its own, such as a second system message.
- Streamed calls end with the stream, since pieces of several calls may alternate.
- Fields of a message without a canonical place (`annotations`, `reasoning_details`, …) become one `Opaque` in front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters._openai import SDK
from harness.model.protocols import Adapter, Capability, Embeddings, Route
from harness.platform.environment import importing_sdk

if TYPE_CHECKING:
    from harness.model.protocols import ChatClient, EmbeddingProvider, Endpoint

API: Final = "openai-chat"

RECEIVED: Final = f"{API}/received"
"""Key of received fields that no request sends back. No API has this name."""

MAX_ID_CHARACTERS: Final = 40
"""Length of `tool_calls[].id` that the API always accepted; now it accepts 64 (openai-chat-call-id-at-most-64)."""


def connect(endpoint: Endpoint, model: str) -> ChatClient:
    """Return a client of `model` at `endpoint`.

    Raises:
        MissingDependency: the SDK is not installed or too old.
    """
    with importing_sdk(API, SDK, "openai"):
        from harness.adapters.openai_chat.client import ChatCompletionsClient  # noqa: PLC0415 - imports the SDK
    return ChatCompletionsClient(endpoint, model)


def connect_embeddings(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
    """Return a provider of vectors with this number of `dimensions`; see `client.OpenAIEmbeddings`.

    Raises:
        MissingDependency: the SDK is not installed or too old.
    """
    with importing_sdk(API, SDK, "openai"):
        from harness.adapters.openai_chat.client import OpenAIEmbeddings  # noqa: PLC0415 - imports the SDK
    return OpenAIEmbeddings(endpoint, model, dimensions)


ADAPTER = Adapter(
    name=API,
    api=API,
    capabilities=frozenset(
        {
            Capability.SYSTEM_PROMPT,
            Capability.TOOLS,
            Capability.PARALLEL_TOOL_CALLS,
            Capability.TOOL_CHOICE,
            Capability.FORCED_TOOL_CHOICE,
            Capability.JSON_MODE,
            Capability.JSON_SCHEMA,
            Capability.JSON_WITH_TOOLS,
            Capability.VISION,
            Capability.IMAGE_RESULTS,
            Capability.FILES,
            Capability.AUDIO,
            Capability.CACHE_MARKS,
            Capability.HISTORY,
            Capability.TRUNCATION,
            Capability.STREAMING,
            Capability.EMBEDDINGS,
        }
    ),
    connect=connect,
    embeddings=Embeddings("text-embedding-3-small", 1536, connect_embeddings),
    requires=SDK,
    route=Route.CLIENT,
)
