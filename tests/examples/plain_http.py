"""An adapter as somebody else writes it: Anthropic Messages on plain HTTP, no SDK, in thirty statements.

Try it with `harness run --mode reference --target anthropic --adapter tests.examples.plain_http:ADAPTER`.
"""

import json
import re
from typing import Any

import httpx2

from harness.errors import provider_error
from harness.model import (
    ChatRequest,
    ChatResponse,
    Message,
    Opaque,
    Part,
    Role,
    StopReason,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from harness.protocols import Adapter, Capability, Endpoint


class Client:
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        headers = {"authorization": f"Bearer {endpoint.api_key}", "anthropic-version": "2026-10-21"}
        self.model, self.http = model, httpx2.Client(base_url=endpoint.base_url, headers=headers, timeout=600)

    def chat(self, request: ChatRequest) -> ChatResponse:
        turns = [{"role": m.role, "content": [wire for p in m.parts if (wire := to_wire(p))]} for m in request.messages]
        tools = [to_wire(tool) for tool in request.tools]
        body = {"max_tokens": request.max_tokens, "system": request.system, "tools": tools, "messages": turns}
        reply = self.http.post("/v1/messages", json={"model": self.model} | {k: v for k, v in body.items() if v})
        answer = reply.json()
        if reply.is_error:
            raise provider_error(reply.status_code, answer["error"]["message"])
        message = Message(Role.ASSISTANT, tuple(map(from_wire, answer["content"])))
        return ChatResponse(message, StopReason(answer["stop_reason"]), tokens(answer["usage"]), answer["model"])

    def close(self) -> None:
        self.http.close()


def to_wire(part: Part | Tool) -> Any:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolCall(call_id, name, arguments):
            return {"type": "tool_use", "id": legal(call_id), "name": name, "input": arguments}
        case ToolResult(call_id, _, said, failed):
            content = [to_wire(part) for part in said] if isinstance(said, tuple) else as_text(said)
            return {"type": "tool_result", "tool_use_id": legal(call_id), "content": content, "is_error": failed}
        case Tool(name, description, schema):
            return {
                "name": name,
                "description": description,
                "input_schema": schema or {"type": "object", "properties": {}},
            }
        case Opaque("anthropic", block):
            return block
    return None


def from_wire(block: dict[str, Any]) -> Part:
    match block:
        case {"type": "text", "text": text}:
            return Text(text)
        case {"type": "tool_use", "id": call_id, "name": name, "input": arguments}:
            return ToolCall(call_id, name, arguments)
    return Opaque("anthropic", block)


def tokens(usage: dict[str, int]) -> Usage:
    read, written = (usage.get(f"cache_{what}_input_tokens") or 0 for what in ("read", "creation"))
    return Usage(usage["input_tokens"] + read + written, usage["output_tokens"], read, written)


def legal(call_id: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", lambda other: f"_{ord(other[0]):x}_", call_id)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


ADAPTER = Adapter(
    "plain-http",
    "anthropic",
    frozenset({Capability.SYSTEM_PROMPT, Capability.TOOLS, Capability.PARALLEL_TOOL_CALLS}),
    Client,
)
