"""Requests in their plainest form, for servers that are to be judged. See `harness.apis.questions`."""

from __future__ import annotations

from collections.abc import Sequence

from harness.apis.jsonvalue import resolve
from harness.apis.questions import Answered, Body, Questions
from harness.contract.model import JSON, ChatRequest, JsonSchema, Message, NamedTool, Role, Tool, ToolCall, ToolResult

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_PATH = "/v1beta/models/{}"


def write(request: ChatRequest, bound: str) -> Body:
    """The body of a request; the path names the model."""
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    body: Body = {"contents": [_content(message, names) for message in request.messages]}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        body["tools"] = [{"functionDeclarations": [_tool(tool) for tool in request.tools]}]
    if isinstance(request.tool_choice, NamedTool):
        named: Body = {"mode": "ANY", "allowedFunctionNames": [request.tool_choice.name]}
        body["toolConfig"] = {"functionCallingConfig": named}
    elif request.tool_choice is not None:
        body["toolConfig"] = {"functionCallingConfig": {"mode": _MODES[request.tool_choice]}}
    config: Body = {} if request.max_tokens is None else {bound: request.max_tokens}
    if request.response_format is not None:
        config["responseMimeType"] = "application/json"
    if isinstance(request.response_format, JsonSchema):
        config["responseJsonSchema"] = request.response_format.schema
    if request.stop:
        config["stopSequences"] = [*request.stop]
    if config:
        body["generationConfig"] = config
    return body


def _tool(tool: Tool) -> Body:
    named: Body = {"name": tool.name, "description": tool.description}
    if tool.parameters.get("properties"):
        named["parametersJsonSchema"] = tool.parameters
    return named


def _content(message: Message, names: dict[str, str]) -> JSON:
    parts: list[JSON] = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            parts.append({"functionCall": {"id": part.id, "name": part.name, "args": part.arguments}})
        elif isinstance(part, ToolResult):
            outcome = "error" if part.is_error else "output"
            payload: Body = {"name": names[part.call_id], "response": {outcome: part.text}, "id": part.call_id}
            parts.append({"functionResponse": payload})
    if message.text:
        parts.append({"text": message.text})
    return {"role": "user" if message.role is Role.USER else "model", "parts": parts}


def _with(body: Body, *entries: JSON) -> Body:
    contents = body["contents"]
    return {**body, "contents": [*(contents if isinstance(contents, list) else ()), *entries]}


def goes_on(body: Body, answer: JSON, results: Sequence[Answered]) -> Body:
    """The conversation with the content as it came, and one content of all results (gemini-responses-counted). An id
    goes back only if there was one."""
    parts: list[JSON] = []
    for call, value in results:
        payload: Body = {"name": call.name, "response": {**value}}
        parts.append({"functionResponse": payload if call.id is None else {**payload, "id": call.id}})
    said = resolve(answer, "/candidates/0/content")
    answered: Body = {"role": "user", "parts": parts}
    return _with(body, said, *([answered] if parts else ()))


def says(body: Body, text: str) -> Body:
    """The conversation with one more message of the user."""
    return _with(body, {"role": "user", "parts": [{"text": text}]})


QUESTIONS = Questions(
    path=f"{_PATH}:generateContent",
    stream_path=f"{_PATH}:streamGenerateContent?alt=sse",
    bounds=("maxOutputTokens",),
    write=write,
    goes_on=goes_on,
    says=says,
    keeps_schemas="forced",
    exact_integers=False,
)
