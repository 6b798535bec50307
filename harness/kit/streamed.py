"""Answers that are shown while they arrive: a client that streams behind a `chat`.

A thread asks by `chat`. Given this client it streams all the same, and whoever wants to see the answer arrive is told
every event: text as it is written, the content of a file while the model still writes it (`harness.kit.partial`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.contract.errors import MalformedResponse
from harness.contract.model import ChatResponse, Finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.contract.model import ChatRequest, StreamEvent
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
