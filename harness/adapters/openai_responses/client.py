"""Requests through the SDK and its responses. Imported only when a client is connected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters._common import merged, own
from harness.adapters._openai.client import SdkClient
from harness.adapters.openai_responses import API
from harness.adapters.openai_responses.decode import response_of
from harness.adapters.openai_responses.encode import encode
from harness.adapters.openai_responses.stream import stream_events

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from harness.contract.model import ChatRequest
    from harness.contract.protocols import Endpoint


class Client(SdkClient):
    """A `StreamingChatClient` of one model on one endpoint."""

    api = API

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        super().__init__(endpoint, model, response_of, stream_events)

    def call(self, request: ChatRequest, *, streamed: bool) -> AbstractContextManager[Any]:
        """The one request, which is sent when this is entered; its value is the SDK's response, not read yet."""
        body = encode(request, request.model or self.model)
        if streamed:
            body["stream"] = True
        create: Any = self.sdk.responses.with_streaming_response.create
        return create(extra_body=merged(body, own(request.provider_metadata, API)))
