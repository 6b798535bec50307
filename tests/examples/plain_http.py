"""An adapter as somebody else writes it: OpenAI Chat on plain HTTP, without an SDK, in thirty lines and its imports.

Try it with `harness run --mode reference --adapter tests.examples.plain_http:ADAPTER`.
"""

import json
from typing import Any

import httpx2

from harness.errors import provider_error
from harness.model import ChatRequest, ChatResponse, Message, Part, Role, StopReason, Text, ToolCall, Usage
from harness.protocols import Adapter, Capability, Endpoint

STOP = {"stop": StopReason.END_TURN, "tool_calls": StopReason.TOOL_USE, "length": StopReason.MAX_TOKENS}
SPENT = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
CAN = frozenset({Capability.SYSTEM_PROMPT, Capability.TOOLS, Capability.PARALLEL_TOOL_CALLS})


class Client(httpx2.Client):
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        key = {"authorization": f"Bearer {endpoint.api_key}"}
        super().__init__(base_url=endpoint.base_url, headers=key, timeout=600)

    def chat(self, request: ChatRequest) -> ChatResponse:
        system = [{"role": "developer", "content": request.system}] if request.system else []
        messages = system + [wire for message in request.messages for wire in to_wire(message)]
        body = {"model": request.model, "max_completion_tokens": request.max_tokens, "messages": messages}
        fns = [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in request.tools]
        # these models take tools only with reasoning switched off
        body |= {"tools": [{"type": "function", "function": t} for t in fns], "reasoning_effort": "none"} if fns else {}
        reply = self.post("/chat/completions", json=body)
        if reply.is_error:
            raise provider_error(reply.status_code, reply.text)
        choice, usage = reply.json()["choices"][0], reply.json()["usage"]
        usage |= usage.get("prompt_tokens_details", {}) | usage.get("completion_tokens_details", {})
        parts: list[Part] = [Text(choice["message"]["content"])] if choice["message"]["content"] else []
        calls = [(call["id"], call["function"]) for call in choice["message"].get("tool_calls") or []]
        parts += [ToolCall(call_id, call["name"], json.loads(call["arguments"])) for call_id, call in calls]
        stop = StopReason.REFUSAL if choice["message"].get("refusal") else STOP[choice["finish_reason"]]
        return ChatResponse(Message(Role.ASSISTANT, tuple(parts)), stop, Usage(*map(usage.get, SPENT)))


def to_wire(message: Message) -> list[dict[str, Any]]:
    results = [(r.call_id, json.dumps({"error": r.content}) if r.is_error else r.text) for r in message.tool_results]
    functions = [(c.id, {"name": c.name, "arguments": json.dumps(c.arguments)}) for c in message.tool_calls]
    calls = {"tool_calls": [{"id": i, "type": "function", "function": f} for i, f in functions]} if functions else {}
    answers = [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in results]
    return answers or [{"role": message.role, "content": message.text or None, **calls}]


ADAPTER = Adapter("plain-http", "openai-chat", CAN, Client)
