"""The canonical contract: the values that every adapter takes and gives. Frozen, without behaviour, without an SDK.

Values check what they are given, since most of them reach a provider only much later: what can be meant in one way only
is taken (`Message("user", "Hi")`, a list for a tuple, `response_format="json"`), and anything else is `InvalidValue`,
which says what is allowed.

What an adapter must do with them:

- The system prompt is `ChatRequest.system`, never a message. `Role` has no third member.
- Ids that an API issued return to it unchanged. A call that came without one gets an id from the adapter: a function
  of its position in the history, unique, marked by `SYNTHESISED_ID`, never sent as if the provider had issued it.
- `provider_metadata[api]` are verbatim wire fields. An adapter returns what stands under its own API untouched and
  ignores the rest. `Opaque` does the same for whole parts that have no type of their own.
- Text is equal to the code point; integers are exact, other numbers equal as doubles.
- `response_format` is honoured or refused with `errors.Unsupported`; it is never silently dropped.

How the names of the five designs that asked for this map onto these:

=================================================  ==================================================
their name                                         here
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
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, cast, get_args

from typing_extensions import TypeAliasType

from harness.contract.errors import InvalidValue

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


def _no_metadata() -> dict[str, JSON]:
    return {}


class Role(StrEnum):
    """Who speaks. There is no system, function or tool role."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: its bytes with their media type, or the place where it lies."""

    media_type: str
    data: bytes | None = None
    uri: str | None = None
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)


@dataclass(frozen=True, slots=True)
class File:
    """A document or another medium: its bytes with their media type, or the place where it lies."""

    media_type: str
    data: bytes | None = None
    uri: str | None = None
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for a tool. `arguments` are complete and parsed; a call cut short is never one of these."""

    id: str
    name: str
    arguments: dict[str, JSON]
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered to the call `call_id`. `content` is a JSON value, or a tuple of parts for media."""

    call_id: str
    name: str
    content: JSON | tuple[Text | Image | File | Opaque, ...]
    is_error: bool = False
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)

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
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)


@dataclass(frozen=True, slots=True)
class Refusal:
    """The model's own words for not answering."""

    text: str
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)


@dataclass(frozen=True, slots=True)
class Opaque:
    """A wire part without a type here, kept in its place: sent back to `api` as it came, ignored by any other."""

    api: str
    raw: JSON


Part: TypeAlias = Text | Image | File | ToolCall | ToolResult | Thinking | Refusal | Opaque

