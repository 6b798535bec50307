"""Message handlers, which observe a thread: for the console, for a queue, and for tests.

An exception in a handler ends the turn; the history stays complete (see `harness.kit.thread`).
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO, TypeAlias

from harness.model.messages import Usage

if TYPE_CHECKING:
    from queue import Queue

    from harness.model.messages import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Said:
    """The model wrote text."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The model called a tool, which has not run yet."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Answered:
    """The tool returned a result."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a turn, with `error` if it failed. `usage` is the sum over its responses."""

    error: BaseException | None = None
    usage: Usage = field(default_factory=Usage)


HandlerEvent: TypeAlias = Said | Called | Answered | Done


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
        """Put `Said`."""
        self._queue.put(Said(text))

    def on_tool_use(self, call: ToolCall) -> None:
        """Put `Called`."""
        self._queue.put(Called(call))

    def on_tool_result(self, result: ToolResult) -> None:
        """Put `Answered`."""
        self._queue.put(Answered(result))

    def on_usage(self, usage: Usage) -> None:
        """Keep the usage for `Done`."""
        self._usage = usage

    def on_done(self, error: BaseException | None = None) -> None:
        """Put `Done`."""
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
        return "\n".join(event.text for event in self.events if isinstance(event, Said))

    @property
    def usage(self) -> Usage:
        """The token counts of all turns that have ended."""
        return sum((event.usage for event in self.events if isinstance(event, Done)), Usage())

    def on_text(self, text: str) -> None:
        """Keep `Said`."""
        self.events.append(Said(text))
        super().on_text(text)

    def on_tool_use(self, call: ToolCall) -> None:
        """Keep `Called`."""
        self.events.append(Called(call))
        super().on_tool_use(call)

    def on_tool_result(self, result: ToolResult) -> None:
        """Keep `Answered`."""
        self.events.append(Answered(result))
        super().on_tool_result(result)

    def on_usage(self, usage: Usage) -> None:
        """Keep the usage for `Done`."""
        self._usage = usage

    def on_done(self, error: BaseException | None = None) -> None:
        """Keep `Done`."""
        self.events.append(Done(error, self._usage))
        self._usage = Usage()
        super().on_done(error)
