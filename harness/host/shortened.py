"""A text that is too long for a report, by its beginning and its end."""

from __future__ import annotations

TEXT_LENGTH = 2000
"""Characters that are kept of what an exception says."""

_NOTE = 60
"""Room for what stands in the middle in place of the rest."""


def shortened(text: str, length: int = TEXT_LENGTH) -> str:
    """The text if it has at most `length` characters; else its two ends, with how much is missing between them.

    It is never longer than `length`, so that shortening it again changes nothing.
    """
    if len(text) <= length:
        return text
    half = (length - _NOTE) // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters are left out ...] {text[-half:]}"
