"""The plain part of YAML that our cassettes are written in, read line by line.

PyYAML makes an object of each event and node, even with libyaml, and so takes half as long for a cassette as an SDK for
the whole conversation in it. Here a line is one match of a regular expression, which takes a quarter of that. What
`read` reads it reads as PyYAML would; whatever it does not know for certain it leaves to PyYAML: it has no second
opinion on YAML. Nesting and aliases cannot hurt, since nesting is bounded and an alias is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_DEPTH = 20

_ENTRY = re.compile(r"( *)(- )?(?:([A-Za-z][A-Za-z0-9_-]*):(?: (.*))?|(.*))")
"""Indentation, mark of an item, and `key:`, `key: value` or a value alone."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ./;,_=()+@*?&%~-]*(?::[A-Za-z0-9/][A-Za-z0-9 ./;,_=()+@*?&%~-]*)*")
"""A plain scalar without anything that YAML gives a meaning, such as a colon before a space."""

_UNUSUAL = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Control characters, byte order marks, and line breaks other than the usual."""

_QUOTED = re.compile(
    r'"((?:[^"\\]|\\(?:[0abt nvfre"/\\N_LP]|x[0-9A-F]{2}|u(?!D[89A-F])[0-9A-F]{4}|U00(?:0[1-9A-F]|10)[0-9A-F]{4}))*)"'
)
"""A whole scalar between double quotes, with the escapes of YAML."""

_ESCAPE = re.compile(r"\\(?:x([0-9A-F]{2})|u([0-9A-F]{4})|U([0-9A-F]{8})|(.))")

_ESCAPED = dict(zip('0abtnvfre "/\\N_LP', '\0\a\b\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True))

_INTEGER = re.compile(r"0|[1-9][0-9]{0,17}")

Resolvers = Mapping[str, Sequence[tuple[str, re.Pattern[str]]]]
"""By first character, how the loader tells from its look that a plain scalar is no text."""


class Unknown(Exception):  # not an error: PyYAML has to read it
    """The text has something that is not read here."""


def read(text: str, resolvers: Resolvers) -> Any:
    """The values of a document. Raises `Unknown`."""
    if _UNUSUAL.search(text) or not text.endswith("\n"):
        raise Unknown
    plain = text.split("\n")[:-1]
    if plain[-1] == "...":  # the end of the document, marked where a block that keeps its empty lines stands last
        plain.pop()
    lines = _Lines(plain, resolvers)
    value = lines.block(0, MAX_DEPTH)
    if lines.at != len(lines.lines):
        raise Unknown
    return value


class _Lines:
    def __init__(self, lines: list[str], resolvers: Resolvers) -> None:
        self.lines = lines
        self.at = 0
        self._resolvers = resolvers

    def block(self, indent: int, depth: int) -> Any:
        """The mapping or list whose lines begin at column `indent`."""
        if not depth or self.at == len(self.lines):
            raise Unknown
        return self._list(indent, depth) if self.lines[self.at].startswith("- ", indent) else self._map(indent, depth)

    def _list(self, indent: int, depth: int) -> list[Any]:
        items: list[Any] = []
        prefix = f"{' ' * indent}- "
        while self.at < len(self.lines) and (line := self.lines[self.at]).startswith(prefix):
            match = _ENTRY.fullmatch(line, indent + 2)
            if match is None or match[1] or match[2]:
                raise Unknown
            if match[3] is None:
                self.at += 1
                items.append(self._scalar(match[5], indent))
            else:  # a mapping whose first key stands behind the mark
                self.lines[self.at] = f"{' ' * (indent + 2)}{line[indent + 2 :]}"
                items.append(self._map(indent + 2, depth - 1))
        return items

    def _map(self, indent: int, depth: int) -> dict[str, Any]:
        if not depth:
            raise Unknown
        lines, entries = self.lines, dict[str, Any]()
        while self.at < len(lines):
            match = _ENTRY.fullmatch(lines[self.at])
            if match is None:
                raise Unknown
            column, mark, key, value, _ = match.groups()
            if len(column) != indent or mark:
                if len(column) > indent:
                    raise Unknown
                break
            if key is None or key in entries or self._resolvable(key):
                raise Unknown
            self.at += 1
            entries[key] = self._below(indent, depth) if value is None else self._scalar(value, indent)
        return entries

    def _below(self, indent: int, depth: int) -> Any:
        """What belongs to a key that has nothing beside it: a list may stand as far out as the key."""
        if self.at < len(self.lines):
            line = self.lines[self.at]
            if line.startswith(f"{' ' * indent}- "):
                return self._list(indent, depth - 1)
            if line.startswith(" " * (indent + 2)):
                return self.block(indent + 2, depth - 1)
        raise Unknown

    def _scalar(self, text: str, indent: int) -> str | int:
        if text in {"|-", "|", "|+"}:
            return self._lines_below(indent + 2, text[1:])
        if self.at < len(self.lines) and self.lines[self.at].startswith(" " * (indent + 1)):
            raise Unknown  # the scalar goes on there
        if text.startswith("'"):
            inner = text[1:-1]
            if len(text) < 2 or not text.endswith("'") or inner.replace("''", "").count("'"):
                raise Unknown
            return inner.replace("''", "'")
        if text.startswith('"'):
            quoted = _QUOTED.fullmatch(text)
            if quoted is None:
                raise Unknown
            return _ESCAPE.sub(_unescaped, quoted[1])
        if not _PLAIN.fullmatch(text) or text.endswith(" "):
            raise Unknown
        if not self._resolvable(text):
            return text
        if _INTEGER.fullmatch(text):
            return int(text)
        raise Unknown

    def _lines_below(self, indent: int, chomping: str) -> str:
        """A block of text: every line that is indented, or empty. Empty ones at its end need `+` for their chomping."""
        prefix = " " * indent
        first = self.at
        while self.at < len(self.lines) and (not self.lines[self.at] or self.lines[self.at].startswith(prefix)):
            self.at += 1
        block = self.lines[first : self.at]
        if not block or not block[0] or block[0].startswith(" ", indent) or not (block[-1] or chomping == "+"):
            raise Unknown
        return "\n".join([line[indent:] for line in block]) + ("" if chomping == "-" else "\n")

    def _resolvable(self, text: str) -> bool:
        """Whether the loader would take a plain scalar for something other than text."""
        if text[0] not in self._resolvers:  # as most words begin
            return False
        return any(pattern.match(text) for _, pattern in self._resolvers[text[0]])


def _unescaped(escape: re.Match[str]) -> str:
    number = escape[1] or escape[2] or escape[3]
    return chr(int(number, 16)) if number else _ESCAPED[escape[4]]
