"""An adapter that breaks limits: the shipped one, whose requests get the fields that the user's text names."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import httpx2

from harness.adapters import openai_chat
from harness.model.protocols import ChatClient, Endpoint

_FIELDS = re.compile(r"\(It sends (.*?)\.\)")


def sends(**fields: object) -> str:
    """A text that makes the adapter send these fields."""
    return f"(It sends {json.dumps(fields)}.)"


class _Editing(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client) -> None:
        self._inner = inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        told = _FIELDS.search(body["messages"][-1]["content"])
        body |= json.loads(told[1]) if told else {}
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        again = self._inner.build_request(request.method, str(request.url), headers=headers, json=body)
        response = self._inner.send(again, stream=True)
        return httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)


def _connect(endpoint: Endpoint, model: str) -> ChatClient:
    inner = endpoint.http_client or httpx2.Client(trust_env=False)
    edited = replace(endpoint, http_client=httpx2.Client(transport=_Editing(inner), trust_env=False))
    return openai_chat.ADAPTER.connect(edited, model)  # pyright: ignore[reportReturnType]


OPENAI_CHAT = replace(openai_chat.ADAPTER, name="openai-chat-breaking", connect=_connect)
