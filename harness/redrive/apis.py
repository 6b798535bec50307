"""How canonical values are lifted off the requests of each API."""

from __future__ import annotations

from harness.redrive.anthropic import AnthropicLift
from harness.redrive.gemini import GeminiLift
from harness.redrive.lift import Lift
from harness.redrive.openai_chat import OpenAIChatLift
from harness.redrive.openai_responses import OpenAIResponsesLift

LIFTS: dict[str, type[Lift]] = {
    lift.api: lift for lift in (AnthropicLift, OpenAIChatLift, OpenAIResponsesLift, GeminiLift)
}
