"""Strict YAML: one document of JSON values, and where each of them stands.

Plain scalars mean what they mean to a reader of JSON: `null`, `true`, `false` and JSON's numbers are themselves,
nothing (or `~`) is null, and everything else is text: `no`, `on`, `012`, `0x1F`, `1_000`, `1:30` and dates. Mapping
keys are text always. What the YAML versions read differently and JSON does not know is refused: anchors, aliases,
tags, directives, `True`, `NULL`, `.nan`, `.inf`, and the line breaks of YAML 1.1. So are duplicate keys, depth beyond
100, lone surrogates and files beyond 256 KiB.

A parser gives the events, and does not recurse (libyaml's loader dies of deep nesting). libyaml's is tried first, being
ten times as fast. Whatever it refuses is read by PyYAML's own, whose error texts are the same on every machine, and so
is what libyaml allows more of.
"""

from __future__ import annotations

import math
import re
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, cast

import yaml

from harness.contract.errors import FileError, ScenarioError
from harness.contract.model import JSON
from harness.scenarios.hints.syntax import hint

MAX_BYTES = 256 << 10
MAX_DEPTH = 100

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the root to a value."""

Mark: TypeAlias = tuple[int, int]
"""Line and column, from 1."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(?:\.inf|\.Inf|\.INF|Infinity)|\.nan|\.NaN|\.NAN|NaN")
_CONSTANTS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_NEARLY_CONSTANTS = ("Null", "NULL", "True", "TRUE", "False", "FALSE")
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Document:
    """The values of a file, and the marks of values and of mapping keys by their path."""

    file: str
    value: JSON
    marks: dict[Path, Mark] = field(default_factory=dict[Path, Mark])
    key_marks: dict[Path, Mark] = field(default_factory=dict[Path, Mark])
    raises: type[FileError] = ScenarioError

    def error(self, path: Path, reason: str, *, of_key: bool = False) -> FileError:
        """An error at a path, or at what stands nearest above it. `of_key`: the key is wrong, not its value."""
        if of_key and path in self.key_marks:
            mark = self.key_marks[path]
        else:
            mark = next(self.marks[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.marks)
        return self.raises(self.file, reason, *mark, key=key_of(path) or None)


def key_of(path: Path) -> str:
    """A path as people write it: `turns[0].model[1].calls`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w$-]+", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text


def read(data: bytes, file: str, raises: type[FileError] = ScenarioError) -> Document:
    """Read one YAML document. `file` is its name in errors, `raises` their class.

    Raises:
        FileError: it is not strict YAML.
    """
    if len(data) > MAX_BYTES:
        raise raises(file, f"larger than {MAX_BYTES >> 10} KiB, the most that {raises.what} may have.")
    text = _decode(data, file, raises)
    if _FAST is not None and "\t" not in text:  # of which libyaml allows more than PyYAML does
        try:
            return _document(text, file, _FAST, raises)
        except _Refused:
            pass
    return _document(text, file, yaml.SafeLoader, raises)


def _document(text: str, file: str, loader: type, raises: type[FileError]) -> Document:
    with closing(_Reader(text, file, loader, raises)) as reader:
        return reader.document()


def _decode(data: bytes, file: str, raises: type[FileError]) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise raises(file, "not UTF-8. Save the file as UTF-8.", *_mark_at_end(before)) from None
    if text.startswith("\ufeff"):
        raise raises(file, "starts with a byte order mark. Save the file as UTF-8 without one.", 1, 1)
    unreadable = _UNREADABLE.search(text)
    if unreadable is not None:
        character = ord(unreadable[0])
        escape = f"\\x{character:02X}" if character < 0x100 else f"\\u{character:04X}"
        reason = f'the character U+{character:04X} may not stand here as it is. Write "{escape}" in double quotes.'
        raise raises(file, reason, *_mark_at_end(text[: unreadable.start()]))
    return text


def _mark_at_end(before: str) -> Mark:
    lines = re.split(r"\r\n|\r|\n", before)
    return len(lines), len(lines[-1]) + 1


_FAST: type | None = getattr(yaml, "CSafeLoader", None)


class _Refused(Exception):  # not an error: the other parser says what is wrong, or that nothing is
    pass


class _Parser(Protocol):
    """What PyYAML's loaders have, and typeshed does not type."""

    def get_event(self) -> yaml.Event | None: ...

    def get_mark(self) -> yaml.Mark: ...


class _Reader:
    """Builds values from parser events, and refuses what is not strict before it is built."""

    def __init__(self, text: str, file: str, loader: type, raises: type[FileError]) -> None:
        self._file = file
        self._text_of_file = text
        self._raises = raises
        self._is_fast = loader is _FAST
        self._in_brackets = False
        self._events = self._parse(text, loader)
        self._marks: dict[Path, Mark] = {}
        self._key_marks: dict[Path, Mark] = {}

    def document(self) -> Document:
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            raise self._raises(self._file, f"empty. {self._raises.form}")
        value = self._value(next(self._events), ())
        next(self._events)  # the document's end
        more = next(self._events)
        if isinstance(more, yaml.DocumentStartEvent):
            raise self._error(
                more, (), f"a second document. {self._raises.what.capitalize()} is one file of one document."
            )
        return Document(self._file, value, self._marks, self._key_marks, self._raises)

    def close(self) -> None:
        """Let go of the parser, and the parser of this: else they and all that was read stay until somebody looks for
        cycles, which of thousands of files are a hundred megabytes."""
        self._events.close()

    def _parse(self, text: str, kind: type) -> Generator[yaml.Event]:
        """All events after the stream's start; the parser's own errors as ours."""
        loader = cast("_Parser", kind(text))
        try:
            while (event := loader.get_event()) is not None:
                if isinstance(event, yaml.DocumentStartEvent) and (event.version or event.tags):
                    raise self._error(event, (), "YAML directives are not allowed. Remove the line.")
                if not isinstance(event, yaml.StreamStartEvent):
                    yield event
        except (yaml.YAMLError, ValueError, OverflowError) as error:  # numbers out of range in escapes and directives
            if self._is_fast:
                raise _Refused from error
            raise self._not_yaml(error, loader) from None

    def _not_yaml(self, error: Exception, loader: _Parser) -> FileError:
        if not isinstance(error, yaml.MarkedYAMLError):
            mark = loader.get_mark()
            return self._raises(self._file, f"not YAML: {error}.", mark.line + 1, mark.column + 1)
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (None, None)
        reason = "; ".join(part for part in (error.context, error.problem) if part)
        line = self._text_of_file.splitlines()[mark.line : mark.line + 1] if mark else []
        meant = hint(line[0], mark.column + 1, reason) if mark and line else None
        if meant is not None:
            return self._raises(self._file, f"not YAML: {meant}", *place)
        way_out = " A text with punctuation may need quotes." if "flow" in reason else ""
        return self._raises(self._file, f"not YAML: {reason}.{way_out}", *place)

    def _value(self, event: yaml.Event, path: Path) -> JSON:
        self._marks[path] = _mark(event)
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, path, "aliases are not allowed. Write the value out.")
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise self._error(event, path, "anchors are not allowed. Remove it and write repeated values out.")
        if isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            raise self._error(event, path, "tags are not allowed. Remove it; quotes make a text.")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path)
        if len(path) >= MAX_DEPTH:
            raise self._error(event, (), f"nested more than {MAX_DEPTH} levels deep.")
        outside = self._in_brackets
        self._in_brackets = outside or bool(cast("yaml.CollectionStartEvent", event).flow_style)
        value = self._list(path) if isinstance(event, yaml.SequenceStartEvent) else self._mapping(path)
        self._in_brackets = outside
        return value

    def _list(self, path: Path) -> JSON:
        values: list[JSON] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._value(event, (*path, len(values))))
        return values

    def _mapping(self, path: Path) -> JSON:
        values: dict[str, JSON] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, path)
            inner = (*path, key)
            if key in values:
                line, _ = self._key_marks[inner]
                raise self._error(event, inner, f"duplicate key, which stands in line {line} already.")
            self._key_marks[inner] = _mark(event)
            values[key] = self._value(next(self._events), inner)
        return values

    def _key(self, event: yaml.Event, path: Path) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None or event.tag is not None:
            raise self._error(event, path, "a key has to be a plain or quoted text, without anchor, alias or tag.")
        if event.value == "" and not event.style:
            if self._is_fast:
                raise _Refused  # the parsers do not agree on where it is missing
            raise self._error(event, path, "a key is missing before the colon.")
        return self._text(event, path)

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> JSON:
        text = self._text(event, path)
        if event.style:  # libyaml says "" of a plain scalar, PyYAML nothing
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text in _NEARLY_CONSTANTS:
            raise self._error(event, path, f"write {text.lower()}, or quote it if the text {text!r} is meant.")
        if _NOT_FINITE.fullmatch(text):
            raise self._error(event, path, f"{text} is not a JSON value. Quote it if the text is meant.")
        number = _NUMBER.fullmatch(text)
        return self._number(event, path, is_float=number.lastindex is not None) if number else text

    def _number(self, event: yaml.ScalarEvent, path: Path, *, is_float: bool) -> int | float:
        try:
            number = float(event.value) if is_float else int(event.value)
        except ValueError:
            raise self._error(event, path, "an integer of too many digits. Quote it if a text is meant.") from None
        if is_float and math.isinf(number):
            raise self._error(event, path, f"{event.value} is too large for a double. Quote it if a text is meant.")
        return number

    def _text(self, event: yaml.ScalarEvent, path: Path) -> str:
        """The scalar's text. Escaped surrogates that make a pair are the one character that they are in JSON."""
        if self._is_fast and self._in_brackets and not event.style and "?" in event.value:
            raise _Refused  # within brackets, and without quotes, PyYAML reads a question mark otherwise
        try:
            return event.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise self._error(event, path, "a lone surrogate is not a character. Write both halves, or none.") from None

    def _error(self, event: yaml.Event, path: Path, reason: str) -> FileError:
        return self._raises(self._file, reason, *_mark(event), key=key_of(path) or None)


def _mark(event: yaml.Event) -> Mark:
    return event.start_mark.line + 1, event.start_mark.column + 1
