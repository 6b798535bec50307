"""Pydantic AI, for OpenAI (Chat and Responses) and Anthropic: its models with its own messages, without an agent."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportCallIssue=false
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pydantic_ai import messages as own
from pydantic_ai.direct import model_request_stream_sync, model_request_sync
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.tools import ToolDefinition

from harness import (
    Adapter,
    Capability,
    ChatRequest,
    ChatResponse,
    Endpoint,
    File,
    Image,
    JsonMode,
    Message,
    NamedTool,
    StreamEvent,
    Text,
    ToolResult,
    Unsupported,
    bridge,
)


class PydanticAI:
    """A client that uses one of Pydantic AI's models."""

    def __init__(self, create: Callable[[Endpoint, str], Any], provider: str, endpoint: Endpoint, model: str) -> None:
        self._model, self._memory = bridge.call(create, endpoint, model), bridge.Memory()
        self._longest_id, self._parsed = 64 if provider == "openai" else None, provider == "anthropic"

    def chat(self, request: ChatRequest) -> ChatResponse:
        with bridge.failures():
            answer = bridge.call(model_request_sync, self._model, **self._arguments(request))
        return bridge.response(openai_form(answer), request, self._memory, own=answer, parsed=self._parsed)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        arguments = self._arguments(request)
        bridge.log_call(join_stream, self._model, **arguments)
        with bridge.failures(), model_request_stream_sync(self._model, **arguments) as stream:
            whole = lambda _: stream.response  # noqa: E731 - what the library joined
            yield from bridge.events(stream, request, self._memory, whole=whole, read=openai_form, parsed=self._parsed)

    def close(self) -> None: ...

    def _arguments(self, request: ChatRequest) -> dict[str, Any]:
        schema = request.response_format
        if isinstance(schema, JsonMode):
            raise Unsupported("pydantic-ai", "json-mode", "its models take a schema")
        form = OutputObjectDefinition(schema.schema, schema.name) if schema else None
        functions = [{**each["function"]} for each in bridge.tools(request)]
        tools = [ToolDefinition(parameters_json_schema=each.pop("parameters"), **each) for each in functions]
        mode = "native" if form else "text"
        wanted = ModelRequestParameters(function_tools=tools, output_mode=mode, output_object=form)
        settings = {**bridge.settings(request), "tool_choice": tool_choice(request)}
        settings["stop_sequences"] = settings.pop("stop", None)
        given = {name: value for name, value in settings.items() if value is not None}
        return {"messages": self._messages(request), "model_settings": given, "model_request_parameters": wanted}

    def _messages(self, request: ChatRequest) -> list[Any]:
        names = {call.id: call.name for message in request.messages for call in message.tool_calls}
        found: list[Any] = []
        for place, message in enumerate(request.messages):
            if message.role == "user":
                found.append(own.ModelRequest(user_parts(message, names, self._longest_id)))
            else:
                found.append(self._memory.own(place, message) or assistant(message, self._longest_id))
        if request.system:
            found[0] = own.ModelRequest([own.SystemPromptPart(request.system), *found[0].parts])
        return found


def join_stream(model: Any, **arguments: Any) -> Any:
    """Return the response that the library builds from a stream."""
    with model_request_stream_sync(model, **arguments) as stream:
        return [*stream] and stream.response


def user_parts(message: Message, names: dict[str, str], longest: int | None) -> list[Any]:
    """Return the parts of a user message, results first."""
    results = [
        own.ToolReturnPart(
            names[each.call_id],
            content(each.content),
            bridge.short_id(each.call_id, longest),
            outcome="failed" if each.is_error else "success",
        )
        for each in message.tool_results
    ]
    others = [content((part,))[0] for part in message.parts if not isinstance(part, ToolResult)]
    prompt = [own.UserPromptPart(others[0] if len(others) == 1 else others)] if others else []
    return [*results, *prompt]


