"""Libraries and programs that own their tool loop: what one is given to play, and how it says what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from harness.contract.errors import ToolFailed
from harness.contract.model import (
    JSON,
    File,
    Image,
    Message,
    Opaque,
    ResponseFormat,
    Text,
    ThinkingSettings,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from harness.contract.protocols import Adapter, Capability, Endpoint


@dataclass(frozen=True, slots=True)
class ConversationTool:
    """A tool of a conversation, which really runs. `parameters` is the JSON Schema of its arguments.

    `run` answers a call; its id is of no account, since the library keeps the one that the API issued. `call` and
    `text` are what most libraries want instead.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    run: Callable[[ToolCall], ToolResult]

    def call(self, arguments: Mapping[str, JSON]) -> JSON | tuple[Text | Image | File | Opaque, ...]:
        """Run the tool: a JSON value, or parts where it answers with media.

        Raises:
            ToolFailed: the tool fails, with the text that the model has to be told.
        """
        return self._answered(arguments).content

    def text(self, arguments: Mapping[str, JSON]) -> str:
        """Run the tool, for a library that takes results as text: a text as it is, anything else as JSON.

        Raises:
            ToolFailed: as `call` does.
        """
        return self._answered(arguments).text

    def _answered(self, arguments: Mapping[str, JSON]) -> ToolResult:
        result = self.run(ToolCall("", self.name, dict(arguments)))
        if result.is_error:
            raise ToolFailed(result.text)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a library that owns its loop is given to play.

    `turns` is what the user says, one message after the other: the next is for when the library has come to its last
    answer to the one before. The rest holds for all of them, and is `None` where nobody asks for it. `stream`: answers
    are to be streamed. `max_answers` bounds the model's answers in one turn.
    """

    turns: tuple[Message, ...]
    tools: tuple[ConversationTool, ...] = ()
    system: str | None = None
    stream: bool = False
    tool_choice: ToolChoice | None = None
    response_format: ResponseFormat | None = None
    max_tokens: int | None = None
    thinking: ThinkingSettings | None = None
    max_answers: int = 10


Drive: TypeAlias = Callable[[Endpoint, str, Conversation], object]
"""Has a library play a conversation with a model at an endpoint, to its end. What it returns is of no account, unless
it has to be awaited. Raising ends the conversation; `harness.Unsupported`, before anything is sent, declines it."""

PLAIN_LOOP = frozenset(
    {
        Capability.SYSTEM_PROMPT,
        Capability.TOOLS,
        Capability.PARALLEL_TOOL_CALLS,
        Capability.HISTORY,
        Capability.TRUNCATION,
    }
)
"""What every loop is taken to be capable of."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A library that owns its tool loop, as code under test: a name, the API it speaks, how to have it play, what it
    can do. What is not among the capabilities is not asked of it."""

    name: str
    api: str
    drive: Drive
    capabilities: frozenset[Capability] = PLAIN_LOOP

    def adapter(self) -> Adapter:
        """The loop in the place of an adapter. It has no client: nobody but the library itself asks the model."""
        return Adapter(self.name, self.api, self.capabilities, _no_client, drive=self.drive)


def _no_client(_endpoint: Endpoint, _model: str) -> NoReturn:
    raise AssertionError("a loop is driven, and never connected")
