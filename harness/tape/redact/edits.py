"""Secrets taken out of bytes, without harm to what is around them: JSON, base64, the frame of an event stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from harness.tape.redact.pieces import Group, joined, parted
from harness.tape.redact.view import NEXT_LINE

REDACTED = "REDACTED"

_LINES = re.compile(NEXT_LINE + rb"|\r?\n")
_LETTER = re.compile(
    rb"(?P<kept>" + NEXT_LINE + rb"|\s|\\+[nrt]|%(?:25)*(?:0[AaDd]|20))"
    rb"|%(?:25)*[0-9A-Fa-f]{2}|\\+u[0-9A-Fa-f]{4}|\\+/|[A-Za-z0-9+/_-]"
)
_NUMBER = re.compile(rb"(?P<kept>(?!))|(?:0x)?[0-9A-Fa-f]+")


class Way(Enum):
    """How a secret is taken out."""

    CUT = "a placeholder stands for it"
    LETTERS = "letter for letter, so that base64 stays decodable"
    NUMBERS = "number for number, so that JSON stays JSON"


@dataclass(frozen=True, slots=True)
class Found:
    """Where a secret stands."""

    begin: int
    end: int
    way: Way = Way.CUT


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a body that a secret stands in, and what of it is replaced. Where parts overlap, those of a higher
    `rank` know better: they come from the pieces of a stream, put together."""

    begin: int
    end: int
    edits: tuple[tuple[int, int, bytes], ...]
    rank: int
    way: Way


def parts(body: bytes, group: Group, found: Iterable[Found], rank: int) -> Iterator[Part]:
    """What goes of the pieces of a text, where secrets were `found` in them together. The first piece gets the
    placeholder."""
    text = joined(body, group)
    for each in united(found):
        slices = [*parted(group, each.begin, each.end)]
        if each.way is Way.CUT:
            edits = [(low, high, _left(body[low:high], marked=not number)) for number, (low, high) in enumerate(slices)]
        else:
            edits = [*_one_by_one(text, group, each)]
        for low, high in slices:
            yield Part(low, high, tuple(edit for edit in edits if low <= edit[0] < high), rank, each.way)


def edited(body: bytes, parts: Iterable[Part]) -> bytes:
    """The body without them."""
    kept: list[Part] = []
    for part in sorted(parts, key=lambda each: (-each.rank, each.begin, each.end)):
        if not any(other.begin <= part.begin and part.end <= other.end for other in kept):
            kept.append(part)
    merged: list[Part] = []
    for part in sorted(kept, key=lambda each: each.begin):
        if merged and part.begin < merged[-1].end:
            merged[-1] = _together(body, merged[-1], part)
        else:
            merged.append(part)
    for begin, end, text in sorted((edit for part in merged for edit in part.edits), reverse=True):
        body = body[:begin] + text + body[end:]
    return body


def united(found: Iterable[Found]) -> list[Found]:
    """The same without overlaps: a secret that repeats a part of itself is found more than once."""
    made: list[Found] = []
    for each in sorted(found, key=lambda one: (one.begin, one.end)):
        last = made[-1] if made else None
        if last is None or each.begin >= last.end:
            made.append(each)
        else:
            made[-1] = Found(last.begin, max(last.end, each.end), last.way if last.way is each.way else Way.CUT)
    return made


def _together(body: bytes, one: Part, other: Part) -> Part:
    """Two parts that overlap, as one."""
    begin, end = one.begin, max(one.end, other.end)
    if one.way is other.way is not Way.CUT:
        return Part(begin, end, tuple({edit[0]: edit for edit in (*other.edits, *one.edits)}.values()), 0, one.way)
    return Part(begin, end, ((begin, end, _left(body[begin:end], marked=True)),), 0, Way.CUT)


def _one_by_one(text: bytes, group: Group, found: Found) -> Iterator[tuple[int, int, bytes]]:
    """An edit for each letter or number, be it an escape that is cut over two pieces; white space and frames stay."""
    pattern, stand_in = (_LETTER, b"A") if found.way is Way.LETTERS else (_NUMBER, b"0")
    for match in pattern.finditer(text, found.begin, found.end):
        if match["kept"] is None:
            for number, (low, high) in enumerate(parted(group, *match.span())):
                yield low, high, b"" if number else stand_in


def _left(part: bytes, *, marked: bool) -> bytes:
    """What stays of a part that goes: what a reader takes for the frame of an event, or for a line."""
    return REDACTED.encode() * marked + b"".join(_LINES.findall(part))
