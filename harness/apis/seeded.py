"""Values that look issued and repeat: functions of a seed, for the reference server's ids, usage and signatures."""

from __future__ import annotations

import base64
import hashlib

ALPHANUMERIC = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def token(seed: str, label: str, length: int, alphabet: str = ALPHANUMERIC) -> str:
    """`length` characters of `alphabet` that look random."""
    digits = int.from_bytes(_digest(seed, label, length), "big")
    characters: list[str] = []
    for _ in range(length):
        digits, index = divmod(digits, len(alphabet))
        characters.append(alphabet[index])
    return "".join(characters)


def signature(seed: str, label: str, length: int = 96) -> str:
    """Standard base64 of `length` bytes that look like an opaque signature."""
    return base64.b64encode(_digest(seed, label, length)).decode()


def number(seed: str, label: str, low: int, high: int) -> int:
    """An integer from `low` to `high`, both included."""
    return low + int.from_bytes(_digest(seed, label, 8), "big") % (high - low + 1)


def fragments(text: str, seed: str, label: str, longest: int = 7) -> list[str]:
    """`text` in pieces of 1 to `longest` code points, as models stream it; none of an empty text.

    They fall anywhere: between the marks of one character that the reader sees, inside an escape of JSON text.
    """
    pieces: list[str] = []
    start = 0
    for byte in _digest(seed, label, len(text)):
        if start >= len(text):
            break
        end = start + 1 + byte % longest
        pieces.append(text[start:end])
        start = end
    return pieces


def _digest(seed: str, label: str, length: int) -> bytes:
    return hashlib.shake_256(f"{seed}\0{label}".encode("utf-8", "surrogatepass")).digest(max(length, 8))
