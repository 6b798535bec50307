"""The APIs by name: four over HTTP, and one that is a command line."""

from __future__ import annotations

from harness.errors import UnknownName
from harness.wire.anthropic import WIRE as ANTHROPIC
from harness.wire.claude_cli import WIRE as CLAUDE_CLI
from harness.wire.endpoint import PATH_UNKNOWN
from harness.wire.format import WireFormat
from harness.wire.gemini import WIRE as GEMINI
from harness.wire.limit import Limit
from harness.wire.openai_chat import WIRE as OPENAI_CHAT
from harness.wire.openai_responses import WIRE as OPENAI_RESPONSES

APIS: dict[str, WireFormat] = {
    wire.api: wire for wire in (ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES, GEMINI, CLAUDE_CLI)
}


LIMITS: tuple[Limit, ...] = (PATH_UNKNOWN, *(limit for wire in APIS.values() for limit in wire.limits))
"""Everything that a request can violate."""


def wire_format(api: str) -> WireFormat:
    """The wire format of an API. Raises `UnknownName`."""
    try:
        return APIS[api]
    except KeyError:
        raise UnknownName("API", api, tuple(APIS)) from None
