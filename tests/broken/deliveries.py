"""Faults at the bytes of a stream: readers of event streams that misread some, in front of the shipped one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tests.broken.fault import ALL, GEMINI, OPENAI, Fault, Reader, answers, arrives
from tests.broken.json_mode import texts
from tests.broken.places import BODY, RESPONSE_TEXT


def _decoded_by_piece(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each piece is text for itself."""
    for piece in pieces:
        yield piece.decode(errors="replace").encode()


def _decoded_leniently(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each piece is text for itself, and what is none is left out."""
    for piece in pieces:
        yield piece.decode(errors="ignore").encode()


def _lines_of_unicode(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Lines end where `str.splitlines` says."""
    for line in b"".join(pieces).decode().splitlines():
        yield line.encode() + b"\n"


def _lines_with(end: str) -> Reader:
    """Lines end at this character too."""

    def read(pieces: Iterable[bytes]) -> Iterator[bytes]:
        yield b"".join(pieces).decode().replace(end, "\n").encode()

    return read


def _whole_events(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each piece is taken for whole events: of what stands behind the last end of one nothing is kept."""
    for piece in pieces:
        yield b"".join(re.findall(rb".*?(?:\r\n\r\n|\n\n)", piece, re.DOTALL))


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Each piece is taken for whole lines: the rest of a line begins another one."""
    for piece in pieces:
        yield piece if piece.endswith((b"\n", b"\r")) else piece + b"\n"


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Events end at two line feeds, and have one line of data."""
    for block in b"".join(pieces).split(b"\n\n"):
        lines = block.splitlines()
        named = [line for line in lines if line.startswith(b"event:")][:1]
        data = [line for line in lines if line.startswith(b"data:")][:1]
        yield b"\n".join([*named, *data, b"", b""])


def _remarks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Whatever stands behind a colon is data."""
    yield re.sub(rb"(?m)^:", b"data:", b"".join(pieces))


def _begun(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What does not begin with the name of a field is no event."""
    for event in re.split(rb"(?<=\r\n\r\n)|(?<=\n\n)|(?<=\r\r)", b"".join(pieces)):
        if event.startswith((b"data:", b"event:")):
            yield event


def _added_up(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Counts of tokens, each of which holds for all so far, added up (anthropic-stream-usage)."""
    total = 0

    def summed(count: re.Match[bytes]) -> bytes:
        nonlocal total
        total += int(count[2])
        return count[1] + str(total).encode()

    yield re.sub(rb'("(?:output_tokens|candidatesTokenCount)": ?)(\d+)', summed, b"".join(pieces))


def _up_to_an_unknown_event(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Nothing is read behind an event of a type that nobody knows."""
    yield b"".join(pieces).partition(b"event: of_another_day")[0]


def _recut(
    name: str, read: Reader, recuts: int, scenario: str = "call-not-needed", targets: tuple[str, ...] = ALL
) -> Fault:
    """A reader that is right as long as all comes at once, as the reference server writes it."""
    return Fault(name, arrives(read), scenario, "stream-recut", BODY, 0, targets, variant="stream", recuts=recuts)


def _misread(name: str, read: Reader, scenario: str, targets: tuple[str, ...] = ALL) -> Fault:
    """A reader that fails at a good answer."""
    return Fault(name, arrives(read), scenario, "chat-failure", BODY, 0, targets, variant="stream")


EACH_BYTE, CHARACTERS, CRLF, COMMENTS, BOM = 1, 2, 3, 6, 9
"""How many recuts it takes to come to this way."""

FAULTS = (
    _misread("slow-events-cut-by-pieces", _whole_events, "connection-slow"),
    _misread("trips-over-an-unknown-event", _up_to_an_unknown_event, "stream-provoked-unknown-events", ("anthropic",)),
    _misread("lines-of-unicode", _lines_of_unicode, "stream-provoked-line-separators"),
    _misread("lines-end-at-u2028", _lines_with("\u2028"), "stream-provoked-line-separators"),
    _misread("lines-end-at-u0085", _lines_with("\u0085"), "stream-provoked-line-separators"),
    Fault(
        "separators-become-line-breaks",
        answers(texts(lambda text: text.replace("\u2028", "\n"))),
        "stream-line-separators",
        "response-text",
        RESPONSE_TEXT,
        0,
        variant="stream",
    ),
    # Gemini writes CRLF to begin with
    _misread("native-events-end-at-two-line-feeds", _blocks, "call-not-needed", GEMINI),
    _recut("events-end-at-two-line-feeds", _blocks, CRLF, targets=("anthropic", *OPENAI)),
    _recut("bytes-decoded-by-piece", _decoded_by_piece, EACH_BYTE, "stream-split-characters"),
    _recut("halves-of-characters-lost", _decoded_leniently, CHARACTERS, "stream-split-characters"),
    _recut("events-cut-by-pieces", _whole_events, EACH_BYTE),
    _recut("lines-cut-by-pieces", _whole_lines, EACH_BYTE),
    _recut("comments-are-data", _remarks, COMMENTS),
    # the first event of Responses says nothing that does not come again
    _recut("byte-order-mark-hides-an-event", _begun, BOM, "call-single", ("anthropic", "openai-chat", *GEMINI)),
    Fault(
        "counts-of-tokens-added-up",
        arrives(_added_up),
        "call-not-needed",
        "usage",
        BODY,
        0,
        ("anthropic", *GEMINI),
        variant="stream",
    ),
)