_PARTS = get_args(Part)


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
            _set(self, "role", _role(self.role))
        if self.parts.__class__ is not tuple:
            parts: object = self.parts
            _set(
                self, "parts", (Text(parts),) if isinstance(parts, str) else _sequence(parts, "Message.parts", "parts")
            )
        for part in self.parts:
            if part.__class__ not in _PARTS:
                _check("Message.parts", part, _PARTS, f"one text, or parts: {', '.join(map(_name, _PARTS))}")

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


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. `parameters` is a JSON Schema of an object; `{}` takes no arguments.

    `shown_while_written`: somebody wants to see the arguments while the model writes them (`harness.kit.streamed`), so
    an API that else holds them back is asked to stream them at once. What arrives then may turn out to be no JSON.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)
    shown_while_written: bool = False


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool choice that forces this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True)
class JsonMode:
    """The answer is JSON, of whatever shape."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """The answer is JSON that conforms to `schema`. `name` labels the schema where an API wants a label."""

    schema: dict[str, JSON]
    name: str = "response"


ResponseFormat: TypeAlias = JsonMode | JsonSchema

Effort: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ThinkingSettings:
    """Asks the model to reason. `budget_tokens` only where a profile has token budgets, else `effort`.

    Raises:
        InvalidValue: there is no such effort.
    """

    effort: Effort | None = None
    budget_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.effort is not None and self.effort not in get_args(Effort):
            raise InvalidValue("ThinkingSettings.effort", f"{self.effort!r} is none. Allowed: 'low', 'medium', 'high'.")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One question to a model: the whole history, and how to answer.

    All of it may be left out: what has no messages yet is a template, to begin a `harness.kit.thread.Thread` with. No
    `model` means the one that the client was made for. `system=None` and `system=""` both mean that there is no system
    prompt. `cache` asks for a cache mark on tools and system prompt where the API has one. `max_tokens` bounds the
    answer, in tokens. `response_format="json"` is `JsonMode()`, and one text for `stop` a tuple of it.

    Raises:
        InvalidValue: a message or a tool is none, or there is no such tool choice, response format or thinking.
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
    provider_metadata: ProviderMetadata = field(default_factory=_no_metadata)

    if TYPE_CHECKING:  # what may be given is more than what is there

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
                _set(self, name, given := _sequence(given, f"ChatRequest.{name}", _name(kind)))
            for each in given:
                if each.__class__ is not kind:
                    _check(f"ChatRequest.{name}", each, (kind,), f"a list or a tuple of {_name(kind)}")
        if self.stop.__class__ is not tuple:
            stop: object = self.stop
            _set(self, "stop", (stop,) if isinstance(stop, str) else _sequence(stop, "ChatRequest.stop", "str"))
        if self.tool_choice is not None and not isinstance(self.tool_choice, NamedTool):
            _check_tool_choice(self.tool_choice)
        if self.response_format is not None:
            _set(self, "response_format", _response_format(self.response_format))
        if self.thinking is not None:
            _check("ChatRequest.thinking", self.thinking, (ThinkingSettings,), "ThinkingSettings(effort=…) or None")


_set = object.__setattr__  # the values are frozen, and are made whole before anybody sees them


def _role(given: object) -> Role:
    try:
        return Role(given)
    except ValueError:
        reason = f"{_shown(given)} is no role. Allowed: 'user', 'assistant'."
        if given in ("system", "developer"):
            reason += " The system prompt is ChatRequest.system."
        if given in ("tool", "function"):
            reason += " Results are ToolResult parts of a user message."
        raise InvalidValue("Message.role", reason) from None


def _check_tool_choice(given: object) -> None:
    if given not in ("auto", "none", "required"):
        _refuse("ChatRequest.tool_choice", given, "'auto', 'none', 'required', NamedTool('a name') or None")


def _response_format(given: object) -> object:
    if given == "json":
        return JsonMode()
    allowed = "'json', JsonMode(), JsonSchema({…}) or None"
    _check("ChatRequest.response_format", given, get_args(ResponseFormat), allowed)
    return given


def _sequence(given: object, place: str, members: str) -> tuple[Any, ...]:
    if not isinstance(given, Iterable) or isinstance(given, str | bytes | Mapping):
        _refuse(place, cast("object", given), f"a list or a tuple of {members}")
    return tuple(cast("Iterable[Any]", given))


def _check(place: str, given: object, kinds: tuple[type, ...], allowed: str) -> None:
    if not isinstance(given, kinds):
        _refuse(place, given, allowed)


def _refuse(place: str, given: object, allowed: str) -> NoReturn:
    raise InvalidValue(place, f"{_shown(given)} is not allowed. Allowed: {allowed}.")


def _name(kind: type) -> str:
    return kind.__name__


def _shown(given: object) -> str:
    """What was given, by its value where that is short, since it may be a whole conversation."""
    text = repr(given)
    return text if isinstance(given, str | int) and len(text) <= 40 else f"a {type(given).__name__}"


class StopReason(StrEnum):
    """Why the model stopped. Closed: a value that is not known is `UNKNOWN`."""

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
    """Tokens, in one convention for all APIs.

    `input_tokens` includes what was read from or written to a cache; `output_tokens` includes reasoning. `None` means
    that the provider did not say.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """The tokens of both. What only one of them says is what that one says."""
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
    """The model's answer. `message` is what gets appended to the history.

    `raw_stop_reason` is the provider's own word, `model` the model that it says has answered.
    """

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str | None = None
    raw_stop_reason: str | None = None

    @property
    def text(self) -> str:
        """All text of the answer."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the answer, in their order."""
        return self.message.tool_calls


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text that has arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """Reasoning that has arrived."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStart:
    """A call begins. `index` counts the calls of the answer from 0 and stays the call's to its end."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    """A piece of the JSON text of a call's arguments; `harness.kit.partial.PartialArguments` reads what there is."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallEnd:
    """The call is complete. Calls that are cut short have no end."""

    index: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The last event, once: the whole answer, equal to what `chat` would have given."""

    response: ChatResponse


StreamEvent: TypeAlias = TextDelta | ThinkingDelta | ToolCallStart | ArgumentsDelta | ToolCallEnd | Finish
"""What a streamed answer is made of. Each call starts before its deltas and ends behind them; several may be open."""
