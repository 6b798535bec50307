"""Conversion of Responses API requests to and from canonical values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from typing_extensions import override

from harness.apis.conversion import AnsweredCall, CanonicalReader, RequestBuilder, SystemText, WireBody, without
from harness.apis.jsonvalue import as_list, as_object, resolve
from harness.apis.openai_common import one_call, wrap_texts
from harness.apis.view import MediaView, ResultView, TextView
from harness.model.messages import JSON, ChatRequest, JsonSchema, Message, NamedTool, Role, Tool, ToolResult


class OpenAIResponsesReader(CanonicalReader):
    """Reader of Responses API requests.

    The system prompt is `instructions`, or the first system item if there are no instructions. Other system items stay
    in the conversation. The API has no error flag, so only the text of a result shows that the tool failed. If a
    function omits `strict`, it stays omitted, since the default is to be strict if possible
    (openai-responses-strict-default).
    """

    api = "openai-responses"

    @override
    def system(self) -> SystemText:
        texts = [text for text in self.view.system if not text.before_turn]
        prompt = next((text.text for text in texts if text.place == "instructions"), None)
        inside = [text for text in texts if text.place != "instructions"]
        items = self.entries(inside)
        if prompt is None and inside and len(items) == len(inside):  # each item has one text
            return SystemText(inside[0].text, opening=items[1:])
        return SystemText(prompt, opening=items)

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        return self._result(view, call_id, name, "output", ("type", "call_id"))

    @override
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        return {"strict": None, **without(raw, "type", "name", "description", "parameters")}

    @override
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        if isinstance(view, TextView):
            return without(raw, "type", "text")
        match raw:
            case {"type": "input_image", "image_url": str()}:
                return without(raw, "type", "image_url")
            case {"type": "input_file", "file_data": str()} | {"type": "input_file", "file_url": str()}:
                return without(raw, "type", "file_data", "file_url")
            case _:
                return None


def write(request: ChatRequest, bound: str) -> WireBody:
    """Write the body of a request with server-side storage disabled. The system prompt is `instructions`."""
    body: WireBody = {
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


def _tool(tool: Tool) -> WireBody:
    """Return a tool. It is strict only if the caller asks for it (openai-responses-strict-default)."""
    marks = tool.provider_metadata.get("openai-responses")
    named: WireBody = {"type": "function", "name": tool.name, "description": tool.description}
    return {**named, "parameters": tool.parameters, "strict": False, **as_object(marks)}


def _entries(message: Message) -> list[JSON]:
    if message.role is Role.USER:
        entries: list[JSON] = [_result(each.call_id, each.text) for each in message.tool_results]
        if message.text:
            entries.append({"role": "user", "content": message.text})
        return entries
    texts: list[JSON] = [{"role": "assistant", "content": message.text}] if message.text else []
    return texts + [
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


def continuation(answer: JSON, results: Sequence[AnsweredCall]) -> Sequence[JSON]:
    """Return the response's items unchanged, then one item for each result."""
    entries = (_result(call.id, json.dumps({**value}, ensure_ascii=False)) for call, value in results)
    return (*as_list(resolve(answer, "/output")), *entries)


def developer(body: WireBody) -> WireBody:
    """Write the system prompt as a developer item (openai-responses-system-places)."""
    given = body["input"]
    bare = {key: value for key, value in body.items() if key != "instructions"}
    prompt: WireBody = {"role": "developer", "content": body["instructions"]}
    return {**bare, "input": [prompt, *as_list(given)]}


REQUEST_BUILDER = RequestBuilder(
    path="/responses",
    stream_path="/responses",
    bounds=("max_output_tokens",),
    write=write,
    conversation="input",
    continuation=continuation,
    takes_entries=True,
    streaming={"stream": True},
    one_call=one_call,
    parted=partial(wrap_texts, conversation="input", kind="input_text"),
    developer=developer,
    stop_sequences=False,
)
