"""Adapters that commit limits: the shipped ones, with what they send edited on its way out.

One for each API, so that a run needs few of them. Which limit to commit stands in the texts that they are given, since
a scenario is all that an adapter gets to see, in whatever process it lives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace

import httpx2

from harness.adapters import anthropic, claude_cli, gemini, openai_chat, openai_responses
from harness.process import Command, Completed
from harness.protocols import Adapter, ChatClient, EmbeddingProvider, Embeddings, Endpoint, ProcessRunner
from tests.limits.cases import CASES
from tests.limits.edits import Sent

_MARK = re.compile(r"\(It commits ([a-z0-9-]+)\.\)")


def mark(limit: str) -> str:
    """What a text says so that these adapters commit a limit."""
    return f"(It commits {limit}.)"


def _edited(text: str, sent: Sent) -> Sent:
    marked = _MARK.search(text)
    if marked:
        CASES[marked[1]].edit(sent)
    return sent


class _Editing(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client) -> None:
        self._inner = inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        content = request.read().decode()
        headers = {name: value for name, value in request.headers.items() if name != "content-length"}
        sent = _edited(content, Sent(json.loads(content), str(request.url), headers=headers))
        data = json.dumps(sent.body).encode() if sent.content is None else sent.content
        again = self._inner.build_request(request.method, sent.url, headers=sent.headers, content=data)
        response = self._inner.send(again, stream=True)
        return httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)


class _EditingRunner:
    def __init__(self, inner: ProcessRunner) -> None:
        self._inner = inner

    def run(self, command: Command, timeout: float) -> Completed:
        body = {"argv": [*command.argv], "stdin": command.stdin, "environment": dict(command.environment)}
        given: Mapping[str, object] = _edited(command.stdin, Sent(body)).body
        return self._inner.run(replace(command, **given), timeout)  # pyright: ignore[reportArgumentType]


def _through_edits(endpoint: Endpoint) -> Endpoint:
    if endpoint.processes is not None:
        return replace(endpoint, processes=_EditingRunner(endpoint.processes))
    inner = endpoint.http_client or httpx2.Client(trust_env=False)
    return replace(endpoint, http_client=httpx2.Client(transport=_Editing(inner), trust_env=False))


def _committing(shipped: Adapter) -> Adapter:
    def connect(endpoint: Endpoint, model: str) -> ChatClient:
        return shipped.connect(_through_edits(endpoint), model)  # pyright: ignore[reportReturnType]

    embeddings = shipped.embeddings
    if embeddings is not None:
        inner = embeddings.connect

        def embed(endpoint: Endpoint, model: str, dimensions: int) -> EmbeddingProvider:
            return inner(_through_edits(endpoint), model, dimensions)

        embeddings = Embeddings(embeddings.model, embeddings.dimensions, embed)
    return replace(shipped, name=f"{shipped.name}-committing", connect=connect, embeddings=embeddings)


ANTHROPIC = _committing(anthropic.ADAPTER)
OPENAI_CHAT = _committing(openai_chat.ADAPTER)
OPENAI_RESPONSES = _committing(openai_responses.ADAPTER)
GEMINI = _committing(gemini.ADAPTER)
CLAUDE_CLI = _committing(claude_cli.ADAPTER)
