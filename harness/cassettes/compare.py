"""Comparison of a recorded request with the request that the adapter sends."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from harness.apis import jsonvalue
from harness.apis.api import Api, EmbeddingView
from harness.apis.view import RequestView, WireError
from harness.cassettes.redact import REQUEST_HEADERS
from harness.equivalence.request_meaning import normal_form, with_ids_of
from harness.equivalence.view_differences import WHOLE_JSON, Path, ViewDifference, diff, json_pointer, plain
from harness.model.http import HttpRequest, endpoint
from harness.model.messages import JSON
from harness.results.findings import text_change

_HEADERS = sorted(REQUEST_HEADERS - {"accept"})
"""Headers that are compared. `accept` is left out because it does not change the APIs' responses."""

_SHOWN = 120
"""Maximum number of characters of a value in a message."""


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """Difference between a recorded and a sent request.

    `pointer` is a JSON pointer into the sent body. It is empty for differences in method, path or headers.
    `changes_meaning` is set if the neutral views of the requests differ, and not only their spelling. `fact` is the
    field of the neutral view that differs, and `setting` the name of the setting. Either may be empty. `recorded` and
    `sent` are JSON values, or `None` if absent. `place` is the location as shown in messages: a path in the neutral
    view, or a name such as `method`.
    """

    pointer: str
    recorded: JSON
    sent: JSON
    changes_meaning: bool
    message: str
    fact: str = ""
    setting: str = ""
    place: str = ""


def differences(
    recorded: HttpRequest, sent: HttpRequest, wire: Api, *, issued: Container[str] = ()
) -> list[RequestDifference]:
    """Return the differences in meaning or, if there are none, the differences in spelling.

    `issued` contains the call ids that the API has issued. Other call ids may differ as long as they match their
    results.
    """
    # Nearly every request equals the recorded one, byte for byte, and needs no parsing: to compare the views would cost
    # more than the rest of a replayed exchange.
    if recorded.body == sent.body and not any(one != other for _, one, other in _outside(recorded, sent)):
        return []
    one, other = _view(recorded, wire), _view(sent, wire)
    if isinstance(one, str) != isinstance(other, str):
        unreadable = (
            f"the recorded request cannot be read: {one}" if isinstance(one, str) else f"cannot be read: {other}"
        )
        return [RequestDifference("", None, None, changes_meaning=True, message=unreadable)]
    if isinstance(one, EmbeddingView) and isinstance(other, EmbeddingView):
        found = [_neutral(each) for each in diff(one, other)]
    elif isinstance(one, RequestView) and isinstance(other, RequestView):
        found = [_fact(each) for each in diff(normal_form(one), normal_form(with_ids_of(one, other, issued)))]
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


def _fact(found: ViewDifference) -> RequestDifference:
    fact, setting = str(found.path[0]), str(found.path[1]) if found.path[0] == "settings" else ""
    return replace(_neutral(found), fact=fact, setting=setting)


def _neutral(found: ViewDifference) -> RequestDifference:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found.path).lstrip(".")
    recorded, sent = plain(found.one), plain(found.other)
    if found.schema is not None:
        at = f"{place}{found.schema.pointer}: recorded {_shown(recorded)}, sent {_shown(sent)}"
        message = at + found.schema.describe("the recorded schema")
    elif found.lengths is not None:
        more, word = (recorded, "recorded only") if recorded else (sent, "sent only")
        message = f"{place}: {found.lengths[0]} recorded, {found.lengths[1]} sent; {word}: {_shown(more)}"
    else:
        return _difference(recorded, sent, place, found.pointer, changes_meaning=True)
    return RequestDifference(found.pointer, recorded, sent, changes_meaning=True, message=message, place=place)


def _outside(recorded: HttpRequest, sent: HttpRequest) -> Iterator[tuple[str, JSON, JSON]]:
    """Yield the name, the recorded value and the sent value of each compared part outside the body."""
    yield "method", recorded.method, sent.method
    if recorded.url != sent.url:
        yield "path", endpoint(recorded.url), endpoint(sent.url)
        yield "query", urlsplit(recorded.url).query, urlsplit(sent.url).query
    for name in _HEADERS:
        yield f"header {name}", recorded.headers.get(name), sent.headers.get(name)


def _in_spelling(recorded: HttpRequest, sent: HttpRequest) -> Iterator[RequestDifference]:
    for name, one, other in _outside(recorded, sent):
        if one != other:
            yield _difference(one, other, name, "", changes_meaning=False)
    yield from in_bodies(recorded.body, sent.body)


def _is_same_json(_path: Path, one: JSON, other: JSON) -> bool:
    """Return whether two strings contain the same JSON, ignoring white space and key order, which depend on the JSON
    library.
    """
    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    try:
        return jsonvalue.equal(jsonvalue.loads(one), jsonvalue.loads(other))
    except WireError:
        return False


_SPELLING = replace(WHOLE_JSON, allows=_is_same_json)


def in_bodies(recorded: bytes, sent: bytes) -> Iterator[RequestDifference]:
    """Yield the differences in spelling between two bodies, which may be JSON or not."""
    try:
        found = diff(jsonvalue.loads(recorded), jsonvalue.loads(sent), _SPELLING)
        for each in sorted(found, key=lambda one: one.path):
            pointer = json_pointer(each.path)
            yield _difference(each.one, each.other, f"body {pointer or '/'}", pointer, changes_meaning=False)
    except (WireError, RecursionError):
        if recorded != sent:
            message = f"body: {len(recorded)} bytes recorded, {len(sent)} other bytes sent"
            yield RequestDifference("", None, None, changes_meaning=False, message=message)


def _difference(recorded: JSON, sent: JSON, place: str, pointer: str, *, changes_meaning: bool) -> RequestDifference:
    if isinstance(recorded, str) and isinstance(sent, str) and max(len(recorded), len(sent)) > _SHOWN:
        change = text_change(recorded, sent)
        named = _SYSTEM_TEXT.sub("system prompt", place)
        message = f"{named}, {change.summary}" if change else place
    else:
        message = f"{place}: recorded {_shown(recorded)}, sent {_shown(sent)}"
    return RequestDifference(pointer, recorded, sent, changes_meaning=changes_meaning, message=message, place=place)


_SYSTEM_TEXT = re.compile(r"system\[\d+\]\.text")


def _shown(value: JSON) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
