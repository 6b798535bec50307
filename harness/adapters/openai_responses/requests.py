"""Canonical request → body of `POST /responses`."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from harness.adapters._common import compact, merge_fields, own, sendable, tool_name
from harness.adapters._openai.wire import (
    TOOL_NAME,
    OpenAIIds,
    collapse_text,
    effort,
    filename,
    is_reasoning,
    legal_name,
    sampling,
    schema_format,
    tool_choice,
    unsupported_part,
    url,
    user_says_json,
)
from harness.adapters.openai_responses import API, MAX_ID_CHARACTERS
from harness.model.errors import Unsupported
from harness.model.messages import (
    JSON_INSTRUCTION,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Opaque,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.model.messages import JSON, ChatRequest, Message, Part, ResponseFormat, Tool


def encode(request: ChatRequest, model: str) -> dict[str, JSON]:
    """Return the body, without the fields of `request.provider_metadata`.

    Raises:
        Unsupported: the API cannot express the request.
    """
    leads = appends_instructions(model)
    preamble = _preamble(request, leads=leads)
    body: dict[str, JSON] = {"model": model, "input": [*preamble, *wire_items(request.messages)]}
    body["store"] = False
    if is_reasoning(model):
        body["include"] = ["reasoning.encrypted_content"]
    if request.system and not leads:
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    return body | tool_choice(request, API, _named_choice) | _text(request.response_format) | _settings(request, model)


def appends_instructions(model: str) -> bool:
    """Return whether the API adds `instructions` after the input for this model, so that they are not cached
    (openai-responses-gpt-6-2-instructions-last).
    """
    return re.match(r"gpt-6\.[2-9]", model) is not None


def _preamble(request: ChatRequest, *, leads: bool) -> list[JSON]:
    """Return the developer messages before the conversation: the system prompt if `leads` is set, and an instruction
    with the word "json".

    The instruction is added only in JSON mode, if neither this prompt nor a user message contains the word. The word in
    `instructions` is not sufficient (openai-responses-word-json).
    """
    texts = [request.system] if leads and request.system else []
    says_json = user_says_json(request.messages) or any("json" in text.lower() for text in texts)
    if isinstance(request.response_format, JsonMode) and not says_json:
        texts.append(JSON_INSTRUCTION)
    return [{"role": "developer", "content": text} for text in texts]


def _tool(tool: Tool) -> dict[str, JSON]:
    wire: dict[str, JSON] = {
        "type": "function",
        "name": tool_name(tool.name, TOOL_NAME, API),
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
        "strict": False,
    }
    return merge_fields(wire, own(tool.provider_metadata, API))


def _named_choice(name: str) -> JSON:
    return {"type": "function", "name": name}


def _text(response_format: ResponseFormat | None) -> dict[str, JSON]:
    match response_format:
        case None:
            return {}
        case JsonMode():
            return {"text": {"format": {"type": "json_object"}}}
        case JsonSchema():
            return {"text": {"format": {"type": "json_schema", **schema_format(response_format)}}}


def _settings(request: ChatRequest, model: str) -> dict[str, JSON]:
    if request.stop:
        raise Unsupported(API, "stop", "the API has no field for it")
    settings = sampling(request, model, API)
    if request.max_tokens is not None:
        settings["max_output_tokens"] = request.max_tokens
    if request.thinking is not None:
        settings["reasoning"] = {"effort": effort(request.thinking, API), "summary": "auto"}
    return settings


def wire_items(messages: Sequence[Message]) -> list[JSON]:
    """Convert the conversation to items of the API. Results are placed first in the user's turn."""
    messages = sendable(messages, API)
    ids = OpenAIIds(messages, MAX_ID_CHARACTERS)
    answered = {part.call_id for message in messages for part in message.tool_results} | _answered_raw(messages)
    items: list[JSON] = []
    for role, turn in groupby(messages, key=lambda message: message.role):
        if role is Role.USER:
            items += _user_turn(tuple(turn), ids)
        else:
            parts = (part for message in turn for part in message.parts)
            sent = filter(None, (_assistant_item(part, ids, answered) for part in parts))
            items += _without_loose_reasoning(_join_messages(sent))
    return items


def _answered_raw(messages: Sequence[Message]) -> set[str]:
    """Return the ids of calls whose results are opaque parts of this API, such as the results of custom tools."""
    raws = [part.raw for message in messages for part in message.parts if isinstance(part, Opaque) and part.api == API]
    outputs = (raw for raw in raws if isinstance(raw, dict) and str(raw.get("type")).endswith("_call_output"))
    return {str(raw.get("call_id")) for raw in outputs}


def _user_turn(messages: Sequence[Message], ids: OpenAIIds) -> list[JSON]:
    outputs: list[JSON] = []
    user_messages: list[JSON] = []
    for message in messages:
        others: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolResult):
                outputs.append(_output(part, ids))
            elif isinstance(part, Opaque) and not _is_content(part.raw):
                outputs += [part.raw] if part.api == API else []
            else:
                others.append(part)
        content = _content(others)
        if content:
            user_messages.append({"role": "user", "content": collapse_text(content, "input_text")})
    return [*outputs, *user_messages]


