"""Message handlers: what people and programs see of a thread at work.

A handler that raises ends the turn and loses nothing of the history; see `harness.kit.thread`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO, TypeAlias

from harness.contract.model import Usage

if TYPE_CHECKING:
    from queue import Queue

    from harness.contract.model import ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class Said:
    """The model said something."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The model called a tool, which has not run yet."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class Answered:
    """The tool has answered."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class Done:
    """The turn is over, by `error` if there is one. `usage` is that of all its answers."""

    error: BaseException | None = None
    usage: Usage = field(default_factory=Usage)


HandlerEvent: TypeAlias = Said | Called | Answered | Done


class ConsoleHandler:
    """Prints what happens, to standard output or to `file`. `silent` prints nothing: a handler where one is wanted."""

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
        """Print the answer, and whether it is an error."""
        self._print(f"{'✗' if result.is_error else '←'} {result.name} {result.text}")

    def on_done(self, error: BaseException | None = None) -> None:
        """Print the error that ended the turn, if one did."""
        if error is not None:
            self._print(f"✗ {type(error).__name__}: {error}")

    def _print(self, line: str) -> None:
        if not self._silent:
            print(line, file=self._file or sys.stdout, flush=True)


class QueueHandler:
    """Puts every event on a queue, for a user interface in another thread. The last event of a turn is `Done`."""

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
        """Keep it for `Done`."""
        self._usage = usage

    def on_done(self, error: BaseException | None = None) -> None:
        """Put `Done`."""
        self._queue.put(Done(error, self._usage))
        self._usage = Usage()


class CollectingHandler(ConsoleHandler):
    """Keeps every event in `events`, and prints them too unless it is `silent`."""

    def __init__(self, *, silent: bool = True, file: TextIO | None = None) -> None:
        super().__init__(silent=silent, file=file)
        self.events: list[HandlerEvent] = []
        self._usage = Usage()

    @property
    def text(self) -> str:
        """All that the model said, each text on a line of its own."""
        return "\n".join(event.text for event in self.events if isinstance(event, Said))

    @property
    def usage(self) -> Usage:
        """The tokens of all turns that are over."""
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
        """Keep it for `Done`."""
        self._usage = usage

    def on_done(self, error: BaseException | None = None) -> None:
        """Keep `Done`."""
        self.events.append(Done(error, self._usage))
        self._usage = Usage()
        super().on_done(error)
