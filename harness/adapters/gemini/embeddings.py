"""Embeddings of Gemini: `models/…:batchEmbedContents`.

- A request holds at most 100 texts: "at most 100 requests can be in one batch" (HTTP 400).
- Each text is a content of its own. Several parts of one content make one vector, which is what the SDK makes of a list
  of bare strings for gemini-embedding-2, without an error (googleapis/python-genai, issue 2523).
- `outputDimensionality` goes out with every request. A vector that was shortened this way is cut off, not scaled: that
  of gemini-embedding-001 has the length 1 only with all its 3072 dimensions. Vectors are handed on to the last bit, so
  compare them by their cosine, which does not mind, or scale them first.
- The answer names no index: its vectors are in the order of the texts.
- No task type is sent. gemini-embedding-2 has none, and takes such an instruction in the text.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from harness.adapters.gemini.client import GeminiClient
from harness.adapters.gemini.decode import loads
from harness.contract.errors import MalformedResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.contract.model import JSON
    from harness.contract.protocols import Endpoint

_MOST_TEXTS = 100


class GeminiEmbeddings:
    """A `harness.contract.protocols.EmbeddingProvider` of one model on one endpoint."""

    provider = "gemini"

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int) -> None:
        self._client = GeminiClient(endpoint, model)
        self.model = model
        self.dimensions = dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text; see `harness.contract.protocols.EmbeddingProvider.embed`."""
        vectors: list[list[float]] = []
        for start in range(0, len(texts), _MOST_TEXTS):
            batch = texts[start : start + _MOST_TEXTS]
            vectors += _vectors(self._client.embedded(batch, self.dimensions), len(batch), self.dimensions)
        return vectors

    def close(self) -> None:
        """Close the HTTP client, unless it is the caller's."""
        self._client.close()


def _vectors(data: bytes, count: int, dimensions: int) -> list[list[float]]:
    """The vectors of an answer. Raises `MalformedResponse`."""
    match loads(data):
        case {"embeddings": list(entries)}:
            pass
        case _:
            raise MalformedResponse("there are no embeddings")
    if len(entries) != count:
        raise MalformedResponse(f"{len(entries)} embeddings for {count} texts")
    vectors = [_vector(entry, place) for place, entry in enumerate(entries)]
    for place, vector in enumerate(vectors):
        if len(vector) != dimensions:
            raise MalformedResponse(f"embedding {place} has {len(vector)} dimensions, and not {dimensions}")
    return vectors


def _vector(entry: JSON, place: int) -> list[float]:
    match entry:
        case {"values": list(numbers)}:
            pass
        case _:
            raise MalformedResponse(f"embedding {place} is no vector")
    vector = [number for number in map(_number, numbers) if number is not None]
    if len(vector) != len(numbers):
        raise MalformedResponse(f"embedding {place} holds something that is no number")
    return vector


def _number(value: JSON) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
