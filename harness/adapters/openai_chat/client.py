"""Client and embeddings. Importing this module imports the SDK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters._common import loads, merge_fields, own, vector
from harness.adapters._openai.client import OMIT, SdkClient, failures_translated
from harness.adapters.openai_chat import API
from harness.adapters.openai_chat.requests import encode
from harness.adapters.openai_chat.responses import read_response
from harness.adapters.openai_chat.servers import adapt
from harness.adapters.openai_chat.streams import read_stream
from harness.model.errors import MalformedResponse, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from harness.model.messages import JSON, ChatRequest
    from harness.model.protocols import Endpoint

_MAX_TEXTS_PER_REQUEST = 2048
_MAX_BYTES_PER_REQUEST = 300_000
_FIXED_LENGTH_MODEL = "text-embedding-ada-002"


class ChatCompletionsClient(SdkClient):
    """A `StreamingChatClient` of one model."""

    api = API

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        super().__init__(endpoint, model, read_response, read_stream)
        self._max_tokens_field = endpoint.max_tokens_field
        self._server = endpoint.server

    def call(self, request: ChatRequest, *, streamed: bool) -> AbstractContextManager[Any]:
        """See `SdkClient.call`."""
        body: dict[str, Any] = encode(request, request.model or self.model, self._max_tokens_field)
        if self._server:
            body = adapt(body, self._server)
        if streamed:  # without the option there are no token counts (openai-chat-stream-usage)
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        whole: Any = merge_fields(body, own(request.provider_metadata, API))
        create: Any = self.sdk.chat.completions.with_streaming_response.create
        headers = whole.pop("extra_headers", None)
        return create(model=OMIT, messages=OMIT, extra_body=whole, extra_headers=headers)


class OpenAIEmbeddings:
    """An `EmbeddingProvider` of OpenAI and compatible servers: `POST /embeddings`.

    - A request has at most 2048 texts and 300,000 tokens in total (SDK, `Embeddings.create`). Texts are batched by
      UTF-8 bytes, because a token has at least one byte.
    - Vectors are requested as numbers. The SDK's default, base64 in single precision, is unreadable in recordings, and
      some compatible servers do not know it.
    - Every request has `dimensions`, except for `text-embedding-ada-002`, which rejects it.
    - The API rejects empty texts, so the adapter raises before it sends anything.
    - Vectors are sorted by their `index`. They are unit length, even if shortened.
    """

    provider = API

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._client = ChatCompletionsClient(endpoint, model)
        self.model = model
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; see `harness.model.protocols.EmbeddingProvider.embed`.

        Raises:
            Unsupported: a text is empty.
        """
        if "" in texts:
            raise Unsupported(API, "an empty text", "the API has no vector for it")
        return [vector for batch in _batches(texts) for vector in self._send(batch)]

    def close(self) -> None:
        """Close the HTTP client, unless the caller provided it."""
        self._client.close()

    def _send(self, texts: list[str]) -> list[list[float]]:
        body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.model != _FIXED_LENGTH_MODEL:
            body["dimensions"] = self.dimensions
        create: Any = self._client.sdk.embeddings.with_streaming_response.create
        with failures_translated(API), create(**body) as response:
            data, status = response.read(), response.status_code
        return _vectors(loads(data), status, len(texts), self.dimensions)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode("utf-8", "surrogatepass"))  # the SDK rejects lone surrogates later
        if batch and (len(batch) == _MAX_TEXTS_PER_REQUEST or size + length > _MAX_BYTES_PER_REQUEST):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _vectors(body: JSON, status: int, count: int, dimensions: int) -> list[list[float]]:
    """Return the vectors of a response, in the order of the texts. Raises `MalformedResponse`."""
    match body:
        case {"data": list(entries)}:
            pass
        case {"error": {"message": str(reason)}}:
            raise MalformedResponse(f"an error inside HTTP {status}: {reason}", status)
        case _:
            raise MalformedResponse("there are no embeddings", status)
    if len(entries) != count:
        raise MalformedResponse(f"{len(entries)} embeddings for {count} texts", status)
    vectors: dict[int, list[float]] = {}
    for place, entry in enumerate(entries):
        match entry:
            case {"index": int(index), "embedding": list(numbers)} if not isinstance(index, bool):
                pass
            case _:
                raise MalformedResponse(f"embedding {place} is not a vector with an index", status)
        if index in vectors or not 0 <= index < count:
            raise MalformedResponse(f"embedding {place} has the index {index}, which is taken or none", status)
        vectors[index] = vector(numbers, place, dimensions, status)
    return [vectors[index] for index in range(count)]
