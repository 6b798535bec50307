"""A cassette file as plain values: YAML or JSON, read strictly and safely.

libyaml's loader overflows the stack at some 25,000 open brackets, 400 bytes of aliases unfold into gigabytes, and of
two values of one key it keeps the last and says nothing. So the values are built here, from its parser's events.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from harness.contract.errors import CassetteError
from harness.host.shortened import shortened

MAX_BYTES = 48 << 20
"""Bound on a cassette, some 14,000 exchanges of one short call, and on all that its bodies unpack to."""

MAX_DEPTH = 100

MAX_VALUES = 1_000_000
"""Bound on the keys, texts and numbers of a cassette: a short text can hold more of them than memory does."""

_YAML = "tag:yaml.org,2002:"
_TEXT_TAGS = (f"{_YAML}python/str", f"{_YAML}python/unicode")

_ALIAS = "YAML aliases are not read: they can unfold without bound. Write the value out in full."

_NO_KEY: Any = object()

RESTORE = "Restore the file from version control or record it again."

TOO_DEEP = "exceeded maximum nesting depth"
"""libyaml's words, from 0.2.6 on (in PyYAML 6.0.4), for more than 1000 open brackets, which it looks ahead for: before
there is an event of the first one."""

_NESTED = f"nested more than {MAX_DEPTH} levels deep, as no cassette is. {RESTORE}"


_SAFE_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _construct_text(loader: Any, node: Any) -> Any:
    return loader.construct_scalar(node)


def _loader() -> Any:
    """The safe loader, but a date stays the text it is, and Python 2's strings are text."""
    loader: Any = type("_Loader", (_SAFE_LOADER,), {})
    loader.yaml_implicit_resolvers = {
        first: [pair for pair in pairs if pair[0] != f"{_YAML}timestamp"]
        for first, pairs in _SAFE_LOADER.yaml_implicit_resolvers.items()
    }
    for tag in _TEXT_TAGS:
        loader.add_constructor(tag, _construct_text)
    return loader


_LOADER = _loader()


def is_text(scalar: str) -> bool:
    """Whether a scalar without quotes is text by its look, and no number, truth value or nothing."""
    resolvers = _LOADER.yaml_implicit_resolvers.get(scalar[:1])
    return not resolvers or not any(pattern.match(scalar) for _, pattern in resolvers)


def parse(data: bytes, file: str) -> Any:
    """The values of a cassette file.

    Raises:
        CassetteError: it is too large, no text, neither YAML nor JSON, or it uses what could hurt: aliases, tags that
            build objects, nesting deeper than `MAX_DEPTH`.
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
        return json.loads(text, object_pairs_hook=_unrepeated)
    except json.JSONDecodeError as error:
        reason = f"not complete JSON: {error.msg}. The file was cut or edited. {RESTORE}"
        raise CassetteError(file, reason, f"line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # digits without end, brackets without end
        raise CassetteError(file, f"this JSON cannot be read: {str(error).rstrip('.')}. {RESTORE}") from None


def _parse_yaml(data: bytes, file: str) -> Any:
    try:
        return _built(data, file)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        incomplete = f"not complete YAML: {error.problem or error.context}. The file was cut or edited. {RESTORE}"
        reason = _NESTED if error.problem == TOO_DEEP else incomplete
        raise CassetteError(file, reason, mark and _place(mark)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        problem = " ".join(str(error).split())
        raise CassetteError(file, f"this YAML cannot be read: {problem}. {RESTORE}") from None


def _built(data: bytes, file: str) -> Any:
    """The values of a YAML document, built while its events are looked over."""
    builder = _Builder(file)
    loader = _SAFE_LOADER(data)
    try:
        for event in iter(loader.get_event, None):  # half the calls of `yaml.parse`, which asks before each
            builder.add(event)
    finally:
        loader.dispose()
    return builder.value


class _Builder:
    """Takes the events of a YAML document one by one. What could hurt, or would be lost, is refused where it stands."""

    def __init__(self, file: str) -> None:
        self.value: Any = None
        self._file = file
        self._documents = 0
        self._count = 0
        self._open: list[_Open] = []
        self._plain: dict[str, Any] = {}
        self._scalars = _LOADER("")

    def add(self, event: Any) -> None:
        kind: object = type(event)  # pyright: ignore[reportUnknownVariableType]
        if kind is yaml.ScalarEvent:
            self._put(self._scalar(event), event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._begin(event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._open.pop()
        elif kind is yaml.AliasEvent:
            self._refuse(_ALIAS, event)
        elif kind is yaml.DocumentStartEvent:
            self._documents += 1
            if self._documents > 1:
                self._refuse(f"a second document, where a cassette is one. {RESTORE}", event)

    def _begin(self, event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            self._refuse(_NESTED, event)
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag is not None:
            self._check_tag(event, "map" if is_mapping else "seq")
        value: dict[Any, Any] | list[Any] = {} if is_mapping else []
        self._put(value, event)
        self._open.append(_Open(value))

    def _put(self, value: Any, event: Any) -> None:
        """Put a value where it belongs: into what is open, as an item, a key or the value of a key."""
        self._count += 1
        if self._count > MAX_VALUES:
            self._refuse(f"more than {MAX_VALUES} values, as no cassette has. {RESTORE}", event)
        if not self._open:
            self.value = value
            return
        inner = self._open[-1]
        if isinstance(inner.value, list):
            inner.value.append(value)
        elif inner.key is not _NO_KEY:
            inner.value[inner.key] = value
            inner.key = _NO_KEY
        elif isinstance(value, list | dict):
            self._refuse(f"a key that is no text. The file was cut or edited. {RESTORE}", event)
        elif value in inner.value:
            self._refuse(_twice(value), event)
        else:
            inner.key = value

    def _scalar(self, event: Any) -> Any:
        text: str = event.value
        tag: str | None = event.tag
        if tag is None or tag == "!":
            if not event.implicit[0]:
                return text
            if text not in self._plain:
                self._plain[text] = self._resolved(text, event)
            return self._plain[text]
        self._check_tag(event, "str", "binary", "python/str", "python/unicode")
        return self._made(tag, text, event) if tag == f"{_YAML}binary" else text

    def _resolved(self, text: str, event: Any) -> Any:
        """What a plain scalar is by its look."""
        for tag, pattern in _LOADER.yaml_implicit_resolvers.get(text[:1], ()):
            if pattern.match(text):
                if tag == f"{_YAML}merge":
                    self._refuse("YAML merge keys are not read: write the values out in full.", event)
                return self._made(tag, text, event)
        return text

    def _made(self, tag: str, text: str, event: Any) -> Any:
        construct = _LOADER.yaml_constructors.get(tag, _LOADER.yaml_constructors[None])
        return construct(self._scalars, yaml.ScalarNode(tag, text, event.start_mark, event.end_mark))

    def _check_tag(self, event: Any, *allowed: str) -> None:
        if event.tag not in {None, "!", *(_YAML + name for name in allowed)}:
            reason = (
                f"the YAML tag {event.tag!r} is not read: it can build objects. Only text and !!binary may be tagged."
            )
            self._refuse(reason, event)

    def _refuse(self, reason: str, event: Any) -> NoReturn:
        raise CassetteError(self._file, reason, _place(event.start_mark))


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come, and the key of a mapping that waits for its value."""

    value: dict[Any, Any] | list[Any]
    key: Any = _NO_KEY


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises `ValueError`: a key stands in it twice."""
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(_twice(key))
            seen.add(key)
    return made


def _twice(key: Any) -> str:
    return f"the key {shortened(repr(key), 100)} stands here twice, and a reader keeps one of the values. Remove one."


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"
