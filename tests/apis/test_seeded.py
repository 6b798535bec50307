from __future__ import annotations

import base64

from hypothesis import given
from hypothesis import strategies as st

from harness.apis.server import ALPHANUMERIC, fragments, number, signature, token


@given(st.text(), st.text(), st.integers(0, 64), st.sampled_from([ALPHANUMERIC, "01", "abc"]))
def test_a_token_has_its_length_and_alphabet_and_repeats(seed: str, label: str, length: int, alphabet: str) -> None:
    made = token(seed, label, length, alphabet)
    assert len(made) == length
    assert set(made) <= set(alphabet)
    assert made == token(seed, label, length, alphabet)


def test_values_are_the_same_in_every_process() -> None:
    assert token("weather/0", "id", 24) == "LEKCQqlb7xRZjFEBWvQ4gfb3"
    assert number("weather/0", "usage", 10, 99) == 98


@given(st.text(), st.integers(-5, 5), st.integers(0, 300))
def test_a_number_lies_between_its_bounds(seed: str, low: int, span: int) -> None:
    assert low <= number(seed, "usage", low, low + span) <= low + span


def test_a_seed_may_hold_half_of_a_surrogate_pair() -> None:
    assert token("\ud83d", "id", 8) != token("\ud83e", "id", 8)


@given(st.text(), st.integers(8, 200))
def test_a_signature_is_base64_of_its_length(seed: str, length: int) -> None:
    assert len(base64.b64decode(signature(seed, "thought", length), validate=True)) == length


@given(st.text(), st.text(max_size=3), st.integers(1, 9))
def test_fragments_are_the_text_in_pieces_that_are_never_empty(text: str, seed: str, longest: int) -> None:
    pieces = fragments(text, seed, "text", longest)
    assert "".join(pieces) == text
    assert all(1 <= len(piece) <= longest for piece in pieces)
