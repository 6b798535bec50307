"""The code under test: one adapter per API, built on the official SDKs. Each module exports `ADAPTER`."""

from harness.model.protocols import Capability

CHAT_CAPABILITIES = frozenset(
    {
        *(Capability.SYSTEM_PROMPT, Capability.HISTORY, Capability.STREAMING, Capability.TRUNCATION),
        *(Capability.TOOLS, Capability.PARALLEL_TOOL_CALLS),
        *(Capability.TOOL_CHOICE, Capability.FORCED_TOOL_CHOICE, Capability.NAMED_TOOL_CHOICE),
        *(Capability.JSON_MODE, Capability.JSON_SCHEMA, Capability.JSON_WITH_TOOLS),
        *(Capability.VISION, Capability.IMAGE_RESULTS, Capability.FILES, Capability.CACHE_MARKS),
    }
)
"""Capabilities of all built-in adapters of HTTP APIs."""
