"""What is sent to the SDK, and what comes of its answers. Imported only when a client is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters._openai.client import Sdk, exchange
from harness.adapters._openai.metadata import merged, own
from harness.adapters.openai_responses.api import API
from harness.adapters.openai_responses.request import encode
from harness.adapters.openai_responses.response import decode
from harness.adapters.openai_responses.stream import stream_events
from harness.contract.errors import MalformedResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from harness.contract.model import JSON, ChatRequest, ChatResponse, StreamEvent
    from harness.contract.protocols import Endpoint


class Client:
    """A `ChatClient` of one model on one endpoint."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._model = model
        self._sdk = Sdk(endpoint)
        # the streaming variant is the one whose body can be read as it came
        self._create: Callable[..., AbstractContextManager[Any]] = self._sdk.responses.with_streaming_response.create

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `harness.contract.protocols.ChatClient.chat`."""
        with exchange(self._call(request, {}), API) as answer:
            data, status = answer.read(), answer.status
        return decode(data, status, request.messages)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Ask the model; see `harness.contract.protocols.StreamingChatClient.stream`."""
        with exchange(self._call(request, {"stream": True}), API) as answer:
            if answer.is_whole:
                decode(answer.read(), answer.status, request.messages)  # an error in it says more than what is raised
                raise MalformedResponse("the answer is whole, although a stream was asked for", answer.status)
            yield from stream_events(answer.pieces(), answer.status, request.messages)

    def _call(self, request: ChatRequest, switches: dict[str, JSON]) -> AbstractContextManager[Any]:
        """The one request, which is sent when this is entered."""
        body = encode(request, request.model or self._model) | switches
        whole = merged(body, own(request.provider_metadata, API))
        # Beside the SDK's own parameters, not in them: it would walk them for keys to rename, of which a body in the
        # wire's words has none, and that takes longer than all the rest of the request.
        return self._create(extra_body=whole)

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        self._sdk.release()
