"""A request as OpenAI Chat has it: what most libraries take, whatever API they speak."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.bridge.memory import Memory
from harness.contract.errors import Unsupported
from harness.contract.model import (
    ChatRequest,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    Part,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
)

_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def messages(
    request: ChatRequest,
    memory: Memory | None = None,
    *,
    system: str = "system",
    failed: Mapping[str, Any] | None = None,
    longest_id: int | None = None,
) -> list[Any]:
    """The conversation as messages; `system` is the role of the system prompt.

    A message that the library answered itself is the library's own, as it stands in `memory`. Results come first in
    their turn, one message each; an error is told in JSON, `{"error": …}`, since the form has no field for it; a
    library that has one names it by `failed`, the fields that mark a result as an error. Without the library's own
    message a thought is left out: nobody takes one back without its signature. Ids of other APIs that are longer than
    `longest_id` characters become shorter ones, one to one (OpenAI takes 64: openai-chat-call-id-at-most-64).

    Raises:
        Unsupported: a part that the form does not have.
    """
    found: list[Any] = [{"role": system, "content": request.system}] if request.system else []
    for place, message in enumerate(request.messages):
        if message.role is Role.USER:
            found += _user(message, failed, longest_id)
            continue
        own = memory.own(place, message) if memory else None
        said = own if own is not None else _assistant(message, longest_id)
        found += [said] if said is not None else []
    return found


def completion_request(
    request: ChatRequest,
    memory: Memory | None = None,
    *,
    system: str = "system",
    failed: Mapping[str, Any] | None = None,
    longest_id: int | None = None,
) -> dict[str, Any]:
    """The request as keyword arguments of who speaks OpenAI's form, but for the model: only what is asked for.

    `memory` and what follows it are as in `messages`.

    Raises:
        Unsupported: a part that the form does not have.
    """
    named = {
        "messages": messages(request, memory, system=system, failed=failed, longest_id=longest_id),
        "tools": tools(request) or None,
        "tool_choice": tool_choice(request) if request.tools else None,
        "response_format": response_format(request),
        **settings(request),
    }
    return {name: value for name, value in named.items() if value is not None}


def settings(request: ChatRequest) -> dict[str, Any]:
    """What is asked of the length and the sampling of an answer, by OpenAI's names: only what is asked for."""
    named = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
    }
    return {name: value for name, value in named.items() if value is not None}


def tools(request: ChatRequest) -> list[dict[str, Any]]:
    """The tools as functions. One without arguments says that it is an object without properties."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": {**_NO_ARGUMENTS, **tool.parameters},
            },
        }
        for tool in request.tools
    ]


def tool_choice(request: ChatRequest) -> Any:
    """The tool choice, or nothing where none is asked for."""
    choice = request.tool_choice
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def response_format(request: ChatRequest) -> dict[str, Any] | None:
    """The response format, or nothing where none is asked for."""
    match request.response_format:
        case JsonMode():
            return {"type": "json_object"}
        case JsonSchema(schema, name):
            return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}
        case None:
            return None


def _user(message: Message, failed: Mapping[str, Any] | None, longest: int | None) -> Iterator[dict[str, Any]]:
    for part in message.tool_results:
        mark = failed if part.is_error else None
        content = _result(part, told=part.is_error and mark is None)
        answered = _id(part.call_id, longest)
        yield {"role": "tool", "tool_call_id": answered, "name": part.name, "content": content, **(mark or {})}
    said = [part for part in message.parts if not isinstance(part, ToolResult)]
    if said:
        yield {"role": "user", "content": _content(said)}


def _assistant(message: Message, longest: int | None) -> dict[str, Any] | None:
    said = "".join(part.text for part in message.parts if isinstance(part, Text | Refusal))
    calls = [_call(call, longest) for call in message.tool_calls]
    if not said and not calls:
        return None
    return {"role": "assistant", "content": said or None, **({"tool_calls": calls} if calls else {})}


def _call(call: ToolCall, longest: int | None) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    return {"id": _id(call.id, longest), "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _id(call_id: str, longest: int | None) -> str:
    if longest is None or len(call_id) <= longest:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()}"[:longest]


def _result(result: ToolResult, *, told: bool) -> Any:
    """The content; if it is to be `told` that it is an error, in its words."""
    if told:
        said = result.text if isinstance(result.content, tuple) else result.content
        return json.dumps({"error": said}, ensure_ascii=False)
    if isinstance(result.content, tuple) and not all(isinstance(part, Text) for part in result.content):
        return _content(result.content)
    return result.text


def _content(parts: Iterable[Part]) -> Any:
    every = list(parts)
    if all(isinstance(part, Text) for part in every) and len(every) == 1:
        return "".join(part.text for part in every if isinstance(part, Text))
    return [_piece(part) for part in every]


def _piece(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image():
            return {"type": "image_url", "image_url": {"url": _url(part)}}
        case File(media_type=media_type) if media_type.startswith("text/"):
            raise Unsupported("harness.bridge", f"a file of {media_type}", "OpenAI's form has no file but a PDF")
        case File(data=bytes()):
            name = f"file.{part.media_type.rpartition('/')[2]}"
            return {"type": "file", "file": {"filename": name, "file_data": _url(part)}}
        case _:
            raise Unsupported("harness.bridge", type(part).__name__, "OpenAI's messages of a user have no place for it")


def _url(part: Image | File) -> str:
    if part.data is None:
        return part.uri or ""
    return f"data:{part.media_type};base64,{base64.b64encode(part.data).decode()}"
