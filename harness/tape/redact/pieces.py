"""The strings of a JSON body or of an event stream, grouped as a reader puts them together.

Read with tolerance: a line that is cut off or is no JSON at all has its strings too, and half a key may stand there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

_TOKEN = re.compile(
    rb"\"(?P<double>(?:[^\"\\]|\\.)*)(?P<close>\"?)|'(?P<single>(?:[^'\\]|\\.)*)'?"
    rb"|(?P<mark>[{}\[\]:,])|(?P<bare>[^\s\"'{}\[\]:,]+)",
    re.DOTALL,
)
_LITERAL = re.compile(rb"-?[0-9][0-9.eE+-]*|true|false|null")
_DATA = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)

Slice: TypeAlias = tuple[int, int]
"""Where a string stands in a body, without its quotes."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pieces of one text, in their order. `is_cut_up`: each comes with another event, so that only together they say
    where a word begins and ends."""

    slices: tuple[Slice, ...]
    is_cut_up: bool


@dataclass(frozen=True, slots=True)
class Pieces:
    """`groups`: strings at the same path, list positions aside, under the same `index` fields. `loose`: those under the
    same key, wherever they are, if a line is damaged and its path is not to be relied on. `alone`: what belongs to
    nothing else, which are keys, and lines that are damaged. `opaque`: strings that mean something only to the provider
    that issued them, or are media. `named`: strings by the key that they stand under."""

    groups: tuple[Group, ...]
    loose: tuple[Group, ...]
    alone: tuple[Slice, ...]
    opaque: frozenset[Slice] = frozenset()
    named: tuple[tuple[bytes, Slice], ...] = ()


@dataclass(slots=True)
class _Frame:
    """An object or a list that is open."""

    is_object: bool
    key: bytes = b""
    wants_key: bool = True
    indices: list[bytes] = field(default_factory=list[bytes])


@dataclass(frozen=True, slots=True)
class _String:
    where: Slice
    unit: tuple[int, int]  # the line, and the place in a list that is the whole body
    keys: tuple[bytes, ...]
    frames: tuple[_Frame, ...]

    @property
    def path(self) -> tuple[bytes, ...]:
        return self.keys + tuple(index for frame in self.frames for index in frame.indices)


class _Line:
    """What is read of one line of a stream, or of a whole body."""

    def __init__(self, body: bytes, where: Slice, number: int) -> None:
        self.where = where
        self.strings: list[_String] = []
        self.keys: list[Slice] = []
        self._number = number
        self._element = 0
        self._stack: list[_Frame] = []
        self.is_damaged = False
        for match in _TOKEN.finditer(body, *where):
            if match["mark"] is not None:
                self._marked(match["mark"])
            else:
                self._said(match)
        self.is_damaged |= bool(self._stack) or any(not string.frames for string in self.strings)

    def _marked(self, mark: bytes) -> None:
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

    def _said(self, match: re.Match[bytes]) -> None:
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


def pieces(body: bytes) -> Pieces:
    """The pieces of a body: of the `data:` lines of an event stream, or of the whole of it."""
    texts = [match.span(1) for match in _DATA.finditer(body)] or [(0, len(body))]
    lines = [_Line(body, where, number) for number, where in enumerate(texts)]
    strings = [string for line in lines for string in line.strings]
    by_path: defaultdict[tuple[bytes, ...], list[_String]] = defaultdict(list)
    by_key: defaultdict[bytes, list[_String]] = defaultdict(list)
    for string in strings:
        by_path[string.path].append(string)
        by_key[string.keys[-1] if string.keys else b""].append(string)
    is_damaged = any(line.is_damaged for line in lines)
    return Pieces(
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
"""Keys of the APIs under which stands what is opaque: reasoning that goes back as it came, images, sound."""

_FREE = frozenset({b"input", b"args", b"arguments", b"functionResponse", b"function_response", b"properties"})
"""Keys inside a message below which a tool or a model chooses the keys."""


def _is_opaque(keys: tuple[bytes, ...]) -> bool:
    return bool(keys) and keys[-1] in _OPAQUE and not _FREE.intersection(keys[1:-1])


def _group(strings: list[_String]) -> Group:
    units = {string.unit for string in strings}
    return Group(tuple(string.where for string in strings), len(units) == len(strings))


def joined(body: bytes, group: Group) -> bytes:
    """The text that the pieces of a group are together."""
    return b"".join(body[begin:end] for begin, end in group.slices)


def parted(group: Group, begin: int, end: int) -> Iterator[Slice]:
    """Where a part of the joined text stands in the body, piece by piece."""
    at = 0
    for low, high in group.slices:
        first, last = max(begin, at), min(end, at + high - low)
        if first < last:
            yield low + first - at, low + last - at
        at += high - low
