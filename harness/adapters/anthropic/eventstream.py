"""Server-sent events, read while their bytes arrive: how the bytes are cut makes no difference.

Lines end at LF, CR or CRLF and nowhere else: U+2028, U+2029 and U+0085 are legal inside the JSON of an event, so
`splitlines` on text must not be used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `name` is what its `event:` line says, `data` its `data:` lines, still encoded."""

    name: bytes | None
    data: bytes


def events(body: Iterable[bytes]) -> Iterator[Event]:
    """Each event as soon as the empty line behind it has come. One that the end of the body cuts off is dropped."""
    name: bytes | None = None
    data: list[bytes] = []
    for line in _lines(body):
        if not line:
            if data:
                yield Event(name, b"\n".join(data))
            name, data = None, []
            continue
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"event":
            name = value
        elif key == b"data":
            data.append(value)


def _lines(body: Iterable[bytes]) -> Iterator[bytes]:
    """The lines that are complete, without their ends and without a byte order mark."""
    line, mark = bytearray(), _BOM
    after_cr = False
    for piece in body:
        # The CR has ended the line already, so that an event does not wait for the byte behind it.
        fresh = piece[1:] if after_cr and piece.startswith(b"\n") else piece
        after_cr = piece.endswith(b"\r") if piece else after_cr
        *ends, rest = _LINE_END.split(fresh)
        for end in ends:
            yield bytes(line + end).removeprefix(mark)
            line.clear()
            mark = b""
        line += rest
