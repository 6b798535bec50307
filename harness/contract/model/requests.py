"""What is asked: tools, settings, the request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

from harness.contract.errors import InvalidValue
from harness.contract.model.coercion import check, kind_name, put, refuse, sequence
from harness.contract.model.conversation import JSON, Message, ProviderMetadata, no_metadata
from harness.contract.model.typed import BY_TYPE


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model may call. `parameters` is a JSON Schema of an object; `{}` takes no arguments.

    `shown_while_written`: somebody wants to see the arguments while the model writes them (`harness.kit.streamed`), so
    an API that else holds them back is asked to stream them at once. What arrives then may turn out to be no JSON.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)
    shown_while_written: bool = False


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool choice that forces this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | Annotated[NamedTool, BY_TYPE]


@dataclass(frozen=True, slots=True)
class JsonMode:
    """The answer is JSON, of whatever shape."""


@dataclass(frozen=True, slots=True)
class JsonSchema:
    """The answer is JSON that conforms to `schema`. `name` labels the schema where an API wants a label."""

    schema: dict[str, JSON]
    name: str = "response"


ResponseFormat: TypeAlias = Annotated[JsonMode | JsonSchema, BY_TYPE]

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
    provider_metadata: ProviderMetadata = field(default_factory=no_metadata)

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
                put(self, name, given := sequence(given, f"ChatRequest.{name}", kind_name(kind)))
            for each in given:
                if each.__class__ is not kind:
                    check(f"ChatRequest.{name}", each, (kind,), f"a list or a tuple of {kind_name(kind)}")
        if self.stop.__class__ is not tuple:
            stop: object = self.stop
            put(self, "stop", (stop,) if isinstance(stop, str) else sequence(stop, "ChatRequest.stop", "str"))
        if self.tool_choice is not None and not isinstance(self.tool_choice, NamedTool):
            _check_tool_choice(self.tool_choice)
        if self.response_format is not None:
            put(self, "response_format", _response_format(self.response_format))
        if self.thinking is not None:
            check("ChatRequest.thinking", self.thinking, (ThinkingSettings,), "ThinkingSettings(effort=…) or None")


def _check_tool_choice(given: object) -> None:
    if given not in ("auto", "none", "required"):
        refuse("ChatRequest.tool_choice", given, "'auto', 'none', 'required', NamedTool('a name') or None")


def _response_format(given: object) -> object:
    if given == "json":
        return JsonMode()
    allowed = "'json', JsonMode(), JsonSchema({…}) or None"
    check("ChatRequest.response_format", given, (JsonMode, JsonSchema), allowed)
    return given
