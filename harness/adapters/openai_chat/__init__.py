"""Adapter `openai-chat`: OpenAI's Chat Completions on the official SDK `openai`.

What this API does not offer, and what becomes of it:

- Reasoning together with function tools is refused by gpt-5.4 and later (openai-chat-tools-want-no-reasoning): with
  tools the adapter sends `reasoning_effort: "none"`, and `thinking` together with tools is `Unsupported`.
- A tool message holds text only (openai-chat-result-text-only): media of a result move to a user message behind all
  tool messages.
- There is no error flag: the text of a failed result is the JSON object `{"error": …}`.
- `max_tokens` goes out as `max_completion_tokens`: reasoning models refuse the older `max_tokens`
  (openai-chat-max-completion-tokens), which is all that Mistral knows: its models are sent that. Where another
  server knows no other either, `Endpoint.max_tokens_field` says so; nothing is guessed from an address.
- There is no cache mark to set: the API caches by itself, so `cache` sends nothing.
- `strict` of a tool stands in its `provider_metadata` or nowhere.
- `provider_metadata` of the request is merged into the body: objects merge, lists grow, the rest replaces.
- An `Opaque` of a user message that has a `role` is a message of its own (a second system message, say).
- Nothing marks the end of a streamed call, since pieces of several may alternate: all end with the stream.
- Fields of a message that have no canonical place (`annotations`, `reasoning_details`, …) become one `Opaque` in front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters._openai import SDK
from harness.contract.protocols import Adapter, Capability, Embeddings, Route
from harness.host.environment import needing

if TYPE_CHECKING:
    from harness.contract.protocols import ChatClient, EmbeddingProvider, Endpoint

API: Final = "openai-chat"

RECEIVED: Final = f"{API}/received"
"""Whose the fields are that came and do not go back: nobody's, so that no adapter sends them."""

LONGEST_ID: Final = 40
"""Characters of `tool_calls[].id` that the API always took; now it takes 64 (openai-chat-call-id-at-most-64)."""


def connect(endpoint: Endpoint, model: str) -> ChatClient:
    """A client of `model`, which answers requests that name no model of their own.

    Raises:
        MissingDependency: the SDK is not installed, or too old.
    """
    with needing(API, SDK, "openai"):
        from harness.adapters.openai_chat.client import Client  # noqa: PLC0415 - the SDK loads when it is needed
    return Client(endpoint, model)


def connect_embeddings(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
    """A provider of `model`'s vectors, each with so many `dimensions`; see `client.OpenAIEmbeddings`.

    Raises:
        MissingDependency: the SDK is not installed, or too old.
    """
    with needing(API, SDK, "openai"):
        from harness.adapters.openai_chat.client import OpenAIEmbeddings  # noqa: PLC0415 - as above
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
