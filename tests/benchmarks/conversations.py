"""Tool conversations, all different: a question, calls with their results, an answer. Two requests for one call."""

from __future__ import annotations

import json
from dataclasses import dataclass

from harness.model.messages import JSON
from harness.scenarios.schema import Scenario

SYSTEM = "You are a weather assistant. Look the weather up with the tool before you answer, and answer in one sentence."
TOOL = "get_weather"
DESCRIPTION = "Current weather for a city: temperature in degrees Celsius, and the sky in a word."
PARAMETERS: dict[str, JSON] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "Name of the city."},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
}
MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation. All its texts are functions of its number and its number of calls."""

    number: int
    steps: int = 1

    @property
    def id(self) -> str:
        return f"weather-{self.number}" + ("" if self.steps == 1 else f"-in-{self.steps}")

    @property
    def question(self) -> str:
        return f"What is the weather in city {self.number}?"

    @property
    def answer(self) -> str:
        return f"It is {self.number % 40} °C in city {self.number}."

    def arguments(self, step: int) -> dict[str, JSON]:
        return {"city": f"city {self.number}.{step}", "unit": "celsius"}

    @property
    def result(self) -> dict[str, JSON]:
        return {"temp_c": self.number % 40, "sky": "clear", "station": f"station {self.number}"}

    def scenario(self) -> Scenario:
        """The conversation for the harness: `steps` calls, one after the other, and the answer."""
        calls = [{"calls": [{TOOL: self.arguments(step)}]} for step in range(self.steps)]
        results = [{"return": self.result}]
        return Scenario.model_validate_json(
            json.dumps(
                {
                    "version": 1,
                    "id": self.id,
                    "title": self.question,
                    "covers": ["id-matching"],
                    "requires": ["tools"],
                    "system": SYSTEM,
                    "tools": [{"name": TOOL, "description": DESCRIPTION, "parameters": PARAMETERS, "results": results}],
                    "max_iterations": self.steps + 1,
                    "turns": [{"user": self.question, "model": [*calls, {"text": self.answer}]}],
                }
            )
        )
