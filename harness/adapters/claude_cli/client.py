"""One run of the command line for each chat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters.claude_cli.command import EXECUTABLE, encode
from harness.adapters.claude_cli.result import decode
from harness.contract.errors import ConnectionFailed

if TYPE_CHECKING:
    from harness.contract.model import ChatRequest, ChatResponse
    from harness.contract.protocols import ProcessRunner

_SECONDS = 600.0
"""As long as the SDKs wait for an answer."""


class Client:
    """A `ChatClient` of one model."""

    def __init__(self, processes: ProcessRunner, model: str) -> None:
        self._processes = processes
        self._model = model

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `harness.contract.protocols.ChatClient.chat`."""
        command = encode(request, request.model or self._model)
        try:
            completed = self._processes.run(command, _SECONDS)
        except FileNotFoundError as error:
            reason = f"there is no executable {EXECUTABLE!r} on the path; install Claude Code, or put it there"
            raise ConnectionFailed(reason) from error
        except OSError as error:
            raise ConnectionFailed(str(error)) from error
        return decode(completed)

    def close(self) -> None:
        """There is nothing to give back: the runner is the caller's."""
