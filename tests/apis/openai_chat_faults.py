"""A good request of Chat Completions, changes of it, and the limits that it then breaks."""

from __future__ import annotations

import copy
import datetime as dt
import json
from typing import Any

from harness.apis import registry
from harness.apis.fact_files import FactSelection
from harness.apis.limits import Violation
from harness.apis.openai_chat import API
from harness.model.http import HttpRequest
from tests.apis import lawful

OPENAI = "https://api.openai.com/v1/chat/completions"

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'}}


GOOD: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call("call_1"), call("call_2")]},
        {"role": "tool", "tool_call_id": "call_2", "content": "18"},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "19"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
    ],
    "tools": [
        {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA, "strict": True}},
        {"type": "function", "function": {"name": "no_arguments"}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
    "stream": True,
    "stream_options": {"include_usage": True},
}


def check(body: Any, url: str = OPENAI, on: dt.date | None = None) -> list[Violation]:
    model = body.get("model") if isinstance(body, dict) else None
    profile = registry.api("openai-chat").profile_for(model if isinstance(model, str) else "", FactSelection(on))
    return lawful.violations(API, HttpRequest("POST", url, {}, json.dumps(body).encode()), profile)


def rules(body: Any, url: str = OPENAI, on: dt.date | None = None) -> list[tuple[str, str]]:
    return [(found.severity, found.rule.removeprefix("openai-chat-")) for found in check(body, url, on)]


def changed(*path: str | int, **fields: Any) -> dict[str, Any]:
    """The good request with some fields of the object at a path put in, or taken out (`...`)."""
    body = copy.deepcopy(GOOD)
    target: Any = body
    for key in path:
        target = target[key]
    for name, value in fields.items():
        if value is ...:
            del target[name]
        else:
            target[name] = value
    return body
