"""Roles, message parts and messages, and the argument checks that all values share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeAlias, cast, get_args

from typing_extensions import TypeAliasType

from harness.model.errors import InvalidValue
from harness.model.messages.typed import BY_TYPE

if TYPE_CHECKING:
    JSON: TypeAlias = "None | bool | int | float | str | list[JSON] | dict[str, JSON]"
else:  # pydantic resolves a recursive alias by its name only
    JSON = TypeAliasType("JSON", "None | bool | int | float | str | list[JSON] | dict[str, JSON]")
"""A JSON value as `json.loads` returns it, without NaN and infinities."""

ProviderMetadata: TypeAlias = Mapping[str, JSON]
"""API name → verbatim wire fields of that API."""

SYNTHESISED_ID = "synthesised_id"
"""Key under `provider_metadata["harness"]` of a `ToolCall` whose id the adapter made, because the API issued none."""

JSON_INSTRUCTION = "Respond with a single JSON value and nothing else."
"""Instruction for JSON mode on APIs that need one, sent as a block of its own.

Anthropic has no JSON mode. OpenAI requires the word "json" in the messages (openai-chat-word-json,
openai-responses-word-json). The user's texts and the system prompt are sent unchanged.
"""


# --- checks ---


put = object.__setattr__
"""Set a field of a frozen value during construction."""


def sequence(given: object, place: str, members: str) -> tuple[Any, ...]:
    """Return a list or another iterable as a tuple.

    Raises:
        InvalidValue: the value is a string, bytes, a mapping, or not iterable.
    """
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        refuse(place, cast("object", given), f"a list or a tuple of {members}")
    return tuple(cast("Iterable[Any]", given))


def check(place: str, given: object, kinds: tuple[type, ...], allowed: str) -> None:
    """Check that a value has one of the types `kinds`.

    Raises:
        InvalidValue: it has another type. The message states what is `allowed`.
    """
    if not isinstance(given, kinds):
        refuse(place, given, allowed)


def refuse(place: str, given: object, allowed: str) -> NoReturn:
    """Raise `InvalidValue`."""
    raise InvalidValue(place, f"{_short(given)} is not allowed. Allowed: {allowed}.")


def _short(given: object) -> str:
    text = repr(given)  # of a whole conversation, perhaps
    return text if isinstance(given, str | int) and len(text) <= 40 else f"a {type(given).__name__}"


# --- parts ---


def no_metadata() -> dict[str, JSON]:
    """Return the default of `provider_metadata`."""
    return {}


class Role(StrEnum):
    """The author of a message. There is no system, function or tool role."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: its bytes with their media type, or its URI."""

    media_type: str
    data: bytes | None = None
    uri: str | None = None
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class File:
    """A document, sound or video: its bytes with their media type, or its URI."""

    media_type: str
    data: bytes | None = None
    uri: str | None = None
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call by the model. `arguments` are complete and parsed; a truncated call is an `Opaque`."""

    id: str
    name: str
    arguments: dict[str, JSON]
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of the call `call_id`. `content` is a JSON value, or a tuple of parts for media."""

    call_id: str
    name: str
    content: JSON | tuple[Annotated[Text | Image | File | Opaque, BY_TYPE], ...]
    is_error: bool = False
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)

    @property
    def text(self) -> str:
        """The content as one string: a string unchanged, text parts joined, any other JSON value in compact form."""
        if isinstance(self.content, tuple):
            return "".join(part.text for part in self.content if isinstance(part, Text))
        if isinstance(self.content, str):
            return self.content
        return json.dumps(self.content, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning that the model shows. `text` may be empty; the signature in `provider_metadata` must still be sent
    back.
    """

    text: str
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model's text when it refuses to answer."""

    text: str
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A wire part that has no class here. It keeps its position and is sent back unchanged to `api`, but to no
    other API.
    """

    api: str
    raw: JSON


_AnyPart: TypeAlias = Text | Image | File | ToolCall | ToolResult | Thinking | Refusal | Opaque
Part: TypeAlias = Annotated[_AnyPart, BY_TYPE]

PART_CLASSES: tuple[type, ...] = get_args(_AnyPart)
"""All classes of parts."""

_PARTS_ALLOWED = f"one text, or parts: {', '.join(each.__name__ for each in PART_CLASSES)}"


def _role(given: object) -> Role:
    try:
        return Role(given)
    except ValueError:
        reason = f"{_short(given)} is no role. Allowed: 'user', 'assistant'."
        if given in ("system", "developer"):
            reason += " The system prompt is ChatRequest.system."
        if given in ("tool", "function"):
            reason += " Results are ToolResult parts of a user message."
        raise InvalidValue("Message.role", reason) from None


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the history.

    The constructor also accepts a role by its name, and a plain string in place of a single text part.

    Raises:
        InvalidValue: the role does not exist, or an item is not a part.
    """

    role: Role
    parts: tuple[Part, ...]

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(self, role: Role | Literal["user", "assistant"], parts: str | Iterable[Part]) -> None: ...

    def __post_init__(self) -> None:
        if self.role.__class__ is not Role:
            put(self, "role", _role(self.role))
        if self.parts.__class__ is not tuple:
            parts: object = self.parts
            put(self, "parts", (Text(parts),) if isinstance(parts, str) else sequence(parts, "Message.parts", "parts"))
        for part in self.parts:
            if part.__class__ not in PART_CLASSES:  # subclasses are allowed, but slower to check
                check("Message.parts", part, PART_CLASSES, _PARTS_ALLOWED)

    @staticmethod
    def user(text: str) -> Message:
        """Return a user message with one text part."""
        return Message(Role.USER, (Text(text),))

    @property
    def text(self) -> str:
        """The text parts, joined without a separator."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        """The tool results, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))
