"""Adapters for any-llm with OpenAI and Anthropic. The library uses OpenAI's request and response format for every
provider.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import any_llm

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, StreamEvent, bridge


class AnyLLM:
    """A client of one provider. `provider` is the name that any-llm uses for it."""

    def __init__(self, provider: str, endpoint: Endpoint, model: str) -> None:
        self._usage = {"stream_options": {"include_usage": True}} if provider == "openai" else {}
        self._complete: Any = partial(bridge.call, ask, provider, endpoint, model)
        self._memory, self._longest_id = bridge.Memory(), 64 if provider == "openai" else None
        self._parsed = provider == "anthropic"

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            return bridge.response(
                self._complete(**self._arguments(request)), request, self._memory, parsed=self._parsed
            )

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        with bridge.failures():
            chunks = self._complete(**self._arguments(request), stream=True, **self._usage)
            yield from bridge.events(chunks, request, self._memory, parsed=self._parsed)

    def close(self) -> None: ...

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        return bridge.completion_request(request, self._memory, longest_id=self._longest_id)


def ask(provider: str, endpoint: Endpoint, model: str, **arguments: Any) -> Any:
    """Return a completion, or the chunks of a stream."""
    where = {"api_base": endpoint.base_url, "api_key": endpoint.api_key, "client_args": {"max_retries": 0}}
    return any_llm.completion(model, provider=provider, **where, **arguments)


_NAMES = (
    *("system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice"),
    *("json-schema", "json-with-tools", "vision", "history", "truncation", "streaming"),
)
_CAPABILITIES = frozenset(map(Capability, _NAMES))
_OWN = {Capability.JSON_MODE, Capability.PROVIDER_FIELDS}
OPENAI = Adapter("any-llm-openai", "openai-chat", _CAPABILITIES | _OWN, partial(AnyLLM, "openai"))
ANTHROPIC = Adapter("any-llm-anthropic", "anthropic", _CAPABILITIES, partial(AnyLLM, "anthropic"))
