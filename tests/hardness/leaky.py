"""Adapters that say more than they should: they print, raise and send what the variable `CANARY` holds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import httpx2

from harness.model.messages import ChatRequest, ChatResponse, StreamEvent
from harness.model.protocols import Adapter, ChatClient, Endpoint, StreamingChatClient
from harness.stdio import adapter_specs


class Raising:
    """Prints the canary to both streams, and raises with it."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._canary = os.environ["CANARY"]

    def chat(self, request: ChatRequest) -> ChatResponse:
        sys.stdout.write(f"my key is {self._canary}\n")
        sys.stderr.write(f"debug: {self._canary}\n")
        raise RuntimeError(f"cannot go on with {self._canary}")

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        raise ValueError(f"no stream for {self._canary}") from LookupError(self._canary)

    def close(self) -> None:
        pass


class Sending:
    """Sends the canary along: in a header that is kept, in one that is not, and in the query of the URL."""

    def __init__(self, shipped: Adapter, endpoint: Endpoint, model: str) -> None:
        self._http = httpx2.Client(trust_env=False, event_hooks={"request": [self._add]})
        inner = shipped.connect(replace(endpoint, http_client=self._http), model)
        assert isinstance(inner, StreamingChatClient)
        self._inner: StreamingChatClient = inner

    def chat(self, request: ChatRequest) -> ChatResponse:
        return self._inner.chat(request)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        return self._inner.stream(request)

    def close(self) -> None:
        self._inner.close()
        self._http.close()

    @staticmethod
    def _add(request: httpx2.Request) -> None:
        for header in ("anthropic-beta", "x-trace"):
            request.headers[header] = os.environ["CANARY"]
        request.url = request.url.copy_merge_params({"trace": os.environ["CANARY"]})


def _connect(kind: type[Raising] | None, shipped: Adapter, endpoint: Endpoint, model: str) -> ChatClient:
    return kind(endpoint, model) if kind else Sending(shipped, endpoint, model)


def _leaky(api: str, kind: type[Raising] | None) -> Adapter:
    shipped = adapter_specs.adapter(api)
    return replace(shipped, name=f"leaky-{api}", connect=partial(_connect, kind, shipped))


RAISING = {api: _leaky(api, Raising) for api in ("anthropic", "openai-chat", "openai-responses", "gemini")}
SENDING = {api: _leaky(api, None) for api in RAISING}

RAISING_ANTHROPIC, RAISING_CHAT, RAISING_RESPONSES, RAISING_GEMINI = RAISING.values()
SENDING_ANTHROPIC, SENDING_CHAT, SENDING_RESPONSES, SENDING_GEMINI = SENDING.values()
