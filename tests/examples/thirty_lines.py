"""An adapter as a third party writes it: Anthropic Messages on plain HTTP, without an SDK, in thirty lines of code.

Try it with `harness run --mode reference --adapter tests.examples.thirty_lines:ADAPTER`.
"""

import json

import httpx2

from harness.errors import provider_error
from harness.model import JSON, ChatRequest, ChatResponse, Message, Opaque, Part, Role, StopReason
from harness.model import Text, ToolCall, ToolResult, Usage
from harness.protocols import Adapter, Capability, Endpoint


def to_wire(part: Part) -> JSON:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": part.arguments}
        case ToolResult(call_id=id, content=content, is_error=bad):
            return {"type": "tool_result", "tool_use_id": id, "content": json.dumps(content), "is_error": bad}
    return part.raw


def from_wire(block: dict) -> Part:
    match block:
        case {"type": "text", "text": text}:
            return Text(text)
        case {"type": "tool_use", "id": id, "name": name, "input": arguments}:
            return ToolCall(id, name, arguments)
    return Opaque("anthropic", block)


class Client:
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        headers = {"authorization": f"Bearer {endpoint.api_key}", "anthropic-version": "2026-10-21"}
        self.http = httpx2.Client(base_url=endpoint.base_url, headers=headers, timeout=600)
        self.close = self.http.close

    def chat(self, request: ChatRequest) -> ChatResponse:
        messages = [{"role": m.role, "content": [to_wire(part) for part in m.parts]} for m in request.messages]
        tools = [{"name": t.name, "description": t.description, "input_schema": {"type": "object", **t.parameters}} for t in request.tools]
        body = {"model": request.model, "max_tokens": request.max_tokens, "messages": messages, "system": request.system, "tools": tools}
        response = self.http.post("/v1/messages", json={k: v for k, v in body.items() if v})
        answer = response.json()
        if response.is_error:
            raise provider_error(response.status_code, answer["error"]["message"])
        message = Message(Role.ASSISTANT, tuple(from_wire(block) for block in answer["content"]))
        usage = Usage(answer["usage"]["input_tokens"], answer["usage"]["output_tokens"])
        return ChatResponse(message, StopReason(answer["stop_reason"]), usage, answer["model"])


ADAPTER = Adapter("thirty-lines", "anthropic", frozenset({Capability.SYSTEM_PROMPT, Capability.TOOLS}), Client)
