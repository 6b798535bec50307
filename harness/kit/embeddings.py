"""What made some vectors, kept beside them, so that they are never compared with vectors of another making."""

from __future__ import annotations

import json
from dataclasses import asdict, astuple, dataclass

from pydantic import ConfigDict, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from harness.contract.errors import EmbeddingMismatch, UsageError
from harness.contract.protocols import AsyncEmbeddingProvider, EmbeddingProvider


@dataclass(frozen=True, slots=True)
class EmbeddingRecord:
    """The provider, the model and the length of some vectors, to be stored with them."""

    provider: str
    model: str
    dimensions: int

    @staticmethod
    def of(provider: EmbeddingProvider | AsyncEmbeddingProvider) -> EmbeddingRecord:
        """The record of the vectors that this provider makes."""
        return EmbeddingRecord(provider.provider, provider.model, provider.dimensions)

    def check(self, provider: EmbeddingProvider | AsyncEmbeddingProvider) -> None:
        """Make sure that the vectors of `provider` can be compared with those of this record. Sends nothing.

        Raises:
            EmbeddingMismatch: it is another provider, or has another model or length of vectors.
        """
        asked = EmbeddingRecord.of(provider)
        if asked != self:
            raise EmbeddingMismatch(astuple(self), astuple(asked))

    def query(self, provider: EmbeddingProvider, text: str) -> list[float]:
        """The vector of a text that is to be compared with those of this record.

        Raises:
            EmbeddingMismatch: `provider` makes other vectors; nothing has been sent then.
            harness.contract.errors.ChatError: the provider refused or failed.
        """
        self.check(provider)
        (vector,) = provider.embed([text])
        return vector

    async def query_async(self, provider: AsyncEmbeddingProvider, text: str) -> list[float]:
        """`query` for asynchronous callers."""
        self.check(provider)
        (vector,) = await provider.embed([text])
        return vector

    def to_json(self) -> str:
        """The record as a JSON object; `from_json` gives back an equal one."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes) -> EmbeddingRecord:
        """Read what `to_json` wrote.

        Raises:
            UsageError: it is no record.
        """
        try:
            return EmbeddingRecord(**_FIELDS.validate_json(text))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            reason = f"{place}: {first['msg']}" if place else first["msg"]
            raise UsageError(f"this is no record of embeddings ({reason}). Embed the texts again.") from None


class _Fields(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # pyright: ignore[reportGeneralTypeIssues]
    provider: str
    model: str
    dimensions: int


_FIELDS: TypeAdapter[_Fields] = TypeAdapter(_Fields)
