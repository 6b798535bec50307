"""What is sent to the SDK, and what comes of its answers. Imported only when a client is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters._openai.client import OMIT, Sdk, exchange
from harness.adapters._openai.metadata import merged, own
from harness.adapters.openai_chat.api import API
from harness.adapters.openai_chat.request import encode
from harness.adapters.openai_chat.response import decode
from harness.adapters.openai_chat.stream import stream_events
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
        self._max_tokens_field = endpoint.max_tokens_field
        self._sdk = Sdk(endpoint)
        # the streaming variant is the one whose body can be read as it came
        completions, embeddings = self._sdk.chat.completions, self._sdk.embeddings
        self._create: Callable[..., AbstractContextManager[Any]] = completions.with_streaming_response.create
        self._embed: Callable[..., AbstractContextManager[Any]] = embeddings.with_streaming_response.create

    def chat(self, request: ChatRequest) -> ChatResponse:
        """Ask the model; see `harness.contract.protocols.ChatClient.chat`."""
        with exchange(self._call(request, {}), API) as answer:
            data, status = answer.read(), answer.status
        return decode(data, status, request.messages)

    def stream(self, request: ChatRequest) -> Iterator[StreamEvent]:
        """Ask the model; see `harness.contract.protocols.StreamingChatClient.stream`."""
        # without the option there are no counts of tokens at all (openai-chat-stream-usage)
        switches: dict[str, JSON] = {"stream": True, "stream_options": {"include_usage": True}}
        with exchange(self._call(request, switches), API) as answer:
            if answer.is_whole:
                decode(answer.read(), answer.status, request.messages)  # an error in it says more than what is raised
                raise MalformedResponse("the answer is whole, although a stream was asked for", answer.status)
            yield from stream_events(answer.pieces(), answer.status, request.messages)

    def embedded(self, body: dict[str, JSON]) -> tuple[bytes, int]:
        """The body and the status of the answer to one request for embeddings."""
        # The SDK asks for base64 unless told otherwise. Its own parameters are overridden, as in `_call`.
        call = self._embed(model=str(body["model"]), input=(), encoding_format="float", extra_body=body)
        with exchange(call, API) as answer:
            return answer.read(), answer.status

    def _call(self, request: ChatRequest, switches: dict[str, JSON]) -> AbstractContextManager[Any]:
        """The one request, which is sent when this is entered."""
        body: dict[str, Any] = encode(request, request.model or self._model, self._max_tokens_field) | switches
        whole = merged(body, own(request.provider_metadata, API))
        # Beside the SDK's own parameters, not in them: it would walk them for keys to rename, of which a body in the
        # wire's words has none, and that takes longer than all the rest of the request. The name of a model alone it
        # looks for among all that it knows, and not for what it is told to leave out.
        return self._create(model=OMIT, messages=OMIT, extra_body=whole)

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        self._sdk.release()
