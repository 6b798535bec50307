"""Adapter `openai-chat`: OpenAI's Chat Completions through the official SDK `openai`.

Differences between the contract and the API:

- gpt-5.4 and later reject reasoning together with function tools (openai-chat-tools-want-no-reasoning). With tools the
  adapter sends `reasoning_effort: "none"`; `thinking` together with tools is `Unsupported`.
- A tool message can only contain text (openai-chat-result-text-only), so images and files in results are sent in a user
  message after all tool messages.
- The API has no error flag: the text of a failed result is a JSON object with the key `error`.
- `max_tokens` is sent as `max_completion_tokens`, because reasoning models reject `max_tokens`
  (openai-chat-max-completion-tokens). Mistral's models get `max_tokens`, because they only support this field. For
  other servers like this, set `Endpoint.max_tokens_field`; the adapter does not guess from the base URL.
- `cache` has no effect: the API caches without cache marks.
- `strict` of a tool is only set by its `provider_metadata`.
- `provider_metadata` of the request is merged into the body: objects are merged, lists are extended, other values are
  replaced.
- An `Opaque` with a `role` in a user message is sent as a separate message, such as a second system message or the
  result of a custom tool. The calls of custom tools are `Opaque`, too.
- In a stream, all `ToolCallEnd` events come at the end, because chunks of several calls may be interleaved.
- Message fields without a canonical place, such as `annotations` and `reasoning_details`, become one `Opaque` at the
  start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters import CHAT_CAPABILITIES
from harness.adapters._openai import SDK
from harness.model.protocols import Adapter, Capability, Embeddings, Route
from harness.platform.environment import importing_sdk

if TYPE_CHECKING:
    from harness.model.protocols import ChatClient, EmbeddingProvider, Endpoint

API: Final = "openai-chat"

RECEIVED: Final = f"{API}/received"
"""Pseudo API name for received fields that are never sent back, used in metadata and in `Opaque` parts. No real API has
this name, so no request includes the fields.
"""

MAX_ID_CHARACTERS: Final = 40
"""Maximum length of `tool_calls[].id` that the API has always accepted. The API now accepts 64 characters
(openai-chat-call-id-at-most-64).
"""


def connect(endpoint: Endpoint, model: str) -> ChatClient:
    """Return a client for `model` at `endpoint`.

    Raises:
        MissingDependency: the SDK is not installed or too old.
    """
    with importing_sdk(API, SDK, "openai"):
        from harness.adapters.openai_chat.client import ChatCompletionsClient  # noqa: PLC0415 - imports the SDK
    return ChatCompletionsClient(endpoint, model)


def connect_embeddings(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
    """Return an embedding provider for vectors with `dimensions` components; see `client.OpenAIEmbeddings`.

    Raises:
        MissingDependency: the SDK is not installed or too old.
    """
    with importing_sdk(API, SDK, "openai"):
        from harness.adapters.openai_chat.client import OpenAIEmbeddings  # noqa: PLC0415 - imports the SDK
    return OpenAIEmbeddings(endpoint, model, dimensions)


ADAPTER = Adapter(
    name=API,
    api=API,
    capabilities=CHAT_CAPABILITIES
    | {Capability.AUDIO, Capability.EMBEDDINGS, Capability.PROVIDER_FIELDS, Capability.PROVIDER_TOOLS},
    connect=connect,
    embeddings=Embeddings("text-embedding-3-small", 1536, connect_embeddings),
    requires=SDK,
    route=Route.CLIENT,
)
