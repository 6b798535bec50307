"""Server-sent events out of bytes as they arrive; where the bytes are cut makes no difference."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.adapters._openai.jsontext import loads
from harness.contract.errors import MalformedResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.contract.model import JSON

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `name` is `None` without an `event:` line; `data` are the joined `data:` lines."""

    name: str | None
    data: str


def events(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The events, each as soon as its last byte is there.

    Events without data and comments keep a connection alive and are left out, and so is an event that the end of the
    bytes cuts off.

    Raises:
        MalformedResponse: an event is not UTF-8.
    """
    name: str | None = None
    data: list[str] = []
    for line in _lines(chunks):
        if not line:
            if any(data):
                yield Event(name, "\n".join(data))
            name, data = None, []
            continue
        key, _, value = line.partition(b":")
        if key == b"event":
            name = _text(value)
        elif key == b"data":
            data.append(_text(value))


def payload(event: Event, status: int) -> dict[str, JSON]:
    """The JSON object that an event brings. Raises `MalformedResponse` if it brings none."""
    try:
        value = loads(event.data)
    except ValueError as error:
        raise MalformedResponse(f"an event of the stream is not JSON: {error}", status) from None
    if not isinstance(value, dict):
        raise MalformedResponse("an event of the stream is no object", status)
    return value


def _text(value: bytes) -> str:
    try:
        return value.removeprefix(b" ").decode()
    except UnicodeDecodeError as error:
        raise MalformedResponse(f"an event of the stream is not UTF-8: {error.reason}") from None


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, but for one without its end.

    They end at LF, CR or CRLF and nowhere else: the other line ends of Unicode are legal inside JSON.
    """
    for number, line in enumerate(_raw_lines(chunks)):
        yield line if number else line.removeprefix(_BYTE_ORDER_MARK)


def _raw_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    line = bytearray()
    after_cr = False
    for chunk in filter(None, chunks):
        # the second half of a CRLF that the cut went through ends no line of its own
        first, *others = _LINE_END.split(chunk.removeprefix(b"\n") if after_cr else chunk)
        line += first
        for other in others:
            yield bytes(line)
            line = bytearray(other)
        after_cr = chunk.endswith(b"\r")
