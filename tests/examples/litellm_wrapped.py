"""LiteLLM as an adapter for Anthropic: a wrapper of a library that speaks OpenAI's form.

Try it with `harness check tests.examples.litellm_wrapped:ANTHROPIC`, where litellm is installed.
"""

import os
from collections.abc import Iterator
from functools import partial

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
            answer = self._ask(**bridge.completion_request(request, self._memory))
            return bridge.response(answer, request, self._memory)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        with bridge.failures():
            chunks = self._ask(**bridge.completion_request(request, self._memory), stream=True, stream_options=COUNTED)
            yield from bridge.events(chunks, request, self._memory, whole=litellm.stream_chunk_builder)

    def close(self) -> None: ...


COUNTED = {"include_usage": True}
CAN = frozenset(map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice")))
CAN |= frozenset(map(Capability, ("json-mode", "json-schema", "vision", "history", "truncation", "streaming")))
ANTHROPIC = Adapter("litellm-anthropic", "anthropic", CAN, Client)
