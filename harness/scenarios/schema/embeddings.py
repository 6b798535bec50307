"""An index of texts, and queries of it."""

from __future__ import annotations

from pydantic import Field, model_validator

from harness.scenarios.fields import (
    Strict,
)


class RecordSpec(Strict):
    """What made the vectors of an index, as far as it is not what the target makes them with. Something is given."""

    provider: str | None = None
    model: str | None = None
    dimensions: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _differs(self) -> RecordSpec:
        if self.provider is None and self.model is None and self.dimensions is None:
            raise ValueError("give provider, model or dimensions, as the index has them.")
        return self


class QuerySpec(Strict):
    """A text that is to be compared with what is in an index."""

    text: str
    indexed_with: RecordSpec | None = Field(
        default=None, description="The index was made by something else: the query is refused, and nothing is sent."
    )


class EmbeddingsSpec(Strict):
    """Texts that are embedded together, as an index, and queries of it, each a text of its own."""

    dimensions: int = Field(ge=1, le=3072, description="The length of every vector.")
    texts: list[str] = Field(min_length=1)
    queries: list[QuerySpec] = Field(default_factory=list[QuerySpec])
