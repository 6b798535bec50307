"""Adapter on Anthropic's official SDK, for the Messages API.

What it does with what the API has no field for:

- JSON mode is emulated: `JSON_INSTRUCTION` stands as a system block of its own after the system prompt
  (anthropic-output-format).
- A JSON schema is closed: every object of it that says nothing of `additionalProperties` gets `false`
  (anthropic-strict-closed). Nothing else of it changes; an object that is open on purpose is refused with
  `Unsupported`.
- `max_tokens` is required on the wire (anthropic-required-fields): `encode.DEFAULT_MAX_TOKENS` where the request leaves
  it open.
- `temperature` and `top_p` are refused under the API version of the SDK: `Unsupported`.
- Effort becomes adaptive thinking from Claude 4.6 on, and before that a token budget (anthropic-thinking-form).
- What a model refuses and others take is `Unsupported`: a forced tool choice (anthropic-no-forced-choice), types of
  thinking (anthropic-thinking-form), a conversation that ends with the assistant (anthropic-no-prefill); `models` says
  which.
- A tool that is `shown_while_written` gets `eager_input_streaming`; without it the API buffers the arguments before it
  streams them (anthropic 2.12.0, `ToolParam`). Bedrock refuses the field (anthropic-bedrock-eager-streaming).
- Ids that break the API's pattern are replaced one-to-one, on call and result alike (anthropic-call-fields).
- A streamed call ends only once a later block, or the stop reason, shows that it was not cut short (`stream`).
- An `Opaque` that has a `role` is a message of its own (system text in mid-conversation, anthropic-system-in-messages).
- `provider_metadata["anthropic"]` of the request is merged into the body: objects merge, lists grow, the rest replaces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.contract.protocols import Adapter, Capability, Requirement, Route
from harness.host.environment import needing

if TYPE_CHECKING:
    from harness.adapters.anthropic.client import AnthropicClient
    from harness.contract.protocols import Endpoint

SDK = Requirement("anthropic", "anthropic", "2.0")


def connect(endpoint: Endpoint, model: str) -> AnthropicClient:
    """A client of `model` at `endpoint`.

    Raises:
        MissingDependency: the SDK is not installed, or too old.
    """
    with needing("anthropic", SDK, "anthropic"):
        from harness.adapters.anthropic.client import AnthropicClient  # noqa: PLC0415 - imports the SDK
    return AnthropicClient(endpoint, model)


ADAPTER = Adapter(
    "anthropic",
    "anthropic",
    frozenset(
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
    connect,
    requires=SDK,
    route=Route.CLIENT,
)
