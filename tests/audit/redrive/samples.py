"""Hand-made recordings."""

from __future__ import annotations

import json
from typing import Any

from harness.cassettes.cassette import Cassette, Interaction
from harness.model.http import HttpRequest, HttpResponse

CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city":"Paris"}'},
}

Sent = tuple[str, dict[str, Any]]


def chat(*messages: dict[str, Any], **fields: Any) -> Sent:
    return "https://api.openai.com/v1/chat/completions", {"model": "gpt-4o", "messages": list(messages), **fields}


def chat_answer(*calls: dict[str, Any], text: str | None = None, **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **fields}
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def responses(*items: dict[str, Any], **fields: Any) -> Sent:
    return "https://api.openai.com/v1/responses", {"model": "gpt-4o", "input": list(items), **fields}


def responses_answer(response_id: str, *items: dict[str, Any]) -> dict[str, Any]:
    return {"id": response_id, "status": "completed", "output": list(items)}


def messages(*turns: dict[str, Any], **fields: Any) -> Sent:
    body = {"model": "claude-opus-4-8", "max_tokens": 99, "messages": list(turns), **fields}
    return "https://api.anthropic.com/v1/messages", body


def messages_answer(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(blocks), "stop_reason": "tool_use"}


def gemini(*contents: dict[str, Any], model: str = "gemini-2.5-flash", **fields: Any) -> Sent:
    url = f"https://generativelanguage.googleapis.com/v1beta/models/{model}:generateContent"
    return url, {"contents": list(contents), **fields}


def gemini_answer(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}]}


def exchange(sent: Sent, answer: dict[str, Any], status: int = 200) -> Interaction:
    url, body = sent
    headers = {"content-type": "application/json"}
    return Interaction(
        HttpRequest("POST", url, headers, json.dumps(body).encode()),
        HttpResponse(status, headers, json.dumps(answer).encode()),
    )


def streamed(sent: Sent, *events: dict[str, Any] | str) -> Interaction:
    """An exchange whose response came as events."""
    url, body = sent
    asked = HttpRequest(
        "POST", url, {"content-type": "application/json"}, json.dumps({**body, "stream": True}).encode()
    )
    data = [event if isinstance(event, str) else json.dumps(event, ensure_ascii=False) for event in events]
    stream = "".join(f"data: {each}\n\n" for each in data).encode()
    return Interaction(asked, HttpResponse(200, {"content-type": "text/event-stream"}, stream))


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    """An event of a streamed chat."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}


CHUNKS = (
    chunk(role="assistant", content="Ich prüfe "),
    chunk(content="das."),
    chunk(tool_calls=[{**CALL, "index": 0, "function": {"name": "weather", "arguments": '{"city"'}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": ':"Paris"}'}}]),
    chunk("tool_calls"),
)
"""What `CALL` and some text come as."""


def cassette(*interactions: Interaction) -> Cassette:
    return Cassette(interactions)
