"""A secret in the spellings in which it is searched for, and where it stands, whole or in part."""

from __future__ import annotations

from base64 import b32encode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from harness.tape.redact.view import View

Alphabet: TypeAlias = Literal["any case", "base64"]

SHORTEST = 8
"""Characters that a secret has at least. A shorter value is a dummy key; searching for it would eat ordinary text."""

PART = 16
"""Characters of a secret, one after another, that are taken out where the rest of it is missing."""


@dataclass(frozen=True)
class Needle:
    """One spelling of a secret, and how much of it gives it away: `least` bytes one after another."""

    text: bytes
    least: int
    alphabet: Alphabet

    @cached_property
    def _blocks(self) -> list[tuple[int, bytes]]:
        """Pieces at fixed places, one of which is in whatever is long enough."""
        size = (self.least + 1) // 2
        starts = range(0, len(self.text) - size + 1, size)
        return [(start, self.text[start : start + size]) for start in starts]

    def spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Where it stands in `text`, whole or in part."""
        needle = self.text
        for start, block in self._blocks:
            at = text.find(block)
            while at >= 0:
                before = _common(needle[:start][::-1], text[max(at - start, 0) : at][::-1])
                behind = at + len(block)
                after = _common(needle[start + len(block) :], text[behind : behind + len(needle)])
                if before + len(block) + after >= self.least:
                    yield at - before, behind + after
                at = text.find(block, behind + after)

    def begun(self, text: bytes) -> int | None:
        """Where it begins at the end of `text`, with too little behind it to be found as a part."""
        for length in range(min(len(self.text), len(text)), SHORTEST - 1, -1):
            if text.endswith(self.text[:length]):
                return len(text) - length
        return None


def needles(secret: str) -> list[Needle]:
    """What to search squeezed views for: see `fold`."""
    raw = View(secret.strip().encode("utf-8", "surrogatepass"), squeezed=True).text
    if len(raw) < SHORTEST:
        return []
    part = min(PART, len(raw))
    base32 = [_base32(raw, shift).lower() for shift in range(5)]
    base64 = [_base64(raw, shift) for shift in range(3)]
    return [
        Needle(raw.lower(), part, "any case"),
        Needle(raw.hex().encode(), 2 * part, "any case"),
        *(Needle(text, min(len(text), part * 8 // 5 - 1), "any case") for text in base32),
        *(Needle(text, min(len(text), part * 4 // 3 - 1), "base64") for text in base64),
    ]


_URLSAFE = bytes.maketrans(b"-_", b"+/")


def fold(text: bytes, alphabet: Alphabet) -> bytes:
    """A view's text as needles of an alphabet are spelled; no longer and no shorter."""
    return text.translate(_URLSAFE) if alphabet == "base64" else text.lower()


def _common(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)


def _base64(raw: bytes, shift: int) -> bytes:
    """What is the same in any base64 that has `raw` inside, `shift` bytes behind the beginning of a group."""
    whole = slice(-(-8 * shift // 6), 8 * (shift + len(raw)) // 6)
    return b64encode(b"\0" * shift + raw)[whole]


def _base32(raw: bytes, shift: int) -> bytes:
    """The same in base32."""
    whole = slice(-(-8 * shift // 5), 8 * (shift + len(raw)) // 5)
    return b32encode(b"\0" * shift + raw)[whole]
