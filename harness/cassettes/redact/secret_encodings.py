"""Removal of escape sequences from text, and the encodings in which a secret may occur."""

from __future__ import annotations

import html
import re
from base64 import b32encode, b64encode
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

NEXT_LINE = rb"\r?\n(?:(?:(?:event|id|retry)?:[^\n]*)?\r?\n)*data:[ ]?"
"""The text between the contents of two `data:` lines of an event stream."""

FRAME = re.compile(rb"^(?:event|id|retry)?:([^\r\n]+)", re.MULTILINE)
"""Matches a line of an event stream other than `data:`, which is another field or a comment."""

_ESCAPE = (
    rb"(?P<blank>\\+[nrtf]|%(?:25)*(?:0[9AaDd]|20))"
    rb"|\\+u\{0*(?P<braced>[0-9A-Fa-f]{1,6})\}"
    rb"|\\+u(?P<unit>[0-9A-Fa-f]{4})(?:\\+u(?P<low>[Dd][C-Fc-f][0-9A-Fa-f]{2}))?"
    rb"|\\+x(?P<hex>[0-9A-Fa-f]{2})"
    rb"|\\+(?P<octal>[0-3][0-7]{2})"
    rb"|\\+(?P<mark>[!-/:-@\[\]-`{-~])"
    rb"|%(?:25)*(?P<percent>[0-9A-Fa-f]{2})"
    rb"|(?P<entity>&(?:\#[Xx]?[0-9A-Fa-f]{1,7}|[A-Za-z]{2,8});)"
)
_BROKEN = rb"(?P<line>" + NEXT_LINE + rb")|(?P<end>[\\=](?:\r?\n|(?:\\+r)?\\+n))|(?P<space>[ \t\f\v\0]+|\r?\n)"
"""Matches gaps within a text: event stream framing, soft line breaks, white space, and the zero bytes of UTF-16."""

_WRITTEN = re.compile(_ESCAPE)
_SQUEEZED = re.compile(_BROKEN + rb"|" + _ESCAPE)
_MAX_DEPTH = 5
"""Maximum nesting depth of escapes, including mixed ones: `%5Cu0073`, `&amp;#115;`."""

_LEFT_OUT = frozenset({"line", "end", "space", "blank"})
_BYTE = ("hex", "percent")
_CODE = ("braced", "unit")


class DecodedText:
    """A view of `data` without the escapes of JSON, JavaScript, URLs and HTML, including nested escapes.

    `text` is the result. With `squeezed`, white space is removed as well, escaped or not, and so is everything between
    two `data:` lines. Text that is split over several lines is thereby joined.
    """

    def __init__(self, data: bytes, *, squeezed: bool, _depth: int = 1) -> None:
        self._at: list[int] = [0]
        self._source: list[tuple[int, int]] = [(0, 0)]  # start of each segment, and its end if it is an escape
        text = bytearray()
        last = 0
        for match in (_SQUEEZED if squeezed else _WRITTEN).finditer(data):
            begin, end = match.span()
            self._literal(len(text), last)
            text += data[last:begin]
            meant = b"" if squeezed and match.lastgroup in _LEFT_OUT else _unescape(match[0])
            if meant:
                self._at.append(len(text))
                self._source.append((begin, end))
                text += meant
            last = end
        self._literal(len(text), last)
        text += data[last:]
        self.text = bytes(text)
        self._within: DecodedText | None = None
        if _depth < _MAX_DEPTH and _WRITTEN.search(self.text) is not None:
            self._within = DecodedText(self.text, squeezed=squeezed, _depth=_depth + 1)
            self.text = self._within.text

    def _literal(self, at: int, source: int) -> None:
        self._at.append(at)
        self._source.append((source, 0))

    def source(self, begin: int, end: int) -> tuple[int, int]:
        """Return the position of `text[begin:end]` in the original data."""
        if self._within is not None:
            begin, end = self._within.source(begin, end)
        return self._place(begin)[0], self._place(end - 1)[1]

    def _place(self, position: int) -> tuple[int, int]:
        segment = bisect_right(self._at, position) - 1
        begin, end = self._source[segment]
        if end:
            return begin, end
        place = begin + position - self._at[segment]
        return place, place + 1


@lru_cache(maxsize=4096)  # a body has few different ones
def _unescape(escape: bytes) -> bytes:
    match = _WRITTEN.fullmatch(escape)
    assert match is not None  # noqa: S101 - it is one
    kind = match.lastgroup
    if kind == "blank":
        return b"\n"
    if kind == "entity":
        return html.unescape(match[0].decode()).encode("utf-8", "replace")
    if kind in _BYTE:
        return bytes([int(match[kind], 16)])
    if kind in _CODE:
        return _character(int(match[kind], 16))
    if kind == "low":
        pair = bytes.fromhex(match["unit"].decode() + match["low"].decode())
        return pair.decode("utf-16-be", "replace").encode()
    if kind == "octal":
        return bytes([int(match["octal"], 8)])
    return match["mark"]


