"""Bytes written as numbers: `73 6b 2d`, `0x73, 0x6b`, `[115, 107]`, `=73=6B`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.tape.redact.needles import SHORTEST

_MORE = b"{%d,}" % (SHORTEST - 1)
_WRITTEN = re.compile(
    rb"(?<![0-9A-Za-z])(?:"
    rb"(?P<hex>(?:0x)?[0-9A-Fa-f]{2}(?:[\s:,-]+(?:0x)?[0-9A-Fa-f]{2})" + _MORE + rb")"
    rb"|(?P<decimal>[0-9]{2,3}(?:[\s,]+[0-9]{2,3})" + _MORE + rb")"
    rb")(?![0-9A-Za-z])|(?P<quoted>(?:=[0-9A-Fa-f]{2})" + _MORE + rb")"
)
_DECIMAL = re.compile(rb"[0-9]+")
_HEX = re.compile(rb"(?<![0-9A-Fa-f])[0-9A-Fa-f]{2}(?![0-9A-Fa-f])")


def written(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Where bytes are written as numbers, and which they are."""
    for match in _WRITTEN.finditer(data):
        whole = match[0]
        readings = [_bytes(_HEX.findall(whole), 16)]
        if match["quoted"] is None:
            readings.append(_bytes(_DECIMAL.findall(whole), 10))
        for reading in readings:
            if reading:
                yield (*match.span(), reading)


def _bytes(numbers: list[bytes], base: int) -> bytes:
    values = [int(number, base) for number in numbers]
    return bytes(values) if all(value < 256 for value in values) else b""
