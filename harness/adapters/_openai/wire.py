"""Spelling that both APIs share: ids, media, settings and strict schemas."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import re
from itertools import count
from typing import TYPE_CHECKING

from harness.contract.errors import Unsupported
from harness.contract.model import Role, Text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from harness.contract.model import (
        JSON,
        ChatRequest,
        File,
        Image,
        Message,
        Part,
        ThinkingSettings,
        ToolChoice,
        ToolResult,
    )


# --- ids and fields ---


def is_legal(call_id: str, longest: int) -> bool:
    """An API whose ids have at most `longest` characters takes this id, whoever issued it."""
    return 0 < len(call_id) <= longest


def synthesised(position: int, taken: Collection[str]) -> str:
    """An id for a call that came without one; `position` counts the calls before it in the history."""
    return next(call_id for n in count(position) if (call_id := f"call_{n}") not in taken)


class WireIds:
    """The ids of one history, asked for in its order → the ids that stand for them on the wire, one-to-one.

    Ids that the API issued or takes, up to `longest` characters, stay as they are. Any other becomes a digest of
    itself, so that it is the same in every request of a conversation. Calls with an empty id are told apart by their
    order; their results find them by name, then by order.
    """

    def __init__(self, history: Iterable[Message], longest: int) -> None:
        self._longest = longest
        self._taken = {call.id for message in history for call in message.tool_calls}
        self._issued: set[str] = set()
        self._empty = 0
        self._unanswered: list[tuple[str, str]] = []

    def issued(self, call_id: str) -> str:
        """The id of a call that came from this API with it."""
        self._issued.add(call_id)
        return call_id

    def of_call(self, call_id: str, name: str) -> str:
        """The id of the next call."""
        if call_id:
            return self._wire_id(call_id)
        self._empty += 1
        wire = self._substitute(f"empty id {self._empty}")
        self._unanswered.append((name, wire))
        return wire

    def of_result(self, result: ToolResult) -> str:
        """The id of the call that the next result answers."""
        if result.call_id or not self._unanswered:
            return self._wire_id(result.call_id)
        names = [name for name, _ in self._unanswered]
        return self._unanswered.pop(names.index(result.name) if result.name in names else 0)[1]

    def _wire_id(self, call_id: str) -> str:
        return call_id if call_id in self._issued or is_legal(call_id, self._longest) else self._substitute(call_id)

    def _substitute(self, text: str) -> str:
        digests = (hashlib.sha256(f"{n}:{text}".encode(errors="surrogatepass")).hexdigest() for n in count())
        return next(wire for digest in digests if (wire := f"call_{digest[:24]}") not in self._taken)


def parted(fields: Mapping[str, JSON], taken: AbstractSet[str]) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """The fields that go back to where they came from (`taken`), and those that are only shown."""
    back = {key: value for key, value in fields.items() if key in taken}
    return back, {key: value for key, value in fields.items() if key not in taken}


# --- content ---


def collapsed(content: list[JSON], kind: str) -> JSON:
    """Return a single plain text part of this `kind` as a string, anything else as a list of parts."""
    match content:
        case [{"type": str(type_), "text": text, **others}] if type_ == kind and not others:
            return text
        case _:
            return content


def encoded(data: bytes) -> str:
    """Base64."""
    return base64.b64encode(data).decode()


def url(part: Image | File, api: str) -> str:
    """Return the address of the media, or a data URL. Raises `Unsupported` without either."""
    if part.data is not None:
        return f"data:{part.media_type};base64,{encoded(part.data)}"
    if part.uri is None:
        raise unsupported(api, part, "it has neither data nor a place")
    return part.uri


def filename(media_type: str) -> str:
    """A name for a file that has none: the API tells by its ending what it is."""
    return f"file{mimetypes.guess_extension(media_type) or ''}"


def unsupported(api: str, part: Part, reason: str) -> Unsupported:
    """The refusal of a part."""
    return Unsupported(api, type(part).__name__, reason)


# --- settings ---


def is_reasoning(model: str) -> bool:
    """The model reasons: it has the role `developer` and encrypted reasoning to give, and refuses sampling parameters
    (openai-chat-system-anywhere, openai-chat-max-completion-tokens, openai-responses-reasoning-back)."""
    return re.match(r"(gpt-[56]|o\d)(?!.*-chat)", model) is not None


def is_of_mistral(model: str) -> bool:
    """Mistral makes the model: it knows `max_tokens` only (openai-chat-mistral-max-completion-tokens-refused)."""
    return re.match(r"(mistral|ministral|magistral|codestral|devstral|pixtral)-", model) is not None


def user_says_json(messages: Iterable[Message]) -> bool:
    """The user says "json", without which JSON mode is refused (openai-chat-word-json, openai-responses-word-json).

    What the model or a tool said does not count, lest a growing history drops the instruction from its beginning.
    """
    parts = (part for message in messages if message.role is Role.USER for part in message.parts)
    return any("json" in part.text.lower() for part in parts if isinstance(part, Text))


def tool_choice(request: ChatRequest, api: str) -> ToolChoice | None:
    """The choice to send, or `None`.

    Without tools the field is refused (openai-chat-choice-needs-tools), and "auto" and "none" mean what is so anyway.

    Raises:
        Unsupported: a call is demanded and there are no tools.
    """
    choice = request.tool_choice
    if request.tools or choice in (None, "auto", "none"):
        return choice if request.tools else None
    raise Unsupported(api, "tool_choice", "a call is demanded and there are no tools")


def effort(thinking: ThinkingSettings, api: str) -> str:
    """The effort that is asked for.

    Raises:
        Unsupported: only a budget of tokens is given.
    """
    if thinking.effort is None and thinking.budget_tokens is not None:
        raise Unsupported(api, "thinking", "the API has efforts and no token budgets")
    return thinking.effort or "medium"


def sampling(request: ChatRequest, model: str, api: str, **others: JSON) -> dict[str, JSON]:
    """Temperature, top_p and `others` like them, as far as they are asked for.

    Raises:
        Unsupported: the model takes none of them (openai-chat-max-completion-tokens).
    """
    asked: dict[str, JSON] = {"temperature": request.temperature, "top_p": request.top_p, **others}
    sent: dict[str, JSON] = {key: value for key, value in asked.items() if value is not None}
    if sent and is_reasoning(model):
        raise Unsupported(api, ", ".join(sent), f"{model} refuses sampling parameters")
    return sent


# --- strict schemas ---


_NOT_STRICT = frozenset(
    {
        "allOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        "propertyNames",
        "unevaluatedProperties",
    }
)
"""Keywords without a strict form."""


class _NoStrictFormError(Exception):
    """The schema describes something that no strict schema does."""


def strict_form(schema: dict[str, JSON]) -> dict[str, JSON] | None:
    """The schema with every object closed, every property required, optional ones nullable, and defaults dropped.

    `None` if that would describe something else: maps, objects or values without constraints, keywords without a strict
    form. The root has to be an object.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _rewritten(schema)
    except _NoStrictFormError:
        return None


