"""Helpers for wrappers that turn a third-party library into an adapter: `from harness import bridge`.

They convert requests to messages of OpenAI Chat, which most libraries accept, and convert completions, chunks and
exceptions back. `Memory` stores the library's own messages. `decline` rejects requests that a library cannot express.
See `harness help adapters` for their use. The built-in adapters do not use them.
"""

from harness.bridge.call_log import call, log_call, log_joined
from harness.bridge.completions import Chunks, completion, events, response, stop_reason
from harness.bridge.error_translation import failures
from harness.bridge.openai_messages import (
    Memory,
    completion_request,
    decline,
    messages,
    needed_capabilities,
    response_format,
    settings,
    short_id,
    tool_choice,
    tools,
)

__all__ = [
    "Chunks",
    "Memory",
    "call",
    "completion",
    "completion_request",
    "decline",
    "events",
    "failures",
    "log_call",
    "log_joined",
    "messages",
    "needed_capabilities",
    "response",
    "response_format",
    "settings",
    "short_id",
    "stop_reason",
    "tool_choice",
    "tools",
]
