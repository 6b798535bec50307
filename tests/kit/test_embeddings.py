from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.kit.client import EmbeddingRecord
from harness.model.errors import EmbeddingMismatch, UsageError

RECORD = EmbeddingRecord("gemini", "gemini-embedding-2", 2)


class Stub:
    def __init__(self, record: EmbeddingRecord) -> None:
        self.provider, self.model, self.dimensions = record.provider, record.model, record.dimensions
        self.asked: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.asked.append([*texts])
        return [[1.0, 2.0] for _ in texts]

    def close(self) -> None:
        raise AssertionError("a record closes nothing")


def test_a_record_says_what_made_the_vectors() -> None:
    assert EmbeddingRecord.of(Stub(RECORD)) == RECORD


def test_a_record_queries_its_provider() -> None:
    provider = Stub(RECORD)
    assert RECORD.query(provider, "where?") == [1.0, 2.0]
    assert provider.asked == [["where?"]]


@pytest.mark.parametrize(
    "other",
    [replace(RECORD, provider="openai"), replace(RECORD, model="gemini-embedding-001"), replace(RECORD, dimensions=3)],
    ids=["provider", "model", "dimensions"],
)
def test_another_provider_is_refused_before_a_request(other: EmbeddingRecord) -> None:
    provider = Stub(other)
    with pytest.raises(EmbeddingMismatch) as raised:
        RECORD.query(provider, "where?")
    with pytest.raises(EmbeddingMismatch):
        RECORD.check(provider)
    assert provider.asked == []
    assert str(raised.value) == (
        "these embeddings were made with 'gemini-embedding-2' of gemini (2 dimensions), and are now requested with "
        f"{other.model!r} of {other.provider} ({other.dimensions} dimensions); vectors of the two cannot be compared. "
        "Go back to that model, or embed the texts again."
    )


def test_a_record_survives_json() -> None:
    text = RECORD.to_json()
    assert text == '{"provider": "gemini", "model": "gemini-embedding-2", "dimensions": 2}'
    assert EmbeddingRecord.from_json(text) == EmbeddingRecord.from_json(text.encode()) == RECORD


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", "Invalid JSON"),
        ("[]", "Input should be"),
        ('{"provider": "gemini", "model": "m"}', "dimensions: Field required"),
        ('{"provider": "gemini", "model": "m", "dimensions": "2"}', "dimensions: Input should be a valid integer"),
        ('{"provider": "gemini", "model": "m", "dimensions": 2, "more": 1}', "more: Unexpected keyword"),
    ],
)
def test_an_invalid_record_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as raised:
        EmbeddingRecord.from_json(text)
    assert str(raised.value).startswith(f"this is not a record of embeddings ({reason}")
    assert str(raised.value).endswith("Embed the texts again.")