def _rewritten(schema: JSON) -> dict[str, JSON]:
    if not isinstance(schema, dict) or _NOT_STRICT & schema.keys():
        raise _NoStrictFormError
    if "$ref" in schema:
        if schema.keys() - {"$ref", "default"}:  # they would have to be merged into what it refers to
            raise _NoStrictFormError
        return {"$ref": schema["$ref"]}
    types = _types(schema)
    if not types and not {"enum", "const", "anyOf"} & schema.keys():
        raise _NoStrictFormError
    if "array" in types and "items" not in schema:
        raise _NoStrictFormError
    result: dict[str, JSON] = {key: _keyword(key, value) for key, value in schema.items() if key != "default"}
    return result | _closed(result) if "object" in types else result


def _types(schema: dict[str, JSON]) -> list[JSON]:
    types = schema.get("type")
    return types if isinstance(types, list) else [] if types is None else [types]


def _keyword(key: str, value: JSON) -> JSON:
    if key in {"properties", "$defs", "definitions"} and isinstance(value, dict):
        return {name: _rewritten(schema) for name, schema in value.items()}
    if key == "anyOf" and isinstance(value, list):
        return [_rewritten(schema) for schema in value]
    return _rewritten(value) if key == "items" else value


def _closed(schema: dict[str, JSON]) -> dict[str, JSON]:
    """An object whose properties are in strict form → `properties`, `required` and `additionalProperties` in it."""
    properties = schema.get("properties")
    additional = schema.get("additionalProperties")
    if additional not in (None, False) or (not properties and additional is None):
        raise _NoStrictFormError
    required = schema.get("required")
    return {
        "properties": {
            name: value if isinstance(required, list) and name in required else _nullable(value)
            for name, value in _items(properties)
        },
        "required": [name for name, _ in _items(properties)],
        "additionalProperties": False,
    }


def _items(properties: JSON) -> list[tuple[str, dict[str, JSON]]]:
    entries = properties.items() if isinstance(properties, dict) else ()
    return [(name, schema) for name, schema in entries if isinstance(schema, dict)]


def _nullable(schema: dict[str, JSON]) -> dict[str, JSON]:
    types = _types(schema)
    if types and not {"enum", "const", "anyOf"} & schema.keys():
        return {**schema, "type": types if "null" in types else [*types, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
