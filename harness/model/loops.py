"""Tool loops of third-party libraries and programs: the conversation that they receive, and the loop's description."""

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
from harness.model.protocols import Adapter, Capability, Endpoint, FinalCall


@dataclass(frozen=True, slots=True)
class ConversationTool:
    """A tool of a conversation, executed for real. `parameters` is the JSON Schema of its arguments.

    Use `call` or `text` with most libraries. `run` takes a complete call and ignores its id, because the library
    handles ids.
    """

    name: str
    description: str
    parameters: dict[str, JSON]
    run: Callable[[ToolCall], ToolResult]

    def call(self, arguments: Mapping[str, JSON]) -> JSON | tuple[Text | Image | File | Opaque, ...]:
        """Run the tool and return a JSON value, or parts if the result has media.

        Raises:
            ToolFailed: the tool failed. Send the message to the model as the result.
        """
        return self._result(arguments).content

    def text(self, arguments: Mapping[str, JSON]) -> str:
        """Run the tool and return the result as text. Values other than text are serialised as JSON.

        Raises:
            ToolFailed: see `call`.
        """
        return self._result(arguments).text

    def _result(self, arguments: Mapping[str, JSON]) -> ToolResult:
        result = self.run(ToolCall("", self.name, dict(arguments)))
        if result.is_error:
            raise ToolFailed(result.text)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation for a library that runs its own tool loop.

    `turns` are the user messages. Send each one after the final response to the previous one. The other fields apply to
    all turns; `None` means not set. If `stream` is set, the library must stream. `max_answers` limits the responses per
    turn.
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
"""Function that runs a whole conversation in a library, against the model at an endpoint.

The return value is ignored, unless it is awaitable. Raise `harness.Unsupported` before sending anything to decline the
conversation; any other exception ends it.
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
"""Capabilities that every loop has."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A library that runs its own tool loop, as code under test. It receives only scenarios that its capabilities
    cover. If the model has to end each turn with a call, `final_call` names it.
    """

    name: str
    api: str
    drive: Drive
    capabilities: frozenset[Capability] = PLAIN_LOOP
    final_call: FinalCall | None = None

    def adapter(self) -> Adapter:
        """Return the loop as an adapter. It has no client, because the library sends all requests itself."""
        return Adapter(self.name, self.api, self.capabilities, _no_client, drive=self.drive, final_call=self.final_call)


def _no_client(_endpoint: Endpoint, _model: str) -> NoReturn:
    raise AssertionError("a loop is driven, and never connected")
