"""Parsing of cassette files (strict YAML or JSON), and reversible indentation of JSON bodies."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn

import yaml

from harness.documents.document import MAX_DEPTH, Builder, OpenCollection, Path
from harness.model.errors import CassetteError
from harness.platform.exceptions import shorten

MAX_BYTES = 48 << 20
"""Maximum size of a cassette file, and of all its decoded bodies together."""

MAX_VALUES = 1_000_000
"""Maximum number of keys, strings and numbers in a cassette. A short file could otherwise fill the memory."""

_YAML = "tag:yaml.org,2002:"

RESTORE = "Restore the file from version control or record it again."

TOO_DEEP = "exceeded maximum nesting depth"
"""libyaml's message for more than 1000 open brackets (since 0.2.6, PyYAML 6.0.4). It is raised before the first event.
"""

_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_RESOLVERS = {
    first: [pair for pair in pairs if pair[0] != f"{_YAML}timestamp"]
    for first, pairs in _SAFE_LOADER.yaml_implicit_resolvers.items()
}
"""Resolvers for untagged scalars, by first character. Dates are left as strings."""


def parse(data: bytes, file: str) -> Any:
    """Parse a cassette file.

    Raises:
        CassetteError: the file is too large, not text, not valid YAML or JSON, or uses something unsafe (aliases, tags
            that build objects, nesting deeper than `MAX_DEPTH`).
    """
    if len(data) > MAX_BYTES:
        raise CassetteError(file, f"{len(data)} bytes are more than the {MAX_BYTES} that a cassette may have.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CassetteError(file, f"not UTF-8 text. {RESTORE}", f"byte {error.start}") from None
    if not text or text.isspace():
        raise CassetteError(file, f"the file is empty: whatever wrote it was cut short. {RESTORE}")
    if text.lstrip().startswith("{"):
        return _parse_json(text, file)
    del text  # libyaml reads the bytes: a large file is not in memory thrice
    return _parse_yaml(data, file)


def _parse_json(text: str, file: str) -> Any:
    if sum(map(text.count, "[{,")) > MAX_VALUES:
        raise CassetteError(file, f"more than {MAX_VALUES} values, as no cassette has. {RESTORE}")
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicates)
    except json.JSONDecodeError as error:
        reason = _incomplete(f"not complete JSON: {error.msg}", text)
        raise CassetteError(file, reason, f"line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # digits without end, brackets without end
        raise CassetteError(file, f"this JSON cannot be read: {str(error).rstrip('.')}. {RESTORE}") from None


def _parse_yaml(data: bytes, file: str) -> Any:
    builder = _Builder(file)
    loader = _SAFE_LOADER(data)
    try:
        builder.build(loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        incomplete = _incomplete(f"not complete YAML: {error.problem or error.context}", data.decode())
        reason = _Builder.TOO_DEEP if error.problem == TOO_DEEP else incomplete
        raise CassetteError(file, reason, mark and _place(mark)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        problem = " ".join(str(error).split())
        raise CassetteError(file, f"this YAML cannot be read: {problem}. {RESTORE}") from None
    finally:
        loader.dispose()
    return builder.value


def _incomplete(reason: str, text: str) -> str:
    """Return the reason why a text cannot be parsed. A text without the keys of a cassette never was one."""
    if _CASSETTE_KEY.search(text):
        return f"{reason}. The file was cut or edited. {RESTORE}"
    return "this is no recording: a cassette is YAML or JSON with a list of `interactions`."


_CASSETTE_KEY = re.compile(r"^[ {]*[\"']?(interactions|request|metadata|version)\b[\"']?\s*:", re.MULTILINE)


class _Builder(Builder):
    """Builds the values that vcrpy and other recorders write: binary data and YAML 1.1 scalars, except dates."""

    TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep, as no cassette is. {RESTORE}"

    def __init__(self, file: str) -> None:
        super().__init__(file)
        self._count = 0
        self._plain: dict[str, Any] = {}
        self._scalars = _SAFE_LOADER("")

    def _check_document(self, event: Any) -> None:
        if self.documents > 1:
            self._refuse(f"a second document, where a cassette is one. {RESTORE}", event)

    def _begin(self, event: Any) -> OpenCollection:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag is not None:
            self._check_tag(event, "map" if is_mapping else "seq")
        self._count_node(event)
        if self._open and self._open[-1].wants_key:
            self._refuse(f"a key that is not a string. The file was cut or edited. {RESTORE}", event)
        return OpenCollection({} if is_mapping else [])

    def _scalar(self, event: Any) -> Any:
        self._count_node(event)
        text: str = event.value
        tag: str | None = event.tag
        if tag is None or tag == "!":
            if not event.implicit[0]:
                return text
            if text not in self._plain:
                self._plain[text] = self._resolve(text, event)
            return self._plain[text]
        self._check_tag(event, "str", "binary", "python/str", "python/unicode")
        return self._make(tag, text, event) if tag == f"{_YAML}binary" else text

    def _refuse_alias(self, event: Any) -> NoReturn:
        self._refuse("YAML aliases are not read: they can unfold without bound. Write the value out in full.", event)

    def _refuse_twice(self, key: Any, event: Any) -> NoReturn:
        self._refuse(_twice(key), event)

    def _refuse(self, reason: str, event: Any, path: Path = ()) -> NoReturn:  # noqa: ARG002 - a place says enough
        raise CassetteError(self._file, reason, _place(event.start_mark))

    def _count_node(self, event: Any) -> None:
        self._count += 1
        if self._count > MAX_VALUES:
            self._refuse(f"more than {MAX_VALUES} values, as no cassette has. {RESTORE}", event)

    def _resolve(self, text: str, event: Any) -> Any:
        for tag, pattern in _RESOLVERS.get(text[:1], ()):
            if pattern.match(text):
                if tag == f"{_YAML}merge":
                    self._refuse("YAML merge keys are not read: write the values out in full.", event)
                return self._make(tag, text, event)
        return text

    def _make(self, tag: str, text: str, event: Any) -> Any:
        construct = _SAFE_LOADER.yaml_constructors.get(tag, _SAFE_LOADER.yaml_constructors[None])
        return construct(self._scalars, yaml.ScalarNode(tag, text, event.start_mark, event.end_mark))

    def _check_tag(self, event: Any, *allowed: str) -> None:
        if event.tag not in {None, "!", *(_YAML + name for name in allowed)}:
            reason = (
                f"the YAML tag {event.tag!r} is not read: it can build objects. Only text and !!binary may be tagged."
            )
            self._refuse(reason, event)


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object. Raises `ValueError` for a duplicate key."""
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(_twice(next(key for at, key in enumerate(keys) if key in keys[:at])))
    return made


