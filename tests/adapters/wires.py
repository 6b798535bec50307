"""The same thing said on the wire of each API: what the corpus that all adapters play is made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from harness.adapters import anthropic, gemini, openai_chat, openai_responses
from harness.contract.model import ChatRequest, ChatResponse, Message
from harness.contract.protocols import Adapter, ChatClient, Endpoint

BASE = "http://127.0.0.1:9/cell-7"


@dataclass(frozen=True)
class Wire:
    """An adapter, a model of its API, an answer that says "Ahoy", a refusal that says "No." by the code `some_error`,
    and the module that the SDK is."""

    adapter: Adapter
    model: str
    answer: dict[str, Any]
    refusal: Callable[[int], dict[str, Any]]
    sdk: str

    def ask(self, server: Server, request: ChatRequest) -> ChatResponse:
        client = self.adapter.connect(Endpoint(BASE, "key-1", server.http), self.model)
        assert isinstance(client, ChatClient)
        return client.chat(request)

    def sent(self, *messages: Message, **fields: Any) -> dict[str, Any]:
        server = Server(httpx2.Response(200, json=self.answer))
        self.ask(server, ChatRequest(messages=messages or (Message.user("hi"),), **fields))
        (request,) = server.requests
        return json.loads(request.content)


class Server:
    """Answers every request with `answer`, or raises it, and keeps the requests."""

    def __init__(self, answer: httpx2.Response | Exception) -> None:
        self.answer = answer
        self.requests: list[httpx2.Request] = []
        self.http = httpx2.Client(transport=httpx2.MockTransport(self._answered), trust_env=False)

    def _answered(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def _openai_refusal(status: int) -> dict[str, Any]:
    return {"error": {"message": "No.", "type": "some_type", "code": "some_error", "param": None}}


WIRES = {
    "anthropic": Wire(
        anthropic.ADAPTER,
        "claude-opus-5",
        {
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-5",
            "content": [{"type": "text", "text": "Ahoy"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 7, "output_tokens": 3},
        },
        lambda _: {"type": "error", "error": {"type": "some_error", "message": "No."}, "request_id": "req_1"},
        "anthropic",
    ),
    "gemini": Wire(
        gemini.ADAPTER,
        "gemini-3.6-flash",
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Ahoy"}]}, "finishReason": "STOP"}]},
        lambda status: {"error": {"code": status, "message": "No.", "status": "some_error"}},
        "google.genai",
    ),
    "openai-chat": Wire(
        openai_chat.ADAPTER,
        "gpt-5.6",
        {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Ahoy"}}]},
        _openai_refusal,
        "openai",
    ),
    "openai-responses": Wire(
        openai_responses.ADAPTER,
        "gpt-5.6",
        {
            "status": "completed",
            "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ahoy"}]}],
        },
        _openai_refusal,
        "openai",
    ),
}
