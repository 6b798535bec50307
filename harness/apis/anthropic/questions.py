"""Requests in their plainest form, for servers that are to be judged. See `harness.apis.questions`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from harness.apis.jsonvalue import resolve
from harness.apis.questions import Answered, Body, Questions
from harness.contract.model import JSON, ChatRequest, JsonSchema, Message, NamedTool, Role, Tool

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def write(request: ChatRequest, bound: str) -> Body:
    """The body of a request."""
    messages: list[JSON] = [_entry(message) for message in request.messages]
    body: Body = {"model": request.model, "messages": messages, bound: request.max_tokens}
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


def _tool(tool: Tool) -> Body:
    marks = tool.provider_metadata.get("anthropic")
    named: Body = {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
    return {**named, **(marks if isinstance(marks, dict) else {})}


def _entry(message: Message) -> JSON:
    said: list[JSON] = [{"type": "text", "text": message.text}] if message.text else []
    if message.role is Role.USER:
        results: list[JSON] = [_result(each.call_id, each.text, failed=each.is_error) for each in message.tool_results]
        return {"role": "user", "content": [*results, *said]}
    calls: list[JSON] = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in message.tool_calls
    ]
    return {"role": "assistant", "content": [*said, *calls]}


def _result(call_id: str | None, text: str, *, failed: bool = False) -> JSON:
    result: Body = {"type": "tool_result", "tool_use_id": call_id, "content": text}
    return result | ({"is_error": True} if failed else {})


def _with(body: Body, *entries: JSON) -> Body:
    messages = body["messages"]
    return {**body, "messages": [*(messages if isinstance(messages, list) else ()), *entries]}


def goes_on(body: Body, answer: JSON, results: Sequence[Answered]) -> Body:
    """The conversation with the blocks as they came, and one message of all results
    (anthropic-results-in-one-message)."""
    said: Body = {"role": "assistant", "content": resolve(answer, "/content")}
    blocks: list[JSON] = [_result(call.id, json.dumps({**value}, ensure_ascii=False)) for call, value in results]
    answered: Body = {"role": "user", "content": blocks}
    return _with(body, said, *([answered] if blocks else ()))


def says(body: Body, text: str) -> Body:
    """The conversation with one more message of the user."""
    return _with(body, {"role": "user", "content": text})


def one_call(body: Body) -> Body:
    """No answer may have several calls (anthropic-parallel-switch)."""
    choice = body.get("tool_choice")
    known: Body = choice if isinstance(choice, dict) else {"type": "auto"}
    return {**body, "tool_choice": {**known, "disable_parallel_tool_use": True}}


def plain(body: Body) -> Body:
    """The same request with a string for the content of each message that is one text (anthropic-content-form)."""
    messages = body["messages"]
    return {**body, "messages": [_plain(each) for each in (messages if isinstance(messages, list) else ())]}


def _plain(message: JSON) -> JSON:
    match message:
        case {"content": [{"type": "text", "text": str(text)}], **rest}:
            return {**rest, "content": text}
        case _:
            return message


QUESTIONS = Questions(
    path="/v1/messages",
    stream_path="/v1/messages",
    bounds=("max_tokens",),
    write=write,
    goes_on=goes_on,
    says=says,
    streaming={"stream": True},
    one_call=one_call,
    plain=plain,
)
