"""Canonical values that every adapter accepts and returns. They are frozen, have no behaviour and need no SDK.

The constructors check their arguments, because most values are sent to a provider much later. They accept short forms
(`Message("user", "Hi")`, a list for a tuple, `response_format="json"`). Anything else raises `InvalidValue`, which
lists the allowed values.

Rules for adapters:

- The system prompt is `ChatRequest.system`, never a message. `Role` has only two members.
- Ids that an API issued are sent back to it unchanged. For a call without an id, the adapter makes a unique one from
  the call's position in the history and marks it with `SYNTHESISED_ID`. It never sends that id as if the provider had
  issued it.
- `provider_metadata[api]` holds verbatim wire fields. An adapter sends back the fields of its own API unchanged and
  ignores all others. `Opaque` does the same for whole parts that have no class.
- Text is preserved to the code point and integers exactly; other numbers are preserved as doubles.
- An adapter honours `response_format` or raises `errors.Unsupported`; it never drops it silently.

Names in the five designs that this contract was written for, and the names used here:

=================================================  ==================================================
design                                             here
=================================================  ==================================================
`ToolCallRequest(id, name, args)`, `FunctionCall`  `ToolCall(id, name, arguments)`
`ToolResult.result`, `FunctionResponse.Response`   `ToolResult.content`
`Message.text`, `.tool_calls`, `.tool_results`     the same, derived from `Message.parts`
`tool_mode`                                        `ChatRequest.tool_choice`
`json_mode=True`                                   `ChatRequest.response_format = JsonMode()`
`GenerateRequest.SystemPrompt`, `system`           `ChatRequest.system`
`prompt_tokens`, `completion_tokens`               `Usage.input_tokens`, `Usage.output_tokens`
`InvokeParams`, `InvokeResult`                     `protocols.GenerationProvider.generate`, `Generation`
`HandleText`, `HandleToolUse`, …                   `protocols.MessageHandler.on_text`, `.on_tool_use`, …
`StopReason == "tool_use"`                         `ChatResponse.tool_calls` (the loop follows the calls)
=================================================  ==================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeAlias, cast, get_args

from typing_extensions import TypeAliasType

from harness.model.errors import InvalidValue
from harness.model.typed_json import BY_TYPE

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
    text = repr(given)  # the value may be a whole conversation
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
        reason = f"{_short(given)} is not a role. Allowed: 'user', 'assistant'."
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


# --- requests ---


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call.

    `parameters` is a JSON Schema of an object; `{}` means no arguments. Set `shown_while_written` to display arguments
    while the model writes them (`harness.kit.handlers`). An API that normally buffers arguments then streams them
    immediately. Such arguments may turn out to be invalid JSON.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)
    shown_while_written: bool = False


@dataclass(frozen=True, slots=True)
class NamedTool:
    """Tool choice that forces a call of this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Annotated[NamedTool, BY_TYPE]


