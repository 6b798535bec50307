"""LiteLLM, for OpenAI, Anthropic and Gemini. Its requests and responses have OpenAI's format for every provider."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # otherwise the import fetches prices from the network
import litellm

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, StreamEvent, bridge

litellm.suppress_debug_info = True


class LiteLLM:
    """A client for one provider, which is named in a prefix of the model name."""

    def __init__(self, provider: str, endpoint: Endpoint, model: str) -> None:
        self._complete = partial(bridge.call, ask, provider, endpoint, model)
        self._memory, self._longest_id = bridge.Memory(), 64 if provider == "openai" else None
        self._parsed = provider == "anthropic"

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            return bridge.response(
                self._complete(**self._arguments(request)), request, self._memory, parsed=self._parsed
            )

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        usage = {"include_usage": True}
        with bridge.failures():
            chunks = self._complete(**self._arguments(request), stream=True, stream_options=usage)
            yield from bridge.events(chunks, request, self._memory, whole=join, parsed=self._parsed)

    def close(self) -> None: ...

    def _arguments(self, request: ChatRequest) -> dict[str, object]:
        return bridge.completion_request(request, self._memory, longest_id=self._longest_id)


def ask(provider: str, endpoint: Endpoint, model: str, **arguments: Any) -> Any:
    """Return a completion, or the chunks of a stream."""
    base = f"{endpoint.base_url}/v1beta" if provider == "gemini" else endpoint.base_url
    where = {"api_base": base, "api_key": endpoint.api_key, "num_retries": 0, "max_retries": 0}
    return litellm.completion(f"{provider}/{model}", **where, **arguments)


def join(chunks: list[Any]) -> Any:
    """Return the completion that the chunks of a stream add up to."""
    return litellm.stream_chunk_builder(chunks)


_NAMES = (
    *("system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice"),
    *("json-schema", "json-mode", "json-with-tools", "vision", "image-results", "history", "truncation", "streaming"),
)
_CAPABILITIES = frozenset(map(Capability, _NAMES))
_FIELDS = {Capability.PROVIDER_FIELDS}
OPENAI = Adapter("litellm-openai", "openai-chat", _CAPABILITIES | _FIELDS, partial(LiteLLM, "openai"))
ANTHROPIC = Adapter("litellm-anthropic", "anthropic", _CAPABILITIES, partial(LiteLLM, "anthropic"))
GEMINI = Adapter("litellm-gemini", "gemini", _CAPABILITIES, partial(LiteLLM, "gemini"))
