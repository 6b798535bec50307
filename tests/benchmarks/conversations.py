"""Tool conversations, all different: a question, calls with their results, an answer. Two requests for one call."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache

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


@cache
def declared(tools: int) -> tuple[tuple[str, dict[str, JSON]], ...]:
    """So many tools, by name, with their parameters: the one that is called, and others unlike it."""
    others = ((f"look_up_{number}", _parameters(number)) for number in range(1, tools))
    return ((TOOL, PARAMETERS), *others)


def _parameters(number: int) -> dict[str, JSON]:
    names = [f"field_{number}_{each}" for each in range(5)]
    fields: dict[str, JSON] = {name: {"type": "string", "description": f"What {name} is to be."} for name in names}
    return {"type": "object", "properties": fields, "required": [*names], "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation; all its texts are functions of its number, its number of calls and that of the `tools` that it
    declares, of which it calls the first."""

    number: int
    steps: int = 1
    tools: int = 1

    @property
    def id(self) -> str:
        steps = "" if self.steps == 1 else f"-in-{self.steps}"
        return f"weather-{self.number}{steps}" + ("" if self.tools == 1 else f"-of-{self.tools}")

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
                    "tools": [
                        {"name": name, "description": DESCRIPTION, "parameters": parameters, "results": results}
                        for name, parameters in declared(self.tools)
                    ],
                    "max_iterations": self.steps + 1,
                    "turns": [{"user": self.question, "model": [*calls, {"text": self.answer}]}],
                }
            )
        )
