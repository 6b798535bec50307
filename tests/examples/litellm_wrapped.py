"""LiteLLM as an adapter for Anthropic: a wrapper of a library that speaks OpenAI's form.

Try it with `harness check tests.examples.litellm_wrapped:ANTHROPIC`, where litellm is installed.
"""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network when it is imported
import litellm

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, StreamEvent, bridge

litellm.suppress_debug_info = True


class Client:
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        where = {"api_base": endpoint.base_url, "api_key": endpoint.api_key, "num_retries": 0, "max_retries": 0}
        self._ask = partial(litellm.completion, f"anthropic/{model}", **where)
        self._memory = bridge.Memory()

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            return bridge.response(self._ask(**self._settings(request)), request, self._memory)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        with bridge.failures():
            chunks = self._ask(**self._settings(request), stream=True, stream_options={"include_usage": True})
            yield from bridge.events(chunks, request, self._memory, whole=litellm.stream_chunk_builder)

    def close(self) -> None: ...

    def _settings(self, request: ChatRequest) -> dict[str, Any]:
        settings = {
            "messages": bridge.messages(request, self._memory),
            "tools": bridge.tools(request) or None,
            "tool_choice": bridge.tool_choice(request) if request.tools else None,
            "response_format": bridge.response_format(request),
            **bridge.settings(request),
        }
        return {name: value for name, value in settings.items() if value is not None}


CAN = frozenset(map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice")))
CAN |= frozenset(map(Capability, ("json-mode", "json-schema", "vision", "history", "truncation", "streaming")))
ANTHROPIC = Adapter("litellm-anthropic", "anthropic", CAN, Client)
