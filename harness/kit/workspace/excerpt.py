"""Text that is cut at a bound, and shows it."""

from __future__ import annotations

import codecs


def excerpt(data: bytes, total: int, errors: str = "strict") -> str:
    """The beginning `data` of `total` bytes as text, with a last line that says what is missing, if anything is.

    A character that the bound cuts in two is left out. Raises `UnicodeDecodeError` unless `errors` is lenient.
    """
    decoder = codecs.getincrementaldecoder("utf-8")(errors)
    text = decoder.decode(data, final=len(data) == total)
    shown = len(data) - len(decoder.getstate()[0])
    return text if shown == total else f"{text}\n[truncated: the first {shown} of {total} bytes]"


def quoted(word: str) -> str:
    """A word of the model's in quotes, for an error: in ASCII, and not longer than a line."""
    return ascii(word if len(word) <= 80 else f"{word[:77]}...")
