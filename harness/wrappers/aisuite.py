"""aisuite, for OpenAI and Anthropic. Its requests and responses have OpenAI's format for every provider."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import aisuite

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, StreamEvent, bridge


class AISuite:
    """A client for one provider, which is named in a prefix of the model name."""

    def __init__(self, provider: str, endpoint: Endpoint, model: str) -> None:
        self._complete = partial(bridge.call, ask, bridge.call(create, provider, endpoint), f"{provider}:{model}")
        self._memory, self._is_openai = bridge.Memory(), provider == "openai"

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            return bridge.response(
                self._complete(**self._arguments(request)), request, self._memory, parsed=not self._is_openai
            )

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        usage = {"stream_options": {"include_usage": True}} if self._is_openai else {}
        with bridge.failures():
            chunks = self._complete(**self._arguments(request), **usage, stream=True)
            yield from bridge.events(chunks, request, self._memory, parsed=not self._is_openai)

    def close(self) -> None: ...

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        given = bridge.completion_request(request, self._memory, longest_id=64 if self._is_openai else None)
        renamed = {"max_tokens": "max_completion_tokens"} if self._is_openai else {"stop": "stop_sequences"}
        return {renamed.get(name, name): value for name, value in given.items()}


def create(provider: str, endpoint: Endpoint) -> Any:
    """Return a client for one provider."""
    where = {"api_key": endpoint.api_key, "base_url": endpoint.base_url, "max_retries": 0}
    return aisuite.Client({provider: where})


def ask(client: Any, model: str, **arguments: Any) -> Any:
    """Request a completion, and return it or the chunks of its stream."""
    return client.chat.completions.create(model, **arguments)


_CAPABILITIES = frozenset(map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "history", "truncation")))
_CAPABILITIES |= frozenset(map(Capability, ("vision", "streaming")))
_OPENAI_ONLY = frozenset(
    map(Capability, ("tool-choice", "forced-tool-choice", "named-tool-choice", "json-mode", "json-schema"))
)
_OPENAI_ONLY |= {Capability.PROVIDER_FIELDS}
OPENAI = Adapter("aisuite-openai", "openai-chat", _CAPABILITIES | _OPENAI_ONLY, partial(AISuite, "openai"))
ANTHROPIC = Adapter("aisuite-anthropic", "anthropic", _CAPABILITIES, partial(AISuite, "anthropic"))
