"""Strings in a JSON body or event stream, and the removal of secrets from them.

The pieces of a streamed text form a group, because a client joins them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from harness.cassettes.redact.secret_encodings import NEXT_LINE

_TOKEN = re.compile(
    rb"\"(?P<double>(?:[^\"\\]|\\.)*)(?P<close>\"?)|'(?P<single>(?:[^'\\]|\\.)*)'?"
    rb"|(?P<mark>[{}\[\]:,])|(?P<bare>[^\s\"'{}\[\]:,]+)",
    re.DOTALL,
)
_LITERAL = re.compile(rb"-?[0-9][0-9.eE+-]*|true|false|null")
_DATA = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)

ByteSlice: TypeAlias = tuple[int, int]
"""Start and end offset of a string in a body, without the quotes."""


@dataclass(frozen=True, slots=True)
class StringGroup:
    """Pieces of one text, in order. If `is_cut_up` is set, each piece is in a separate event, so word boundaries are
    only meaningful in the joined text.
    """

    slices: tuple[ByteSlice, ...]
    is_cut_up: bool


@dataclass(frozen=True, slots=True)
class JsonStrings:
    """Strings in a body.

    Strings form a group in `groups` if they have the same path and the same `index` fields; positions in lists are
    ignored. `loose` contains groups of strings with the same key. It is only filled if lines are damaged, because the
    paths in them are unreliable. `alone` contains keys and damaged lines, which are searched on their own. `opaque`
    contains media, and strings that only the provider can interpret. `named` contains all strings with their keys.
    """

    groups: tuple[StringGroup, ...]
    loose: tuple[StringGroup, ...]
    alone: tuple[ByteSlice, ...]
    opaque: frozenset[ByteSlice] = frozenset()
    named: tuple[tuple[bytes, ByteSlice], ...] = ()


@dataclass(slots=True)
class _Frame:
    is_object: bool
    key: bytes = b""
    wants_key: bool = True
    indices: list[bytes] = field(default_factory=list[bytes])


@dataclass(frozen=True, slots=True)
class _String:
    where: ByteSlice
    unit: tuple[int, int]  # the line, and the place in a list that is the whole body
    keys: tuple[bytes, ...]
    frames: tuple[_Frame, ...]

    @property
    def path(self) -> tuple[bytes, ...]:
        return self.keys + tuple(index for frame in self.frames for index in frame.indices)


class _LineStrings:
    """Strings in one line of a stream, or in a whole body."""

    def __init__(self, body: bytes, where: ByteSlice, number: int) -> None:
        self.where = where
        self.strings: list[_String] = []
        self.keys: list[ByteSlice] = []
        self._number = number
        self._element = 0
        self._stack: list[_Frame] = []
        self.is_damaged = False
        for match in _TOKEN.finditer(body, *where):
            if match["mark"] is not None:
                self._mark(match["mark"])
            else:
                self._add_string(match)
        self.is_damaged |= bool(self._stack) or any(not string.frames for string in self.strings)

    def _mark(self, mark: bytes) -> None:
        top = self._stack[-1] if self._stack else None
        if mark in b"{[":
            self._stack.append(_Frame(mark == b"{"))
        elif top is None:
            self.is_damaged = True
        elif mark in b"}]":
            self._stack.pop()
        else:
            top.wants_key = mark == b","
            self._element += mark == b"," and len(self._stack) == 1 and not top.is_object

    def _add_string(self, match: re.Match[bytes]) -> None:
        kind = "double" if match.lastgroup == "close" else str(match.lastgroup)
        text, top = match[kind], self._stack[-1] if self._stack else None
        self.is_damaged |= kind == "double" and not match["close"]
        if top is not None and top.is_object and top.wants_key:
            top.key = text
            self.keys.append(match.span(kind))
        elif kind != "bare" or not _LITERAL.fullmatch(text):
            keys = tuple(frame.key for frame in self._stack if frame.is_object)
            string = _String(match.span(kind), (self._number, self._element), keys, tuple(self._stack))
            self.strings.append(string)
        elif top is not None and top.is_object and top.key.endswith(b"index"):
            top.indices.append(text)


def pieces(body: bytes) -> JsonStrings:
    """Return the strings of a body. In an event stream, only the `data:` lines are searched."""
    texts = [match.span(1) for match in _DATA.finditer(body)] or [(0, len(body))]
    lines = [_LineStrings(body, where, number) for number, where in enumerate(texts)]
    strings = [string for line in lines for string in line.strings]
    by_path: defaultdict[tuple[bytes, ...], list[_String]] = defaultdict(list)
    by_key: defaultdict[bytes, list[_String]] = defaultdict(list)
    for string in strings:
        by_path[string.path].append(string)
        by_key[string.keys[-1] if string.keys else b""].append(string)
    is_damaged = any(line.is_damaged for line in lines)
    return JsonStrings(
        tuple(map(_group, by_path.values())),
        tuple(map(_group, by_key.values())) if is_damaged else (),
        (
            *(key for line in lines for key in line.keys),
            *(line.where for line in lines if line.is_damaged),
        ),
        frozenset(string.where for string in strings if _is_opaque(string.keys)),
        tuple((string.keys[-1] if string.keys else b"", string.where) for string in strings),
    )


_OPAQUE = frozenset(
    {
        *(b"signature", b"thoughtSignature", b"thought_signature", b"encrypted_content", b"encrypted_index"),
        *(b"encrypted_stdout", b"data", b"b64_json", b"partial_image_b64", b"file_data", b"reasoning_opaque"),
    }
)
"""Keys whose values are opaque: reasoning that is sent back unchanged, images, audio."""

_USER_DATA_KEYS = frozenset({b"input", b"args", b"arguments", b"functionResponse", b"function_response", b"properties"})
"""Keys inside a message whose values are objects with arbitrary keys, chosen by a tool or a model."""


def _is_opaque(keys: tuple[bytes, ...]) -> bool:
    return bool(keys) and keys[-1] in _OPAQUE and not _USER_DATA_KEYS.intersection(keys[1:-1])


def _group(strings: list[_String]) -> StringGroup:
    units = {string.unit for string in strings}
    return StringGroup(tuple(string.where for string in strings), len(units) == len(strings))


def join_group(body: bytes, group: StringGroup) -> bytes:
    """Return the text of a group, joined from its pieces."""
    return b"".join(body[begin:end] for begin, end in group.slices)


def slices_of(group: StringGroup, begin: int, end: int) -> Iterator[ByteSlice]:
    """Yield the slices of the body that correspond to `begin:end` in the joined text."""
    at = 0
    for low, high in group.slices:
        first, last = max(begin, at), min(end, at + high - low)
        if first < last:
            yield low + first - at, low + last - at
        at += high - low


REDACTED = "REDACTED"

_LINES = re.compile(NEXT_LINE + rb"|\r?\n")
_LETTER = re.compile(
    rb"(?P<kept>" + NEXT_LINE + rb"|\s|\\+[nrt]|%(?:25)*(?:0[AaDd]|20))"
    rb"|%(?:25)*[0-9A-Fa-f]{2}|\\+u[0-9A-Fa-f]{4}|\\+/|[A-Za-z0-9+/_-]"
)
_NUMBER = re.compile(rb"(?P<kept>(?!))|(?:0x)?[0-9A-Fa-f]+")


class Replacement(Enum):
    """Ways to replace a secret."""

    CUT = "a placeholder stands for it"
    LETTERS = "letter for letter, so that base64 stays decodable"
    NUMBERS = "number for number, so that JSON stays JSON"


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """Position of a secret in a text, and the way to replace it."""

    begin: int
    end: int
    way: Replacement = Replacement.CUT


@dataclass(frozen=True, slots=True)
class Redaction:
    """A part of a body that contains a secret, and the edits that remove it.

    If redactions overlap, the one with the higher `rank` wins. A higher rank means that it was found in the joined
    pieces of a stream.
    """

    begin: int
    end: int
    edits: tuple[tuple[int, int, bytes], ...]
    rank: int
    way: Replacement


def parts(body: bytes, group: StringGroup, found: Iterable[SecretSpan], rank: int) -> Iterator[Redaction]:
    """Yield the redactions for secrets `found` in the joined text of a group. If a secret is replaced by a placeholder,
    the first piece gets it.
    """
    text = join_group(body, group)
    for each in merge_spans(found):
        slices = [*slices_of(group, each.begin, each.end)]
        if each.way is Replacement.CUT:
            edits = [
                (low, high, _replacement(body[low:high], marked=not number))
                for number, (low, high) in enumerate(slices)
            ]
        else:
            edits = [*_one_by_one(text, group, each)]
        for low, high in slices:
            yield Redaction(low, high, tuple(edit for edit in edits if low <= edit[0] < high), rank, each.way)


def apply_redactions(body: bytes, parts: Iterable[Redaction]) -> bytes:
    """Return the body with all redactions applied."""
    kept: list[Redaction] = []
    for part in sorted(parts, key=lambda each: (-each.rank, each.begin, each.end)):
        if not any(other.begin <= part.begin and part.end <= other.end for other in kept):
            kept.append(part)
    merged: list[Redaction] = []
    for part in sorted(kept, key=lambda each: each.begin):
        if merged and part.begin < merged[-1].end:
            merged[-1] = _merge_redactions(body, merged[-1], part)
        else:
            merged.append(part)
    for begin, end, text in sorted((edit for part in merged for edit in part.edits), reverse=True):
        body = body[:begin] + text + body[end:]
    return body


def merge_spans(found: Iterable[SecretSpan]) -> list[SecretSpan]:
    """Merge overlapping positions. A secret with a repeated part is found several times."""
    made: list[SecretSpan] = []
    for each in sorted(found, key=lambda one: (one.begin, one.end)):
        last = made[-1] if made else None
        if last is None or each.begin >= last.end:
            made.append(each)
        else:
            made[-1] = SecretSpan(
                last.begin, max(last.end, each.end), last.way if last.way is each.way else Replacement.CUT
            )
    return made


def _merge_redactions(body: bytes, one: Redaction, other: Redaction) -> Redaction:
    begin, end = one.begin, max(one.end, other.end)
    if one.way is other.way is not Replacement.CUT:
        return Redaction(begin, end, tuple({edit[0]: edit for edit in (*other.edits, *one.edits)}.values()), 0, one.way)
    return Redaction(begin, end, ((begin, end, _replacement(body[begin:end], marked=True)),), 0, Replacement.CUT)


def _one_by_one(text: bytes, group: StringGroup, found: SecretSpan) -> Iterator[tuple[int, int, bytes]]:
    """Yield edits that replace each letter or number on its own. An escape that is split between pieces is replaced in
    the first one and removed from the others. White space and event stream framing are kept.
    """
    pattern, stand_in = (_LETTER, b"A") if found.way is Replacement.LETTERS else (_NUMBER, b"0")
    for match in pattern.finditer(text, found.begin, found.end):
        if match["kept"] is None:
            for number, (low, high) in enumerate(slices_of(group, *match.span())):
                yield low, high, b"" if number else stand_in


def _replacement(part: bytes, *, marked: bool) -> bytes:
    """Return the replacement for a part. Line ends and event stream framing are kept; the placeholder is added if
    `marked` is set.
    """
    return REDACTED.encode() * marked + b"".join(_LINES.findall(part))
