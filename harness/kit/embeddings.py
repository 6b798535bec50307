"""Records of how vectors were made, which prevent comparisons with vectors of another model."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from harness.model.errors import EmbeddingMismatch, UsageError
from harness.model.protocols import AsyncEmbeddingProvider, EmbeddingProvider


@dataclass(frozen=True, slots=True)
class EmbeddingRecord:
    """The provider, the model and the length of vectors. Store it together with them."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", strict=True)

    provider: str
    model: str
    dimensions: int

    @staticmethod
    def of(provider: EmbeddingProvider | AsyncEmbeddingProvider) -> EmbeddingRecord:
        """Return the record of the vectors that this provider makes."""
        return EmbeddingRecord(provider.provider, provider.model, provider.dimensions)

    def check(self, provider: EmbeddingProvider | AsyncEmbeddingProvider) -> None:
        """Check that vectors of `provider` can be compared with those of this record. No request is sent.

        Raises:
            EmbeddingMismatch: the provider, the model or the length differs.
        """
        asked = EmbeddingRecord.of(provider)
        if asked != self:
            raise EmbeddingMismatch(astuple(self), astuple(asked))

    def query(self, provider: EmbeddingProvider, text: str) -> list[float]:
        """Return the vector of a text, to compare it with vectors of this record.

        Raises:
            EmbeddingMismatch: `provider` makes vectors that cannot be compared; no request was sent.
            harness.model.errors.ChatError: the provider refused or failed.
        """
        self.check(provider)
        (vector,) = provider.embed([text])
        return vector

    async def query_async(self, provider: AsyncEmbeddingProvider, text: str) -> list[float]:
        """See `query`."""
        self.check(provider)
        (vector,) = await provider.embed([text])
        return vector

    def to_json(self) -> str:
        """Return the record as a JSON object, for `from_json`."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> EmbeddingRecord:
        """Read a record written by `to_json`.

        Raises:
            UsageError: the text is not a record.
        """
        try:
            return _RECORD.validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            reason = f"{place}: {first['msg']}" if place else first["msg"]
            raise UsageError(f"this is no record of embeddings ({reason}). Embed the texts again.") from None


_RECORD = TypeAdapter(EmbeddingRecord)
