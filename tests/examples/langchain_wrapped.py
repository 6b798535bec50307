"""LangChain as an adapter for Anthropic: a wrapper of a library with messages of its own.

Try it with `harness check tests.examples.langchain_wrapped:ANTHROPIC`, where langchain-anthropic is installed.
"""

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, message_chunk_to_message

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, StreamEvent, bridge


class Client:
    def __init__(self, endpoint: Endpoint, model: str) -> None:
        where = {"base_url": endpoint.base_url, "api_key": endpoint.api_key, "max_retries": 0}
        self._model, self._memory = ChatAnthropic(model=model, **where), bridge.Memory()

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            answer = self._bound(request).invoke(self._messages(request))
        return bridge.response(told(answer), request, self._memory, own=answer)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        with bridge.failures():
            chunks = self._bound(request).stream(self._messages(request))
            yield from bridge.events(chunks, request, self._memory, whole=whole, read=told)

    def close(self) -> None: ...

    def _messages(self, request: ChatRequest) -> list[Any]:
        return bridge.messages(request, self._memory, failed={"status": "error"})

    def _bound(self, request: ChatRequest) -> Any:
        bound = self._model.bind_tools(bridge.tools(request)) if request.tools else self._model
        return bound.bind(**bridge.settings(request))


def whole(chunks: list[Any]) -> AIMessage:
    return message_chunk_to_message(reduce(add, chunks))


def told(said: AIMessage) -> dict[str, Any]:
    about, used = said.response_metadata, said.usage_metadata or {}
    calls = said.tool_call_chunks if hasattr(said, "tool_call_chunks") else [*said.tool_calls, *said.invalid_tool_calls]
    reason, tokens = about.get("stop_reason"), {"read": used.get("input_tokens"), "written": used.get("output_tokens")}
    cached = used.get("input_token_details", {}).get("cache_read")
    return bridge.completion(said.text, calls, reason=reason, model=about.get("model_name"), cached=cached, **tokens)


CAN = frozenset(
    map(Capability, ("system-prompt", "tools", "parallel-tool-calls", "history", "truncation", "streaming"))
)
ANTHROPIC = Adapter("langchain-anthropic", "anthropic", CAN, Client)
