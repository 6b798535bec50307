"""Wrapper for Haystack's chat generators for OpenAI and Anthropic. It uses Haystack's own messages and tools, but no
agent.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, StreamingChunk, TextContent, ToolCall
from haystack.tools import Tool
from haystack.utils import Secret

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, StreamEvent, bridge


class Haystack:
    """A client that uses one of Haystack's chat generators."""

    def __init__(self, create: Callable[[Endpoint, str], Any], provider: str, endpoint: Endpoint, model: str) -> None:
        self._generator, self._memory = bridge.call(create, endpoint, model), bridge.Memory()
        self._is_openai = provider == "openai"

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            answer = bridge.call(ask, self._generator, **self._arguments(request))
        return bridge.response(openai_form(answer), request, self._memory, own=answer)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        chunks, arguments = [], self._arguments(request)
        if self._is_openai:
            arguments["generation_kwargs"]["stream_options"] = {"include_usage": True}
        with bridge.failures():
            answer = bridge.call(ask, self._generator, **arguments, streaming_callback=chunks.append)
            how = {"whole": lambda _: answer, "read": openai_form, "parsed": not self._is_openai}
            yield from bridge.events(chunks, request, self._memory, **how)

    def close(self) -> None: ...

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        form, choice = bridge.response_format(request), bridge.tool_choice(request) if request.tools else None
        given = {"response_format": form, "tool_choice": choice, **bridge.settings(request)}
        renamed = {"max_completion_tokens": "max_tokens"} if self._is_openai else {"stop_sequences": "stop"}
        given |= {new: given.pop(old, None) for new, old in renamed.items()}
        failed, longest = (None, 64) if self._is_openai else ({"error": True}, None)
        messages = bridge.messages(request, self._memory, failed=failed, longest_id=longest)
        return {
            "messages": [each if isinstance(each, ChatMessage) else own_form(each) for each in messages],
            "tools": [Tool(**each["function"], function=_never_run) for each in bridge.tools(request)] or None,
            "generation_kwargs": {name: value for name, value in given.items() if value is not None},
        }


def ask(generator: Any, **arguments: Any) -> ChatMessage:
    """Return the reply."""
    return generator.run(**arguments)["replies"][0]


def own_form(message: dict[str, Any]) -> ChatMessage:
    """Convert a message of OpenAI Chat to a message of Haystack, including the error flag."""
    if message["role"] != "tool":
        return ChatMessage.from_openai_dict_format(message)
    call = ToolCall(tool_name="", arguments={}, id=message["tool_call_id"])
    given = message["content"]
    result = given if isinstance(given, str) else [part(each) for each in given]
    return ChatMessage.from_tool(result, call, error=message.get("error", False))


def part(given: dict[str, Any]) -> Any:
    """Return a part of a result: a text, or an image from a data URL."""
    if given["type"] == "text":
        return TextContent(given["text"])
    kind, _, data = given["image_url"]["url"].removeprefix("data:").partition(";base64,")
    return ImageContent(data, kind)


def openai_form(given: ChatMessage | StreamingChunk) -> dict[str, Any]:
    """Return a message or a chunk in the form that the bridge reads."""
    used = given.meta.get("usage") or {}
    counts = {
        "read": used.get("prompt_tokens", used.get("input_tokens")),
        "written": used.get("completion_tokens", used.get("output_tokens")),
        "cached": (used.get("prompt_tokens_details") or {}).get("cached_tokens", used.get("cache_read_input_tokens")),
        "reasoned": (used.get("completion_tokens_details") or {}).get("reasoning_tokens"),
    }
    about = {"reason": given.meta.get("finish_reason"), "model": given.meta.get("model"), **counts}
    if isinstance(given, StreamingChunk):
        pieces = given.tool_calls or []
        calls = [{"index": p.index, "id": p.id, "name": p.tool_name, "args": p.arguments} for p in pieces]
        return bridge.completion(given.content, calls, **about)
    calls = [{"id": each.id, "name": each.tool_name, "args": each.arguments} for each in given.tool_calls]
    return bridge.completion("".join(given.texts), calls, refusal=given.meta.get("refusal"), **about)


def _never_run() -> None: ...


def _openai(endpoint: Endpoint, model: str) -> Any:
    key = Secret.from_token(endpoint.api_key)
    return OpenAIChatGenerator(api_key=key, model=model, api_base_url=endpoint.base_url, max_retries=0)


def _anthropic(endpoint: Endpoint, model: str) -> Any:
    from haystack_integrations.components.generators.anthropic import AnthropicChatGenerator

    generator = AnthropicChatGenerator(api_key=Secret.from_token(endpoint.api_key), model=model, max_retries=0)
    generator.warm_up()
    generator.client.base_url = endpoint.base_url
    return generator


_NAMES = ("system-prompt", "tools", "parallel-tool-calls", "history", "truncation", "vision", "streaming")
_CAPABILITIES = frozenset(map(Capability, _NAMES))
_OPENAI_ONLY = frozenset(
    map(Capability, ("tool-choice", "forced-tool-choice", "named-tool-choice", "json-mode", "json-schema"))
)
OPENAI = Adapter("haystack-openai", "openai-chat", _CAPABILITIES | _OPENAI_ONLY, partial(Haystack, _openai, "openai"))
ANTHROPIC = Adapter("haystack-anthropic", "anthropic", _CAPABILITIES, partial(Haystack, _anthropic, "anthropic"))
