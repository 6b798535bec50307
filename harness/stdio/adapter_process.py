"""A process that runs an adapter. It receives requests as JSON lines and is killed if it breaks or hangs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, cast

from harness.model.messages import JSON
from harness.platform.exceptions import MAX_TRACEBACK_CHARACTERS, line_to_show, shorten

MAX_OUTPUT_BYTES = 4000
"""Maximum size of an adapter's output that is kept for one cell."""

MAX_LINE_BYTES = 32 << 20
"""Maximum size of a message. No conversation needs more, and a longer one could exhaust the memory of the run."""

CUT_OFF_EXIT_CODE = 75
"""Exit code of a served adapter that can no longer send messages to the run."""

FAULTS_VARIABLE = "HARNESS_STDIO_FAULTS"
"""Environment variable with the file descriptor to which `python -m harness.stdio` writes its stack traces."""

STACKS_SIGNAL = signal.SIGUSR2
"""Signal that makes `python -m harness.stdio` write the stack traces of its threads."""

_SLICE_SECONDS = 0.5
"""Interval for checking a process that sends nothing. Its pipes alone do not show that it ended, because a child
process may keep them open. If the run itself is suspended, at most this interval counts against the time limit.
"""

_GRACE_SECONDS = 2.0
"""Time for a process to exit before it is killed."""

_STACKS_SECONDS = 1.0
"""Maximum time to wait for the stack traces of a hanging process."""

_PIECE_BYTES = 65536
_PIECES_AT_ONCE = 32  # more than a pipe holds, so that a process which never stops writing holds up nothing
_NOTE_BYTES = 80  # reserved for the note about omitted output
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+) in ')
_ADDRESS = re.compile(r"0x[0-9a-f]+")


class AdapterBroke(BaseException):
    """The adapter broke outside a chat, ended its process or exceeded its time limit, so its cell has an error.

    `printed` is the output of the process. `is_late` is set if it exceeded its time limit. This is a `BaseException`,
    so that handlers for exceptions of the adapter do not catch it.
    """

    def __init__(self, reason: str, traceback: str | None = None, printed: str = "", *, is_late: bool = False) -> None:
        super().__init__(reason)
        self.is_late = is_late
        self.reason = reason
        self.traceback = traceback
        self.printed = printed


class BrokenCommand(Exception):
    """The process sent an invalid message, or an error response without `data`."""


class ErrorResponse(Exception):
    """The process sent an error response with `data`."""

    def __init__(self, message: str, data: JSON) -> None:
        super().__init__(message)
        self.data = data


class _Pipe:
    """A pipe for the output of a process. It keeps at most `length` bytes, half from the start and
    half from the end.
    """

    def __init__(self, length: int) -> None:
        self._half = (length - _NOTE_BYTES) // 2
        self.parsed, self.writing = os.pipe()
        os.set_blocking(self.parsed, False)
        self.is_open = True
        self._first, self._last, self._total = b"", b"", 0

    def drain(self) -> None:
        """Read the available output without waiting."""
        for _ in range(_PIECES_AT_ONCE if self.is_open else 0):
            try:
                piece = os.read(self.parsed, _PIECE_BYTES)
            except BlockingIOError:
                return
            self.is_open = bool(piece)
            self._total += len(piece)
            room = max(self._half - len(self._first), 0)
            self._first += piece[:room]
            self._last = (self._last + piece[room:])[-self._half :]

    def take(self) -> str:
        """Return the output since the last call as text."""
        self.drain()
        missing = self._total - len(self._first) - len(self._last)
        note = f"\n[... {missing} bytes are left out ...]\n".encode() if missing else b""
        text = (self._first + note + self._last).decode("utf-8", "replace")
        self._first, self._last, self._total = b"", b"", 0
        return text


