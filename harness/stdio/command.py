"""A command that is running, and what it is asked."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any, cast

from harness.contract.model import JSON
from harness.host.shortened import shortened

LARGEST = 32 << 20
"""Bytes of one line: more than any conversation has."""

_GRACE = 2.0
"""Seconds for a command to end in good order."""


class BrokenCommand(Exception):
    """The command ended, said what is no answer, or broke: `str(error)` is what it did."""


class Refused(Exception):
    """The command answered with an error that has `data`."""

    def __init__(self, message: str, data: JSON) -> None:
        super().__init__(message)
        self.data = data


class Command:
    """A command, started when it is first asked something, and again if it has ended since.

    Its standard error, and its process group, are those of the process that starts it: whoever ends that ends it.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None
        self._asked = 0

    def ask(self, method: str, params: JSON) -> JSON:
        """The result of a request. Raises `BrokenCommand`, `Refused`, `OSError`: it cannot be started."""
        for message in self.messages(method, params):
            if "result" in message:
                return message["result"]
        raise BrokenCommand(f"the command sent events for {method!r}, which is not streamed")

    def messages(self, method: str, params: JSON) -> Iterator[dict[str, JSON]]:
        """What it says to a request: events, each as its parameters, and in the end the message with the result.

        Raises as `ask` does. Who leaves in the midst of it ends the command: what it says then answers nothing.
        """
        self._asked += 1
        number = self._asked
        process = self._running()
        line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
        done = False
        try:
            with contextlib.suppress(BrokenPipeError):  # that it has ended is seen where its answer is awaited
                _stdin(process).write(line.encode())
                _stdin(process).flush()
            while not done:
                message = self._message(process, method)
                if message.get("method") == "event":
                    yield _event(message, number, method)
                    continue
                _check(message, number, method)
                done = True
                if "error" in message:
                    raise _raised(message["error"])
                yield message
        finally:
            if not done:
                self.end()

    def end(self) -> None:
        """End the command, if it runs."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            _stdin(process).close()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        cast("Any", process.stdout).close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - the user's own command
        return self._process

    def _message(self, process: subprocess.Popen[bytes], method: str) -> dict[str, JSON]:
        line = cast("Any", process.stdout).readline(LARGEST)
        if not line:
            raise BrokenCommand(f"the command {_ending(process)} before it answered {method!r}")
        try:
            message: Any = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or cast("dict[str, Any]", message).get("jsonrpc") != "2.0":
            said = shortened(line.decode("utf-8", "replace").rstrip("\n"), 200)
            raise BrokenCommand(
                f"the command wrote a line that is no message of JSON-RPC 2.0: {said!r}. Standard output is for "
                "messages; whatever else there is to say goes to standard error"
            )
        return cast("dict[str, JSON]", message)


def _event(message: dict[str, JSON], number: int, method: str) -> dict[str, JSON]:
    params = message.get("params")
    if not isinstance(params, dict) or params.get("id") != number or "event" not in params:
        raise BrokenCommand(f"the command sent an event that is none of request {number}, {method!r}")
    return params


def _check(message: dict[str, JSON], number: int, method: str) -> None:
    if message.get("id") != number or ("result" in message) == ("error" in message):
        raise BrokenCommand(
            f"the command answered request {number}, {method!r}, with a message that is no result or error of that id"
        )


def _raised(error: JSON) -> Exception:
    said = error if isinstance(error, dict) else {}
    text = str(said.get("message", "the command answered with an error that has no message"))
    data = said.get("data")
    return BrokenCommand(text) if data is None else Refused(text, data)


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        status = process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        return "closed its standard output"
    return f"ended with exit status {status}" if status >= 0 else f"was ended by signal {-status}"


def _stdin(process: subprocess.Popen[bytes]) -> Any:
    return process.stdin
