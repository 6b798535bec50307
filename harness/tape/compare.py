"""What differs between the request that was recorded and the one that the adapter sends now."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast
from urllib.parse import urlsplit

from harness.apis import jsonvalue
from harness.apis.api import Api
from harness.apis.embedding import EmbeddingView
from harness.apis.view import FormatView, RequestView, ToolView, WireError
from harness.contract.http import HttpRequest, endpoint
from harness.contract.model import JSON
from harness.meaning.requests import meant, with_ids_of
from harness.meaning.schemas import SchemaChange, apart
from harness.results.textchange import text_change
from harness.tape.redact import REQUEST_HEADERS

_HEADERS = sorted(REQUEST_HEADERS - {"accept"})
"""What an HTTP client says that it accepts is its own affair: the APIs answer alike."""

_SHOWN = 120
"""Characters of a value that a message shows."""


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """One difference. `pointer` leads into the body that was sent (empty: method, path or a header).

    `neutral` says that the requests mean different things; otherwise only their spelling differs. `fact` is the field
    of the neutral view that it belongs to, empty where there is none, and `setting` the name of the setting, if it is
    one. `recorded` and `sent` are JSON values, `None` also where there is nothing. `place` is the place in the neutral
    view, as the message begins with it.
    """

    pointer: str
    recorded: JSON
    sent: JSON
    neutral: bool
    message: str
    fact: str = ""
    setting: str = ""
    place: str = ""


def differences(
    recorded: HttpRequest, sent: HttpRequest, wire: Api, *, issued: Container[str] = ()
) -> list[RequestDifference]:
    """The differences in meaning; if there are none, those in spelling.

    `issued` are the ids of calls that the API has issued; those of any other call only have to pair.
    """
    # Nearly every request is spelled as it was recorded, and then means the same: reading both to walk the views costs
    # more than the rest of a replayed exchange.
    if recorded.body == sent.body and not any(one != other for _, one, other in _outside(recorded, sent)):
        return []
    one, other = _view(recorded, wire), _view(sent, wire)
    if isinstance(one, str) != isinstance(other, str):
        unreadable = (
            f"the recorded request cannot be read: {one}" if isinstance(one, str) else f"cannot be read: {other}"
        )
        return [RequestDifference("", None, None, neutral=True, message=unreadable)]
    if isinstance(one, EmbeddingView) and isinstance(other, EmbeddingView):
        found = list(_in_views(one, other, "", ""))
    elif isinstance(one, RequestView) and isinstance(other, RequestView):
        found = list(_in_facts(meant(one), meant(with_ids_of(one, other, issued))))
    else:
        found = []
    return found or list(_in_spelling(recorded, sent))


def _view(request: HttpRequest, wire: Api) -> RequestView | EmbeddingView | str:
    try:
        if wire.embeddings is not None and wire.embeddings.recognises(request):
            return wire.embeddings.view(request)
        return wire.view(request)
    except WireError as error:
        return str(error)
    except RecursionError:
        return "nested too deeply"


def _in_facts(one: RequestView, other: RequestView) -> Iterator[RequestDifference]:
    for fact in fields(one):
        if fact.name != "settings" and fact.compare:
            for found in _in_views(getattr(one, fact.name), getattr(other, fact.name), fact.name, ""):
                yield replace(found, fact=fact.name)
    for name in sorted(one.settings.keys() | other.settings.keys()):
        for found in _in_views(one.settings.get(name), other.settings.get(name), f"settings.{name}", ""):
            yield replace(found, fact="settings", setting=name)


def _in_views(one: Any, other: Any, path: str, pointer: str) -> Iterator[RequestDifference]:
    """Walk two neutral views at once. `path` names the place in the view, `pointer` the one in the body sent."""
    if isinstance(one, ToolView | FormatView) and type(one) is type(other):
        yield from _in_declared(one, other, path, pointer)
    elif _is_view(one) and type(one) is type(other):
        yield from _in_fields(one, other, path, pointer)
    elif isinstance(one, tuple) and isinstance(other, tuple):
        yield from _in_sequences(cast("tuple[Any, ...]", one), cast("tuple[Any, ...]", other), path, pointer)
    elif not jsonvalue.equal(_plain(one), _plain(other)):
        yield _difference(one, other, path, _pointer_of(other, pointer), neutral=True)


def _in_declared(
    one: ToolView | FormatView, other: ToolView | FormatView, path: str, pointer: str
) -> Iterator[RequestDifference]:
    """A tool or an answer's format: its schema by what it accepts, in whatever dialect, and the rest by value."""
    found, name, place = None, "", ""
    if isinstance(one, ToolView) and isinstance(other, ToolView):
        name, place = "parameters", other.pointer
        found = apart(one.parameters, other.parameters, one.dialect, other.dialect)
        other = replace(other, parameters=one.parameters, dialect=one.dialect)
    elif isinstance(one, FormatView) and isinstance(other, FormatView):
        name, place = "schema", other.schema_pointer
        found = apart(one.schema, other.schema, one.dialect, other.dialect)
        mechanism = (
            other.mechanism if one.dialect == other.dialect else one.mechanism
        )  # each dialect has one of its own
        other = replace(other, schema=one.schema, dialect=one.dialect, mechanism=mechanism)
    if found is not None:
        yield _in_schema(found, f"{path}.{name}", place)
    yield from _in_fields(one, other, path, pointer)


