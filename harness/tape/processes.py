"""Runners of commands: one that notes what goes through another, and one that answers from a handler."""

from __future__ import annotations

from harness.contract.process import Command, Completed, from_response, to_request, to_response
from harness.contract.protocols import ProcessRunner
from harness.tape.tap import Tap
from harness.tape.transport import Handler


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
        """Answer a command; see `harness.contract.protocols.ProcessRunner.run`."""
        response = self._handler(to_request(command))
        if response.delivery.ending == "reset":
            raise ConnectionResetError(f"{command.argv[0]} broke off")
        try:
            return from_response(response)
        except ValueError:
            return Completed(int(response.status >= 400), response.body.decode("utf-8", "replace"))
