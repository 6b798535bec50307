"""The APIs by name: four over HTTP, and one that is a command line."""

from __future__ import annotations

from harness.apis.anthropic import WIRE as ANTHROPIC
from harness.apis.claude_cli import WIRE as CLAUDE_CLI
from harness.apis.endpoint import PATH_UNKNOWN
from harness.apis.format import WireFormat
from harness.apis.gemini import WIRE as GEMINI
from harness.apis.limit import Limit
from harness.apis.openai_chat import WIRE as OPENAI_CHAT
from harness.apis.openai_responses import WIRE as OPENAI_RESPONSES
from harness.contract.errors import UnknownName

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
