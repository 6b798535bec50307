"""Canonical request → body of `POST /v1/messages`."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING

from harness.adapters._common import as_object, compact, merge_fields, own, sendable, string, tool_name
from harness.model.errors import Unsupported
from harness.model.messages import (
    JSON,
    JSON_INSTRUCTION,
    ChatRequest,
    File,
    Image,
    JsonMode,
    JsonSchema,
    Message,
    NamedTool,
    Opaque,
    Refusal,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.model.messages import Part, ThinkingSettings, Tool

DEFAULT_MAX_TOKENS = 4096
"""Value of `max_tokens` in requests that do not set it. A thinking budget is added to it."""

_BUDGETS = {"low": 1024, "medium": 4096, "high": 16384}
"""Effort → thinking budget in tokens. The API's minimum is 1024 (anthropic-thinking-form)."""

_CACHE_MARK: dict[str, JSON] = {"cache_control": {"type": "ephemeral"}}


def encode(request: ChatRequest, model: str) -> dict[str, JSON]:
    """Return the body. `model` is used if the request does not name a model.

    Raises:
        Unsupported: the API cannot express the request.
    """
    _refuse_sampling(request)
    model = request.model or model
    result: dict[str, JSON] = {"model": model, "max_tokens": request.max_tokens}
    result["messages"] = messages(request.messages, unsigned="claude" not in model)
    if request.max_tokens is None:
        result["max_tokens"] = DEFAULT_MAX_TOKENS
    if system := _system(request):
        result["system"] = system
    if request.tools:
        result["tools"] = _tools(request)
    if request.stop:
        result["stop_sequences"] = list(request.stop)
    if isinstance(request.response_format, JsonSchema):
        result["output_config"] = {
            "format": {"type": "json_schema", "schema": close_objects(request.response_format.schema)}
        }
    if request.thinking is not None:
        think = _think_adaptively if is_adaptive(model) else _think_in_budget
        result = think(request.thinking, request, result)
    result = merge_fields(result, own(request.provider_metadata, "anthropic"))
    result = _with_tool_choice(request, result)
    _refuse_gated(result, model)
    return result


def _refuse_sampling(request: ChatRequest) -> None:
    for name in ("temperature", "top_p"):
        if getattr(request, name) is not None:
            raise Unsupported("anthropic", name, "the API version 2026-10-21 refuses sampling parameters")


def _system(request: ChatRequest) -> list[JSON]:
    blocks: list[JSON] = []
    if request.system:
        mark = _CACHE_MARK if request.cache else {}
        blocks.append({"type": "text", "text": request.system, **mark})
    if isinstance(request.response_format, JsonMode):
        blocks.append({"type": "text", "text": JSON_INSTRUCTION})
    return blocks


def _tools(request: ChatRequest) -> list[JSON]:
    last = len(request.tools) - 1
    return [
        _tool(tool, _CACHE_MARK if request.cache and index == last else {}) for index, tool in enumerate(request.tools)
    ]


_NAME = r"[a-zA-Z0-9_-]{1,128}"  # anthropic-tool-name-pattern


def _tool(tool: Tool, mark: dict[str, JSON]) -> dict[str, JSON]:
    # anthropic-tool-schema-object: the root has the type object; in the contract `{}` means no arguments.
    schema: dict[str, JSON] = {"type": "object", **(tool.parameters or {"properties": {}})}
    wire: dict[str, JSON] = {"name": tool_name(tool.name, _NAME, "anthropic"), "input_schema": schema}
    if tool.description:
        wire["description"] = tool.description
    if tool.shown_while_written:
        wire["eager_input_streaming"] = True  # also without streaming: different tools would miss the prompt cache
    return {**wire, **mark, **own(tool.provider_metadata, "anthropic")}


