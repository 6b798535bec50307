"""Adapter `openai-responses`: OpenAI's Responses API on the official SDK `openai`, without state on the server.

What is particular to this API:

- An answer is a list of items. A reasoning item is a `Thinking` whose metadata hold the whole item; it goes back
  verbatim, in its place before the item it led to (openai-responses-reasoning-back). Item ids and `phase` stay in the
  metadata of their parts: those of a message under `message`, beside the fields of the text itself.
- A message item may hold several parts; parts of one item return as one item.
- A response that failed is the provider's error, whole or streamed, although it comes with HTTP 200.
- There is no error flag: the text of a failed result is the JSON object `{"error": …}`.
- There is no cache mark to set: the API caches by itself, so `cache` sends nothing.
- `strict` of a tool is always sent, as false unless its `provider_metadata` say otherwise (openai-responses-tool-form).
- There is no field for stop sequences: `stop` is `Unsupported`.
- `provider_metadata` of the request is merged into the body: objects merge, lists grow (tools that the provider runs),
  the rest replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters._openai import SDK
from harness.contract.protocols import Adapter, Capability, Route
from harness.host.environment import needing

if TYPE_CHECKING:
    from harness.contract.protocols import ChatClient, Endpoint

API: Final = "openai-responses"

RECEIVED: Final = f"{API}/received"
"""Whose the fields are that came and do not go back: nobody's, so that no adapter sends them."""

LONGEST_ID: Final = 64
"""Characters of a `call_id` that the API takes (openai-responses-call-form)."""


def connect(endpoint: Endpoint, model: str) -> ChatClient:
    """A client of `model`, which answers requests that name no model of their own.

    Raises:
        MissingDependency: the SDK is not installed, or too old.
    """
    with needing(API, SDK, "openai"):
        from harness.adapters.openai_responses.client import Client  # noqa: PLC0415 - the SDK loads when it is needed
    return Client(endpoint, model)


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
            Capability.THINKING,
            Capability.CACHE_MARKS,
            Capability.PROVIDER_TOOLS,
            Capability.HISTORY,
            Capability.TRUNCATION,
            Capability.STREAMING,
        }
    ),
    connect=connect,
    requires=SDK,
    route=Route.CLIENT,
)
