"""Requests through the SDK and its responses. Imported only when a client is connected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters._common import loads, merged, own, vector
from harness.adapters._openai.client import OMIT, SdkClient, failures_translated
from harness.adapters.openai_chat import API
from harness.adapters.openai_chat.decode import response_of
from harness.adapters.openai_chat.encode import encode
from harness.adapters.openai_chat.stream import stream_events
from harness.contract.errors import MalformedResponse, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from harness.contract.model import JSON, ChatRequest
    from harness.contract.protocols import Endpoint

_MOST_TEXTS = 2048
_MOST_BYTES = 300_000
_FIXED = "text-embedding-ada-002"


class Client(SdkClient):
    """A `StreamingChatClient` of one model on one endpoint."""

    api = API

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        super().__init__(endpoint, model, response_of, stream_events)
        self._max_tokens_field = endpoint.max_tokens_field

    def call(self, request: ChatRequest, *, streamed: bool) -> AbstractContextManager[Any]:
        """The one request, which is sent when this is entered; its value is the SDK's response, not read yet."""
        body: dict[str, Any] = encode(request, request.model or self.model, self._max_tokens_field)
        if streamed:  # without the option there are no counts of tokens at all (openai-chat-stream-usage)
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        whole: Any = merged(body, own(request.provider_metadata, API))
        create: Any = self.sdk.chat.completions.with_streaming_response.create
        return create(model=OMIT, messages=OMIT, extra_body=whole)


class OpenAIEmbeddings:
    """An `EmbeddingProvider` of OpenAI, and of servers that speak its API: `POST /embeddings`.

    - A request holds at most 2048 texts and 300,000 tokens in all (SDK, `Embeddings.create`). Nothing here counts
      tokens; a token is at least one byte of UTF-8, so that 300,000 bytes are never too many.
    - Vectors are requested as numbers. The SDK by itself asks for base64, a quarter of the size in single precision,
      which nobody can read in a recording and not every compatible server knows.
    - `dimensions` goes out with every request, but for `text-embedding-ada-002`, which has one length and refuses it.
    - An empty text is refused by the API, and here before any text is paid for.
    - Vectors are put in order by their `index`. They come with the length 1, shortened ones too.
    """

    provider = API

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._client = Client(endpoint, model)
        self.model = model
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; see `harness.contract.protocols.EmbeddingProvider.embed`.

        Raises:
            Unsupported: a text is empty.
        """
        if "" in texts:
            raise Unsupported(API, "an empty text", "the API makes no vector of it")
        return [vector for batch in _batches(texts) for vector in self._embedded(batch)]

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        self._client.close()

    def _embedded(self, texts: list[str]) -> list[list[float]]:
        body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "float"}
        if self.model != _FIXED:
            body["dimensions"] = self.dimensions
        create: Any = self._client.sdk.embeddings.with_streaming_response.create
        with failures_translated(API), create(**body) as response:
            data, status = response.read(), response.status_code
        return _vectors(loads(data), status, len(texts), self.dimensions)


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode("utf-8", "surrogatepass"))  # half of a pair is refused when it is sent
        if batch and (len(batch) == _MOST_TEXTS or size + length > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _vectors(body: JSON, status: int, count: int, dimensions: int) -> list[list[float]]:
    """The vectors of an answer, in the order of the texts. Raises `MalformedResponse`."""
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
                raise MalformedResponse(f"embedding {place} is no vector with an index", status)
        if index in vectors or not 0 <= index < count:
            raise MalformedResponse(f"embedding {place} has the index {index}, which is taken or none", status)
        vectors[index] = vector(numbers, place, dimensions, status)
    return [vectors[index] for index in range(count)]
