"""Runners of commands: the real one, one that notes what goes through another, one that answers from a handler."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile

from harness.process import Command, Completed, from_response, to_request, to_response
from harness.protocols import ProcessRunner
from harness.tape.tap import Tap
from harness.tape.transport import Handler


class LocalRunner:
    """Runs commands on this machine, each in an empty folder of its own, which goes when the command has ended."""

    def run(self, command: Command, timeout: float) -> Completed:
        """See `harness.protocols.ProcessRunner.run`."""
        environment = {name: os.environ[name] for name in command.inherited if name in os.environ}
        with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as folder:
            try:
                process = subprocess.Popen(  # noqa: S603 - no shell; the adapter's own command, its prompt on stdin
                    command.argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=folder,
                    env={**environment, **command.environment},
                    start_new_session=True,  # a group of its own, so that what it starts ends with it
                )
            except ValueError as error:  # a null byte among the arguments
                raise OSError(str(error)) from error
            try:
                stdout, stderr = process.communicate(command.stdin.encode(), timeout)
            except BaseException as error:
                _kill(process)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise TimeoutError(f"{command.argv[0]} has not ended after {timeout:g} seconds") from error
                raise
        return Completed(process.returncode, _text(stdout), _text(stderr))


class TapRunner:
    """Notes in `tap` what goes through `inner`. What an earlier recording has the answer to is not run."""

    def __init__(self, inner: ProcessRunner, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    def run(self, command: Command, timeout: float) -> Completed:
        """Run a command. Raises what `inner` raises, and `CassetteError` if the exchange cannot be kept."""
        request = to_request(command)
        known = self._tap.taken_up(request)
        if known is not None:
            return from_response(known)
        try:
            completed = self._inner.run(command, timeout)
        except OSError:
            self._tap.note(request, None)
            raise
        self._tap.note(request, to_response(completed))
        return completed


class HandlerRunner:
    """Runs nothing: `handler` answers, as it answers an HTTP request.

    A response that is not what a command leaves behind becomes its output, in which its caller will find no result; a
    connection that is reset becomes an `OSError`.
    """

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def run(self, command: Command, timeout: float) -> Completed:  # noqa: ARG002 - an answer takes no time
        """Answer a command; see `harness.protocols.ProcessRunner.run`."""
        response = self._handler(to_request(command))
        if response.delivery.ending == "reset":
            raise ConnectionResetError(f"{command.argv[0]} broke off")
        try:
            return from_response(response)
        except ValueError:
            return Completed(int(response.status >= 400), response.body.decode("utf-8", "replace"))


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it has started."""
    with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()


def _text(output: bytes) -> str:
    return output.decode("utf-8", "replace")
