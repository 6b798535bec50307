"""What a wrapper needs that makes an adapter of somebody's library: `from harness import bridge`.

Messages as OpenAI Chat has them, which most libraries take and give, and back; a memory that keeps a library's own
messages behind ours; streamed chunks as events; errors by their status; declining. `harness help adapters` says when to
use what. The shipped adapters use none of it.
"""

from harness.bridge.answers import Chunks, completion, events, response, stop_reason
from harness.bridge.failures import failures
from harness.bridge.requests import (
    Memory,
    asked,
    completion_request,
    decline,
    messages,
    response_format,
    settings,
    tool_choice,
    tools,
)

__all__ = [
    "Chunks",
    "Memory",
    "asked",
    "completion",
    "completion_request",
    "decline",
    "events",
    "failures",
    "messages",
    "response",
    "response_format",
    "settings",
    "stop_reason",
    "tool_choice",
    "tools",
]
