"""A request as OpenAI Chat has it: what most libraries take, whatever API they speak."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from harness.contract.errors import Unsupported
from harness.contract.model import (
    ChatRequest,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    Opaque,
    Part,
    Refusal,
    Role,
    Text,
    ToolCall,
    ToolResult,
)
from harness.contract.protocols import Capability

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


# --- declining ---


def asked(request: ChatRequest) -> frozenset[Capability]:
    """What a request asks for that a library may have no way to say."""
    parts = [part for message in request.messages for part in message.parts]
    results = [part for message in request.messages for part in message.tool_results]
    forced = request.tool_choice == "required" or isinstance(request.tool_choice, NamedTool)
    uses = {
        Capability.SYSTEM_PROMPT: bool(request.system),
        Capability.TOOLS: bool(request.tools),
        Capability.TOOL_CHOICE: request.tool_choice is not None,
        Capability.FORCED_TOOL_CHOICE: forced,
        Capability.JSON_MODE: isinstance(request.response_format, JsonMode),
        Capability.JSON_SCHEMA: isinstance(request.response_format, JsonSchema),
        Capability.JSON_WITH_TOOLS: bool(request.response_format and request.tools),
        Capability.VISION: any(isinstance(part, Image) for part in parts),
        Capability.IMAGE_RESULTS: any(
            isinstance(part, Image)
            for result in results
            if isinstance(result.content, tuple)
            for part in result.content
        ),
        Capability.FILES: any(isinstance(part, File) and not _is_sound(part) for part in parts),
        Capability.AUDIO: any(isinstance(part, File) and _is_sound(part) for part in parts),
        Capability.THINKING: request.thinking is not None,
        Capability.CACHE_MARKS: request.cache,
        Capability.PROVIDER_TOOLS: any(
            isinstance(fields, dict) and "tools" in fields for fields in request.provider_metadata.values()
        ),
    }
    return frozenset(capability for capability, used in uses.items() if used)


def _is_sound(part: File) -> bool:
    return part.media_type.startswith("audio/")


def decline(adapter: str, request: ChatRequest, *cannot: Capability, reason: str = "the library has no way to") -> None:
    """Decline a request that asks for any of these.

    Raises:
        Unsupported: it does.
    """
    for capability in cannot:
        if capability in asked(request):
            raise Unsupported(adapter, capability.value, reason)


# --- memory ---


class Memory:
    """Keeps what a library answered, so that it gets its own object back when the conversation goes on.

    The library's object may hold what has no canonical place (signatures, item ids, caches). It is found again by the
    place of our message in the history, or, where the history was trimmed, by what the message says; metadata does not
    count. One for each client: a client lives as long as a conversation.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Message, Any]] = {}

    def keep(self, request: ChatRequest, answer: Message, own: object) -> None:
        """`own` is what the library has for the answer to this request."""
        self._kept[len(request.messages)] = _said(answer), own

    def own(self, place: int, message: Message) -> Any:
        """What the library has for the message at this place of the history; nothing, if it never answered so."""
        said = _said(message)
        kept, own = self._kept.get(place, (None, None))
        if kept == said:
            return own
        return next((own for other, own in reversed(self._kept.values()) if other == said), None)


def plain(value: object) -> Mapping[str, Any]:
    """The fields of an object of a library: a dictionary, a model of pydantic, or any other object; none of `None`."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    dump = getattr(value, "model_dump", None)
    return cast("Mapping[str, Any]", dump() if callable(dump) else vars(value))


def without_calls(own: Any, calls: Sequence[Mapping[str, Any]]) -> Any:
    """Return a library's message without some of its calls, which nobody answers, or `None` if nothing else is in it.

    The calls may stand in any list of the message, in whatever form: a call is known by its id, one without an id by
    its name and its arguments.
    """
    for call in calls:
        function = plain(call.get("function"))
        own = _without(own, [call["id"]] if call.get("id") else [function.get("name"), function.get("arguments")])
    return None if calls and _is_blank(own) else own


_DEEPEST = 4
"""Levels of a message in which calls are looked for."""


def _without(value: Any, marks: Sequence[object], depth: int = 0) -> Any:
    """A value without the entries of its lists that have these marks; the value itself if there are none."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        left = [each for entry in entries for each in _kept(entry, marks, depth + 1)]
        return entries if list(map(id, left)) == list(map(id, entries)) else left
    kept = {key: (item, _without(item, marks, depth + 1)) for key, item in _fields(value).items()}
    changed = {key: new for key, (item, new) in kept.items() if new is not item}
    return _changed(value, changed) if changed else value


def _kept(entry: Any, marks: Sequence[object], depth: int) -> Sequence[Any]:
    """Return the entry without the marked entries inside it: unchanged, smaller or nothing."""
    inner = _without(entry, marks, depth)
    leaves = [*_leaves(entry)]
    return () if inner is entry and all(mark in leaves for mark in marks) else (inner,)


def _changed(value: Any, new: Mapping[str, Any]) -> Any:
    """A copy with other fields. An emptied list is left out, or what its class has where there is none."""
    if isinstance(value, Mapping):
        whole = {**cast("Mapping[str, Any]", value), **new}
        return {key: item for key, item in whole.items() if key not in new or item != []}
    made, declared = copy.copy(value), cast("dict[str, Any]", getattr(cast("Any", type(value)), "model_fields", {}))
    for key, item in new.items():
        default = declared[key].get_default(call_default_factory=True) if key in declared else item
        object.__setattr__(made, key, default if item == [] else item)
    return made


def _fields(value: Any) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return cast("Mapping[str, Any]", getattr(value, "__dict__", {}))


def _leaves(value: object, depth: int = 0) -> Iterator[object]:
    """The texts in a value, at a few levels."""
    if isinstance(value, str):
        yield value
    elif depth <= _DEEPEST:
        for item in cast("list[object]", value) if isinstance(value, list) else _fields(value).values():
            yield from _leaves(item, depth + 1)


def _is_blank(value: object) -> bool:
    """Return whether a message has nothing but its role."""
    if isinstance(value, list):
        return all(map(_is_blank, cast("list[object]", value)))
    inner = [item for key, item in _fields(value).items() if key != "role"]
    return all(map(_is_blank, inner)) if inner or isinstance(value, Mapping) else value is None or value == ""


def _said(message: Message) -> Message:
    parts = tuple(part if isinstance(part, Opaque) else replace(part, provider_metadata={}) for part in message.parts)
    return Message(message.role, parts)
