"""Embeddings of OpenAI, and of servers that speak its API: `POST /embeddings`.

- A request holds at most 2048 texts and 300,000 tokens in all (SDK, `Embeddings.create`). Nothing here counts tokens; a
  token is at least one byte of UTF-8, so that 300,000 bytes are never too many.
- Vectors are asked for as numbers. The SDK by itself asks for base64, a quarter of the size in single precision, which
  nobody can read in a recording and not every compatible server knows.
- `dimensions` goes out with every request, but for `text-embedding-ada-002`, which has one length and refuses it.
- An empty text is refused by the API, and here before any text is paid for.
- Vectors are put in order by their `index`. They come with the length 1, shortened ones too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from harness.adapters._openai.jsontext import loads
from harness.adapters.openai_chat.api import API
from harness.adapters.openai_chat.client import Client
from harness.contract.errors import MalformedResponse, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.contract.model import JSON
    from harness.contract.protocols import Endpoint

_MOST_TEXTS = 2048
_MOST_BYTES = 300_000
_FIXED = "text-embedding-ada-002"


class OpenAIEmbeddings:
    """A `harness.contract.protocols.EmbeddingProvider` of one model on one endpoint."""

    provider = API

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._client = Client(endpoint, model)
        self.model = model
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text; see `harness.contract.protocols.EmbeddingProvider.embed`.

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
        body: dict[str, JSON] = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        if self.model != _FIXED:
            body["dimensions"] = self.dimensions
        data, status = self._client.embedded(body)
        return _vectors(data, status, len(texts), self.dimensions)


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


def _vectors(data: bytes, status: int, count: int, dimensions: int) -> list[list[float]]:
    """The vectors of an answer, in the order of the texts. Raises `MalformedResponse`."""
    try:
        body = loads(data)
    except ValueError as error:
        raise MalformedResponse(f"the body is not JSON: {error}", status) from None
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
        index, vector = _indexed(entry, place, status)
        if index in vectors or not 0 <= index < count:
            raise MalformedResponse(f"embedding {place} has the index {index}, which is taken or none", status)
        if len(vector) != dimensions:
            raise MalformedResponse(f"embedding {place} has {len(vector)} dimensions, and not {dimensions}", status)
        vectors[index] = vector
    return [vectors[index] for index in range(count)]


def _indexed(entry: JSON, place: int, status: int) -> tuple[int, list[float]]:
    match entry:
        case {"index": int(index), "embedding": list(numbers)} if not isinstance(index, bool):
            pass
        case _:
            raise MalformedResponse(f"embedding {place} is no vector with an index", status)
    vector = [number for number in map(_number, numbers) if number is not None]
    if len(vector) != len(numbers):
        raise MalformedResponse(f"embedding {place} holds something that is no number", status)
    return index, vector


def _number(value: JSON) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
