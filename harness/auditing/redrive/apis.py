"""How canonical values are lifted off the requests of each API."""

from __future__ import annotations

from harness.auditing.redrive.anthropic import AnthropicLift
from harness.auditing.redrive.gemini import GeminiLift
from harness.auditing.redrive.lift import Lift
from harness.auditing.redrive.openai_chat import OpenAIChatLift
from harness.auditing.redrive.openai_responses import OpenAIResponsesLift

LIFTS: dict[str, type[Lift]] = {
    lift.api: lift for lift in (AnthropicLift, OpenAIChatLift, OpenAIResponsesLift, GeminiLift)
}
