"""The same thing said on the wire of each API: what the corpus that all adapters play is made of."""

from __future__ import annotations

from tests.adapters.wires.anthropic import Anthropic
from tests.adapters.wires.gemini import Gemini
from tests.adapters.wires.openai_chat import OpenAIChat
from tests.adapters.wires.openai_responses import OpenAIResponses
from tests.adapters.wires.wire import Wire

WIRES: dict[str, Wire] = {wire.adapter.name: wire for wire in (Anthropic(), Gemini(), OpenAIChat(), OpenAIResponses())}
