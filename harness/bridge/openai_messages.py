"""Conversion of requests to OpenAI Chat messages, which most libraries accept for any API."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from harness.model.errors import Unsupported
from harness.model.messages import (
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
from harness.model.protocols import Capability

_TOOL_NAME = "[a-zA-Z0-9_-]{1,64}"
_NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def messages(
    request: ChatRequest,
    memory: Memory | None = None,
    *,
    system: str = "system",
    failed: Mapping[str, Any] | None = None,
    longest_id: int | None = None,
) -> list[Any]:
    """Return the conversation as messages of OpenAI Chat. `system` is the role of the system prompt.

    - A response of the library is sent back as the library's own message or items, which `memory` stores.
    - Results are placed first in their turn, one message each. OpenAI's format has no error flag, so an error is sent
      as the JSON object `{"error": …}`. If the library's format has an error flag, pass its fields as `failed`.
    - Reasoning is sent back only inside the library's own message, because no API accepts it without its signature.
    - Ids longer than `longest_id` characters are replaced one to one by shorter ones (OpenAI accepts 64:
      openai-chat-call-id-at-most-64).

    Raises:
        Unsupported: OpenAI's format has no place for a part.
    """
    found: list[Any] = [{"role": system, "content": request.system}] if request.system else []
    for place, message in enumerate(request.messages):
        if message.role is Role.USER:
            found += _user(message, failed, longest_id)
            continue
        own = memory.own(place, message) if memory else None
        wire = own if own is not None else _assistant(message, longest_id)
        found += wire if isinstance(wire, list) else [wire] if wire is not None else []
    return found


def completion_request(
    request: ChatRequest,
    memory: Memory | None = None,
    *,
    system: str = "system",
    failed: Mapping[str, Any] | None = None,
    longest_id: int | None = None,
) -> dict[str, Any]:
    """Return the request as keyword arguments of OpenAI Chat, without the model and without unset fields.

    See `messages` for the parameters.

    Raises:
        Unsupported: OpenAI's format has no place for a part.
    """
    named = {
        "messages": messages(request, memory, system=system, failed=failed, longest_id=longest_id),
        "tools": tools(request) or None,
        "tool_choice": tool_choice(request) if request.tools else None,
        "response_format": response_format(request),
        **settings(request),
    }
    return {name: value for name, value in named.items() if value is not None}


_CHAT = "openai-chat"


def settings(request: ChatRequest) -> dict[str, Any]:
    """Return the limits and sampling settings that are set, under OpenAI's names. Fields that only OpenAI Chat has are
    in `extra_body`, as in the SDK.
    """
    named = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": list(request.stop) or None,
        "extra_body": request.provider_metadata.get(_CHAT) or None,
    }
    return {name: value for name, value in named.items() if value is not None}


def tools(request: ChatRequest) -> list[dict[str, Any]]:
    """Return the tools as functions. A tool without arguments gets the schema of an empty object.

    Raises:
        Unsupported: OpenAI's format does not allow the name of a tool (openai-chat-tool-name).
    """
    for tool in request.tools:
        if re.fullmatch(_TOOL_NAME, tool.name) is None:
            raise Unsupported("harness.bridge", f"the tool name {tool.name!r}", f"OpenAI's form has {_TOOL_NAME}")
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": {**_NO_ARGUMENTS, **tool.parameters},
                **cast("Mapping[str, Any]", tool.provider_metadata.get(_CHAT) or {}),
            },
        }
        for tool in request.tools
    ]


def tool_choice(request: ChatRequest) -> Any:
    """Return the tool choice, or `None`."""
    choice = request.tool_choice
    if isinstance(choice, NamedTool):
        return {"type": "function", "function": {"name": choice.name}}
    return choice


def response_format(request: ChatRequest) -> dict[str, Any] | None:
    """Return the response format, or `None`."""
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
        content = _result(part, as_error=part.is_error and mark is None)
        call_id = short_id(part.call_id, longest)
        yield {"role": "tool", "tool_call_id": call_id, "name": part.name, "content": content, **(mark or {})}
    others = [part for part in message.parts if not isinstance(part, ToolResult)]
    if others:
        yield {"role": "user", "content": _content(others)}


def _assistant(message: Message, longest: int | None) -> dict[str, Any] | None:
    text = "".join(part.text for part in message.parts if isinstance(part, Text | Refusal))
    calls = [_call(call, longest) for call in message.tool_calls]
    if not text and not calls:
        return None
    return {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}


def _call(call: ToolCall, longest: int | None) -> dict[str, Any]:
    arguments = json.dumps(call.arguments, ensure_ascii=False)
    name = re.sub("[^a-zA-Z0-9_-]", "_", call.name)[:64] or "_"  # a model may invent a tool, under any name
    return {
        "id": short_id(call.id, longest),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def short_id(call_id: str, longest: int | None) -> str:
    """Return the id of a call, or a hash of it if it has more than `longest` characters."""
    if longest is None or len(call_id) <= longest:
        return call_id
    return f"call_{hashlib.sha256(call_id.encode()).hexdigest()}"[:longest]


def _result(result: ToolResult, *, as_error: bool) -> Any:
    if as_error:
        content = result.text if isinstance(result.content, tuple) else result.content
        return json.dumps({"error": content}, ensure_ascii=False)
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


def needed_capabilities(request: ChatRequest) -> frozenset[Capability]:
    """Return the capabilities that a request needs and that a library may lack."""
    parts = [part for message in request.messages for part in message.parts]
    results = [part for message in request.messages for part in message.tool_results]
    uses = {
        Capability.SYSTEM_PROMPT: bool(request.system),
        Capability.TOOLS: bool(request.tools),
        Capability.TOOL_CHOICE: request.tool_choice is not None,
        Capability.FORCED_TOOL_CHOICE: request.tool_choice == "required",
        Capability.NAMED_TOOL_CHOICE: isinstance(request.tool_choice, NamedTool),
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
    """Decline a request that needs any of these capabilities.

    Raises:
        Unsupported: the request needs one.
    """
    for capability in cannot:
        if capability in needed_capabilities(request):
            raise Unsupported(adapter, capability.value, reason)


# --- memory ---


class Memory:
    """Stores the library's own response messages, to send them back when the conversation continues.

    They may hold fields that have no canonical place (signatures, item ids, caches). A message is found by its index in
    the history or, if the history was trimmed, by its parts without metadata. Use one memory per client.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Message, Any]] = {}

    def keep(self, request: ChatRequest, answer: Message, own: object) -> None:
        """Store the library's own message for the response to a request."""
        self._kept[len(request.messages)] = _without_metadata(answer), own

    def has_kept(self, own: object) -> bool:
        """Return whether an object is one of the library's own messages."""
        return any(own is each for _, each in self._kept.values())

    def own(self, place: int, message: Message) -> Any:
        """Return the library's own message for the message at this index of the history, or `None`."""
        content = _without_metadata(message)
        kept, own = self._kept.get(place, (None, None))
        if kept == content:
            return own
        return next((own for other, own in reversed(self._kept.values()) if other == content), None)


