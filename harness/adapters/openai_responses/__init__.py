"""Adapter `openai-responses`: OpenAI's Responses API through the official SDK `openai`.

Each request contains the whole conversation. To continue a stored one, the caller sends only the new messages, with
`previous_response_id` or `conversation` in `provider_metadata`.

Differences between the contract and the API:

- A response is a list of items. A reasoning item becomes a `Thinking` with the whole item in its metadata. It is sent
  back verbatim, in its position before the next item (openai-responses-reasoning-back). Ids and `phase` of items are
  kept in the metadata of their parts; those of a message item are under the key `message`.
- A message item may have several parts; they are sent back as one item.
- A failed response raises the provider's error, whole or streamed, although its status is HTTP 200.
- The API has no error flag: the text of a failed result is a JSON object with the key `error`.
- `cache` has no effect: the API caches without cache marks.
- `strict` of a tool is always sent, as false unless the tool's `provider_metadata` sets it
  (openai-responses-tool-form).
- `stop` is `Unsupported`: the API has no field for it.
- `provider_metadata` of the request is merged into the body: objects are merged, lists are extended (such as tools that
  the provider runs), other values are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters import CHAT_CAPABILITIES
from harness.adapters._openai import SDK
from harness.model.protocols import Adapter, Capability, Route
from harness.platform.environment import importing_sdk

if TYPE_CHECKING:
    from harness.model.protocols import ChatClient, Endpoint

API: Final = "openai-responses"

RECEIVED: Final = f"{API}/received"
"""Key of received fields that are kept for the caller but never sent back. It is not the name of an API."""

MAX_ID_CHARACTERS: Final = 64
"""Maximum length of a `call_id` (openai-responses-call-form)."""


def connect(endpoint: Endpoint, model: str) -> ChatClient:
    """Return a client for `model` at `endpoint`.

    Raises:
        MissingDependency: the SDK is not installed or too old.
    """
    with importing_sdk(API, SDK, "openai"):
        from harness.adapters.openai_responses.client import ResponsesClient  # noqa: PLC0415 - imports the SDK
    return ResponsesClient(endpoint, model)


ADAPTER = Adapter(
    name=API,
    api=API,
    capabilities=CHAT_CAPABILITIES
    | {Capability.THINKING, Capability.PROVIDER_FIELDS, Capability.PROVIDER_TOOLS, Capability.ASYNC_TOOLS}
    | {Capability.PREVIOUS_RESPONSE},
    connect=connect,
    requires=SDK,
    route=Route.CLIENT,
)
