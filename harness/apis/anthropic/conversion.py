"""Conversion of Messages requests to and from canonical values, and alternative request forms that clients send."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from typing_extensions import override

from harness.apis.api import ClientForm
from harness.apis.conversion import AnsweredCall, CanonicalReader, RequestBuilder, SystemText, WireBody, without
from harness.apis.jsonvalue import as_list, as_object, resolve
from harness.apis.view import MediaView, ResultView, TextView
from harness.model.messages import JSON, ChatRequest, JsonSchema, Message, NamedTool, Role, Tool, ToolResult

REMINDER = "Answer in one sentence."


def _system_turn(body: dict[str, JSON]) -> None:
    """Insert a system turn after the first message. Coding agents send reminders this way (litellm issue 36917)."""
    messages = body.get("messages")
    if isinstance(messages, list):
        messages.insert(1, {"role": "system", "content": REMINDER})


def _system_blocks(body: dict[str, JSON]) -> None:
    """Split the system prompt into blocks and mark the first one for caching."""
    system = body.get("system")
    text = system if isinstance(system, str) else _text(system)
    body["system"] = [
        {"type": "text", "text": text or "You help.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": REMINDER},
    ]


def _text(blocks: JSON) -> str:
    texts = (block.get("text") for block in as_list(blocks) if isinstance(block, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _text_before_result(body: dict[str, JSON]) -> None:
    """Insert a user text before the tool result in the same message."""
    for message in as_list(body.get("messages")):
        content = as_object(message).get("content")
        if isinstance(content, list) and any(_is_result(block) for block in content):
            content.insert(0, {"type": "text", "text": REMINDER})


def _is_result(block: JSON) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


CLIENT_FORMS: Mapping[str, ClientForm] = {
    "system-turn": _system_turn,
    "system-blocks": _system_blocks,
    "text-before-result": _text_before_result,
}


class AnthropicReader(CanonicalReader):
    """Reader of Messages requests. Hosted tools, and system blocks after the first one, are kept in the request's
    metadata, under `tools` and `system`.
    """

    api = "anthropic"

    @override
    def system(self) -> SystemText:
        first, *others = [text for text in self.view.system if text.place == "system"] or [None]
        if first is None:
            return SystemText()
        blocks = [self.raw(text) for text in others if text is not None]
        return SystemText(first.text, {"system": blocks} if blocks else {})

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        failed = as_object(self.raw(view)).get("is_error") is True
        return self._result(view, call_id, name, "content", ("type", "tool_use_id", "is_error"), is_error=failed)

    @override
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        return without(raw, "name", "description", "input_schema", "type")

    @override
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        if isinstance(view, TextView):
            return without(raw, "type", "text")
        return without(raw, "type", "source")


_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def write(request: ChatRequest, bound: str) -> WireBody:
    """Return the body of a request. `bound` is the name of the field for the token limit."""
    messages: list[JSON] = [_entry(message) for message in request.messages]
    body: WireBody = {"model": request.model, "messages": messages, bound: request.max_tokens}
    if request.system:
        body["system"] = request.system
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if isinstance(request.tool_choice, NamedTool):
        body["tool_choice"] = {"type": "tool", "name": request.tool_choice.name}
    elif request.tool_choice is not None:
        body["tool_choice"] = {"type": _CHOICES[request.tool_choice]}
    if isinstance(request.response_format, JsonSchema):
        body["output_config"] = {"format": {"type": "json_schema", "schema": request.response_format.schema}}
    if request.stop:
        body["stop_sequences"] = [*request.stop]
    return body


def _tool(tool: Tool) -> WireBody:
    marks = tool.provider_metadata.get("anthropic")
    named: WireBody = {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
    return {**named, **as_object(marks)}


def _entry(message: Message) -> JSON:
    texts: list[JSON] = [{"type": "text", "text": message.text}] if message.text else []
    if message.role is Role.USER:
        results: list[JSON] = [_result(each.call_id, each.text, failed=each.is_error) for each in message.tool_results]
        return {"role": "user", "content": [*results, *texts]}
    calls: list[JSON] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.tool_calls
    ]
    return {"role": "assistant", "content": [*texts, *calls]}


def _result(call_id: str | None, text: str, *, failed: bool = False) -> JSON:
    result: WireBody = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return result | ({"is_error": True} if failed else {})


def continuation(answer: JSON, results: Sequence[AnsweredCall]) -> Sequence[JSON]:
    """Return the response's blocks unchanged, then one message with all results (anthropic-results-in-one-message)."""
    blocks: list[JSON] = [_result(call.id, json.dumps({**value}, ensure_ascii=False)) for call, value in results]
    assistant: JSON = {"role": "assistant", "content": resolve(answer, "/content")}
    return (assistant, {"role": "user", "content": blocks}) if blocks else (assistant,)


def one_call(body: WireBody) -> WireBody:
    """Allow only one tool call per response (anthropic-parallel-switch)."""
    choice = body.get("tool_choice")
    known: WireBody = choice if isinstance(choice, dict) else {"type": "auto"}
    return {**body, "tool_choice": {**known, "disable_parallel_tool_use": True}}


def plain(body: WireBody) -> WireBody:
    """Replace message content that is a single text block by a string (anthropic-content-form)."""
    return {**body, "messages": [_plain(each) for each in as_list(body["messages"])]}


def _plain(message: JSON) -> JSON:
    match message:
        case {"content": [{"type": "text", "text": str(text)}], **rest}:
            return {**rest, "content": text}
        case _:
            return message


REQUEST_BUILDER = RequestBuilder(
    path="/v1/messages",
    stream_path="/v1/messages",
    bounds=("max_tokens",),
    write=write,
    continuation=continuation,
    streaming={"stream": True},
    one_call=one_call,
    plain=plain,
)
