"""Canonical request → body of generateContent."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

from harness.adapters._common import merge_fields, own, sendable, tool_name
from harness.model.errors import Unsupported
from harness.model.messages import (
    JSON,
    SYNTHESISED_ID,
    ChatRequest,
    File,
    Image,
    JsonSchema,
    Message,
    NamedTool,
    Opaque,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from harness.model.messages import Part, ThinkingSettings, Tool

_BUDGETS = {"low": 1024, "medium": 8192, "high": 24576}
"""Effort → thinking budget in tokens."""

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def encode(request: ChatRequest, model: str) -> dict[str, JSON]:
    """Return the body. `model` is used if the request does not name a model.

    Raises:
        Unsupported: the API cannot express the request.
    """
    model = request.model or model
    result: dict[str, JSON] = {"contents": contents(request.messages, model)}
    if request.system:
        result["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        result["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in request.tools]}]
    if config := _generation_config(request, model):
        result["generationConfig"] = config
    return _with_tool_choice(request, merge_fields(result, own(request.provider_metadata, "gemini")))


_NAME = r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}"  # gemini-tool-name-form


def _declaration(tool: Tool) -> JSON:
    wire: dict[str, JSON] = {"name": tool_name(tool.name, _NAME, "gemini")}
    if tool.description:
        wire["description"] = tool.description
    if not _takes_nothing(tool.parameters):
        wire["parametersJsonSchema"] = tool.parameters
    return {**wire, **own(tool.provider_metadata, "gemini")}


def _takes_nothing(schema: dict[str, JSON]) -> bool:
    """Return whether the schema allows no arguments at all. `{"type": "object"}` allows any."""
    return not schema or (
        not schema.get("properties", True)
        and schema.keys() <= {"type", "properties", "required", "additionalProperties"}
    )


def _generation_config(request: ChatRequest, model: str) -> dict[str, JSON]:
    config: dict[str, JSON] = {}
    if request.max_tokens is not None:
        config["maxOutputTokens"] = request.max_tokens
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.top_p is not None:
        config["topP"] = request.top_p
    if request.stop:
        config["stopSequences"] = list(request.stop)
    if request.response_format is not None:
        if request.tools and is_before_3(model):
            raise Unsupported("gemini", "JSON together with tools", f"{model} refuses it (gemini-json-output)")
        config["responseMimeType"] = "application/json"
    if isinstance(request.response_format, JsonSchema):
        config["responseJsonSchema"] = request.response_format.schema
    if request.thinking is not None:
        config["thinkingConfig"] = _thinking(request.thinking, model)
    return config


def _thinking(settings: ThinkingSettings, model: str) -> JSON:
    """Return the thinking settings: a level or a budget, never both (gemini-level-or-budget)."""
    config: dict[str, JSON] = {"includeThoughts": True}
    if is_3_or_later(model):
        if settings.budget_tokens is not None:
            raise Unsupported("gemini", "a thinking budget", f"{model} takes levels; give an effort")
        if settings.effort is not None:
            config["thinkingLevel"] = settings.effort.upper()
    elif settings.budget_tokens is not None:
        config["thinkingBudget"] = settings.budget_tokens
    elif settings.effort is not None:
        config["thinkingBudget"] = _BUDGETS[settings.effort]
    return config


def _with_tool_choice(request: ChatRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    choice = request.tool_choice
    if choice is None:
        return result
    if "tools" not in result:
        if choice == "required" or isinstance(choice, NamedTool):
            raise Unsupported("gemini", "a forced tool choice", "the request has no tools")
        return result  # without tools there are no calls
    if isinstance(choice, NamedTool):
        config: dict[str, JSON] = {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    else:
        config = {"mode": _MODES[choice]}
    return merge_fields({"toolConfig": {"functionCallingConfig": config}}, result)


# --- the conversation ---


PLACEHOLDER_SIGNATURE = base64.b64encode(b"skip_thought_signature_validator").decode()
"""Signature that Gemini 3 accepts on calls made by other models (gemini-thought-signature), in base64 as in recordings.
"""


def contents(history: tuple[Message, ...], model: str) -> list[JSON]:
    """Return the conversation as the `contents` of a request.

    Empty texts are left out unless they have a signature (gemini-chunks). Results come first in their message. All
    results for the calls of one turn are in one content (gemini-responses-counted). Consecutive assistant messages are
    merged into one content, because calls must follow a user turn (gemini-turn-order).

    Raises:
        Unsupported: the model does not accept a part, or a user message is empty.
    """
    return _Encoder(model).contents(sendable(history, "gemini"))


class _Encoder:
    def __init__(self, model: str) -> None:
        self._model = model
        self._calls: dict[str, ToolCall] = {}
        self._places: dict[str, int] = {}
        self._answered: set[str] = set()

    def contents(self, history: tuple[Message, ...]) -> list[JSON]:
        self._answered = {result.call_id for message in history for result in message.tool_results}
        wire: list[JSON] = []
        for message in _join_messages(history):
            parts = [part for canonical in self._results_first(message) for part in self._parts(canonical)]
            if message.role is Role.ASSISTANT:
                self._places = {call.id: place for place, call in enumerate(message.tool_calls)}
                if is_3_or_later(self._model):
                    parts = _with_signature(parts)
            if parts:
                wire.append({"role": "user" if message.role is Role.USER else "model", "parts": [*parts]})
            elif message.role is Role.USER:
                raise Unsupported("gemini", "an empty user message", "a content needs parts (gemini-contents)")
        return wire

    def _results_first(self, message: Message) -> tuple[Part, ...]:
        """Return the parts, with the results first. If a result is sent without an id, all results are in the order of
        their calls.
        """
        results = message.tool_results
        if not all(self._id_on_wire(result.call_id) for result in results):
            results = tuple(sorted(results, key=lambda result: self._places.get(result.call_id, len(self._places))))
        return (*results, *(part for part in message.parts if not isinstance(part, ToolResult)))

    def _id_on_wire(self, call_id: str) -> dict[str, JSON]:
        """Return the id as a wire field, or `{}` if it is empty or was generated by the adapter."""
        call = self._calls.get(call_id)
        own_fields = call.provider_metadata.get("harness") if call else None
        is_synthesised = isinstance(own_fields, dict) and own_fields.get(SYNTHESISED_ID) is True
        return {"id": call_id} if call_id and not is_synthesised else {}

    def _parts(self, part: Part) -> list[dict[str, JSON]]:
        match part:
            case Text() | Refusal():
                fields = own(part.provider_metadata, "gemini")
                return [{"text": part.text, **fields}] if part.text or fields else []
            case Thinking():
                fields = own(part.provider_metadata, "gemini")
                return [{"text": part.text, "thought": True, **fields}] if fields else []
            case ToolCall():
                self._calls[part.id] = part
                call: JSON = {**self._id_on_wire(part.id), "name": part.name, "args": part.arguments}
                return [merge_fields({"functionCall": call}, own(part.provider_metadata, "gemini"))]
            case ToolResult():
                return [merge_fields({"functionResponse": self._response(part)}, own(part.provider_metadata, "gemini"))]
            case Opaque():
                return self._opaque(part)
            case Image() | File():
                return [_medium(part)]

    def _opaque(self, part: Opaque) -> list[dict[str, JSON]]:
        if part.api != "gemini" or not isinstance(part.raw, dict):
            return []
        call = part.raw.get("functionCall")
        # the API rejects calls without a response (gemini-responses-counted)
        is_unanswered = isinstance(call, dict) and call.get("id") not in self._answered
        return [] if is_unanswered else [part.raw]

    def _response(self, result: ToolResult) -> dict[str, JSON]:
        call = self._calls.get(result.call_id)
        wire = {**self._id_on_wire(result.call_id), "name": call.name if call else result.name}
        if not isinstance(result.content, tuple):
            return {**wire, "response": _payload(result.content, is_error=result.is_error)}
        texts: list[JSON] = [part.text for part in result.content if isinstance(part, Text)]
        media: list[JSON] = [raw for part in result.content if not isinstance(part, Text) for raw in self._parts(part)]
        if media and is_before_3(self._model):
            raise Unsupported(
                "gemini", "media in a tool result", f"{self._model} takes JSON only (gemini-function-response-form)"
            )
        value = texts[0] if len(texts) == 1 else texts
        response = _payload(value, is_error=result.is_error) if texts or result.is_error else {}
        return {**wire, "response": response, **({"parts": media} if media else {})}


def _payload(value: JSON, *, is_error: bool) -> JSON:
    if is_error:
        return {"error": value}
    return value if isinstance(value, dict) else {"output": value}


def _join_messages(history: tuple[Message, ...]) -> list[Message]:
    joined: list[Message] = []
    for message in history:
        last = joined[-1] if joined else None
        belongs = last is not None and last.role is message.role
        if (
            last is not None
            and belongs
            and (message.role is Role.ASSISTANT or (message.tool_results and last.tool_results))
        ):
            joined[-1] = Message(message.role, last.parts + message.parts)
        else:
            joined.append(message)
    return joined


def _with_signature(parts: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    first = next((part for part in parts if "functionCall" in part), None)
    if first is None or "thoughtSignature" in first:
        return parts
    return [{**part, "thoughtSignature": PLACEHOLDER_SIGNATURE} if part is first else part for part in parts]


def _medium(part: Image | File) -> dict[str, JSON]:
    fields = own(part.provider_metadata, "gemini")
    if part.data is not None:
        data = base64.b64encode(part.data).decode()
        return merge_fields({"inlineData": {"mimeType": part.media_type, "data": data}}, fields)
    if part.uri is not None:
        return merge_fields({"fileData": {"mimeType": part.media_type, "fileUri": part.uri}}, fields)
    if {"inlineData", "fileData"} & fields.keys():
        return fields
    raise Unsupported("gemini", type(part).__name__, "it has neither data nor a URI")


# --- generations of models ---


def is_before_3(model: str) -> bool:
    """Return whether the model is known to be older than Gemini 3."""
    return _generation(model) in (1, 2)


def is_3_or_later(model: str) -> bool:
    """Return whether the model is known to be Gemini 3 or newer."""
    return (_generation(model) or 0) >= 3


def _generation(model: str) -> int | None:
    """Return the major version in a model's name, if it has one."""
    found = re.match(r"(?:models/)?gemini-(\d+)", model)
    return int(found[1]) if found else None
