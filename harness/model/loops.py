"""Libraries and programs that own their tool loop: the conversations that they receive, and their description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from harness.model.errors import ToolFailed
from harness.model.messages import (
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
from harness.model.protocols import Adapter, Capability, Endpoint


@dataclass(frozen=True, slots=True)
class ConversationTool:
    """A tool of a conversation, which really runs. `parameters` is the JSON Schema of its arguments.

    Most libraries need `call` or `text`. `run` accepts a whole call and ignores its id, since the library keeps the id
    that the API issued.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    run: Callable[[ToolCall], ToolResult]

    def call(self, arguments: Mapping[str, JSON]) -> JSON | tuple[Text | Image | File | Opaque, ...]:
        """Run the tool and return a JSON value, or parts if the result has media.

        Raises:
            ToolFailed: the tool failed; the text belongs into the result that the model reads.
        """
        return self._result(arguments).content

    def text(self, arguments: Mapping[str, JSON]) -> str:
        """Run the tool and return its result as text; a value that is not a text becomes JSON.

        Raises:
            ToolFailed: as `call` does.
        """
        return self._result(arguments).text

    def _result(self, arguments: Mapping[str, JSON]) -> ToolResult:
        result = self.run(ToolCall("", self.name, dict(arguments)))
        if result.is_error:
            raise ToolFailed(result.text)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation for a library that owns its tool loop.

    `turns` holds the user messages. The library sends the next one after its final response to the one before. The
    other fields hold for all turns; a setting that the scenario leaves out is `None`. With `stream`, the library has to
    stream. `max_answers` limits the model's responses in one turn.
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
"""Runs a conversation in a library, with a model at an endpoint, to its end.

The return value is ignored unless it is awaitable. An exception ends the conversation; `harness.Unsupported`, raised
before anything is sent, declines it.
"""

PLAIN_LOOP = frozenset(
    {
        Capability.SYSTEM_PROMPT,
        Capability.TOOLS,
        Capability.PARALLEL_TOOL_CALLS,
        Capability.HISTORY,
        Capability.TRUNCATION,
    }
)
"""Capabilities of every loop."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A library that owns its tool loop, as code under test. It receives only scenarios that its capabilities cover."""

    name: str
    api: str
    drive: Drive
    capabilities: frozenset[Capability] = PLAIN_LOOP

    def adapter(self) -> Adapter:
        """Return the loop as an adapter. It has no client, since only the library sends requests."""
        return Adapter(self.name, self.api, self.capabilities, _no_client, drive=self.drive)


def _no_client(_endpoint: Endpoint, _model: str) -> NoReturn:
    raise AssertionError("a loop is driven, and never connected")
