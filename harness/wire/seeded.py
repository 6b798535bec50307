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


def _digest(seed: str, label: str, length: int) -> bytes:
    return hashlib.shake_256(f"{seed}\0{label}".encode("utf-8", "surrogatepass")).digest(max(length, 8))
