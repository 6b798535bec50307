"""The client. Importing this module imports the SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters._common import merge_fields, own
from harness.adapters._openai.client import SdkClient, payloads
from harness.adapters.openai_responses import API
from harness.adapters.openai_responses.requests import encode
from harness.adapters.openai_responses.responses import read_response
from harness.adapters.openai_responses.streams import read_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from harness.model.messages import ChatRequest, Message, StreamEvent
    from harness.model.protocols import Endpoint


class ResponsesClient(SdkClient):
    """A `StreamingChatClient` for one model."""

    api = API

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        super().__init__(endpoint, model, read_response, _read_stream)

    def call(self, request: ChatRequest, *, streamed: bool) -> AbstractContextManager[Any]:
        """See `SdkClient.call`."""
        body = encode(request, request.model or self.model)
        if streamed:
            body["stream"] = True
        create: Any = self.sdk.responses.with_streaming_response.create
        whole: Any = merge_fields(body, own(request.provider_metadata, API))
        headers = whole.pop("extra_headers", None)
        return create(extra_body=whole, extra_headers=headers)


def _read_stream(chunks: Iterable[bytes], status: int, history: Sequence[Message]) -> Iterator[StreamEvent]:
    return read_events(payloads(chunks, status), status, history)
