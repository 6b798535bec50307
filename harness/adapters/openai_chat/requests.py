"""Canonical request → body of `POST /chat/completions`."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from harness.adapters._common import compact, merge_fields, own, sendable, tool_name
from harness.adapters._openai.wire import (
    TOOL_NAME,
    OpenAIIds,
    base64_text,
    collapse_text,
    effort,
    filename,
    is_of_mistral,
    is_reasoning,
    legal_name,
    sampling,
    schema_format,
    tool_choice,
    unsupported_part,
    url,
    user_says_json,
)
from harness.adapters.openai_chat import API, MAX_ID_CHARACTERS
from harness.model.errors import Unsupported
from harness.model.messages import (
    JSON_INSTRUCTION,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    Opaque,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.model.messages import JSON, ChatRequest, Part, ResponseFormat, Tool


def encode(request: ChatRequest, model: str, max_tokens_field: str | None = None) -> dict[str, JSON]:
    """Return the body, without the fields of `request.provider_metadata`.

    `max_tokens_field` overrides the name of the field for `max_tokens`.

    Raises:
        Unsupported: the API cannot express the request.
    """
    body: dict[str, JSON] = {"model": model, "messages": [*_preamble(request, model), *wire_messages(request.messages)]}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    field = max_tokens_field or ("max_tokens" if is_of_mistral(model) else "max_completion_tokens")
    bound: dict[str, JSON] = {} if request.max_tokens is None else {field: request.max_tokens}
    settings = sampling(request, model, API, stop=list(request.stop) or None) | bound | _reasoning(request, model)
    return body | tool_choice(request, API, _named_choice) | _response_format(request.response_format) | settings


def _preamble(request: ChatRequest, model: str) -> list[JSON]:
    """Return the system prompt, and the instruction with the word "json" if JSON mode requires it
    (openai-chat-word-json)."""
    role = "developer" if is_reasoning(model) else "system"
    preamble: list[JSON] = [{"role": role, "content": request.system}] if request.system else []
    says_json = "json" in (request.system or "").lower() or user_says_json(request.messages)
    if isinstance(request.response_format, JsonMode) and not says_json:
        preamble.append({"role": role, "content": JSON_INSTRUCTION})
    return preamble


def _tool(tool: Tool) -> dict[str, JSON]:
    function: dict[str, JSON] = {
        "name": tool_name(tool.name, TOOL_NAME, API),
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": merge_fields(function, own(tool.provider_metadata, API))}


def _named_choice(name: str) -> JSON:
    return {"type": "function", "function": {"name": name}}


def _response_format(response_format: ResponseFormat | None) -> dict[str, JSON]:
    match response_format:
        case None:
            return {}
        case JsonMode():
            return {"response_format": {"type": "json_object"}}
        case JsonSchema():
            return {"response_format": {"type": "json_schema", "json_schema": schema_format(response_format)}}


def _reasoning(request: ChatRequest, model: str) -> dict[str, JSON]:
    tools = request.tools or own(request.provider_metadata, API).get("tools")
    exclusive = bool(tools) and _refuses_tools_with_reasoning(model)
    if request.thinking is None:
        return {"reasoning_effort": "none"} if exclusive else {}
    if exclusive:
        raise Unsupported(API, "thinking", f"{model} refuses it together with tools")
    return {"reasoning_effort": effort(request.thinking, API)}


def _refuses_tools_with_reasoning(model: str) -> bool:
    """Return whether function tools require `reasoning_effort: "none"` (openai-chat-tools-want-no-reasoning)."""
    return re.match(r"gpt-(5\.([4-9]|\d\d)|6)", model) is not None


_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

_FILE_CAPTION = "A file of the type {media_type}:"
_MEDIA_NOTE = "The media of this result are in the user message below."
_MEDIA_CAPTION = "Media of the result of {name} ({call_id}):"


def wire_messages(messages: Sequence[Message]) -> list[JSON]:
    """Convert the conversation to messages of the API.

    Results are placed first in the user's turn (openai-chat-calls-answered).
    """
    messages = sendable(messages, API)
    ids = OpenAIIds(messages, MAX_ID_CHARACTERS)
    answered = {part.call_id for message in messages for part in message.tool_results}
    opaque = (
        part.raw for message in messages for part in message.parts if isinstance(part, Opaque) and part.api == API
    )
    answered |= {str(raw.get("tool_call_id")) for raw in opaque if isinstance(raw, dict)}  # results of custom tools
    result: list[JSON] = []
    for role, turn in groupby(messages, key=lambda message: message.role):
        if role is Role.USER:
            result.extend(_user_turn(tuple(turn), ids))
        else:
            result.extend(wire for message in turn if (wire := _assistant(message, ids, answered)))
    return result


def _user_turn(messages: Sequence[Message], ids: OpenAIIds) -> Iterator[dict[str, JSON]]:
    moved: list[JSON] = []
    for result in (result for message in messages for result in message.tool_results):
        call_id = ids.of_result(result)
        content, media = _result(result)
        wire: dict[str, JSON] = {"role": "tool", "tool_call_id": call_id, "content": content}
        yield merge_fields(wire, own(result.provider_metadata, API))
        if media:
            moved.append({"type": "text", "text": _MEDIA_CAPTION.format(name=result.name, call_id=call_id)})
            moved.extend(media)
    if moved:
        yield {"role": "user", "content": moved}
    for message in messages:
        yield from _user_messages(part for part in message.parts if not isinstance(part, ToolResult))


def _user_messages(parts: Iterable[Part]) -> Iterator[dict[str, JSON]]:
    """Yield user messages, and each `Opaque` with a role as a separate message."""
    waiting: list[Part] = []
    for part in parts:
        match part:
            case Opaque(api=api, raw={"role": str(role), **fields}):
                yield from _user_message(waiting)
                waiting = []
                if api == API:
                    yield {"role": role, **fields}
            case _:
                waiting.append(part)
    yield from _user_message(waiting)


def _user_message(parts: Iterable[Part]) -> Iterator[dict[str, JSON]]:
    content = _parts(parts)
    if content:
        yield {"role": "user", "content": collapse_text(content, "text")}


def _result(result: ToolResult) -> tuple[JSON, list[JSON]]:
    """Return the text content of a tool message, and the media to send separately (openai-chat-result-text-only)."""
    if not isinstance(result.content, tuple):
        value: JSON = {"error": result.content} if result.is_error else result.content
        return value if isinstance(value, str) else compact(value), []
    media = _parts(part for part in result.content if isinstance(part, Image | File))
    text = _parts(part for part in result.content if not isinstance(part, Image | File))
    if media:
        text.append({"type": "text", "text": _MEDIA_NOTE})
    if result.is_error:
        texts = [part.text for part in result.content if isinstance(part, Text)]
        return compact({"error": "".join(texts)}), media
    return collapse_text(text, "text") if text else "", media


def _assistant(message: Message, ids: OpenAIIds, answered: set[str]) -> dict[str, JSON] | None:
    assistant = _Assistant(ids, answered)
    for part in message.parts:
        assistant.add(part)
    return assistant.wire()


class _Assistant:
    def __init__(self, ids: OpenAIIds, answered: set[str]) -> None:
        self._ids = ids
        self._answered = answered
        self._content: list[JSON] = []
        self._calls: list[JSON] = []
        self._fields: dict[str, JSON] = {}

    def add(self, part: Part) -> None:
        match part:
            case Text() | Refusal():
                if part.text:
                    self._content.append(_text_part(part))
            case ToolCall():
                self._calls.append(_call(part, self._ids))
            case Thinking():
                self._fields |= own(part.provider_metadata, API)
            case Opaque():
                if part.api == API and isinstance(part.raw, dict):
                    self._put_back(part.raw)
            case _:
                raise unsupported_part(API, part, "an assistant message holds text, refusals and calls only")

    def _put_back(self, raw: dict[str, JSON]) -> None:
        """Add an opaque part: a call, a content part, or message fields.

        A call that could not be parsed is sent back only if it has a result, because the API rejects calls without one
        (openai-chat-calls-answered).
        """
        if "function" in raw or "custom" in raw:
            call_id = raw.get("id")
            if isinstance(call_id, str) and call_id in self._answered:
                self._ids.mark_issued(call_id)
                self._calls.append(raw)
        elif "type" in raw:
            self._content.append(raw)
        else:
            self._fields |= raw

    def wire(self) -> dict[str, JSON] | None:
        """Return the message, or `None` if it is empty, because the API rejects empty messages
        (openai-chat-call-form)."""
        if not (self._content or self._calls or self._fields):
            return None
        content = collapse_text(self._content, "text") if self._content else None if self._calls else ""
        wire: dict[str, JSON] = {"role": "assistant", "content": content}
        if self._calls:
            wire["tool_calls"] = self._calls
        return merge_fields(wire, self._fields)


def _text_part(part: Text | Refusal) -> dict[str, JSON]:
    kind = "text" if isinstance(part, Text) else "refusal"
    return merge_fields({"type": kind, kind: part.text}, own(part.provider_metadata, API))


def _call(call: ToolCall, ids: OpenAIIds) -> dict[str, JSON]:
    function: dict[str, JSON] = {"name": legal_name(call.name), "arguments": compact(call.arguments)}
    fields = own(call.provider_metadata, API)
    call_id = ids.mark_issued(call.id) if fields.get("id") == call.id else ids.of_call(call.id, call.name)
    return merge_fields({"id": call_id, "type": "function", "function": function}, fields)


def _parts(parts: Iterable[Part]) -> list[JSON]:
    result: list[JSON] = []
    for part in parts:
        match part:
            case Text():
                result.append(_text_part(part))
            case Image():
                image: dict[str, JSON] = {"type": "image_url", "image_url": {"url": url(part, API)}}
                result.append(merge_fields(image, own(part.provider_metadata, API)))
            case File():
                result.extend(_file(part, own(part.provider_metadata, API)))
            case Opaque(api=api, raw=raw):
                if api == API:
                    result.append(raw)
            case _:
                raise unsupported_part(API, part, "it belongs to the assistant")
    return result


def _has_file(fields: Mapping[str, JSON]) -> bool:
    """Return whether the fields include the file's data or its id at the provider."""
    held = fields.get("file")
    return isinstance(held, dict) and bool({"file_id", "file_data"} & held.keys())


def _file(part: File, fields: dict[str, JSON]) -> list[JSON]:
    """Return the content parts of a file.

    A text file is sent as a caption and text, because the API only accepts PDF files (openai-chat-file-inline-pdf).
    """
    if _has_file(fields):
        return [merge_fields({"type": "file"}, fields)]
    if part.data is None:
        raise unsupported_part(API, part, "the API takes files by their data only")
    if part.media_type in _AUDIO:
        audio: dict[str, JSON] = {"data": base64_text(part.data), "format": _AUDIO[part.media_type]}
        return [merge_fields({"type": "input_audio", "input_audio": audio}, fields)]
    if part.media_type.startswith("text/"):
        try:
            text = part.data.decode()
        except UnicodeDecodeError:
            raise unsupported_part(API, part, "the API takes PDF files and text in UTF-8") from None
        caption: dict[str, JSON] = {"type": "text", "text": _FILE_CAPTION.format(media_type=part.media_type)}
        return [caption, merge_fields({"type": "text", "text": text}, {k: v for k, v in fields.items() if k != "file"})]
    file: dict[str, JSON] = {"filename": filename(part.media_type), "file_data": url(part, API)}
    return [merge_fields({"type": "file", "file": file}, fields)]
