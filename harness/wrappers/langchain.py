"""LangChain, for OpenAI, Anthropic and Gemini: chat models with bound tools and LangChain's own messages."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from operator import add
from typing import Any

from langchain_core.messages import AIMessage, message_chunk_to_message

from harness import Adapter, Capability, ChatRequest, ChatResponse, Endpoint, NamedTool, StreamEvent, bridge


class LangChain:
    """A client that uses one of LangChain's chat models."""

    def __init__(self, create: Callable[[Endpoint, str], Any], provider: str, endpoint: Endpoint, model: str) -> None:
        self._model, self._memory = bridge.call(create, endpoint, model), bridge.Memory()
        self._names = {"max_tokens": "max_output_tokens"} if provider == "gemini" else {}
        self._choices = {"required": "any", **({"none": {"type": "none"}} if provider == "anthropic" else {})}
        self._longest_id, self._parsed = 64 if provider == "openai" else None, provider == "anthropic"

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            answer = bridge.call(ask, self._model, **self._arguments(request))
        return bridge.response(openai_form(answer), request, self._memory, own=answer, parsed=self._parsed)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        with bridge.failures():
            chunks = bridge.call(stream, self._model, **self._arguments(request))
            how = {"whole": join, "read": openai_form, "parsed": self._parsed}
            yield from bridge.events(chunks, request, self._memory, **how)

    def close(self) -> None: ...

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        choice = request.tool_choice.name if isinstance(request.tool_choice, NamedTool) else request.tool_choice
        form = bridge.response_format(request)
        given = {**bridge.settings(request), **({"response_format": form} if form else {})}
        return {
            "messages": bridge.messages(request, self._memory, failed={"status": "error"}, longest_id=self._longest_id),
            "tools": bridge.tools(request),
            "choice": {"tool_choice": self._choices.get(choice, choice)} if choice else {},
            "settings": {self._names.get(name, name): value for name, value in given.items()},
        }


def bind(model: Any, tools: list[Any], choice: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Return the model with its tools and settings."""
    bound = model.bind_tools(tools, **choice) if tools else model
    return bound.bind(**settings)


def ask(model: Any, messages: list[Any], tools: list[Any], choice: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Call the model and return its answer."""
    return bind(model, tools, choice, settings).invoke(messages)


def stream(model: Any, messages: list[Any], tools: list[Any], choice: dict[str, Any], settings: dict[str, Any]) -> Any:
    """Return the chunks of an answer."""
    return bind(model, tools, choice, settings).stream(messages)


def join(chunks: list[Any]) -> AIMessage:
    """Return the message that the chunks of a stream add up to."""
    return message_chunk_to_message(reduce(add, chunks))


def openai_form(message: AIMessage) -> dict[str, Any]:
    """Convert a LangChain message to the format that the bridge reads."""
    about, usage = message.response_metadata, message.usage_metadata or {}
    pieces = getattr(message, "tool_call_chunks", None)
    calls = [*message.tool_calls, *message.invalid_tool_calls] if pieces is None else pieces
    return bridge.completion(
        message.text,
        calls,
        refusal=message.additional_kwargs.get("refusal"),
        reason=about.get("stop_reason") or about.get("finish_reason"),
        model=about.get("model_name"),
        cached=usage.get("input_token_details", {}).get("cache_read"),
        read=usage.get("input_tokens"),
        written=usage.get("output_tokens"),
    )


def _openai(endpoint: Endpoint, model: str) -> Any:
    from langchain_openai import ChatOpenAI

    where: dict[str, Any] = {"base_url": endpoint.base_url, "api_key": endpoint.api_key}
    return ChatOpenAI(model=model, max_retries=0, stream_usage=True, use_responses_api=False, **where)


def _anthropic(endpoint: Endpoint, model: str) -> Any:
    from langchain_anthropic import ChatAnthropic

    where: dict[str, Any] = {"base_url": endpoint.base_url, "api_key": endpoint.api_key}
    return ChatAnthropic(model=model, max_retries=0, **where)


def _gemini(endpoint: Endpoint, model: str) -> Any:
    from langchain_google_genai import ChatGoogleGenerativeAI

    where: dict[str, Any] = {"base_url": endpoint.base_url, "google_api_key": endpoint.api_key}
    return ChatGoogleGenerativeAI(model=model, max_retries=1, **where)


_NAMES = (
    *("system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice"),
    *("vision", "history", "truncation", "streaming"),
)
_CAPABILITIES = frozenset(map(Capability, _NAMES))
_OPENAI_ONLY = frozenset(map(Capability, ("json-mode", "json-schema", "json-with-tools", "provider-fields")))
OPENAI = Adapter("langchain-openai", "openai-chat", _CAPABILITIES | _OPENAI_ONLY, partial(LangChain, _openai, "openai"))
ANTHROPIC = Adapter("langchain-anthropic", "anthropic", _CAPABILITIES, partial(LangChain, _anthropic, "anthropic"))
GEMINI = Adapter("langchain-gemini", "gemini", _CAPABILITIES, partial(LangChain, _gemini, "gemini"))
