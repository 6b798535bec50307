"""A byte that changed in a cassette is noticed, or changed nothing that it says."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness.cassettes.cassette import Cassette
from harness.cassettes.cassette_files import loads
from harness.model.errors import CassetteError
from harness.platform.files import shipped_folder
from tests.hardness.conftest import Figure

SEED = 20261011


def flipped(flips: int, files: int) -> tuple[int, list[str]]:
    """How many changed bytes were refused, and those that were taken for another value."""
    random_ = random.Random(SEED)  # noqa: S311 - the same flips each time
    chosen = random_.sample(sorted(shipped_folder("cassettes").glob("*/*.yaml")), files)
    refused, silent = 0, list[str]()
    for path in chosen:
        data = path.read_bytes()
        recorded = loads(data, path.name)
        for _ in range(flips // files):
            at, value = random_.randrange(len(data)), random_.randrange(1, 256)
            found = read(data[:at] + bytes([data[at] ^ value]) + data[at + 1 :], path)
            refused += found is None
            if found not in (None, recorded):
                silent.append(f"{path}: byte {at} ^ {value}")
    return refused, silent


def read(data: bytes, path: Path) -> Cassette | None:
    try:
        cassette = loads(data, path.name)
    except CassetteError:
        return None
    return cassette if cassette.metadata is not None else None  # which no run plays: `Library.load`


def test_no_changed_byte_is_accepted_with_another_value() -> None:
    refused, silent = flipped(200, 20)

    assert silent == []
    assert refused > 150


@pytest.mark.long
def test_no_changed_byte_of_ten_thousand_is(figure: Figure) -> None:
    refused, silent = flipped(10_000, 200)

    figure("bytes changed in cassettes", 10_000, f"{len(silent)} accepted with another value", refused=refused)
    assert silent == []
