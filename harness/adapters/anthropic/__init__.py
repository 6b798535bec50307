"""Adapter `anthropic`: the Messages API, through Anthropic's official SDK.

Differences between the contract and the API:

- JSON mode is emulated: `JSON_INSTRUCTION` is sent as a separate system block after the system prompt
  (anthropic-output-format).
- JSON schemas are closed: objects without `additionalProperties` get `false` (anthropic-strict-closed). Nothing else is
  changed. An open object is `Unsupported`.
- The API requires `max_tokens` (anthropic-required-fields); the default is `requests.DEFAULT_MAX_TOKENS`.
- `temperature` and `top_p` are `Unsupported`, because the SDK's API version rejects them.
- Effort becomes adaptive thinking for Claude 4.6 and later, and a token budget for older models
  (anthropic-thinking-form).
- Settings that some models reject are `Unsupported` for those models: a forced tool choice
  (anthropic-no-forced-choice), types of thinking (anthropic-thinking-form), a conversation that ends with the assistant
  (anthropic-no-prefill).
- A tool with `shown_while_written` gets `eager_input_streaming`; without it the API buffers the arguments before it
  streams them (anthropic 2.12.0, `ToolParam`). Bedrock rejects the field (anthropic-bedrock-eager-streaming).
- Ids that do not match the API's pattern are replaced one to one, in calls and results (anthropic-call-fields).
- A streamed call ends only when a later block or the stop reason shows that it was not truncated.
- An `Opaque` with a `role` is sent as a separate message, such as system text (anthropic-system-in-messages).
- `provider_metadata["anthropic"]` of the request is merged into the body: objects are merged, lists are extended, and
  other values are replaced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters import CHAT_CAPABILITIES
from harness.model.protocols import Adapter, Capability, Requirement, Route
from harness.platform.environment import importing_sdk

if TYPE_CHECKING:
    from harness.adapters.anthropic.client import AnthropicClient
    from harness.model.protocols import Endpoint

SDK = Requirement("anthropic", "anthropic", "2.0")


def connect(endpoint: Endpoint, model: str) -> AnthropicClient:
    """Return a client for `model` at `endpoint`.

    Raises:
        MissingDependency: the SDK is not installed or too old.
    """
    with importing_sdk("anthropic", SDK, "anthropic"):
        from harness.adapters.anthropic.client import AnthropicClient  # noqa: PLC0415 - imports the SDK
    return AnthropicClient(endpoint, model)


ADAPTER = Adapter(
    "anthropic",
    "anthropic",
    CHAT_CAPABILITIES | {Capability.THINKING, Capability.PROVIDER_FIELDS, Capability.PROVIDER_TOOLS},
    connect,
    requires=SDK,
    route=Route.CLIENT,
)
