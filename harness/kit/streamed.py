"""Answers that are shown while they arrive: a client that streams behind a `chat`.

A thread asks by `chat`. Given this client it streams all the same, and whoever wants to see the answer arrive is told
every event: text as it is written, the content of a file while the model still writes it (`PartialArguments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jiter import from_json

from harness.contract.errors import MalformedResponse
from harness.contract.model import ChatResponse, Finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.contract.model import JSON, ChatRequest, StreamEvent
    from harness.contract.protocols import StreamingChatClient


class Streamed:
    """A `ChatClient` whose `chat` streams through `client` and tells `on_event` every event as it comes."""

    def __init__(self, client: StreamingChatClient, on_event: Callable[[StreamEvent], None]) -> None:
        self._client = client
        self._on_event = on_event

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `harness.contract.protocols.StreamingChatClient.stream`."""
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


_OF_NUMBERS = "0123456789+-.eE"


class PartialArguments:
    """Collects the deltas of one call. `text` is what has come, `value` the best reading of it so far."""

    def __init__(self) -> None:
        self.text = ""
        self._in_string = False
        self._escaped = False

    def add(self, delta: str) -> None:
        """Take the next piece."""
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
        """The arguments as far as they have come: strings as far as they go, other values only once they are whole.

        A number at the end may go on, so it is left out: a cut `1234` never shows as `12`. A text that is no JSON
        object, or not yet one, reads as `{}`.
        """
        text = self.text if self._in_string else self.text.rstrip().rstrip(_OF_NUMBERS)
        try:
            value: JSON = from_json(text.encode(errors="replace"), partial_mode="trailing-strings")
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}
