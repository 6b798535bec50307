"""Bodies of requests, each parsed once.

Every request of a conversation repeats all that was said before it. What stands at the head of a list of a body as it
stood in one just before, letter for letter, is therefore the same object here, and so is a list that is the same as a
whole: whoever goes over entries can tell by their identity what he has been over already. What is read here is
everybody's, and nobody may change it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from threading import Lock

from harness.apis.jsonvalue import MAX_DEPTH, is_deeper, loads, scan
from harness.apis.view import WireError
from harness.contract.model import JSON

_SPACE = r"[ \t\n\r]*"
_BEGIN = re.compile(rf"{_SPACE}\{{{_SPACE}")
_COLON = re.compile(rf"{_SPACE}:{_SPACE}")
_COMMA = re.compile(rf"{_SPACE},{_SPACE}")
_END = re.compile(rf"{_SPACE}\}}{_SPACE}")

_MOST_BODIES = 256
"""Bodies that are kept: those of a long conversation."""

_MOST_TEXT = 2_000_000
"""Characters of them that did not stand in one before; parsed, they take ten times the memory."""

_MOST_LISTS = 8
"""Lists whose heads may come again: of a body each, as there may be several conversations at once."""


@dataclass(frozen=True, slots=True, eq=False)
class _List:
    """A list of a body: its text from the bracket on, and where in it each of its elements ends."""

    text: str
    ends: list[int]
    values: list[JSON]

    def repeated(self, text: str, begin: int) -> int:
        """How many of the elements stand at the head of another list, which begins there."""

        def differs(end: int) -> bool:
            return not text.startswith(self.text[:end], begin) or text[begin + end : begin + end + 1] not in _BEHIND

        if not differs(self.ends[-1]):
            return len(self.ends)
        if differs(self.ends[0]):
            return 0
        return bisect_left(self.ends, True, key=differs)


_BEHIND = frozenset(", ]\t\n\r")
"""What may stand behind an element; a number might go on otherwise."""


class _Unusual(Exception):
    pass


class Bodies:
    """The bodies that were read last."""

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[JSON, int]] = {}
        self._lists: deque[_List] = deque(maxlen=_MOST_LISTS)
        self._text = 0
        self._lock = Lock()

    @property
    def kept(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def read(self, body: bytes) -> JSON:
        """The JSON that a body is. Raises `WireError`, as `jsonvalue.loads` does."""
        found = self._kept.get(body)
        if found is not None:
            return found[0]
        with self._lock:
            value, new = self._parsed(body)
            if new <= _MOST_TEXT:
                self._kept[body] = value, new
                self._text += new
            while len(self._kept) > _MOST_BODIES or self._text > _MOST_TEXT:
                _, gone = self._kept.pop(next(iter(self._kept)))
                self._text -= gone
        return value

    def _parsed(self, body: bytes) -> tuple[JSON, int]:
        """What a body is, and how many characters of it stood in none before."""
        try:
            text = body.decode()
            return self._object(text)
        except (_Unusual, WireError, ValueError, RecursionError):
            return loads(body), len(body)

    def _object(self, text: str) -> tuple[JSON, int]:
        found: dict[str, JSON] = {}
        lists: list[_List] = []
        repeated = 0
        position = _behind(_BEGIN, text, 0)
        while True:
            key, position = scan(text, position)
            position = _behind(_COLON, text, position)
            if not isinstance(key, str):
                raise _Unusual
            if text.startswith("[{", position):
                read, known = self._list(text, position)
                lists.append(read)
                repeated += known
                found[key], position = read.values, position + len(read.text)
            else:
                begin = position
                found[key], position = scan(text, position)
                _check_depth(found[key], text[begin:position], MAX_DEPTH - 1)
            comma = _COMMA.match(text, position)
            if comma is None:
                break
            position = comma.end()
        if _behind(_END, text, position) != len(text):
            raise _Unusual
        for each in lists:
            if each in self._lists:  # it is the latest again
                self._lists.remove(each)
            self._lists.appendleft(each)
        return found, len(text) - repeated

    def _list(self, text: str, begin: int) -> tuple[_List, int]:
        """The list that begins there, and how many characters of it stood at the head of another."""
        known, count = _longest(self._lists, text, begin)
        if known is not None and text.startswith(known.text, begin):
            return known, len(known.text)
        values, ends = ([*known.values[:count]], [*known.ends[:count]]) if known else ([], [])
        position = begin + ends[-1] if ends else begin + 1
        repeated = position - begin
        while True:
            if values:
                comma = _COMMA.match(text, position)
                if comma is None:
                    break
                position = comma.end()
            start = position
            value, position = scan(text, position)
            _check_depth(value, text[start:position], MAX_DEPTH - 2)
            values.append(value)
            ends.append(position - begin)
        end = text.find("]", position)
        if end < 0 or not (text[position:end].isspace() or end == position):
            raise _Unusual
        return _List(text[begin : end + 1], ends, values), repeated


def _longest(lists: Iterable[_List], text: str, begin: int) -> tuple[_List | None, int]:
    best: _List | None = None
    most = 0
    for each in lists:
        count = each.repeated(text, begin)
        if count > most:
            best, most = each, count
            if count == len(each.ends):
                break
    return best, most


def _behind(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    if found is None:
        raise _Unusual
    return found.end()


def _check_depth(value: JSON, text: str, levels: int) -> None:
    if text.count("[") + text.count("{") > levels and is_deeper(value, levels):
        raise _Unusual


_BODIES = Bodies()


def parsed(body: bytes) -> JSON:
    """The JSON that the body of a request is, read once however often it is asked for.

    Raises:
        WireError: it is not JSON, as `jsonvalue.loads` says.
    """
    return _BODIES.read(body)
