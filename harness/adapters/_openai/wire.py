"""Request parts shared by Chat Completions and Responses: ids, media, settings and strict schemas."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import re
from itertools import count as numbers
from typing import TYPE_CHECKING

from harness.adapters._common import as_object, count
from harness.model.errors import Unsupported
from harness.model.messages import NamedTool, Role, Text, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from harness.model.messages import (
        JSON,
        ChatRequest,
        File,
        Image,
        JsonSchema,
        Message,
        Part,
        ThinkingSettings,
        ToolResult,
    )


# --- ids and fields ---

TOOL_NAME = r"[a-zA-Z0-9_-]{1,64}"
"""Pattern of tool names (openai-chat-names, openai-responses-tool-form)."""


def is_legal(call_id: str, max_id_characters: int) -> bool:
    """Return whether the API accepts this id, which must not be empty or longer than the maximum."""
    return 0 < len(call_id) <= max_id_characters


def legal_name(name: str) -> str:
    """Return a call's name in a form that both APIs accept in a history. A model may call a nonexistent tool, under any
    name (openai-chat-name-pattern, openai-responses-call-name).
    """
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "_"


def synthesise_id(position: int, taken: Collection[str]) -> str:
    """Return an id for a call without one; `position` is the number of calls before it in the history."""
    return next(call_id for n in numbers(position) if (call_id := f"call_{n}") not in taken)


class OpenAIIds:
    """Maps canonical call ids to wire ids, one to one. Its methods must be called in the order of the history.

    Ids that the API issued or that have at most `max_id_characters` are kept. Longer ones are replaced by a
    digest, which is the same in every request of a conversation. Calls with an empty id are numbered; results without
    an id are matched to them by name, then by order.
    """

    def __init__(self, history: Iterable[Message], max_id_characters: int) -> None:
        self._max_id_characters = max_id_characters
        self._taken = {call.id for message in history for call in message.tool_calls}
        self._issued: set[str] = set()
        self._empty = 0
        self._unanswered: list[tuple[str, str]] = []

    def mark_issued(self, call_id: str) -> str:
        """Mark an id as issued by this API, so that it is never replaced, and return it."""
        self._issued.add(call_id)
        return call_id

    def of_call(self, call_id: str, name: str) -> str:
        """Return the wire id for the next call of the history."""
        if call_id:
            return self._wire_id(call_id)
        self._empty += 1
        wire = self._substitute(f"empty id {self._empty}")
        self._unanswered.append((name, wire))
        return wire

    def of_result(self, result: ToolResult) -> str:
        """Return the wire id of the call that this result belongs to."""
        if result.call_id or not self._unanswered:
            return self._wire_id(result.call_id)
        names = [name for name, _ in self._unanswered]
        return self._unanswered.pop(names.index(result.name) if result.name in names else 0)[1]

    def _wire_id(self, call_id: str) -> str:
        return (
            call_id
            if call_id in self._issued or is_legal(call_id, self._max_id_characters)
            else self._substitute(call_id)
        )

    def _substitute(self, text: str) -> str:
        digests = (hashlib.sha256(f"{n}:{text}".encode(errors="surrogatepass")).hexdigest() for n in numbers())
        return next(wire for digest in digests if (wire := f"call_{digest[:24]}") not in self._taken)


def split_fields(fields: Mapping[str, JSON], taken: AbstractSet[str]) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """Split fields into those to send back (names in `taken`) and the rest."""
    back = {key: value for key, value in fields.items() if key in taken}
    return back, {key: value for key, value in fields.items() if key not in taken}


# --- content ---


def collapse_text(content: list[JSON], kind: str) -> JSON:
    """Return the text if the content is a single plain text part of type `kind`; otherwise return it unchanged."""
    match content:
        case [{"type": str(type_), "text": text, **others}] if type_ == kind and not others:
            return text
        case _:
            return content


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url(part: Image | File, api: str) -> str:
    """Return the media's URI or a data URL. Raises `Unsupported` if it has neither URI nor data."""
    if part.data is not None:
        return f"data:{part.media_type};base64,{base64_text(part.data)}"
    if part.uri is None:
        raise unsupported_part(api, part, "it has neither data nor a URI")
    return part.uri


def filename(media_type: str) -> str:
    """Return a name for a file that has none; the API needs the extension."""
    return f"file{mimetypes.guess_extension(media_type) or ''}"


def unsupported_part(api: str, part: Part, reason: str) -> Unsupported:
    return Unsupported(api, type(part).__name__, reason)


def read_usage(usage: JSON, received: str, sent: str) -> Usage:
    """Return the usage. `received` and `sent` name the fields with the input and output totals, which include the
    detailed counts (openai-chat-usage, openai-responses-usage).
    """
    counts = as_object(usage)
    return Usage(
        input_tokens=count(counts, received),
        output_tokens=count(counts, sent),
        cache_read_tokens=count(counts.get(f"{received}_details"), "cached_tokens"),
        cache_write_tokens=count(counts.get(f"{received}_details"), "cache_write_tokens"),
        reasoning_tokens=count(counts.get(f"{sent}_details"), "reasoning_tokens"),
    )


# --- settings ---


