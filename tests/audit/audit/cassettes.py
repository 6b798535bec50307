"""Cassettes made by hand, as other projects' recorders write them."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import yaml

ACCEPTED: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [
        {"role": "user", "content": "Weather in Paris?"},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "18 °C"},
    ],
}
"""A good Chat Completions request."""

UNANSWERED: dict[str, Any] = {**ACCEPTED, "messages": [*ACCEPTED["messages"][:2], {"role": "user", "content": "So?"}]}
"""The same without the tool's result."""

ANSWER: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "18 °C."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10},
}

REFUSAL = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}


def request(body: Any = None, uri: str = "https://api.openai.com/v1/chat/completions") -> dict[str, Any]:
    return {"method": "POST", "uri": uri, "headers": {}, "body": json.dumps(ACCEPTED if body is None else body)}


def response(body: Any = None, status: int = 200) -> dict[str, Any]:
    text = body if isinstance(body, str) else json.dumps(ANSWER if body is None else body)
    return {"status": {"code": status, "message": ""}, "headers": {}, "body": {"string": text}}


def exchange(
    asked: dict[str, Any] | None = None, answered: dict[str, Any] | None = None, *, answer: bool = True
) -> dict[str, Any]:
    return {"request": asked or request(), "response": (answered or response()) if answer else None}


def gzipped(stored: dict[str, Any]) -> dict[str, Any]:
    """A response with its body compressed, as it came."""
    data = gzip.compress(stored["body"]["string"].encode())
    return {**stored, "headers": {"content-encoding": ["gzip"]}, "body": {"string": data}}


def base64ed(stored: dict[str, Any]) -> dict[str, Any]:
    """A message with its body as `base64_string`, as JSON recorders write it."""
    text = stored["body"] if isinstance(stored["body"], str) else stored["body"]["string"]
    return {**stored, "body": {"base64_string": base64.b64encode(text.encode()).decode()}}


class _Dumper(yaml.SafeDumper):
    """Writes a value that occurs twice twice: aliases are not read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def write(path: Path, *exchanges: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"version": 1, "interactions": list(exchanges)}
    text = json.dumps(document) if path.suffix == ".json" else yaml.dump(document, Dumper=_Dumper)
    path.write_text(text, encoding="utf-8")
    return path
