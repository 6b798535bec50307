"""A cassette file as plain values: YAML or JSON, read strictly and safely.

libyaml's loader overflows the stack at some 25,000 open brackets, and 400 bytes of aliases unfold into gigabytes, so
the events are looked over before anything is built.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import yaml

from harness.contract.errors import CassetteError
from harness.tape import layout
from harness.tape.content_encoding import MAX_BYTES

MAX_DEPTH = 100

_YAML = "tag:yaml.org,2002:"
_TEXT_TAGS = (f"{_YAML}python/str", f"{_YAML}python/unicode")
_TAGS = frozenset({"!", *(_YAML + name for name in ("binary", "map", "seq", "str")), *_TEXT_TAGS})

RESTORE = "Restore the file from version control or record it again."


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
    if not text.strip():
        raise CassetteError(file, f"the file is empty: whatever wrote it was cut short. {RESTORE}")
    return _parse_json(text, file) if text.lstrip().startswith("{") else _parse_yaml(text, file)


def _parse_json(text: str, file: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"not complete JSON: {error.msg}. The file was cut or edited. {RESTORE}"
        raise CassetteError(file, reason, f"line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError) as error:  # digits without end, brackets without end
        raise CassetteError(file, f"this JSON cannot be read: {error}. {RESTORE}") from None


def _parse_yaml(text: str, file: str) -> Any:
    try:
        return layout.read(text, _LOADER.yaml_implicit_resolvers)
    except layout.Unknown:
        pass
    try:
        _look_over(text, file)
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = f"not complete YAML: {error.problem or error.context}. The file was cut or edited. {RESTORE}"
        raise CassetteError(file, reason, mark and _place(mark)) from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        problem = " ".join(str(error).split())
        raise CassetteError(file, f"this YAML cannot be read: {problem}. {RESTORE}") from None


def _look_over(text: str, file: str) -> None:
    depth = 0
    events: Iterator[Any] = cast("Any", yaml).parse(text, Loader=_SAFE_LOADER)
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            reason = "YAML aliases are not read: they can unfold without bound. Write the value out in full."
            raise CassetteError(file, reason, _place(event.start_mark))
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                reason = f"nested more than {MAX_DEPTH} levels deep, as no cassette is. {RESTORE}"
                raise CassetteError(file, reason, _place(event.start_mark))
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        tag: str | None = getattr(event, "tag", None)
        if tag is not None and tag not in _TAGS:
            reason = f"the YAML tag {tag!r} is not read: it can build objects. Only text and !!binary may be tagged."
            raise CassetteError(file, reason, _place(event.start_mark))


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}"