def is_reasoning(model: str) -> bool:
    """Return whether this is a reasoning model.

    Such models use the role `developer`, return encrypted reasoning and reject sampling parameters
    (openai-chat-system-anywhere, openai-chat-max-completion-tokens, openai-responses-reasoning-back).
    """
    return re.match(r"(gpt-[56]|o\d)(?!.*-chat)", model) is not None


def is_of_mistral(model: str) -> bool:
    """Return whether this is a Mistral model. Mistral models accept `max_tokens` but not `max_completion_tokens`
    (openai-chat-mistral-max-completion-tokens-refused).
    """
    return re.match(r"(mistral|ministral|magistral|codestral|devstral|pixtral)-", model) is not None


def user_says_json(messages: Iterable[Message]) -> bool:
    """Return whether a user message contains "json", which JSON mode requires (openai-chat-word-json,
    openai-responses-word-json).

    If none does, the adapter may add an instruction with this word. Responses do not count. Otherwise a response with
    "json" would make the instruction disappear from later requests.
    """
    parts = (part for message in messages if message.role is Role.USER for part in message.parts)
    return any("json" in part.text.lower() for part in parts if isinstance(part, Text))


def tool_choice(request: ChatRequest, api: str, by_name: Callable[[str], JSON]) -> dict[str, JSON]:
    """Return the tool choice field, or `{}` if it can be left out. The API rejects the field without tools
    (openai-chat-choice-needs-tools).

    `by_name` builds the choice of a single tool from its name.

    Raises:
        Unsupported: the request forces a tool call, but has no tools.
    """
    choice = request.tool_choice
    if choice is None or (not request.tools and choice in ("auto", "none")):
        return {}
    if request.tools:
        return {"tool_choice": by_name(choice.name) if isinstance(choice, NamedTool) else choice}
    raise Unsupported(api, "tool_choice", "a call is forced, but there are no tools")


def effort(thinking: ThinkingSettings, api: str) -> str:
    """Return the requested effort.

    Raises:
        Unsupported: the settings have only a token budget.
    """
    if thinking.effort is None and thinking.budget_tokens is not None:
        raise Unsupported(api, "thinking", "the API has efforts and no token budgets")
    return thinking.effort or "medium"


def sampling(request: ChatRequest, model: str, api: str, **others: JSON) -> dict[str, JSON]:
    """Return the sampling settings of the request: temperature, top_p and `others`.

    Raises:
        Unsupported: the model rejects them (openai-chat-max-completion-tokens).
    """
    settings: dict[str, JSON] = {"temperature": request.temperature, "top_p": request.top_p, **others}
    sent: dict[str, JSON] = {key: value for key, value in settings.items() if value is not None}
    if sent and is_reasoning(model):
        raise Unsupported(api, ", ".join(sent), f"{model} refuses sampling parameters")
    return sent


# --- strict schemas ---


_NOT_STRICT = frozenset(
    {
        *("allOf", "oneOf", "not", "if", "then", "else", "dependentRequired"),
        *("dependentSchemas", "patternProperties", "propertyNames", "unevaluatedProperties"),
    }
)
"""Keywords that strict schemas do not support."""


def schema_format(response_format: JsonSchema) -> dict[str, JSON]:
    """Return the name, the schema and the strictness of a response format. The schema is converted to strict form if
    possible."""
    strict = _strict_form(response_format.schema)
    return {"name": response_format.name, "schema": strict or response_format.schema, "strict": strict is not None}


class _NoStrictFormError(Exception):
    """The schema has no strict form."""


def _strict_form(schema: dict[str, JSON]) -> dict[str, JSON] | None:
    """Convert to a strict schema: all objects closed, all properties required, optional ones nullable, no defaults.

    Return `None` if the conversion would change the meaning: for maps, unconstrained objects or values, unsupported
    keywords, or a root that is not an object.
    """
    if schema.get("type") != "object":
        return None
    try:
        return _strict_schema(schema)
    except _NoStrictFormError:
        return None


def _strict_schema(schema: JSON) -> dict[str, JSON]:
    if not isinstance(schema, dict) or _NOT_STRICT & schema.keys():
        raise _NoStrictFormError
    if "$ref" in schema:
        if schema.keys() - {"$ref", "default"}:  # siblings would have to be merged into the referenced schema
            raise _NoStrictFormError
        return {"$ref": schema["$ref"]}
    types = _types(schema)
    if not types and not {"enum", "const", "anyOf"} & schema.keys():
        raise _NoStrictFormError
    if "array" in types and "items" not in schema:
        raise _NoStrictFormError
    result: dict[str, JSON] = {key: _keyword(key, value) for key, value in schema.items() if key != "default"}
    return result | _strict_object(result) if "object" in types else result


def _types(schema: dict[str, JSON]) -> list[JSON]:
    types = schema.get("type")
    return types if isinstance(types, list) else [] if types is None else [types]


def _keyword(key: str, value: JSON) -> JSON:
    if key in {"properties", "$defs", "definitions"} and isinstance(value, dict):
        return {name: _strict_schema(schema) for name, schema in value.items()}
    if key == "anyOf" and isinstance(value, list):
        return [_strict_schema(schema) for schema in value]
    return _strict_schema(value) if key == "items" else value


def _strict_object(schema: dict[str, JSON]) -> dict[str, JSON]:
    """Return `properties`, `required` and `additionalProperties` of an object after converting its properties to strict
    form."""
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
