"""Requests in their plainest form, for servers that are to be judged. See `harness.apis.questions`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from harness.apis.jsonvalue import resolve
from harness.apis.questions import Answered, Body, Questions
from harness.contract.model import JSON, ChatRequest, JsonSchema, Message, NamedTool, Role, Tool


def write(request: ChatRequest, bound: str) -> Body:
    """The body of a request, of which the server keeps nothing. The system prompt is `instructions`."""
    body: Body = {
        "model": request.model,
        "input": [entry for message in request.messages for entry in _entries(message)],
        "store": False,
    }
    if request.system:
        body["instructions"] = request.system
    if request.max_tokens is not None:
        body[bound] = request.max_tokens
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
    if isinstance(request.tool_choice, NamedTool):
        body["tool_choice"] = {"type": "function", "name": request.tool_choice.name}
    elif request.tool_choice is not None:
        body["tool_choice"] = request.tool_choice
    match request.response_format:
        case JsonSchema(schema=schema, name=name):
            body["text"] = {"format": {"type": "json_schema", "name": name, "schema": schema, "strict": True}}
        case None:
            pass
        case _:
            body["text"] = {"format": {"type": "json_object"}}
    return body


def _tool(tool: Tool) -> Body:
    """A tool, which is strict only if that is asked for (openai-responses-strict-default)."""
    marks = tool.provider_metadata.get("openai-responses")
    named: Body = {"type": "function", "name": tool.name, "description": tool.description}
    return {**named, "parameters": tool.parameters, "strict": False, **(marks if isinstance(marks, dict) else {})}


def _entries(message: Message) -> list[JSON]:
    if message.role is Role.USER:
        entries: list[JSON] = [_result(each.call_id, each.text) for each in message.tool_results]
        if message.text:
            entries.append({"role": "user", "content": message.text})
        return entries
    said: list[JSON] = [{"role": "assistant", "content": message.text}] if message.text else []
    return said + [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments, ensure_ascii=False),
        }
        for call in message.tool_calls
    ]


def _result(call_id: str | None, text: str) -> JSON:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def _with(body: Body, *entries: JSON) -> Body:
    given = body["input"]
    return {**body, "input": [*(given if isinstance(given, list) else ()), *entries]}


def goes_on(body: Body, answer: JSON, results: Sequence[Answered]) -> Body:
    """The conversation with the items as they came, and an item for each result."""
    output = resolve(answer, "/output")
    entries = (_result(call.id, json.dumps({**value}, ensure_ascii=False)) for call, value in results)
    return _with(body, *(output if isinstance(output, list) else ()), *entries)


def says(body: Body, text: str) -> Body:
    """The conversation with one more message of the user."""
    return _with(body, {"role": "user", "content": text})


def one_call(body: Body) -> Body:
    """No answer may have several calls."""
    return {**body, "parallel_tool_calls": False}


def parted(body: Body) -> Body:
    """The user's texts as lists of parts, which everybody sends who may send pictures."""
    given = body["input"]
    said: list[JSON] = []
    for item in given if isinstance(given, list) else ():
        if isinstance(item, dict) and item.get("role") == "user":
            said.append({**item, "content": [{"type": "input_text", "text": item["content"]}]})
        else:
            said.append(item)
    return {**body, "input": said}


def developer(body: Body) -> Body:
    """The system prompt as an item of the developer (openai-responses-system-places)."""
    given = body["input"]
    bare = {key: value for key, value in body.items() if key != "instructions"}
    said: Body = {"role": "developer", "content": body["instructions"]}
    return {**bare, "input": [said, *(given if isinstance(given, list) else ())]}


QUESTIONS = Questions(
    path="/responses",
    stream_path="/responses",
    bounds=("max_output_tokens",),
    write=write,
    goes_on=goes_on,
    says=says,
    streaming={"stream": True},
    one_call=one_call,
    parted=parted,
    developer=developer,
    stop_sequences=False,
)