def plain(value: object) -> Mapping[str, Any]:
    """Return the fields of a dictionary, a pydantic model or any other object; `{}` for `None`."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        return {**items, **vars(items)} if is_dataclass(items) else items  # the items may be older than the fields
    dump = getattr(value, "model_dump", None)
    return cast("Mapping[str, Any]", dump() if callable(dump) else vars(value))


def without_calls(own: Any, calls: Sequence[Mapping[str, Any]]) -> Any:
    """Remove calls from a library's message; return `None` if nothing else is left in it.

    Calls are entries of any list in the message, in any format. An entry matches by its id, or, without an id, by its
    name and its arguments.
    """
    for call in calls:
        function = plain(call.get("function"))
        own = _without(own, [call["id"]] if call.get("id") else [function.get("name"), function.get("arguments")])
    return None if calls and _is_blank(own) else own


_MAX_DEPTH = 4
"""Depth to which a message is searched for calls."""


def _without(value: Any, marks: Sequence[object], depth: int = 0) -> Any:
    """Remove list entries that contain all `marks`: an id, or a name and arguments. Return the same object if nothing
    was removed.
    """
    if depth > _MAX_DEPTH:
        return value
    if isinstance(value, list):
        entries = cast("list[Any]", value)
        left = [each for entry in entries for each in _without_marked(entry, marks, depth + 1)]
        return entries if list(map(id, left)) == list(map(id, entries)) else left
    kept = {key: (item, _without(item, marks, depth + 1)) for key, item in _fields(value).items()}
    changed = {key: new for key, (item, new) in kept.items() if new is not item}
    return _with_fields(value, changed) if changed else value


def _without_marked(entry: Any, marks: Sequence[object], depth: int) -> Sequence[Any]:
    """Return the entry without marked entries inside it; empty if the entry itself is marked."""
    inner = _without(entry, marks, depth)
    leaves = [*_leaves(entry)]
    return () if inner is entry and all(mark in leaves for mark in marks) else (inner,)


def _with_fields(value: Any, new: Mapping[str, Any]) -> Any:
    """Return a copy with new fields. A field whose list became empty is left out of a mapping. In an object, it is
    reset to its default.
    """
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
    """Yield the strings in a value, down to a few levels."""
    if isinstance(value, str):
        yield value
    elif depth <= _MAX_DEPTH:
        for item in cast("list[object]", value) if isinstance(value, list) else _fields(value).values():
            yield from _leaves(item, depth + 1)


def _is_blank(value: object) -> bool:
    """Return whether a message has only a role."""
    if isinstance(value, list):
        return all(map(_is_blank, cast("list[object]", value)))
    inner = [item for key, item in _fields(value).items() if key != "role"]
    return all(map(_is_blank, inner)) if inner or isinstance(value, Mapping) else value is None or value == ""


def _without_metadata(message: Message) -> Message:
    parts = tuple(part if isinstance(part, Opaque) else replace(part, provider_metadata={}) for part in message.parts)
    return Message(message.role, parts)
