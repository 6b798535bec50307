"""Conversion of Chat Completions requests to and from canonical values, and alternative spellings used by clients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial

from typing_extensions import override

from harness.apis.api import ClientForm
from harness.apis.conversion import AnsweredCall, CanonicalReader, RequestBuilder, SystemText, WireBody, without
from harness.apis.jsonvalue import as_list, as_object, resolve
from harness.apis.openai_common import one_call, wrap_texts
from harness.apis.view import MediaView, ResultView, TextView
from harness.model.messages import JSON, ChatRequest, JsonSchema, Message, NamedTool, Opaque, Role, Tool, ToolResult

REMINDER = "Answer in one sentence."


def _system_turn(body: dict[str, JSON]) -> None:
    """Insert a system message after the first user message (openai-chat-system-anywhere)."""
    messages = body.get("messages")
    roles = [each.get("role") for each in as_list(messages) if isinstance(each, dict)]
    if isinstance(messages, list) and "user" in roles:
        messages.insert(roles.index("user") + 1, {"role": "system", "content": REMINDER})


def _system_blocks(body: dict[str, JSON]) -> None:
    """Insert a second system message whose content is a list of parts."""
    messages = body.get("messages")
    if isinstance(messages, list):
        first = messages[0] if messages else None
        has_one = isinstance(first, dict) and first.get("role") in ("system", "developer")
        messages.insert(1 if has_one else 0, {"role": "system", "content": [{"type": "text", "text": REMINDER}]})


CLIENT_FORMS: Mapping[str, ClientForm] = {"system-turn": _system_turn, "system-blocks": _system_blocks}


_CANONICAL_FIELDS = {"image_url": ("url",), "input_audio": ("data", "format"), "file": ("file_data",)}
"""Maps kinds of content parts to the fields inside them that have a canonical equivalent."""


class OpenAIChatReader(CanonicalReader):
    """Reads Chat Completions requests.

    System messages after the first one stay in the conversation. The API has no error flag, so a failed tool is only
    recognisable by its text.
    """

    api = "openai-chat"

    @override
    def system(self) -> SystemText:
        messages = self.entries(text for text in self.view.system if not text.before_turn)
        match messages:
            case ({"content": str(text)}, *others):
                return SystemText(text or None, opening=tuple(others))
            case _:
                return SystemText(opening=messages)

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        raw = self.raw(view)
        message = as_object(raw)
        content = message.get("content")
        # results contain only text (openai-chat-result-text-only), so a media part is a client's extension and is kept
        parts = tuple(
            Opaque(self.api, self.raw(part)) if isinstance(part, MediaView) else self.part(part)
            for part in view.payload
        )
        fields = self._metadata(without(message, "role", "tool_call_id", "content"))
        return ToolResult(call_id, name, content if isinstance(content, str) else parts, provider_metadata=fields)

    @override
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        function = raw.get("function")
        return without(function if isinstance(function, dict) else raw, "name", "description", "parameters")

    @override
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        if isinstance(view, TextView):
            return without(raw, "type", "text")
        kind = raw.get("type")
        held = raw.get(kind) if isinstance(kind, str) and kind in _CANONICAL_FIELDS else None
        if not isinstance(kind, str) or not isinstance(held, dict):
            return None
        is_pdf = view.media_type == "application/pdf"  # other types are not portable (openai-chat-file-inline-pdf)
        rest = held if kind == "file" and not is_pdf else without(held, *_CANONICAL_FIELDS[kind])
        return {**without(raw, "type", kind), **({kind: rest} if rest else {})}


def write(request: ChatRequest, bound: str) -> WireBody:
    """Write the body of a request. The system prompt is a `system` message, which every server accepts."""
    messages: list[JSON] = [{"role": "system", "content": request.system}] if request.system else []
    messages += [entry for message in request.messages for entry in _entries(message)]
    body: WireBody = {"model": request.model, "messages": messages}
    if request.max_tokens is not None:
        body[bound] = request.max_tokens
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if isinstance(request.tool_choice, NamedTool):
        body["tool_choice"] = {"type": "function", "function": {"name": request.tool_choice.name}}
    elif request.tool_choice is not None:
        body["tool_choice"] = request.tool_choice
    match request.response_format:
        case JsonSchema(schema=schema, name=name):
            named: WireBody = {"name": name, "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        case None:
            pass
        case _:
            body["response_format"] = {"type": "json_object"}
    if request.stop:
        body["stop"] = [*request.stop]
    return body


def _tool(tool: Tool) -> WireBody:
    marks = tool.provider_metadata.get("openai-chat")
    function: WireBody = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": {**function, **as_object(marks)}}


def _entries(message: Message) -> list[JSON]:
    if message.role is Role.USER:
        entries: list[JSON] = [_result(each.call_id, each.text) for each in message.tool_results]
        if message.text:
            entries.append({"role": "user", "content": message.text})
        return entries
    calls: list[JSON] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in message.tool_calls
    ]
    assistant: WireBody = {"role": "assistant", "content": message.text or None}
    if calls:
        assistant["tool_calls"] = calls
    return [assistant]


def _result(call_id: str | None, text: str) -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def continuation(answer: JSON, results: Sequence[AnsweredCall]) -> Sequence[JSON]:
    """Return the response's message unchanged, then one message for each result."""
    entries = (_result(call.id, json.dumps({**value}, ensure_ascii=False)) for call, value in results)
    return (resolve(answer, "/choices/0/message"), *entries)


def developer(body: WireBody) -> WireBody:
    """Write the system prompt as a developer message (openai-chat-system-anywhere)."""
    messages = body["messages"]
    rewritten: list[JSON] = []
    for message in as_list(messages):
        if isinstance(message, dict) and message["role"] == "system":
            rewritten.append({**message, "role": "developer"})
        else:
            rewritten.append(message)
    return {**body, "messages": rewritten}


REQUEST_BUILDER = RequestBuilder(
    path="/chat/completions",
    stream_path="/chat/completions",
    bounds=("max_tokens", "max_completion_tokens"),
    write=write,
    continuation=continuation,
    streaming={"stream": True, "stream_options": {"include_usage": True}},
    one_call=one_call,
    parted=partial(wrap_texts, conversation="messages", kind="text"),
    developer=developer,
)