def _output(result: ToolResult, ids: OpenAIIds) -> JSON:
    wire: dict[str, JSON] = {
        "type": "function_call_output",
        "call_id": ids.of_result(result),
        "output": _payload(result),
    }
    return merge_fields(wire, own(result.provider_metadata, API))


def _payload(result: ToolResult) -> JSON:
    if not isinstance(result.content, tuple):
        value: JSON = {"error": result.content} if result.is_error else result.content
        return value if isinstance(value, str) else compact(value)
    if not result.is_error:
        return _content(result.content) or ""
    text = "".join(part.text for part in result.content if isinstance(part, Text))
    media = _content(part for part in result.content if not isinstance(part, Text))
    return [{"type": "input_text", "text": compact({"error": text})}, *media]


def _assistant_item(part: Part, ids: OpenAIIds, answered: set[str]) -> dict[str, JSON] | None:
    """Return the item for an assistant's part; `None` for empty text and for parts of other APIs."""
    match part:
        case Text() | Refusal():
            return _message(part)
        case Thinking():
            return own(part.provider_metadata, API) or None
        case ToolCall():
            return _call(part, ids)
        case Opaque():
            return _put_back(part.raw, ids, answered) if part.api == API and isinstance(part.raw, dict) else None
        case _:
            raise unsupported_part(API, part, "the assistant's items hold text, refusals, calls and reasoning only")


def _message(part: Text | Refusal) -> dict[str, JSON] | None:
    fields = dict(own(part.provider_metadata, API))
    item = fields.pop("message", None)
    if not part.text and not isinstance(item, dict):
        return None
    if isinstance(part, Text) and not fields and not isinstance(item, dict):
        return {"role": "assistant", "content": part.text}
    content: dict[str, JSON] = (
        {"type": "output_text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "refusal", "refusal": part.text}
    )
    wire: dict[str, JSON] = {"type": "message", "role": "assistant", "content": [merge_fields(content, fields)]}
    return merge_fields(wire, item) if isinstance(item, dict) else wire


def _call(call: ToolCall, ids: OpenAIIds) -> dict[str, JSON]:
    fields = own(call.provider_metadata, API)
    call_id = ids.mark_issued(call.id) if fields.get("call_id") == call.id else ids.of_call(call.id, call.name)
    wire: dict[str, JSON] = {
        "type": "function_call",
        "call_id": call_id,
        "name": legal_name(call.name),
        "arguments": compact(call.arguments),
    }
    return merge_fields(wire, fields)


def _put_back(raw: dict[str, JSON], ids: OpenAIIds, answered: set[str]) -> dict[str, JSON] | None:
    """Return an item to send back unchanged; `None` for a call without an output, which the API rejects
    (openai-responses-result-has-call)."""
    if raw.get("type") in ("function_call", "custom_tool_call"):
        call_id = raw.get("call_id")
        if not isinstance(call_id, str) or call_id not in answered:
            return None
        ids.mark_issued(call_id)
    return raw


def _join_messages(items: Iterable[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Return the items, with adjacent parts of one message joined."""
    result: list[dict[str, JSON]] = []
    for item in items:
        before = result[-1] if result else {}
        match before, item:
            case {"type": "message", "id": str(one), "content": list(head)}, {
                "type": "message",
                "id": str(other),
                "content": list(tail),
            } if one == other:
                result[-1] = {**before, "content": [*head, *tail]}
            case _:
                result.append(item)
    return result


def _without_loose_reasoning(items: list[dict[str, JSON]]) -> list[dict[str, JSON]]:
    """Remove reasoning at the end of a turn, which the API rejects (openai-responses-reasoning-back)."""
    end = len(items)
    while end and items[end - 1].get("type") == "reasoning":
        end -= 1
    return items[:end]


def _is_content(raw: JSON) -> bool:
    """Return whether this is a part of a message's content rather than an item."""
    return isinstance(raw, dict) and str(raw.get("type", "")).startswith("input_")


def _content(parts: Iterable[Part]) -> list[JSON]:
    result: list[JSON] = []
    for part in parts:
        match part:
            case Text(text=text):
                result.append(merge_fields({"type": "input_text", "text": text}, own(part.provider_metadata, API)))
            case Image():
                fields = own(part.provider_metadata, API)
                place: dict[str, JSON] = {} if "file_id" in fields else {"image_url": url(part, API)}
                result.append(merge_fields({"type": "input_image", **place, "detail": "auto"}, fields))
            case File():
                fields = own(part.provider_metadata, API)
                result.append(merge_fields({"type": "input_file"} if "file_id" in fields else _file(part), fields))
            case Opaque(api=api, raw=raw):
                if api == API:
                    result.append(raw)
            case _:
                raise unsupported_part(API, part, "it belongs to the assistant")
    return result


def _file(part: File) -> dict[str, JSON]:
    if part.media_type.startswith(("audio/", "video/")):
        raise unsupported_part(API, part, f"the API takes no {part.media_type}")
    if part.data is None:
        return {"type": "input_file", "file_url": url(part, API)}
    return {"type": "input_file", "filename": filename(part.media_type), "file_data": url(part, API)}
