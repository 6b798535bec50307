"""Wrapper for LlamaIndex's LLMs for OpenAI and Anthropic, with its own messages and tools, without an agent."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.tools import FunctionTool, ToolMetadata

import harness
from harness import Adapter, Capability, ChatRequest, Endpoint, StreamEvent, bridge


class LlamaIndex:
    """A client that uses one of LlamaIndex's LLMs."""

    def __init__(self, create: Callable[[Endpoint, str], Any], provider: str, endpoint: Endpoint, model: str) -> None:
        self._llm, self._memory = bridge.call(create, endpoint, model), bridge.Memory()
        self._is_openai = provider == "openai"

    def chat(self, request: ChatRequest) -> harness.ChatResponse:
        with bridge.failures():
            (answer,) = bridge.call(ask, self._llm, **self._arguments(request))
        return bridge.response(
            openai_form([answer]), request, self._memory, own=answer.message, parsed=not self._is_openai
        )

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        usage, given = {"stream_options": {"include_usage": True}} if self._is_openai else {}, []
        with bridge.failures():
            chunks = bridge.call(stream, self._llm, **self._arguments(request), **usage)
            bridge.log_joined(given, None)
            answer = bridge.Chunks(request)
            for chunk in chunks:
                given.append(chunk)
                yield from answer.add(bridge.completion(chunk.delta or ""))
            whole = openai_form(given)
            calls = whole["choices"][0]["message"]["tool_calls"]
            yield from answer.add(bridge.completion("", [{**each, "index": at} for at, each in enumerate(calls)]))
            own = given[-1].message if given else None
            last = whole if given else answer.completion
            parsed = not self._is_openai
            yield from answer.end(bridge.response(last, request, self._memory, own=own, parsed=parsed))

    def close(self) -> None: ...

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        renamed = {"max_tokens": "max_completion_tokens"} if self._is_openai else {"stop": "stop_sequences"}
        given = {renamed.get(name, name): value for name, value in bridge.settings(request).items()}
        if choice := bridge.tool_choice(request) if request.tools and self._is_openai else None:
            given["tool_choice"] = choice
        if form := bridge.response_format(request):
            given["response_format"] = form
        history = bridge.messages(request, self._memory, longest_id=64 if self._is_openai else None)
        messages = [each if isinstance(each, ChatMessage) else own_form(each) for each in history]
        return {"messages": messages, "tools": bridge.tools(request), **given}


def ask(llm: Any, messages: list[Any], tools: list[Any], **settings: Any) -> list[ChatResponse]:
    """Call the LLM and return its response as a list with one entry."""
    if not tools:
        return [llm.chat(messages, **settings)]
    return [llm.chat_with_tools(**tool_arguments(messages, tools), **settings)]


def stream(llm: Any, messages: list[Any], tools: list[Any], **settings: Any) -> Iterator[ChatResponse]:
    """Return the responses of a stream. Each contains everything received so far."""
    if not tools:
        return llm.stream_chat(messages, **settings)
    return llm.stream_chat_with_tools(**tool_arguments(messages, tools), **settings)


def tool_arguments(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    """Return the keyword arguments that pass tools to the LLM."""
    own = [FunctionTool(fn=_never_run, metadata=SchemaMetadata(each["function"])) for each in tools]
    return {"tools": own, "chat_history": messages, "allow_parallel_tool_calls": True}


class SchemaMetadata(ToolMetadata):
    """Metadata of a tool whose arguments have a JSON schema."""

    def __init__(self, function: dict[str, Any]) -> None:
        super().__init__(description=function["description"], name=function["name"])
        self._schema = function["parameters"]

    def get_parameters_dict(self) -> dict[str, Any]:
        return json.loads(json.dumps(self._schema))


def own_form(message: dict[str, Any]) -> ChatMessage:
    """Convert a message of OpenAI Chat to a message of LlamaIndex."""
    content = message.get("content") or []
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    kinds = {"text": lambda part: TextBlock(text=part["text"]), "image_url": lambda part: image(part["image_url"])}
    blocks = [kinds[part["type"]](part) for part in parts]
    for call in message.get("tool_calls") or []:
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        blocks.append(ToolCallBlock(tool_call_id=call["id"], tool_name=name, tool_kwargs=arguments))
    extra = {"tool_call_id": message["tool_call_id"]} if message["role"] == "tool" else {}
    return ChatMessage(role=message["role"], blocks=blocks, additional_kwargs=extra)


def image(given: dict[str, Any]) -> ImageBlock:
    """Return an image as a block."""
    kind, comma, data = given["url"].partition(";base64,")
    if not comma:
        return ImageBlock(url=given["url"])
    return ImageBlock(image=data.encode(), image_mimetype=kind.removeprefix("data:"))


def openai_form(given: Iterable[ChatResponse]) -> dict[str, Any]:
    """Convert the last cumulative response of a stream to the bridge's format. Usage, model and stop reason may come
    from earlier responses.
    """
    found: dict[str, Any] = {}
    for each in given:
        raw = each.raw if isinstance(each.raw, dict) else each.raw.model_dump() if each.raw else {}
        choice = next(iter(raw.get("choices") or ()), {})
        reason = (
            choice.get("finish_reason") or raw.get("stop_reason") or each.message.additional_kwargs.get("stop_reason")
        )
        used = raw.get("usage") or each.message.additional_kwargs.get("usage") or {}
        used = used if isinstance(used, dict) else used.model_dump()
        read, written = used.get("prompt_tokens", used.get("input_tokens")), used.get("completion_tokens")
        new = {"reason": reason, "model": raw.get("model"), "read": read}
        new["written"] = used.get("output_tokens") if written is None else written
        found |= {name: value for name, value in new.items() if value is not None}
        message = each.message
    calls = [
        {"id": each.tool_call_id, "name": each.tool_name, "args": each.tool_kwargs}
        for each in message.blocks
        if isinstance(each, ToolCallBlock)
    ]
    return bridge.completion(
        "".join(each.text for each in message.blocks if isinstance(each, TextBlock)), calls, **found
    )


def _never_run() -> None: ...


def _openai(endpoint: Endpoint, model: str) -> Any:
    from llama_index.llms.openai import OpenAI

    return OpenAI(model=model, api_base=endpoint.base_url, api_key=endpoint.api_key, max_retries=0, temperature=1)


def _anthropic(endpoint: Endpoint, model: str) -> Any:
    from llama_index.llms.anthropic import Anthropic

    return Anthropic(model=model, base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=0, temperature=1)


_NAMES = ("system-prompt", "tools", "parallel-tool-calls", "history", "truncation", "vision", "streaming")
_CAPABILITIES = frozenset(map(Capability, _NAMES))
_OPENAI_ONLY = frozenset(
    map(Capability, ("tool-choice", "forced-tool-choice", "named-tool-choice", "json-mode", "json-schema"))
)
OPENAI = Adapter(
    "llama-index-openai", "openai-chat", _CAPABILITIES | _OPENAI_ONLY, partial(LlamaIndex, _openai, "openai")
)
ANTHROPIC = Adapter("llama-index-anthropic", "anthropic", _CAPABILITIES, partial(LlamaIndex, _anthropic, "anthropic"))
