from __future__ import annotations

import pytest

from harness.platform.exceptions import shorten


def test_a_short_text_stays_as_it_is() -> None:
    assert shorten("x" * 100, 100) == "x" * 100


def test_of_a_long_one_both_ends_stay_and_what_is_missing_is_counted() -> None:
    assert shorten("a" * 500 + "b" * 500, 100) == f"{'a' * 20} [... 960 characters are left out ...] {'b' * 20}"


@pytest.mark.parametrize("length", [80, 2000, 20_000])
def test_shortening_it_again_changes_nothing(length: int) -> None:
    once = shorten("x" * 50_000_000, length)
    assert len(once) <= length
    assert shorten(once, length) == once
