"""What is said: roles, parts, messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, get_args

from typing_extensions import TypeAliasType

from harness.contract.errors import InvalidValue
from harness.contract.model.coercion import check, kind_name, put, sequence, shown
from harness.contract.model.typed import BY_TYPE

if TYPE_CHECKING:
    JSON: TypeAlias = "None | bool | int | float | str | list[JSON] | dict[str, JSON]"
else:  # pydantic resolves a recursive alias by its name only
    JSON = TypeAliasType("JSON", "None | bool | int | float | str | list[JSON] | dict[str, JSON]")
"""A JSON value as `json.loads` gives it, without NaN and infinities."""

ProviderMetadata: TypeAlias = Mapping[str, JSON]
"""API name → verbatim wire fields of that API."""

SYNTHESISED_ID = "synthesised_id"
"""Key under `provider_metadata["harness"]` of a `ToolCall` whose id the adapter made, since the API issued none."""

JSON_INSTRUCTION = "Respond with a single JSON value and nothing else."
"""The block of its own that JSON mode needs where an API has no switch for it (Anthropic) or demands the word "json"
in the messages (OpenAI: openai-chat-word-json, openai-responses-word-json). The user's and the system's text stay
verbatim beside it."""


def no_metadata() -> dict[str, JSON]:
    """The wire fields of what has none."""
    return {}


class Role(StrEnum):
    """Who speaks. There is no system, function or tool role."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: its bytes with their media type, or the place where it lies."""

    media_type: str
    data: bytes | None = None
    uri: str | None = None
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class File:
    """A document or another medium: its bytes with their media type, or the place where it lies."""

    media_type: str
    data: bytes | None = None
    uri: str | None = None
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for a tool. `arguments` are complete and parsed; a call cut short is never one of these."""

    id: str
    name: str
    arguments: dict[str, JSON]
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered to the call `call_id`. `content` is a JSON value, or a tuple of parts for media."""

    call_id: str
    name: str
    content: JSON | tuple[Annotated[Text | Image | File | Opaque, BY_TYPE], ...]
    is_error: bool = False
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)

    @property
    def text(self) -> str:
        """The content as one text: a string as it is, text parts joined, any other JSON value compactly written."""
        if isinstance(self.content, tuple):
            return "".join(part.text for part in self.content if isinstance(part, Text))
        if isinstance(self.content, str):
            return self.content
        return json.dumps(self.content, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning that the model shows. `text` may be empty: a signature in `provider_metadata` still has to go back."""

    text: str
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model's own words for not answering."""

    text: str
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A wire part without a type here, kept in its place: sent back to `api` as it came, ignored by any other."""

    api: str
    raw: JSON


_AnyPart: TypeAlias = Text | Image | File | ToolCall | ToolResult | Thinking | Refusal | Opaque
Part: TypeAlias = Annotated[_AnyPart, BY_TYPE]

PART_CLASSES: tuple[type, ...] = get_args(_AnyPart)
"""The classes of parts."""


def _role(given: object) -> Role:
    try:
        return Role(given)
    except ValueError:
        reason = f"{shown(given)} is no role. Allowed: 'user', 'assistant'."
        if given in ("system", "developer"):
            reason += " The system prompt is ChatRequest.system."
        if given in ("tool", "function"):
            reason += " Results are ToolResult parts of a user message."
        raise InvalidValue("Message.role", reason) from None


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the history. A role may be given by its name, and one text part by its text.

    Raises:
        InvalidValue: there is no such role, or something is no part.
    """

    role: Role
    parts: tuple[Part, ...]

    if TYPE_CHECKING:  # what may be given is more than what is there

        def __init__(self, role: Role | Literal["user", "assistant"], parts: str | Iterable[Part]) -> None: ...

    def __post_init__(self) -> None:
        if self.role.__class__ is not Role:
            put(self, "role", _role(self.role))
        if self.parts.__class__ is not tuple:
            parts: object = self.parts
            put(self, "parts", (Text(parts),) if isinstance(parts, str) else sequence(parts, "Message.parts", "parts"))
        for part in self.parts:
            if part.__class__ not in PART_CLASSES:
                check(
                    "Message.parts",
                    part,
                    PART_CLASSES,
                    f"one text, or parts: {', '.join(map(kind_name, PART_CLASSES))}",
                )

    @staticmethod
    def user(text: str) -> Message:
        """A user message of one text part."""
        return Message(Role.USER, (Text(text),))

    @property
    def text(self) -> str:
        """All text parts, joined without a separator."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls, in their order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The results, in their order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))