def _character(code: int) -> bytes:
    """Return a character as UTF-8. Invalid code points become a byte that occurs in no secret."""
    try:
        return chr(code).encode()
    except (ValueError, UnicodeEncodeError):
        return b"\xff"


Alphabet: TypeAlias = Literal["any case", "base64"]

MIN_SECRET_BYTES = 8
"""Minimum length of a secret. A shorter value is taken to be a dummy; removing it would also remove ordinary text."""

PART = 16
"""Number of consecutive characters of a secret that are removed even if the rest is missing."""


@dataclass(frozen=True)
class SecretEncoding:
    """Encoding of a secret. A match of `min_bytes` consecutive bytes is enough."""

    text: bytes
    min_bytes: int
    alphabet: Alphabet

    @cached_property
    def _blocks(self) -> list[tuple[int, bytes]]:
        """Blocks of the encoded text, with their offsets. Any part of at least `min_bytes` contains one of them."""
        size = (self.min_bytes + 1) // 2
        starts = range(0, len(self.text) - size + 1, size)
        return [(start, self.text[start : start + size]) for start in starts]

    def spans(self, text: bytes) -> Iterator[tuple[int, int]]:
        """Yield the positions of the secret, or of parts of it, in `text`."""
        encoding = self.text
        for start, block in self._blocks:
            at = text.find(block)
            while at >= 0:
                before = _common(encoding[:start][::-1], text[max(at - start, 0) : at][::-1])
                behind = at + len(block)
                after = _common(encoding[start + len(block) :], text[behind : behind + len(encoding)])
                if before + len(block) + after >= self.min_bytes:
                    yield at - before, behind + after
                at = text.find(block, behind + after)

    def find_beginning(self, text: bytes) -> int | None:
        """Return the position of the secret if `text` ends with its beginning, else `None`."""
        for length in range(min(len(self.text), len(text)), MIN_SECRET_BYTES - 1, -1):
            if text.endswith(self.text[:length]):
                return len(text) - length
        return None


def encodings_of(secret: str) -> list[SecretEncoding]:
    """Return the encodings of a secret to search for in squeezed and folded text."""
    raw = DecodedText(secret.strip().encode("utf-8", "surrogatepass"), squeezed=True).text
    if len(raw) < MIN_SECRET_BYTES:
        return []
    part = min(PART, len(raw))
    base32 = [_base32(raw, shift).lower() for shift in range(5)]
    base64 = [_base64(raw, shift) for shift in range(3)]
    return [
        SecretEncoding(raw.lower(), part, "any case"),
        SecretEncoding(raw.hex().encode(), 2 * part, "any case"),
        *(SecretEncoding(text, min(len(text), part * 8 // 5 - 1), "any case") for text in base32),
        *(SecretEncoding(text, min(len(text), part * 4 // 3 - 1), "base64") for text in base64),
    ]


_URLSAFE = bytes.maketrans(b"-_", b"+/")


def fold(text: bytes, alphabet: Alphabet) -> bytes:
    """Return the text normalised for an alphabet. The length stays the same."""
    return text.translate(_URLSAFE) if alphabet == "base64" else text.lower()


def _common(one: bytes, other: bytes) -> int:
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)


def _base64(raw: bytes, shift: int) -> bytes:
    """Return the part of the base64 encoding of `raw` that is the same for any `shift` bytes before it."""
    whole = slice(-(-8 * shift // 6), 8 * (shift + len(raw)) // 6)
    return b64encode(b"\0" * shift + raw)[whole]


def _base32(raw: bytes, shift: int) -> bytes:
    whole = slice(-(-8 * shift // 5), 8 * (shift + len(raw)) // 5)
    return b32encode(b"\0" * shift + raw)[whole]


_REPEATED = b"{%d,}" % (MIN_SECRET_BYTES - 1)
_NUMBERS = re.compile(
    rb"(?<![0-9A-Za-z])(?:"
    rb"(?P<hex>(?:0x)?[0-9A-Fa-f]{2}(?:[\s:,-]+(?:0x)?[0-9A-Fa-f]{2})" + _REPEATED + rb")"
    rb"|(?P<decimal>[0-9]{2,3}(?:[\s,]+[0-9]{2,3})" + _REPEATED + rb")"
    rb")(?![0-9A-Za-z])|(?P<quoted>(?:=[0-9A-Fa-f]{2})" + _REPEATED + rb")"
)
_DECIMAL = re.compile(rb"[0-9]+")
_HEX = re.compile(rb"(?<![0-9A-Fa-f])[0-9A-Fa-f]{2}(?![0-9A-Fa-f])")


def number_lists(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the positions of byte sequences that are written as numbers, with the decoded bytes."""
    for match in _NUMBERS.finditer(data):
        whole = match[0]
        parsed_exchanges = [_bytes(_HEX.findall(whole), 16)]
        if match["quoted"] is None:
            parsed_exchanges.append(_bytes(_DECIMAL.findall(whole), 10))
        for parsed in parsed_exchanges:
            if parsed:
                yield (*match.span(), parsed)


def _bytes(numbers: list[bytes], base: int) -> bytes:
    values = [int(number, base) for number in numbers]
    return bytes(values) if all(value < 256 for value in values) else b""