def _with_tool_choice(request: ChatRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    choice = request.tool_choice
    if choice is None:
        return result
    forces = choice == "required" or isinstance(choice, NamedTool)
    if "tools" not in result:
        if forces:
            raise Unsupported("anthropic", "a forced tool choice", "the request has no tools")
        return result  # without tools there are no calls, and the API rejects the field
    thinking = result.get("thinking")
    if forces and isinstance(thinking, dict) and thinking.get("type") == "enabled":
        raise Unsupported(
            "anthropic", "a forced tool choice", "not together with a thinking budget (anthropic-choice-form)"
        )
    if isinstance(choice, NamedTool):
        wire: dict[str, JSON] = {"type": "tool", "name": choice.name}
    else:
        wire = {"type": "any" if choice == "required" else choice}
    return merge_fields({"tool_choice": wire}, result)


_CONTINUED = frozenset({"text", "thinking", "redacted_thinking"})
"""Block types of a prefilled assistant message. A last assistant message with any other block type is a turn that the
provider paused, which the adapter accepts for every model.
"""


def _refuse_gated(body: dict[str, JSON], model: str) -> None:
    """Raise `Unsupported` for settings that this model rejects, including those in the caller's `provider_metadata`."""
    thinking, choice = _type_of(body.get("thinking")), _type_of(body.get("tool_choice"))
    if thinking in refused_thinking(model):
        raise Unsupported(
            "anthropic", f"thinking of the type {thinking!r}", f"{model} refuses it (anthropic-thinking-form)"
        )
    if choice in ("any", "tool") and not takes_forced_choice(model):
        raise Unsupported("anthropic", "a forced tool choice", f"{model} refuses it (anthropic-no-forced-choice)")
    if not takes_prefill(model) and _is_prefilled(body["messages"]):
        reason = f"{model} does not continue it (anthropic-no-prefill)"
        raise Unsupported("anthropic", "a conversation that ends with the assistant", reason)


def _type_of(value: JSON) -> str | None:
    return string(as_object(value).get("type"))


def _is_prefilled(messages: JSON) -> bool:
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) and last.get("role") == "assistant" else None
    return isinstance(content, list) and all(_type_of(block) in _CONTINUED for block in content)


