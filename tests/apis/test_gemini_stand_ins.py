from __future__ import annotations

import base64

import pytest

from harness.apis.gemini.checks import is_signature_placeholder

WORDS = ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"]


@pytest.mark.parametrize("word", WORDS)
def test_a_stand_in_is_known_plainly_and_as_base64(word: str) -> None:
    padded = base64.b64encode(word.encode()).decode()
    url_safe = base64.urlsafe_b64encode(word.encode()).decode()
    assert all(map(is_signature_placeholder, (word, padded, padded.rstrip("="), url_safe, url_safe.rstrip("="))))


@pytest.mark.parametrize("word", WORDS)
def test_what_is_nearly_a_stand_in_is_none(word: str) -> None:
    changed = word.replace("_t", "-t", 1).replace("a", "b")
    assert not any(
        map(is_signature_placeholder, (changed, base64.b64encode(changed.encode()).decode(), word[:-4], "", None))
    )
