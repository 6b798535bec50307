"""Strict YAML: one document of JSON values, with the position of each value.

Plain scalars are read as in JSON: `null`, `true`, `false` and JSON numbers. An empty scalar or `~` is null. Everything
else is text: `no`, `on`, `012`, `0x1F`, `1_000`, `1:30` and dates. Mapping keys are always text. The reader rejects
syntax that differs between YAML versions: anchors, aliases, tags, directives, `True`, `NULL`, `.nan`, `.inf` and the
line breaks of YAML 1.1. It also rejects duplicate keys, nesting deeper than 100 levels, lone surrogates and files above
256 KiB.

`Builder` builds values from parser events, here and for cassettes (`harness.cassettes.cassette_files`). It does not
recurse, because libyaml's own loader crashes on deep nesting. libyaml's parser runs first because it is ten times as
fast. Files that it rejects are parsed again by PyYAML, whose error messages are the same on every machine.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeAlias

import yaml

from harness.model.errors import FileError, ScenarioError
from harness.model.messages import JSON

MAX_BYTES = 256 << 10
MAX_DEPTH = 100

Path: TypeAlias = tuple[str | int, ...]
"""Keys and indices that lead from the root to a value."""

Mark: TypeAlias = tuple[int, int]
"""Line and column, from 1."""

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?(?:\.inf|\.Inf|\.INF|Infinity)|\.nan|\.NaN|\.NAN|NaN")
_CONSTANTS: dict[str, bool | None] = {"": None, "~": None, "null": None, "true": True, "false": False}
_NEARLY_CONSTANTS = ("Null", "NULL", "True", "TRUE", "False", "FALSE")
_UNREADABLE = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The value of a file, with the position of each value and mapping key by path."""

    file: str
    value: JSON
    marks: dict[Path, Mark] = field(default_factory=dict[Path, Mark])
    key_marks: dict[Path, Mark] = field(default_factory=dict[Path, Mark])
    raises: type[FileError] = ScenarioError

    def error(self, path: Path, reason: str, *, of_key: bool = False) -> FileError:
        """Create an error at a path, or at the nearest parent with a position. `of_key` is set if the key is wrong
        rather than its value.
        """
        if of_key and path in self.key_marks:
            mark = self.key_marks[path]
        else:
            mark = next(self.marks[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.marks)
        return self.raises(self.file, reason, *mark, key=key_of(path) or None)


def key_of(path: Path) -> str:
    """Return a path as text: `turns[0].model[1].calls`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(r"[\w$-]+", step):
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text


def read(data: bytes, file: str, raises: type[FileError] = ScenarioError) -> YamlDocument:
    """Read one YAML document. `file` is its name in errors; `raises` is the class of the errors.

    Raises:
        FileError: the text is not strict YAML.
    """
    if len(data) > MAX_BYTES:
        raise raises(file, f"larger than {MAX_BYTES >> 10} KiB, the limit for {raises.what}.")
    text = _decode(data, file, raises)
    if _FAST is not None and "\t" not in text:  # libyaml accepts tabs that PyYAML refuses
        try:
            return _document(text, file, _FAST, raises)
        except _Refused:
            pass
    return _document(text, file, yaml.SafeLoader, raises)


def _document(text: str, file: str, kind: type, raises: type[FileError]) -> YamlDocument:
    builder = Builder(file, raises, is_fast=kind is _FAST)
    loader: Any = kind(text)
    try:
        builder.build(loader)
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # numbers out of range in escapes and directives
        if kind is _FAST:
            raise _Refused from error
        mark = loader.get_mark() if not isinstance(error, yaml.MarkedYAMLError) else None
        raise _not_yaml(error, mark, text, file, raises) from None
    finally:
        loader.dispose()
    if not builder.documents:
        raise raises(file, f"empty. {raises.form}")
    return YamlDocument(file, builder.value, builder.marks, builder.key_marks, raises)


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
        reason = f'the character U+{character:04X} must be escaped. Write "{escape}" in double quotes.'
        raise raises(file, reason, *_mark_at_end(text[: unreadable.start()]))
    return text


def _mark_at_end(before: str) -> Mark:
    lines = re.split(r"\r\n|\r|\n", before)
    return len(lines), len(lines[-1]) + 1


_FAST: type | None = getattr(yaml, "CSafeLoader", None)


class _Refused(Exception):
    """Raised when libyaml rejects the text. PyYAML then decides whether it is an error."""


def _not_yaml(error: Exception, mark: Any, text: str, file: str, raises: type[FileError]) -> FileError:
    if not isinstance(error, yaml.MarkedYAMLError):
        return raises(file, f"not YAML: {error}.", mark.line + 1, mark.column + 1)
    mark = error.problem_mark or error.context_mark
    place = (mark.line + 1, mark.column + 1) if mark else (None, None)
    reason = "; ".join(part for part in (error.context, error.problem) if part)
    line = text.splitlines()[mark.line : mark.line + 1] if mark else []
    meant = _hint(line[0], mark.column + 1, reason) if mark and line else None
    if meant is not None:
        return raises(file, f"not YAML: {meant}", *place)
    way_out = " A text with punctuation may need quotes." if "flow" in reason else ""
    return raises(file, f"not YAML: {reason}.{way_out}", *place)


_KEYED = re.compile(r"(?P<before>\s*(?:- +)*(?P<key>[\w$-]+): +)(?P<text>\S.*?)\s*")
_LISTED = re.compile(r"(?P<before>\s*- +)(?P<text>\S.*?)\s*")
_SPECIAL = "@`%*&!|>{}[],#'\""
_SCANNER_PROBLEMS = ("cannot start any token", "expected alphabetic or numeric character", "expected <block end>")
_TOO_DEEP = "this line continues the text above it: align it with the lines that it belongs to."


def _hint(line: str, column: int, problem: str) -> str | None:
    """Return advice about a line where the parser reports a problem, or `None`. `column` counts from 1."""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab: YAML is indented with spaces. Replace it with spaces."
    if "mapping values are not allowed" in problem:
        return _suggest_quotes(line, "a text with a colon and a space needs quotes") if _has_colon(line) else _TOO_DEEP
    text = _parse(line)
    if (
        text
        and text["text"][0] in _SPECIAL
        and column > text.start("text")
        and any(each in problem for each in _SCANNER_PROBLEMS)
    ):
        return _suggest_quotes(line, f"a text that begins with {text['text'][0]} needs quotes")
    if "expected <block end>" in problem:
        return f"nothing above starts in column {column}: align this line with the lines that it belongs to."
    return None


def _parse(line: str) -> re.Match[str] | None:
    return _KEYED.fullmatch(line) or _LISTED.fullmatch(line)


def _has_colon(line: str) -> bool:
    found = _parse(line)
    return found is not None and re.search(r":(?: |$)", found["text"]) is not None


def _suggest_quotes(line: str, reason: str) -> str | None:
    found = _parse(line)
    if found is None:
        return None
    text = found["text"]
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    return f"{reason}: write {found['before'].lstrip()}{json.dumps(text, ensure_ascii=False)}."


_NO_KEY: Any = object()


@dataclass(slots=True)
class OpenCollection:
    """A list or mapping under construction, with its path and the key whose value comes next."""

    value: dict[Any, Any] | list[Any]
    path: Path = ()
    in_brackets: bool = False
    key: Any = _NO_KEY

    @property
    def wants_key(self) -> bool:
        """Return whether the next value is the key of a mapping."""
        return self.key is _NO_KEY and isinstance(self.value, dict)


class Builder:
    """Builds the value of a YAML document from parser events. It rejects values that are unsafe or that JSON cannot
    represent.
    """

    TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep."

    def __init__(self, file: str, raises: type[FileError] = ScenarioError, *, is_fast: bool = True) -> None:
        self.value: Any = None
        self.documents = 0
        self.marks: dict[Path, Mark] = {}
        self.key_marks: dict[Path, Mark] = {}
        self._open: list[OpenCollection] = []
        self._file = file
        self._raises = raises
        self._is_fast = is_fast

    def build(self, loader: Any) -> None:
        """Read all events of a loader."""
        for event in iter(loader.get_event, None):  # half the calls of `yaml.parse`
            kind: object = type(event)  # pyright: ignore[reportUnknownVariableType]
            if kind is yaml.ScalarEvent:
                self._put(self._scalar(event), event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                begun = self._begin(event)
                if len(self._open) >= MAX_DEPTH:
                    self._refuse(self.TOO_DEEP, event)
                self._put(begun.value, event)
                self._open.append(begun)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._open.pop()
            elif kind is yaml.AliasEvent:
                self._refuse_alias(event)
            elif kind is yaml.DocumentStartEvent:
                self.documents += 1
                self._check_document(event)

    def _put(self, value: Any, event: Any) -> None:
        """Add a value to the innermost open list or mapping, as an item, a key or the value of a key."""
        if not self._open:
            self.value = value
            return
        inner = self._open[-1]
        if isinstance(inner.value, list):
            inner.value.append(value)
        elif inner.key is not _NO_KEY:
            inner.value[inner.key] = value
            inner.key = _NO_KEY
        elif value in inner.value:
            self._refuse_twice(value, event)
        else:
            inner.key = value

    def _check_document(self, event: Any) -> None:
        if event.version or event.tags:
            self._refuse("YAML directives are not allowed. Remove the line.", event)
        if self.documents > 1:
            self._refuse(f"a second document. {self._raises.what.capitalize()} is one file of one document.", event)

    def _scalar(self, event: Any) -> JSON:
        if self._open and self._open[-1].wants_key:
            return self._key(event)
        path = self._check(event)
        text = self._text(event, path)
        if event.style:  # of a plain scalar: "" in libyaml, None in PyYAML
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
        if text in _NEARLY_CONSTANTS:
            self._refuse(f"write {text.lower()}, or quote it if the text {text!r} is meant.", event, path)
        if _NOT_FINITE.fullmatch(text):
            self._refuse(f"{text} is not a JSON value. Quote it to make it a text.", event, path)
        number = _NUMBER.fullmatch(text)
        return self._number(event, path, is_float=number.lastindex is not None) if number else text

    def _begin(self, event: Any) -> OpenCollection:
        path = self._check(event)
        value: dict[Any, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        return OpenCollection(value, path, in_brackets=bool(event.flow_style) or self._in_brackets)

    def _refuse_alias(self, event: Any) -> NoReturn:
        self._refuse("aliases are not allowed. Write the value out.", event, self._check(event))

    def _refuse_twice(self, key: Any, event: Any) -> NoReturn:
        path = (*self._open[-1].path, key)
        self._refuse(f"duplicate key: line {self.key_marks[path][0]} has it already.", event, path)

    def _refuse(self, reason: str, event: Any, path: Path = ()) -> NoReturn:
        raise self._raises(self._file, reason, *_mark(event), key=key_of(path) or None)

    @property
    def _in_brackets(self) -> bool:
        return bool(self._open) and self._open[-1].in_brackets

    def _check(self, event: Any) -> Path:
        """Check that a value has no anchor and no tag, and return its path."""
        inner = self._open[-1] if self._open else None
        if inner is not None and inner.wants_key:
            self._refuse_key(event)
        path = () if inner is None else (*inner.path, len(inner.value) if isinstance(inner.value, list) else inner.key)
        self.marks[path] = _mark(event)
        if not isinstance(event, yaml.AliasEvent):
            if event.anchor is not None:
                self._refuse("anchors are not allowed. Remove it and write repeated values out.", event, path)
            if event.tag is not None:
                self._refuse("tags are not allowed. Remove it; quotes make a text.", event, path)
        return path

    def _refuse_key(self, event: Any) -> NoReturn:
        reason = "a key must be a plain or quoted text, without anchor, alias or tag."
        self._refuse(reason, event, self._open[-1].path)

    def _key(self, event: Any) -> str:
        mapping = self._open[-1]
        if event.anchor is not None or event.tag is not None:
            self._refuse_key(event)
        if event.value == "" and not event.style:
            if self._is_fast:
                raise _Refused  # the parsers report different positions
            self._refuse("a key is missing before the colon.", event, mapping.path)
        key = self._text(event, mapping.path)
        if key not in mapping.value:
            self.key_marks[*mapping.path, key] = _mark(event)
        return key

    def _number(self, event: Any, path: Path, *, is_float: bool) -> int | float:
        try:
            number = float(event.value) if is_float else int(event.value)
        except ValueError:
            self._refuse("an integer with too many digits. Quote it to make it a text.", event, path)
        if is_float and math.isinf(number):
            self._refuse(f"{event.value} is too large for a double. Quote it to make it a text.", event, path)
        return number

    def _text(self, event: Any, path: Path) -> str:
        """Return the text of a scalar. As in JSON, a pair of escaped surrogates is one character."""
        if self._is_fast and self._in_brackets and not event.style and "?" in event.value:
            raise _Refused  # the parsers read an unquoted question mark in brackets differently
        try:
            return event.value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._refuse("a lone surrogate is not a character. Write both halves, or none.", event, path)


def _mark(event: Any) -> Mark:
    return event.start_mark.line + 1, event.start_mark.column + 1
