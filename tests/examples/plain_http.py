"""Example of a third-party adapter: OpenAI Chat on plain HTTP, without an SDK, in under 50 lines and imports.

Try it with `harness run --mode reference --adapter tests.examples.plain_http:ADAPTER`.
"""

import hashlib
import json
from typing import Any

import httpx2

from harness.model.errors import ConnectionFailed, MalformedResponse, provider_error
from harness.model.messages import ChatRequest, ChatResponse, Message, Part, Role, StopReason, Text, ToolCall, Usage
from harness.model.protocols import Adapter, Capability, Endpoint

STOP = {"stop": StopReason.END_TURN, "tool_calls": StopReason.TOOL_USE, "length": StopReason.MAX_TOKENS}
STOP |= {"content_filter": StopReason.REFUSAL}
SPENT = ("prompt_tokens", "completion_tokens", "cached_tokens", "cache_write_tokens", "reasoning_tokens")
NONE = {"type": "object", "properties": {}}  # what a tool without arguments takes; `{}` is refused
CAN = frozenset(map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "history", "truncation")))


class Client(httpx2.Client):
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        headers = {"authorization": f"Bearer {endpoint.api_key}"}
        once = {"timeout": 600, "follow_redirects": True, "max_redirects": 0}  # a redirect is an error
        super().__init__(base_url=endpoint.base_url, headers=headers, **once)

    def chat(self, request: ChatRequest) -> ChatResponse:
        system = [{"role": "developer", "content": request.system}] if request.system else []
        messages = system + [wire for message in request.messages if message.parts for wire in to_wire(message)]
        body = {"model": request.model, "max_completion_tokens": request.max_tokens, "messages": messages}
        fns = [{"name": t.name, "description": t.description, "parameters": NONE | t.parameters} for t in request.tools]
        # these models take tools only with reasoning switched off
        body |= {"tools": [{"type": "function", "function": t} for t in fns], "reasoning_effort": "none"} if fns else {}
        try:
            reply = self.post("/chat/completions", json=body)
            if reply.is_success:
                return from_wire(reply.json())
        except httpx2.RequestError as error:
            raise ConnectionFailed(str(error)) from error
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MalformedResponse(repr(error)) from error
        ms, seconds = (reply.headers.get(name, "") for name in ("retry-after-ms", "retry-after"))
        wait = float(ms) / 1000 if ms else float(seconds) if seconds.isdecimal() else None  # no date is read here
        raise provider_error(reply.status_code, reply.text, retry_after=wait)


def short(call_id: str) -> str:  # ids of other APIs may be longer than this one takes
    return call_id if len(call_id) <= 40 else hashlib.sha256(call_id.encode()).hexdigest()[:40]


def from_wire(reply: dict[str, Any]) -> ChatResponse:
    choice, message, usage = reply["choices"][0], reply["choices"][0]["message"], reply["usage"]
    usage |= usage.get("prompt_tokens_details", {}) | usage.get("completion_tokens_details", {})
    stop = StopReason.REFUSAL if message.get("refusal") else STOP.get(choice["finish_reason"], StopReason.UNKNOWN)
    parts: list[Part] = [Text(text) for text in (message["content"], message.get("refusal")) if text]
    for call_id, call in [(call["id"], call["function"]) for call in message.get("tool_calls") or []]:
        try:
            parts.append(ToolCall(call_id, call["name"], json.loads(call["arguments"] or "{}")))
        except ValueError:  # cut off: never to be made
            stop = stop if stop is StopReason.MAX_TOKENS else StopReason.MALFORMED_CALL
    return ChatResponse(Message(Role.ASSISTANT, tuple(parts)), stop, Usage(*map(usage.get, SPENT)))


def to_wire(message: Message) -> list[dict[str, Any]]:
    said = [(r.call_id, json.dumps({"error": r.content}) if r.is_error else r.text) for r in message.tool_results]
    functions = [(short(c.id), {"name": c.name, "arguments": json.dumps(c.arguments)}) for c in message.tool_calls]
    calls = {"tool_calls": [{"id": i, "type": "function", "function": f} for i, f in functions]} if functions else {}
    answers = [{"role": "tool", "tool_call_id": short(call_id), "content": text} for call_id, text in said]
    return answers or [{"role": message.role, "content": message.text or None, **calls}]


ADAPTER = Adapter("plain-http", "openai-chat", CAN, Client)