def _think_adaptively(settings: ThinkingSettings, request: ChatRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    if settings.budget_tokens is not None:
        raise Unsupported("anthropic", "a thinking budget", f"{request.model} thinks adaptively; give an effort")
    thinking: dict[str, JSON] = {"thinking": {"type": "adaptive"}}
    if settings.effort is not None:
        thinking["output_config"] = {"effort": settings.effort}
    return merge_fields(result, thinking)


def _think_in_budget(settings: ThinkingSettings, request: ChatRequest, result: dict[str, JSON]) -> dict[str, JSON]:
    budget = settings.budget_tokens or _BUDGETS[settings.effort or "medium"]
    max_tokens = DEFAULT_MAX_TOKENS + budget if request.max_tokens is None else request.max_tokens
    if not 1024 <= budget < max_tokens:
        raise Unsupported(
            "anthropic",
            f"a thinking budget of {budget} tokens",
            f"it must be 1024 to max_tokens - 1 ({max_tokens - 1})",
        )
    return {**result, "max_tokens": max_tokens, "thinking": {"type": "enabled", "budget_tokens": budget}}


# --- the conversation ---


_IMAGE_TYPES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def messages(history: tuple[Message, ...], *, unsigned: bool = False) -> list[JSON]:
    """Return the conversation as messages of the API. `unsigned`: the model's reasoning has no signatures.

    Empty texts are left out, and messages of white space only, because the API rejects them (anthropic-no-empty-text).
    Failed results without content say that they failed (anthropic-error-has-content). Results are placed first in their
    message (anthropic-results-first). Results in consecutive user messages are merged into one message
    (anthropic-results-in-one-message).

    Raises:
        Unsupported: the API has no block for a part, or a user message is empty.
    """
    return _Encoding(sendable(history, "anthropic"), unsigned=unsigned).messages()


class _Encoding:
    """Encoder for one conversation history. It keeps the ids and toolsets that later parts depend on."""

    def __init__(self, history: tuple[Message, ...], *, unsigned: bool) -> None:
        self._history, self._unsigned = history, unsigned
        self._answered = {result.call_id for message in history for result in message.tool_results}
        self._ids = AnthropicIds()
        self._toolsets: dict[str, JSON] = {}

    def messages(self) -> list[JSON]:
        encoded: list[JSON] = []
        for message in _with_joined_results(self._history):
            entries = list(self._entries(message))
            if not entries and message.role is Role.USER:
                raise Unsupported(
                    "anthropic", "an empty user message", "the API refuses empty text (anthropic-no-empty-text)"
                )
            encoded += entries
        return encoded

    def _entries(self, message: Message) -> Iterator[JSON]:
        """Yield the message, and each `Opaque` with a role as a separate message (anthropic-system-in-messages)."""
        blocks: list[JSON] = []
        for part in message.parts:
            if isinstance(part, Opaque) and isinstance(part.raw, dict) and "role" in part.raw:
                yield from _entry(message.role, blocks)
                blocks = []
                yield from [part.raw] if part.api == "anthropic" else []
            else:
                blocks += self._blocks(part, message.role)
        yield from _entry(message.role, blocks)

    def _blocks(self, part: Part, role: Role) -> list[JSON]:
        match part:
            case Text() | Refusal():
                return (
                    [{"type": "text", "text": part.text, **own(part.provider_metadata, "anthropic")}]
                    if part.text
                    else []
                )
            case ToolCall():
                return [self._call(part)]
            case ToolResult():
                return [self._result(part)]
            case Thinking():
                fields = own(part.provider_metadata, "anthropic")
                sent = bool(fields) or (self._unsigned and "anthropic" in part.provider_metadata)
                return [{"type": "thinking", "thinking": part.text, **fields}] if sent else []
            case Opaque():
                return [part.raw] if part.api == "anthropic" and not self._is_cut_call(part.raw) else []
            case Image() | File():
                if role is Role.ASSISTANT:
                    raise Unsupported("anthropic", "media in an assistant message", "the API takes it from users only")
                return [_medium(part)]

    def _is_cut_call(self, raw: JSON) -> bool:
        """Return whether the part is a call without a result, which the API rejects (anthropic-call-answered-next)."""
        return isinstance(raw, dict) and raw.get("type") == "tool_use" and raw.get("id") not in self._answered

    def _call(self, call: ToolCall) -> JSON:
        wire: dict[str, JSON] = {"type": "tool_use", "id": self._ids.of_call(call), "name": call.name}
        fields = own(call.provider_metadata, "anthropic")
        if "toolset_name" in fields:
            self._toolsets[call.id] = fields["toolset_name"]
        return {**wire, "input": call.arguments, **fields}

    def _result(self, result: ToolResult) -> JSON:
        wire: dict[str, JSON] = {"type": "tool_result", "tool_use_id": self._ids.of_result(result)}
        if isinstance(result.content, tuple):
            parts = [block for part in result.content for block in self._blocks(part, Role.USER)]
            if parts:
                wire["content"] = parts
        else:
            wire["content"] = result.content if isinstance(result.content, str) else compact(result.content)
        if result.is_error:
            wire |= {"content": wire.get("content") or "The tool failed without a message.", "is_error": True}
        if result.call_id in self._toolsets:
            wire["toolset_name"] = self._toolsets[result.call_id]  # anthropic-toolset-echoed
        return {**wire, **own(result.provider_metadata, "anthropic")}


def _entry(role: Role, blocks: list[JSON]) -> list[JSON]:
    is_blank = len(blocks) == 1 and (string(as_object(blocks[0]).get("text")) or "").isspace()
    return [{"role": role.value, "content": blocks}] if blocks and not is_blank else []


def _with_joined_results(history: tuple[Message, ...]) -> tuple[Message, ...]:
    joined: list[Message] = []
    for message in history:
        parts = message.parts
        if message.tool_results and joined and joined[-1].tool_results:
            parts = joined.pop().parts + parts
        results_first = sorted(parts, key=lambda part: not isinstance(part, ToolResult))
        joined.append(Message(message.role, tuple(results_first) if message.role is Role.USER else parts))
    return tuple(joined)


def _medium(part: Image | File) -> JSON:
    fields = own(part.provider_metadata, "anthropic")
    kind = "image" if isinstance(part, Image) else "document"
    if "source" in fields:  # such as an uploaded file, which has no canonical form
        return {"type": kind, **fields}
    if part.data is not None:
        return {"type": kind, "source": _inline_source(part, part.data), **fields}
    if part.uri is not None:
        return {"type": kind, "source": {"type": "url", "url": part.uri}, **fields}
    raise Unsupported("anthropic", type(part).__name__, "it has neither data nor a URI")


def _inline_source(part: Image | File, data: bytes) -> JSON:
    if part.media_type == "text/plain" and isinstance(part, File):
        try:
            return {"type": "text", "media_type": "text/plain", "data": data.decode()}
        except UnicodeDecodeError:
            raise Unsupported("anthropic", "a text file that is not UTF-8", "the API takes its text in JSON") from None
    legal = _IMAGE_TYPES if isinstance(part, Image) else {"application/pdf"}
    if part.media_type not in legal:
        raise Unsupported("anthropic", part.media_type, f"the API takes {', '.join(sorted(legal))}")
    return {"type": "base64", "media_type": part.media_type, "data": base64.b64encode(data).decode()}


# --- ids ---


_LEGAL = re.compile(r"[a-zA-Z0-9_-]+")


class AnthropicIds:
    """Maps the ids of a history to valid wire ids (anthropic-call-fields). Its methods must be called in the order
    of the history.

    Valid ids are kept. Any other id is replaced by a digest, which is the same in every request. Calls with an empty id
    are numbered; results without an id are matched to them by name, then by order.
    """

    def __init__(self) -> None:
        self._unanswered: dict[str, list[tuple[str, str]]] = {}
        self._empty = 0

    def of_call(self, call: ToolCall) -> str:
        """Return the wire id for the next call of the history."""
        if call.id:
            wire = _legal(call.id)
        else:
            self._empty += 1
            wire = _digest(f"empty id {self._empty}")
        self._unanswered.setdefault(call.id, []).append((call.name, wire))
        return wire

    def of_result(self, result: ToolResult) -> str:
        """Return the wire id of the call that this result belongs to."""
        calls = self._unanswered.get(result.call_id)
        if not calls:
            return _legal(result.call_id)
        place = next((index for index, (name, _) in enumerate(calls) if name == result.name), 0)
        return calls.pop(place)[1]


def _legal(call_id: str) -> str:
    return call_id if _LEGAL.fullmatch(call_id) else _digest(call_id)


def _digest(text: str) -> str:
    return "toolu_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


# --- models and schemas ---


_VERSION = re.compile(r"claude-([a-z]+)-(\d+)(?:-(\d{1,2}))?(?!\d)")


def is_adaptive(model: str) -> bool:
    """Return whether the model supports adaptive thinking: Claude 4.6 and later (anthropic-thinking-form)."""
    return _version(model) >= (4, 6)


def takes_prefill(model: str) -> bool:
    """Return whether a conversation may end with an assistant message: up to Claude 4.5 (anthropic-no-prefill)."""
    return _version(model) < (4, 6)


def takes_forced_choice(model: str) -> bool:
    """Return whether a tool choice may force a call. Some models of 2026 reject this (anthropic-no-forced-choice)."""
    family = _family(model)
    return (family, _version(model)) not in {
        ("fable", (5, 1)),
        ("mythos", (5, 1)),
        ("opus", (5, 5)),
        ("sonnet", (5, 5)),
    }


def refused_thinking(model: str) -> frozenset[str]:
    """Return the types of thinking that the model rejects.

    See anthropic-thinking-form, anthropic-no-thinking-budget, anthropic-fable-always-thinks,
    anthropic-opus-5-5-always-thinks and anthropic-sonnet-5-5-always-thinks.
    """
    family, version = _family(model), _version(model)
    if version < (4, 6):
        return frozenset({"adaptive"}) if family else frozenset()
    refused = {"enabled"} if version >= (4, 7) else set[str]()
    always_on = family in ("fable", "mythos") or (family in ("opus", "sonnet") and version == (5, 5))
    return frozenset(refused | {"disabled"} if always_on else refused)


def _family(model: str) -> str:
    named = _VERSION.search(model)
    return named[1] if named else ""


def _version(model: str) -> tuple[int, int]:
    named = _VERSION.search(model)
    return (int(named[2]), int(named[3] or 0)) if named else (0, 0)


_SCHEMAS_BY_NAME = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_SCHEMAS_IN_LIST = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_SCHEMA = frozenset({"items", "not", "if", "then", "else", "contains"})


def close_objects(schema: JSON) -> JSON:
    """Return a copy in which objects without `additionalProperties` have `"additionalProperties": false`.

    Raises:
        Unsupported: an object has another value of `additionalProperties`, which the API rejects.
    """
    if not isinstance(schema, dict):
        return schema
    copy = {keyword: _closed_inside(keyword, value) for keyword, value in schema.items()}
    kind = schema.get("type")
    is_object = kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in schema
    if is_object and copy.setdefault("additionalProperties", False) is not False:
        raise Unsupported("anthropic", "an open object in a response schema", "the API takes closed objects only")
    return copy


def _closed_inside(keyword: str, value: JSON) -> JSON:
    if keyword in _SCHEMAS_BY_NAME and isinstance(value, dict):
        return {name: close_objects(schema) for name, schema in value.items()}
    if keyword in _SCHEMAS_IN_LIST and isinstance(value, list):
        return [close_objects(schema) for schema in value]
    return close_objects(value) if keyword in _SCHEMA else value