def content(given: Any) -> Any:
    """Return content with media as Pydantic AI's own objects."""
    if not isinstance(given, tuple):
        return given
    if any(not isinstance(part, Text | Image | File) for part in given):
        raise Unsupported("pydantic-ai", "provider-tools", "its messages have no parts of a provider")
    return [part.text if isinstance(part, Text) else media(part) for part in given]


def media(part: Any) -> Any:
    """Return an image or a file as Pydantic AI's own object."""
    if part.data is None:
        return (own.ImageUrl if isinstance(part, Image) else own.DocumentUrl)(url=part.uri)
    return own.BinaryContent(data=part.data, media_type=part.media_type)


def assistant(message: Message, longest: int | None) -> Any:
    """Return a `ModelResponse` for an assistant message that another client received."""
    ids = {call.id: bridge.short_id(call.id, longest) for call in message.tool_calls}
    calls = [own.ToolCallPart(call.name, dict(call.arguments), ids[call.id]) for call in message.tool_calls]
    return own.ModelResponse([*([own.TextPart(message.text)] if message.text else []), *calls])


def tool_choice(request: ChatRequest) -> Any:
    """Return the request's tool choice in the library's format, or `None`."""
    choice = request.tool_choice if request.tools else None
    return [choice.name] if isinstance(choice, NamedTool) else choice


def openai_form(given: Any) -> dict[str, Any]:
    """Convert a response or a stream event to the format that the bridge reads."""
    if isinstance(given, own.ModelResponse):
        calls = [
            {"id": each.tool_call_id, "name": each.tool_name, "args": each.args or {}} for each in given.tool_calls
        ]
        details, used = given.provider_details or {}, given.usage
        counts = {"read": used.input_tokens, "written": used.output_tokens, "cached": used.cache_read_tokens}
        about = {"reason": details.get("finish_reason") or given.finish_reason, "refusal": details.get("refusal")}
        counts["reasoned"] = used.output_reasoning_tokens or used.details.get("reasoning_tokens")
        return bridge.completion(given.text or "", calls, **about, model=given.model_name, **counts)
    piece: Any = getattr(given, "part" if isinstance(given, own.PartStartEvent) else "delta", None)
    if isinstance(piece, own.ToolCallPart | own.ToolCallPartDelta):
        name = getattr(piece, "tool_name", None) or getattr(piece, "tool_name_delta", None)
        text = getattr(piece, "args", None) or getattr(piece, "args_delta", None)
        return bridge.completion("", [{"index": given.index, "id": piece.tool_call_id, "name": name, "args": text}])
    text = getattr(piece, "content", None) or getattr(piece, "content_delta", None)
    return bridge.completion(text or "" if isinstance(piece, own.TextPart | own.TextPartDelta) else "")


def _openai(responses: bool, endpoint: Endpoint, model: str) -> Any:
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(endpoint.base_url, endpoint.api_key)
    provider.client.max_retries = 0
    return (OpenAIResponsesModel if responses else OpenAIChatModel)(model, provider=provider)


def _anthropic(endpoint: Endpoint, model: str) -> Any:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(api_key=endpoint.api_key, base_url=endpoint.base_url)
    provider.client.max_retries = 0
    return AnthropicModel(model, provider=provider)


_NAMES = (
    *("system-prompt", "tools", "parallel-tool-calls", "tool-choice", "forced-tool-choice", "named-tool-choice"),
    *("json-schema", "vision", "history", "truncation", "streaming"),
)
_CAPABILITIES = frozenset(map(Capability, _NAMES))
_FIELDS = {Capability.PROVIDER_FIELDS}
_CHAT, _RESPONSES = partial(PydanticAI, partial(_openai, False)), partial(PydanticAI, partial(_openai, True))
OPENAI = Adapter("pydantic-ai-openai", "openai-chat", _CAPABILITIES | _FIELDS, partial(_CHAT, "openai"))
RESPONSES = Adapter("pydantic-ai-responses", "openai-responses", _CAPABILITIES, partial(_RESPONSES, "openai"))
ANTHROPIC = Adapter("pydantic-ai-anthropic", "anthropic", _CAPABILITIES, partial(PydanticAI, _anthropic, "anthropic"))