@dataclass(frozen=True, slots=True)
class JsonMode:
    """Response format: any JSON."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """Response format: JSON that conforms to `schema`. `name` labels the schema on APIs that require a label."""

    schema: dict[str, JSON]
    name: str = "response"


ResponseFormat: TypeAlias = Annotated[JsonMode | JsonSchema, BY_TYPE]

Effort: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ThinkingSettings:
    """Settings for reasoning. Use `budget_tokens` only for models with token budgets, and `effort` for all others.

    Raises:
        InvalidValue: the effort does not exist.
    """

    effort: Effort | None = None
    budget_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.effort is not None and self.effort not in get_args(Effort):
            reason = f"{self.effort!r} is not an effort. Allowed: 'low', 'medium', 'high'."
            raise InvalidValue("ThinkingSettings.effort", reason)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request to a model: the whole history, and the settings for the response.

    Every field has a default. A request without messages is a template for a `harness.kit.thread.Thread`. Without a
    `model`, the client uses its default. `system=None` and `system=""` both mean that there is no system prompt.
    `cache` sets a cache mark on tools and system prompt, on APIs that have cache marks. `max_tokens` limits the
    response. `response_format="json"` is short for `JsonMode()`. A single string for `stop` is short for a tuple with
    that string.

    Raises:
        InvalidValue: a field has a value of the wrong type, or an unknown name.
    """

    model: str = ""
    messages: tuple[Message, ...] = ()
    system: str | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    thinking: ThinkingSettings | None = None
    cache: bool = False
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)

    if TYPE_CHECKING:  # the constructor accepts more types than the fields have

        def __init__(  # noqa: PLR0913, PLR0917 - its fields
            self,
            model: str = "",
            messages: Iterable[Message] = (),
            system: str | None = None,
            tools: Iterable[Tool] = (),
            tool_choice: ToolChoice | None = None,
            response_format: ResponseFormat | Literal["json"] | None = None,
            max_tokens: int | None = None,
            temperature: float | None = None,
            top_p: float | None = None,
            stop: str | Iterable[str] = (),
            thinking: ThinkingSettings | None = None,
            cache: bool = False,
            provider_metadata: ProviderMetadata = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        for name, kind in (("messages", Message), ("tools", Tool)):
            given: Any = getattr(self, name)
            if given.__class__ is not tuple:
                put(self, name, given := sequence(given, f"ChatRequest.{name}", kind.__name__))
            for each in given:
                if each.__class__ is not kind:
                    check(f"ChatRequest.{name}", each, (kind,), f"a list or a tuple of {kind.__name__}")
        if self.stop.__class__ is not tuple:
            stop: object = self.stop
            put(self, "stop", (stop,) if isinstance(stop, str) else sequence(stop, "ChatRequest.stop", "str"))
        if self.tool_choice not in (None, "auto", "none", "required"):
            allowed = "'auto', 'none', 'required', NamedTool('a name') or None"
            check("ChatRequest.tool_choice", self.tool_choice, (NamedTool,), allowed)
        response_format: Any = self.response_format
        if response_format == "json":
            put(self, "response_format", JsonMode())
        elif response_format is not None:
            allowed = "'json', JsonMode(), JsonSchema({…}) or None"
            check("ChatRequest.response_format", response_format, (JsonMode, JsonSchema), allowed)
        if self.thinking is not None:
            check("ChatRequest.thinking", self.thinking, (ThinkingSettings,), "ThinkingSettings(effort=…) or None")


# --- responses ---


class StopReason(StrEnum):
    """Why the model stopped. A reason that the adapter does not know is `UNKNOWN`."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSE = "pause"
    MALFORMED_CALL = "malformed_call"
    ERROR = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts, in one convention for all APIs.

    `input_tokens` includes tokens read from or written to a cache; `output_tokens` includes reasoning. `None` means
    that the provider reported no count.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the sum. If only one of them has a count, that count is kept."""
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cache_read_tokens, other.cache_read_tokens),
            _sum(self.cache_write_tokens, other.cache_write_tokens),
            _sum(self.reasoning_tokens, other.reasoning_tokens),
        )


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """The model's response. `message` is appended to the history.

    `raw_stop_reason` is the provider's own term, and `model` is the model that the provider reported. Only wrappers set
    `reported`: it holds the library's original values that the wrapper had to replace (`harness.bridge`). `id` is the
    provider's id of the response, by which a later request can continue a conversation that the provider keeps.
    """

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str | None = None
    raw_stop_reason: str | None = None
    reported: Mapping[str, JSON] = field(default_factory=dict[str, JSON])
    id: str | None = None

    @property
    def text(self) -> str:
        """The text of the response."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the response, in order."""
        return self.message.tool_calls


# --- events ---


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """The start of a tool call. `index` counts the calls of the response from 0; later events of the call repeat it."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A piece of the JSON text of a call's arguments; see `harness.kit.handlers.PartialArguments`."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """The end of a complete tool call. A truncated call has no such event."""

    index: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The last event of every stream: the whole response, equal to the one that `chat` would have returned."""

    response: ChatResponse


StreamEvent: TypeAlias = Annotated[
    TextDelta | ThinkingDelta | ToolCallStart | ArgumentsDelta | ToolCallEnd | Finish, BY_TYPE
]
"""An event of a streamed response. `ToolCallStart` and `ToolCallEnd` are the first and the last event of a call.
Several calls may be open at once.
"""
