"""Display of responses while they arrive.

A thread calls `chat`. With the client `Streamed`, each chat is a stream, and a callback receives every event: text as
the model writes it, and the arguments of a call before they are complete (`PartialArguments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jiter import from_json

from harness.model.errors import MalformedResponse
from harness.model.messages import ChatResponse, Finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.model.messages import JSON, ChatRequest, StreamEvent
    from harness.model.protocols import StreamingChatClient


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
