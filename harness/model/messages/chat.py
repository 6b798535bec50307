"""Tools, requests, responses and the events of a streamed response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from harness.model.errors import InvalidValue
from harness.model.messages.parts import JSON, Message, ProviderMetadata, ToolCall, check, no_metadata, put, sequence
from harness.model.messages.typed import BY_TYPE

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
    `reported`: it holds the library's original values that the wrapper had to replace (`harness.bridge`).
    """

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str | None = None
    raw_stop_reason: str | None = None
    reported: Mapping[str, JSON] = field(default_factory=dict[str, JSON])

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
