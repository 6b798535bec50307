"""Message handlers, which observe a thread: for the console, for a queue, and for tests.

An exception in a handler ends the turn; the history stays complete (see `harness.kit.thread`).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO, TypeAlias

from jiter import from_json

from harness.model.errors import MalformedResponse
from harness.model.messages import ChatResponse, Finish, Usage

if TYPE_CHECKING:
    from collections.abc import Callable
    from queue import Queue

    from harness.model.messages import JSON, ChatRequest, StreamEvent, ToolCall, ToolResult
    from harness.model.protocols import StreamingChatClient


@dataclass(frozen=True, slots=True)
class TextEvent:
    """The model wrote text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolUseEvent:
    """The model called a tool, which has not run yet."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolResultEvent:
    """The tool returned a result."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a turn, with `error` if it failed. `usage` is the sum over its responses."""

    error: BaseException | None = None
    usage: Usage = field(default_factory=Usage)


HandlerEvent: TypeAlias = TextEvent | ToolUseEvent | ToolResultEvent | Done


class ConsoleHandler:
    """Prints every event to standard output or to `file`. If `silent` is set, it prints nothing."""

    def __init__(self, *, silent: bool = False, file: TextIO | None = None) -> None:
        self._silent = silent
        self._file = file

    def on_text(self, text: str) -> None:
        """Print the text."""
        self._print(text)

    def on_tool_use(self, call: ToolCall) -> None:
        """Print the call: the tool and its arguments as JSON."""
        self._print(f"→ {call.name} {json.dumps(call.arguments, ensure_ascii=False)}")

    def on_tool_result(self, result: ToolResult) -> None:
        """Print the result, with a mark if it is an error."""
        self._print(f"{'✗' if result.is_error else '←'} {result.name} {result.text}")

    def on_done(self, error: BaseException | None = None) -> None:
        """Print the error that ended the turn, if any."""
        if error is not None:
            self._print(f"✗ {type(error).__name__}: {error}")

    def _print(self, line: str) -> None:
        if not self._silent:
            print(line, file=self._file or sys.stdout, flush=True)


class QueueHandler:
    """Puts every event on a queue, for a user interface in another thread. Each turn ends with `Done`."""

    def __init__(self, queue: Queue[HandlerEvent]) -> None:
        self._queue = queue
        self._usage = Usage()

    def on_text(self, text: str) -> None:
        """Put a `TextEvent` on the queue."""
        self._queue.put(TextEvent(text))

    def on_tool_use(self, call: ToolCall) -> None:
        """Put a `ToolUseEvent` on the queue."""
        self._queue.put(ToolUseEvent(call))

    def on_tool_result(self, result: ToolResult) -> None:
        """Put a `ToolResultEvent` on the queue."""
        self._queue.put(ToolResultEvent(result))

    def on_usage(self, usage: Usage) -> None:
        """Keep the usage for `Done`."""
        self._usage = usage

    def on_done(self, error: BaseException | None = None) -> None:
        """Put a `Done` event on the queue, with the usage of the turn."""
        self._queue.put(Done(error, self._usage))
        self._usage = Usage()


class CollectingHandler(ConsoleHandler):
    """Keeps every event in `events`, and also prints them unless it is `silent`."""

    def __init__(self, *, silent: bool = True, file: TextIO | None = None) -> None:
        super().__init__(silent=silent, file=file)
        self.events: list[HandlerEvent] = []
        self._usage = Usage()

    @property
    def text(self) -> str:
        """The model's texts, one per line."""
        return "\n".join(event.text for event in self.events if isinstance(event, TextEvent))

    @property
    def usage(self) -> Usage:
        """The token counts of all turns that have ended."""
        return sum((event.usage for event in self.events if isinstance(event, Done)), Usage())

    def on_text(self, text: str) -> None:
        """Append a `TextEvent`, and print the text unless `silent`."""
        self.events.append(TextEvent(text))
        super().on_text(text)

    def on_tool_use(self, call: ToolCall) -> None:
        """Append a `ToolUseEvent`, and print the call unless `silent`."""
        self.events.append(ToolUseEvent(call))
        super().on_tool_use(call)

    def on_tool_result(self, result: ToolResult) -> None:
        """Append a `ToolResultEvent`, and print the result unless `silent`."""
        self.events.append(ToolResultEvent(result))
        super().on_tool_result(result)

    def on_usage(self, usage: Usage) -> None:
        """Keep the usage for `Done`."""
        self._usage = usage

    def on_done(self, error: BaseException | None = None) -> None:
        """Append a `Done` event with the usage of the turn. Print the error, if any, unless `silent`."""
        self.events.append(Done(error, self._usage))
        self._usage = Usage()
        super().on_done(error)


class Streamed:
    """A `ChatClient` whose `chat` streams through `client` and passes every event to `on_event`."""

    def __init__(self, client: StreamingChatClient, on_event: Callable[[StreamEvent], None]) -> None:
        self._client = client
        self._on_event = on_event

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Stream a response and return it whole; see `harness.model.protocols.StreamingChatClient.stream`."""
        response: ChatResponse | None = None
        for event in self._client.stream(request):
            self._on_event(event)
            if isinstance(event, Finish):
                response = event.response
        if response is None:
            raise MalformedResponse("the stream ended without its last event")
        return response

    def close(self) -> None:
        """Close the client."""
        self._client.close()


_NUMBER_CHARACTERS = "0123456789+-.eE"


class PartialArguments:
    """The arguments of a call, collected from its deltas. `text` is the JSON text so far."""

    def __init__(self) -> None:
        self.text = ""
        self._in_string = False
        self._escaped = False

    def add(self, delta: str) -> None:
        """Append a delta."""
        self.text += delta
        for character in delta:
            if self._escaped:
                self._escaped = False
            elif character == '"':
                self._in_string = not self._in_string
            elif character == "\\" and self._in_string:
                self._escaped = True

    @property
    def value(self) -> dict[str, JSON]:
        """The arguments parsed so far. Strings may be incomplete; other values are included only when complete.

        A number at the end of the text is left out, so that `1234` never appears as `12`. The value is `{}` if the text
        is not (yet) a JSON object.
        """
        text = self.text if self._in_string else self.text.rstrip().rstrip(_NUMBER_CHARACTERS)
        try:
            value: JSON = from_json(text.encode(errors="replace"), partial_mode="trailing-strings")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}