def _in_schema(found: SchemaChange, path: str, pointer: str) -> RequestDifference:
    """A schema that accepts other instances, or says other words."""
    place = f"{path}{found.pointer}: recorded {_shown(found.expected)}, sent {_shown(found.actual)}"
    message = place + found.said("the recorded schema")
    return RequestDifference(pointer, found.expected, found.actual, neutral=True, message=message, place=path)


def _in_fields(one: Any, other: Any, path: str, pointer: str) -> Iterator[RequestDifference]:
    here = _pointer_of(other, pointer)
    for field in fields(one):
        if field.compare and not _is_pointer(field.name):
            own = f"{field.name.removeprefix('call_')}_pointer"  # a result's `call_id` stands at its `id_pointer`
            below = getattr(other, own, None) or here
            name = f"{path}.{field.name}".lstrip(".")
            yield from _in_views(getattr(one, field.name), getattr(other, field.name), name, below)


def _in_sequences(one: tuple[Any, ...], other: tuple[Any, ...], path: str, pointer: str) -> Iterator[RequestDifference]:
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        yield from _in_views(left, right, f"{path}[{at}]", pointer)
    if len(one) != len(other):
        longer, word = (one, "recorded only") if len(one) > len(other) else (other, "sent only")
        first = min(len(one), len(other))
        message = f"{path}: {len(one)} recorded, {len(other)} sent; {word}: {_shown(_plain(longer[first:]))}"
        place = _pointer_of(other[first], pointer) if len(other) > first else pointer
        yield RequestDifference(
            place, _plain(one[first:]), _plain(other[first:]), neutral=True, message=message, place=path
        )


def _outside(recorded: HttpRequest, sent: HttpRequest) -> Iterator[tuple[str, JSON, JSON]]:
    """What counts outside of the body: name, recorded, sent."""
    yield "method", recorded.method, sent.method
    if recorded.url != sent.url:
        yield "path", endpoint(recorded.url), endpoint(sent.url)
        yield "query", urlsplit(recorded.url).query, urlsplit(sent.url).query
    for name in _HEADERS:
        yield f"header {name}", recorded.headers.get(name), sent.headers.get(name)


def _in_spelling(recorded: HttpRequest, sent: HttpRequest) -> Iterator[RequestDifference]:
    for name, one, other in _outside(recorded, sent):
        if one != other:
            yield _difference(one, other, name, "", neutral=False)
    yield from in_bodies(recorded.body, sent.body)


def in_bodies(recorded: bytes, sent: bytes) -> Iterator[RequestDifference]:
    """The differences in spelling between two bodies, of any API or none."""
    try:
        yield from _in_json(jsonvalue.loads(recorded), jsonvalue.loads(sent), "")
    except (WireError, RecursionError):
        if recorded != sent:
            message = f"body: {len(recorded)} bytes recorded, {len(sent)} other bytes sent"
            yield RequestDifference("", None, None, neutral=False, message=message)


def _in_json(one: JSON, other: JSON, pointer: str) -> Iterator[RequestDifference]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            below = jsonvalue.join(pointer, key)
            if key in one and key in other:
                yield from _in_json(one[key], other[key], below)
            else:
                yield _difference(one.get(key), other.get(key), f"body {below}", below, neutral=False)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _in_json(left, right, jsonvalue.join(pointer, at))
    elif not jsonvalue.equal(one, other) and not _is_same_json(one, other):
        yield _difference(one, other, f"body {pointer or '/'}", pointer, neutral=False)


def _is_same_json(one: JSON, other: JSON) -> bool:
    """Two texts that are JSON, such as arguments and results, in which only spaces and the order of keys differ: that
    is every JSON library's own affair."""
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    try:
        return jsonvalue.equal(jsonvalue.loads(one), jsonvalue.loads(other))
    except WireError:
        return False


def _difference(one: Any, other: Any, place: str, pointer: str, *, neutral: bool) -> RequestDifference:
    recorded, sent = _plain(one), _plain(other)
    if isinstance(recorded, str) and isinstance(sent, str) and max(len(recorded), len(sent)) > _SHOWN:
        change = text_change(recorded, sent)
        named = _SYSTEM_TEXT.sub("system prompt", place)
        message = f"{named}, {change.summary}" if change else place
    else:
        message = f"{place}: recorded {_shown(recorded)}, sent {_shown(sent)}"
    return RequestDifference(pointer, recorded, sent, neutral=neutral, message=message, place=place)


_SYSTEM_TEXT = re.compile(r"system\[\d+\]\.text")


def _plain(value: Any) -> JSON:
    """A view as a JSON value, without its pointers, and without what another view of the same part need not have."""
    if _is_view(value):
        told = [field.name for field in fields(value) if field.compare and not _is_pointer(field.name)]
        return {name: _plain(each) for name in told if (each := getattr(value, name)) is not None}
    if isinstance(value, bytes):
        return f"{len(value)} bytes: {value[:16].hex()}"
    if isinstance(value, tuple | list):
        return [_plain(each) for each in cast("tuple[Any, ...]", value)]
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in cast("Mapping[Any, Any]", value).items()}
    return value


def _shown(value: JSON) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def _pointer_of(value: Any, fallback: str) -> str:
    return getattr(value, "pointer", fallback)


def _is_pointer(name: str) -> bool:
    return name == "pointer" or name.endswith("_pointer")


def _is_view(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)
