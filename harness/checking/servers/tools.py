"""The tools that a server is offered."""

from __future__ import annotations

from harness.contract.model import JSON, Tool

_STRICT: dict[str, JSON] = {api: {"strict": True} for api in ("anthropic", "openai-chat", "openai-responses")}
"""How a tool is marked whose arguments the server promises to keep to the schema; who has no mark ignores it."""


def _city(name: str, description: str) -> Tool:
    city: JSON = {"type": "string", "description": "The name of the city."}
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {"city": city},
        "required": ["city"],
        "additionalProperties": False,
    }
    return Tool(name, description, schema)


WEATHER = _city("get_weather", "The current weather in a city.")
TIME = _city("get_time", "The current local time in a city.")
PING = Tool("ping", "Says whether the service is up. It takes no arguments.", {"type": "object", "properties": {}})
ORDER = Tool(
    "find_order",
    "Finds an order by its number.",
    {
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "The number, all digits of it."}},
        "required": ["number"],
        "additionalProperties": False,
    },
)
NOTE = Tool(
    "save_note",
    "Saves a note word for word.",
    {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text of the note, unchanged."}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
TABLE = Tool(
    "book_table",
    "Books a table.",
    {
        "type": "object",
        "properties": {
            "place": {"type": "string", "enum": ["garden", "hall"]},
            "meal": {"type": "string", "enum": ["lunch", "dinner"]},
            "guests": {"type": "integer"},
        },
        "required": ["place", "meal", "guests"],
        "additionalProperties": False,
    },
    _STRICT,
)
