from __future__ import annotations

import pytest

from harness.meaning.choices import is_named


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ("gpt-5.6", "gpt-5.6"),
        ("models/gemini-3.6-flash", "gemini-3.6-flash"),
        ("publishers/google/models/gemini-3.6-flash", "gemini-3.6-flash"),
        ("claude-opus-5-5-20260814", "claude-opus-5-5"),
        ("claude-opus-5-5@20260814", "claude-opus-5-5"),
        ("gpt-5.6-2026-08-07", "gpt-5.6"),
        ("gemini-2.5-flash-001", "gemini-2.5-flash"),
    ],
)
def test_a_model_under_another_of_its_names(sent: str, wanted: str) -> None:
    assert is_named(sent, wanted)


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        ("gpt-5.6-mini", "gpt-5.6"),
        ("gpt-5.6-mini-2026-08-07", "gpt-5.6"),
        ("gpt-5.6", "gpt-5.6-2026-08-07"),
        ("claude-opus-5-5-latest", "claude-opus-5-5"),
        ("gemini-2.5-flash", "gemini-2.5-pro"),
    ],
)
def test_another_model(sent: str, wanted: str) -> None:
    assert not is_named(sent, wanted)
