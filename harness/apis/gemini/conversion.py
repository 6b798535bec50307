"""Conversion of generateContent requests to and from canonical values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from typing_extensions import override

from harness.apis.conversion import AnsweredCall, CanonicalReader, RequestBuilder, SystemText, WireBody, without
from harness.apis.jsonvalue import as_object, resolve
from harness.apis.view import JsonView, MediaView, ResultView, TextView
from harness.model.messages import (
    JSON,
    ChatRequest,
    JsonSchema,
    Message,
    NamedTool,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)

_UNDERSCORED = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")


class GeminiReader(CanonicalReader):
    """Reads generateContent requests.

    A function response that contains only `output` is a value; one that contains only `error` is an error result
    (gemini-function-response-form).
    """

    api = "gemini"

    @override
    def system(self) -> SystemText:
        first, *others = list(self.view.system) or [None]
        if first is None:
            return SystemText()
        parts: list[JSON] = [self.raw(text) for text in others if text is not None]
        return SystemText(first.text, {"systemInstruction": {"parts": parts}} if parts else {})

    @override
    def hosted_metadata(self) -> Mapping[str, JSON]:
        return {"tools": [{tool.name: self.raw(tool)} for tool in self.hosted]} if self.hosted else {}

    @override
    def result(self, view: ResultView, call_id: str, name: str) -> ToolResult:
        part = _camelise(self.raw(view))
        response = _camelise(part.get("functionResponse"))
        payload = response.get("response")
        media = tuple(self.part(each) for each in view.payload if not isinstance(each, JsonView))
        fields = without(part, "functionResponse")
        inner = without(response, "id", "name", "response", "parts")
        content, is_error = _content(payload)
        if media and payload in (None, {}):
            content = media
        elif media and isinstance(content, str):
            content = (Text(content), *media)
        elif media:
            inner["parts"] = response["parts"]
        if inner:
            fields["functionResponse"] = inner
        return ToolResult(call_id, name, content, is_error=is_error, provider_metadata=self._metadata(fields))

    @override
    def _function(self, raw: dict[str, JSON]) -> dict[str, JSON]:
        return without(_camelise(raw), "name", "description", "parameters", "parametersJsonSchema")

    @override
    def _bare(self, raw: dict[str, JSON], view: TextView | MediaView) -> dict[str, JSON] | None:
        part = _camelise(raw)
        if isinstance(view, TextView):
            return without(part, "text")
        key = "inlineData" if "inlineData" in part else "fileData"
        rest = without(_camelise(part.get(key)), "mimeType", "data", "fileUri")
        return {**without(part, key), **({key: rest} if rest else {})}


def _content(payload: JSON) -> tuple[JSON, bool]:
    match payload:
        case {"error": value} if len(payload) == 1:
            return value, True
        case {"output": value} if len(payload) == 1 and not isinstance(value, dict):
            return value, False
        case _:
            return payload, False


def _camelise(value: JSON) -> dict[str, JSON]:
    """Convert the keys of the object itself (not nested ones) to camelCase (gemini-casing)."""
    fields = as_object(value)
    return {_UNDERSCORED.sub(lambda match: match[1].upper(), key): each for key, each in fields.items()}


_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_PATH = "/v1beta/models/{}"


def write(request: ChatRequest, bound: str) -> WireBody:
    """Write the body of a request. It has no model, since the URL path names it."""
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    body: WireBody = {"contents": [_content_of(message, names) for message in request.messages]}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
    if isinstance(request.tool_choice, NamedTool):
        named: WireBody = {"mode": "ANY", "allowedFunctionNames": [request.tool_choice.name]}
        body["toolConfig"] = {"functionCallingConfig": named}
    elif request.tool_choice is not None:
        body["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[request.tool_choice]}}
    config: WireBody = {} if request.max_tokens is None else {bound: request.max_tokens}
    if request.response_format is not None:
        config["responseMimeType"] = "application/json"
    if isinstance(request.response_format, JsonSchema):
        config["responseJsonSchema"] = request.response_format.schema
    if request.stop:
        config["stopSequences"] = [*request.stop]
    if config:
        body["generationConfig"] = config
    return body


def _tool(tool: Tool) -> WireBody:
    named: WireBody = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        named["parametersJsonSchema"] = tool.parameters
    return named


def _content_of(message: Message, names: dict[str, str]) -> JSON:
    parts: list[JSON] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            parts.append({"functionCall": {"id": part.id, "name": part.name, "args": part.arguments}})
        elif isinstance(part, ToolResult):
            outcome = "error" if part.is_error else "output"
            payload: WireBody = {"name": names[part.call_id], "response": {outcome: part.text}, "id": part.call_id}
            parts.append({"functionResponse": payload})
    if message.text:
        parts.append({"text": message.text})
    return {"role": "user" if message.role is Role.USER else "model", "parts": parts}


def continuation(answer: JSON, results: Sequence[AnsweredCall]) -> Sequence[JSON]:
    """Return the model's content unchanged, then one user message with all results (gemini-responses-counted). Results
    have an id only if their call has one."""
    parts: list[JSON] = []
    for call, value in results:
        payload: WireBody = {"name": call.name, "response": {**value}}
        parts.append({"functionResponse": payload if call.id is None else {**payload, "id": call.id}})
    assistant = resolve(answer, "/candidates/0/content")
    return (assistant, {"role": "user", "parts": parts}) if parts else (assistant,)


REQUEST_BUILDER = RequestBuilder(
    path=f"{_PATH}:generateContent",
    stream_path=f"{_PATH}:streamGenerateContent?alt=sse",
    bounds=("maxOutputTokens",),
    write=write,
    conversation="contents",
    continuation=continuation,
    user_entry=lambda text: {"role": "user", "parts": [{"text": text}]},
    keeps_schemas="forced",
    exact_integers=False,
)
