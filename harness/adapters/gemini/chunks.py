"""The chunks of a streamed body, read while its bytes arrive: how the bytes are cut makes no difference.

A stream is server-sent events (`alt=sse`) or the elements of a JSON array; an object alone is a stream of one chunk,
as errors come. Lines of events end at LF, CR or CRLF and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain

from harness.adapters.gemini.decode import loads
from harness.contract.errors import MalformedResponse
from harness.contract.model import JSON

_LINE_END = re.compile(rb"\r\n|\n|\r")
_STRUCTURE = re.compile(rb'[{}"\\]')
_FRAME = re.compile(rb"\[[\s,]*\]\s*|\s*")
"""What stands around and between the objects."""
_BOM = b"\xef\xbb\xbf"


def chunks(body: Iterable[bytes]) -> Iterator[dict[str, JSON]]:
    """Each chunk as soon as it is complete.

    Raises:
        MalformedResponse: a chunk is no JSON object, or the body ends inside one.
    """
    pieces = _without_leading_space(body)
    first = next(pieces, b"")
    pieces = chain((first,), pieces)
    for text in _elements(pieces) if first.startswith((b"[", b"{")) else _events(pieces):
        chunk = loads(text)
        if not isinstance(chunk, dict):
            raise MalformedResponse("a chunk of the stream is no object")
        yield chunk


def _without_leading_space(body: Iterable[bytes]) -> Iterator[bytes]:
    begun = False
    for piece in body:
        rest = piece if begun else piece.lstrip()
        begun = begun or bool(rest)
        if rest:
            yield rest


def _events(body: Iterable[bytes]) -> Iterator[bytes]:
    """The data of the events."""
    data: list[bytes] = []
    for line in _lines(body):
        key, _, value = line.partition(b":")
        if key == b"data":
            data.append(value.removeprefix(b" "))
        if not line and data:
            yield b"\n".join(data)
            data = []
    if data:
        raise MalformedResponse("the stream was cut inside an event")


def _lines(body: Iterable[bytes]) -> Iterator[bytes]:
    """The lines without their ends and without a byte order mark."""
    line, mark = bytearray(), _BOM
    after_cr = False
    for piece in body:
        # The CR has ended the line already, so that an event does not wait for the byte behind it.
        fresh = piece[1:] if after_cr and piece.startswith(b"\n") else piece
        after_cr = piece.endswith(b"\r")
        *ends, rest = _LINE_END.split(fresh)
        for end in ends:
            yield bytes(line + end).removeprefix(mark)
            line.clear()
            mark = b""
        line += rest
    if line and not line.startswith(b":"):
        raise MalformedResponse("the stream was cut inside an event")


def _elements(body: Iterable[bytes]) -> Iterator[bytes]:
    """The objects of an array, or the one that stands alone."""
    scanner = _Scanner()
    element, frame = bytearray(), bytearray()
    for piece in body:
        begin = 0
        for place, opens in scanner.borders(piece):
            if opens:
                frame += piece[begin:place]
            else:
                yield bytes(element + piece[begin:place])
                element.clear()
            begin = place
        (element if scanner.depth else frame).extend(piece[begin:])
    if scanner.depth or not _FRAME.fullmatch(frame):
        raise MalformedResponse("the stream is no JSON array, or not a whole one")


class _Scanner:
    """Finds where the outermost objects of a JSON text begin and end, piece by piece. `depth` counts open objects."""

    def __init__(self) -> None:
        self.depth = 0
        self._in_string = False
        self._escaped = -1  # place of the character behind a backslash; in the next piece, if the piece ends there

    def borders(self, piece: bytes) -> Iterator[tuple[int, bool]]:
        """The borders in the next piece, which is not empty: the place, and whether an object begins there."""
        for found in _STRUCTURE.finditer(piece):
            place, sign = found.start(), found.group()
            if place == self._escaped:
                continue
            if sign == b"\\":
                self._escaped = place + 1
            elif sign == b'"':
                self._in_string = not self._in_string
            elif not self._in_string:
                yield from self._nest(place, sign)
        self._escaped -= len(piece)

    def _nest(self, place: int, sign: bytes) -> Iterator[tuple[int, bool]]:
        if sign == b"{":
            if not self.depth:
                yield place, True
            self.depth += 1
        elif self.depth:
            self.depth -= 1
            if not self.depth:
                yield place + 1, False
