"""An adapter that is a command: its client asks the command, and makes values of the contract of what it answers."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import partial

from harness.contract.errors import ChatError, PluginError
from harness.contract.model import ChatRequest, ChatResponse, Finish, StreamEvent
from harness.contract.protocols import Adapter, Capability, Endpoint
from harness.stdio import form
from harness.stdio.command import BrokenCommand, Command, Refused
from harness.stdio.protocol import PROTOCOL, Address, Asked, Description, failure


def adapter(spec: str, line: str) -> Adapter:
    """The adapter that a command says it is, which is asked for by `spec`. Its capabilities are not checked yet.

    Raises:
        PluginError: it cannot be started, or does not say what it is.
    """
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise PluginError("adapter", spec, f"it is no command line: {error}.") from None
    if not words:
        raise PluginError("adapter", spec, "it is an empty command line.")
    command = Command(words)
    try:
        said: Description = form.read(Description, command.ask("describe", {"protocol": PROTOCOL}), "the description")
    except OSError as error:
        raise PluginError("adapter", spec, f"it cannot be started: {error.strerror or error}.") from None
    except (BrokenCommand, Refused, ValueError) as error:
        raise PluginError("adapter", spec, f"asked to describe itself, it did not: {error}.") from None
    capabilities = frozenset(Capability(name) if name in set(Capability) else name for name in said.capabilities)
    return Adapter(said.name, said.api, capabilities, partial(_Client, said.name, command))  # pyright: ignore[reportArgumentType]


class _Client:
    def __init__(self, name: str, command: Command, endpoint: Endpoint, model: str) -> None:
        self._name = name
        self._command = command
        self._address = Address(endpoint.base_url, endpoint.api_key)
        self._model = model

    def chat(self, request: ChatRequest) -> ChatResponse:
        """See `harness.contract.protocols.ChatClient.chat`."""
        try:
            return self._response(self._command.ask("chat", self._asked(request)))
        except Refused as refused:
            raise self._failure(refused) from None

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """See `harness.contract.protocols.StreamingChatClient.stream`. The command's result is the `Finish`."""
        try:
            for message in self._command.messages("stream", self._asked(request)):
                if "result" in message:
                    yield Finish(self._response(message["result"]))
                else:
                    yield self._event(message)
        except Refused as refused:
            raise self._failure(refused) from None

    def close(self) -> None:
        """Let the command forget the conversation; it goes on running for the next."""
        self._command.ask("close", {})

    def _asked(self, request: ChatRequest) -> form.JSON:
        return form.written(Asked(self._address, self._model, request))

    def _response(self, document: form.JSON) -> ChatResponse:
        try:
            return form.read(ChatResponse, document, "the response")
        except ValueError as error:
            raise BrokenCommand(f"the command answered with what is no response: {error}") from None

    def _event(self, params: dict[str, form.JSON]) -> StreamEvent:
        try:
            event: StreamEvent = form.read(StreamEvent, params["event"], "the event")
        except ValueError as error:
            raise BrokenCommand(f"the command sent what is no event: {error}") from None
        if isinstance(event, Finish):
            raise BrokenCommand("the command sent 'finish' as an event: the result of 'stream' is the whole answer")
        return event

    def _failure(self, refused: Refused) -> ChatError | BrokenCommand:
        try:
            return failure(self._name, str(refused), refused.data)
        except ValueError as error:
            return BrokenCommand(f"the command answered with an error that cannot be read: {error}")
