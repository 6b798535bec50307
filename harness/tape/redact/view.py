"""Bytes as they read once their escapes are undone, each with the place that it stands at in the original."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from functools import lru_cache

NEXT_LINE = rb"\r?\n(?:(?:(?:event|id|retry)?:[^\n]*)?\r?\n)*data:[ ]?"
"""From the end of one `data:` line of an event stream to the content of the next."""

FRAME = re.compile(rb"^(?:event|id|retry)?:([^\r\n]+)", re.MULTILINE)
"""A line of an event stream that is no `data:`, with what stands in it: another field, or a comment."""

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
"""What a text is broken with: over lines of a stream, by a mark at the end of a line, with white space, in UTF-16."""

_WRITTEN = re.compile(_ESCAPE)
_SQUEEZED = re.compile(_BROKEN + rb"|" + _ESCAPE)
_DEEPEST = 5
"""How often escapes are undone that were applied to escapes, of the same kind or another: `%5Cu0073`, `&amp;#115;`."""

_LEFT_OUT = frozenset({"line", "end", "space", "blank"})
_BYTE = ("hex", "percent")
_CODE = ("braced", "unit")


class View:
    """`data` without the escapes of JSON, JavaScript, URLs and HTML, however often they were applied.

    `text` is what is left. If it is `squeezed`, there is no white space in it, escaped or not, and what stands between
    two `data:` lines of a stream is left out as well: a text that was broken over lines is in one piece.
    """

    def __init__(self, data: bytes, *, squeezed: bool, _depth: int = 1) -> None:
        self._at: list[int] = [0]
        self._source: list[tuple[int, int]] = [(0, 0)]  # where a segment begins; its end, if it is an escape
        text = bytearray()
        last = 0
        for match in (_SQUEEZED if squeezed else _WRITTEN).finditer(data):
            begin, end = match.span()
            self._literal(len(text), last)
            text += data[last:begin]
            meant = b"" if squeezed and match.lastgroup in _LEFT_OUT else _meant(match[0])
            if meant:
                self._at.append(len(text))
                self._source.append((begin, end))
                text += meant
            last = end
        self._literal(len(text), last)
        text += data[last:]
        self.text = bytes(text)
        self._within: View | None = None
        if _depth < _DEEPEST and _WRITTEN.search(self.text) is not None:
            self._within = View(self.text, squeezed=squeezed, _depth=_depth + 1)
            self.text = self._within.text

    def _literal(self, at: int, source: int) -> None:
        self._at.append(at)
        self._source.append((source, 0))

    def source(self, begin: int, end: int) -> tuple[int, int]:
        """Where the bytes of `text` from `begin` to before `end` stand in the original."""
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
def _meant(escape: bytes) -> bytes:
    """What an escape stands for."""
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
    """UTF-8; of what is no character, such as half of a pair, a mark that is in no secret."""
    try:
        return chr(code).encode()
    except (ValueError, UnicodeEncodeError):
        return b"\xff"