def _twice(key: Any) -> str:
    return f"the key {shorten(repr(key), 100)} is given twice, and a parser keeps only one of the values. Remove one."


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"


_SPELLINGS: Mapping[str, json.JSONEncoder] = {
    "compact": json.JSONEncoder(separators=(",", ":"), ensure_ascii=False),
    "compact-ascii": json.JSONEncoder(separators=(",", ":")),
    "spaced": json.JSONEncoder(ensure_ascii=False),
    "spaced-ascii": json.JSONEncoder(),
    "indented": json.JSONEncoder(indent=2, ensure_ascii=False),
}
"""JSON formats that can be restored exactly: compact, spaced or indented, with or without ASCII escapes."""

_INDENTED = _SPELLINGS["indented"]
_INDENTED_ASCII = json.JSONEncoder(indent=2)

_NO_BLOCK = re.compile(r"[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
"""Characters that keep YAML from using a block scalar: control characters, line breaks other than line feeds, and
characters outside the basic multilingual plane.
"""


def indent_body(body: str | bytes) -> tuple[str, str] | None:
    """Return an indented JSON list or object, and the name of its original format.

    Return `None` for other bodies, for JSON that is already in that form, and for JSON that no format restores exactly,
    such as numbers like `1.50` or duplicate keys.
    """
    if isinstance(body, bytes) or not body.startswith(("{", "[")):
        return None
    try:
        value = _load(body)
        for name, spelling in _SPELLINGS.items():
            if spelling.encode(value) == body:
                lines = _INDENTED.encode(value)
                shown = _INDENTED_ASCII.encode(value) if _NO_BLOCK.search(lines) else lines
                return None if shown == body else (shown, name)
    except (ValueError, RecursionError):
        pass
    return None


def restore_body(body: bytes, name: object) -> bytes:
    """Restore a body that `indent_body` reformatted.

    Raises:
        ValueError: `name` is not a known format, or the body is not valid JSON.
    """
    if not isinstance(name, str) or name not in _SPELLINGS:
        raise ValueError(f"a spelling is one of {', '.join(_SPELLINGS)}")
    try:
        return _SPELLINGS[name].encode(_load(body.decode())).encode()
    except (ValueError, RecursionError):
        raise ValueError("this is not the JSON that its spelling says it is") from None


def _load(text: str) -> Any:
    if len(text) > MAX_VALUES and sum(map(text.count, "[{,")) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES} values")
    return json.loads(text)
