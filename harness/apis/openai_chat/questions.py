"""Requests in their plainest form, for servers that are to be judged. See `harness.apis.questions`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from harness.apis.jsonvalue import resolve
from harness.apis.questions import Answered, Body, Questions
from harness.contract.model import JSON, ChatRequest, JsonSchema, Message, NamedTool, Role, Tool


def write(request: ChatRequest, bound: str) -> Body:
    """The body of a request. The system prompt is a message of the role `system`, which every server knows."""
    messages: list[JSON] = [{"role": "system", "content": request.system}] if request.system else []
    messages += [entry for message in request.messages for entry in _entries(message)]
    body: Body = {"model": request.model, "messages": messages}
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
            named: Body = {"name": name, "schema": schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        case None:
            pass
        case _:
            body["response_format"] = {"type": "json_object"}
    if request.stop:
        body["stop"] = [*request.stop]
    return body


def _tool(tool: Tool) -> Body:
    marks = tool.provider_metadata.get("openai-chat")
    function: Body = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": {**function, **(marks if isinstance(marks, dict) else {})}}


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
    said: Body = {"role": "assistant", "content": message.text or None}
    if calls:
        said["tool_calls"] = calls
    return [said]


def _result(call_id: str | None, text: str) -> JSON:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _with(body: Body, *entries: JSON) -> Body:
    messages = body["messages"]
    return {**body, "messages": [*(messages if isinstance(messages, list) else ()), *entries]}


def goes_on(body: Body, answer: JSON, results: Sequence[Answered]) -> Body:
    """The conversation with the message as it came, and a message for each result."""
    entries = (_result(call.id, json.dumps({**value}, ensure_ascii=False)) for call, value in results)
    return _with(body, resolve(answer, "/choices/0/message"), *entries)


def says(body: Body, text: str) -> Body:
    """The conversation with one more message of the user."""
    return _with(body, {"role": "user", "content": text})


def one_call(body: Body) -> Body:
    """No answer may have several calls."""
    return {**body, "parallel_tool_calls": False}


def parted(body: Body) -> Body:
    """The user's texts as lists of parts, which everybody sends who may send pictures."""
    messages = body["messages"]
    said: list[JSON] = []
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message["role"] == "user":
            said.append({**message, "content": [{"type": "text", "text": message["content"]}]})
        else:
            said.append(message)
    return {**body, "messages": said}


def developer(body: Body) -> Body:
    """The system prompt as a message of the developer (openai-chat-system-anywhere)."""
    messages = body["messages"]
    said: list[JSON] = []
    for message in messages if isinstance(messages, list) else ():
        if isinstance(message, dict) and message["role"] == "system":
            said.append({**message, "role": "developer"})
        else:
            said.append(message)
    return {**body, "messages": said}


QUESTIONS = Questions(
    path="/chat/completions",
    stream_path="/chat/completions",
    bounds=("max_tokens", "max_completion_tokens"),
    write=write,
    goes_on=goes_on,
    says=says,
    streaming={"stream": True, "stream_options": {"include_usage": True}},
    one_call=one_call,
    parted=parted,
    developer=developer,
)
