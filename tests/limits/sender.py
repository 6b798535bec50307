"""Adapters that send the request that they are told in the user's text, whatever else they are given."""

from __future__ import annotations

import json

import httpx2

from harness.contract.model import ChatRequest, ChatResponse, Message, Role, StopReason, Text, Usage
from harness.contract.protocols import Adapter, ChatClient, Endpoint


class _Sender(ChatClient):
    def __init__(self, endpoint: Endpoint) -> None:
        self._base = endpoint.base_url.rstrip("/")
        self._http = httpx2.Client(trust_env=False)

    def chat(self, request: ChatRequest) -> ChatResponse:
        told = json.loads(request.messages[-1].text)
        self._http.post(self._base + told["path"], headers=told["headers"], content=told["body"].encode())
        return ChatResponse(Message(Role.ASSISTANT, (Text("ok"),)), StopReason.END_TURN, Usage(1, 1), "told")

    def close(self) -> None:
        self._http.close()


def _sending(api: str) -> Adapter:
    return Adapter(f"{api}-sending", api, frozenset(), lambda endpoint, _model: _Sender(endpoint))


ANTHROPIC = _sending("anthropic")
OPENAI_CHAT = _sending("openai-chat")
OPENAI_RESPONSES = _sending("openai-responses")
GEMINI = _sending("gemini")