class AdapterProcess:
    """A process that runs an adapter in its own process group, so that its child processes are killed with it.

    Only one thread at a time may send requests, but any thread may call `answer` or `kill`. `is_idle` is set if the
    process has responded to all requests. `shows_stacks` is set if it runs `python -m harness.stdio`.

    Raises:
        OSError: The process cannot be started.
    """

    def __init__(self, words: Sequence[str], environment: Mapping[str, str], *, shows_stacks: bool) -> None:
        self.is_idle = True
        self._shows_stacks = shows_stacks
        self._errors, self._faults = _Pipe(MAX_OUTPUT_BYTES), _Pipe(2 * MAX_TRACEBACK_CHARACTERS)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this Python, or the user's own command
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors.writing,
                pass_fds=(self._faults.writing,) if shows_stacks else (),
                env={**environment, FAULTS_VARIABLE: str(self._faults.writing)} if shows_stacks else environment,
                start_new_session=True,
            )
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for each in (self._errors, self._faults):
                os.close(each.writing)
        self._input, self._output = (cast("Any", each).fileno() for each in (self._process.stdin, self._process.stdout))
        for descriptor in (self._input, self._output):
            os.set_blocking(descriptor, False)
        self._unsent, self._received = bytearray(), bytearray()
        self._sending = Lock()
        self._number = 0
        self.allow(0.0, "", "")

    def allow(self, seconds: float, late: str, way_out: str) -> None:
        """Start a new time limit. If it is exceeded, the error message begins with `late` and ends with `way_out`."""
        self._seconds_left, self._late, self._way_out = seconds, late, way_out

    def request(self, method: str, params: JSON) -> JSON:
        """Send a request and return its result. See `messages` for exceptions."""
        for message in self.messages(method, params):
            if "result" in message:
                return message["result"]
        raise BrokenCommand(f"it sent a message for {method!r} that only a stream has")

    def messages(self, method: str, params: JSON) -> Iterator[dict[str, JSON]]:
        """Send a request. Yield the notifications and requests that the process sends in response, then the result.

        Raises:
            AdapterBroke: The process ended or exceeded its time limit, and is no longer running.
            BrokenCommand: The process sent an invalid message.
            ErrorResponse: The process sent an error response.
        """
        self._number += 1
        self.is_idle = False
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._message(self._line())
            if "method" in message:
                if _is_of(message, self._number):
                    yield message
                elif message["method"] == "event":
                    raise BrokenCommand(f"the command sent an event of another request than {self._number}, {method!r}")
                continue
            if message.get("id") != self._number or ("result" in message) == ("error" in message):
                raise BrokenCommand(
                    f"the command answered request {self._number}, {method!r}, with a message that is not a result or "
                    "an error with that id"
                )
            self.is_idle = True
            if "error" in message:
                raise _exception_from(message["error"])
            yield message
            return

    def answer(self, number: JSON, result: JSON = None, error: JSON = None) -> None:
        """Respond to a request that the process sent."""
        self._send({"id": number, "result": result} if error is None else {"id": number, "error": error})

    @contextlib.contextmanager
    def waiting(self, max_seconds: float) -> Generator[float]:
        """Yield the number of seconds that the `with` block may wait: `max_seconds`, or the remaining time if that is
        less. The time spent is deducted from the time limit, but never more than the yielded value.
        """
        seconds = max(min(max_seconds, self._seconds_left), 0.0)
        begun = time.monotonic()
        try:
            yield seconds
        finally:
            self._seconds_left -= min(time.monotonic() - begun, seconds)

    def take_output(self) -> str:
        """Return the output of the process since the last call."""
        return self._errors.take()

    def close(self) -> None:
        """Close the input of the process, and kill the process if it does not exit."""
        with contextlib.suppress(OSError):
            cast("Any", self._process.stdin).close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        self.kill()
        with contextlib.suppress(OSError):
            cast("Any", self._process.stdout).close()
        self._close_pipes()

    def kill(self) -> None:
        """Kill the process and its children."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the group has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # in case it has left its group
        self._process.wait()

    def _close_pipes(self) -> None:
        for each in (self._errors, self._faults):
            os.close(each.parsed)

    def _send(self, message: dict[str, JSON]) -> None:
        with self._sending:
            self._unsent += json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self._flush()

    def _flush(self) -> None:
        """Write as much as the pipe accepts. A process that has ended is detected later, when its response is read."""
        with self._sending, contextlib.suppress(BlockingIOError):
            while self._unsent:
                try:
                    written = os.write(self._input, self._unsent[:_PIECE_BYTES])
                except BrokenPipeError:
                    written = len(self._unsent)
                del self._unsent[:written]

    def _line(self) -> bytes:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > MAX_LINE_BYTES:
                self.kill()
                raise AdapterBroke(f"the adapter's process sent a message of more than {MAX_LINE_BYTES} bytes")
            self._receive()
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def _receive(self) -> None:
        if self._seconds_left <= 0:
            raise self._kill_hanging()
        poll = select.poll()
        for each in (self._errors, self._faults):
            if each.is_open:
                poll.register(each.parsed, select.POLLIN)
        poll.register(self._output, select.POLLIN)
        if self._unsent:
            poll.register(self._input, select.POLLOUT)
        with self.waiting(_SLICE_SECONDS) as seconds:
            ready = dict(poll.poll(seconds * 1000))
        for each in (self._errors, self._faults):
            each.drain()
        if self._input in ready:
            self._flush()
        if self._output in ready:
            piece = os.read(self._output, _PIECE_BYTES)
            if not piece:
                raise self._ended_error()
            self._received += piece
        elif self._process.poll() is not None:
            raise self._ended_error()

    def _message(self, line: bytes) -> dict[str, JSON]:
        try:
            message: Any = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or cast("dict[str, Any]", message).get("jsonrpc") != "2.0":
            line_text = shorten(line.decode("utf-8", "replace"), 200)
            raise BrokenCommand(
                f"the command wrote a line that is not a JSON-RPC 2.0 message: {line_text!r}. Standard output is only "
                "for messages; write other output to standard error"
            )
        return cast("dict[str, JSON]", message)

    def _kill_hanging(self) -> AdapterBroke:
        """Kill a process that exceeded its time limit, after it has written its stack traces. Return the exception to
        raise.
        """
        if self._shows_stacks:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(STACKS_SIGNAL)
            poll = select.poll()
            poll.register(self._faults.parsed, select.POLLIN)
            if self._faults.is_open and poll.poll(_STACKS_SECONDS * 1000):
                time.sleep(_STACKS_SECONDS / 10)  # it writes line by line
        self.kill()
        stacks, where = self._stacks()
        return AdapterBroke(f"{self._late}{where}{self._way_out}", stacks, is_late=True)

    def _ended_error(self) -> AdapterBroke:
        try:
            status = self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            status = CUT_OFF_EXIT_CODE
        self.kill()  # with its child processes
        stacks, where = self._stacks()
        if status < 0:
            name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
            return AdapterBroke(f"the adapter's process was ended by {name}{where}", stacks)
        if status == CUT_OFF_EXIT_CODE:
            return AdapterBroke("the adapter closed its process's connection to the run", stacks)
        return AdapterBroke(f"the adapter ended the process with exit code {status}", stacks)

    def _stacks(self) -> tuple[str | None, str]:
        text = _ADDRESS.sub("0x...", self._faults.take())
        if not text:
            return None, ""
        current = text[max(text.find("Current thread"), 0) :].partition("\n\n")[0]
        frames = [(name, int(line)) for name, line in _FRAME.findall(current)]
        return shorten(text, MAX_TRACEBACK_CHARACTERS), line_to_show(frames[::-1])


def _is_of(message: Mapping[str, JSON], number: int) -> bool:
    params = message.get("params")
    return isinstance(params, dict) and params.get("id") == number


def _exception_from(error: JSON) -> Exception:
    fields = error if isinstance(error, dict) else {}
    text = str(fields.get("message", "the command answered with an error that has no message"))
    data = fields.get("data")
    return BrokenCommand(text) if data is None else ErrorResponse(text, data)
