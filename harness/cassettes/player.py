"""Playback of cassettes, the log of exchanges in a cell, and the comparison of requests with recorded ones."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from http import HTTPStatus
from threading import Lock
from time import monotonic
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from harness.apis import jsonvalue
from harness.apis.api import Api, EmbeddingView
from harness.apis.eventstream import separators_escaped
from harness.apis.jsonvalue import canonical, loads
from harness.apis.profiles import Profile
from harness.apis.view import RequestView, ResponseView, WireError
from harness.cassettes.cassette import Cassette
from harness.cassettes.redact import REQUEST_HEADERS, RESPONSE_HEADERS, mask_headers
from harness.cassettes.redact.secret_patterns import url_without_secrets
from harness.equivalence.request_meaning import normal_form, with_ids_of
from harness.equivalence.view_differences import WHOLE_JSON, Path, ViewDifference, diff, json_pointer, plain
from harness.model.http import EXHAUSTED, HttpRequest, HttpResponse, endpoint
from harness.model.messages import JSON
from harness.results import Exchange
from harness.results.findings import text_change


class ExchangeStore(Protocol):
    """Protocol for storing a cell's exchanges before their responses are passed on. See `CellRecording`."""

    def keep(self, request: HttpRequest, response: HttpResponse) -> None:
        """Store an exchange. Raises `CassetteError`."""
        ...

    def earlier_response(self, request: HttpRequest) -> HttpResponse | None:
        """Return the response that an earlier, unfinished recording stored for this request, or `None`. Raises
        `CassetteError`.
        """
        ...


def _roots(base: str, public: str) -> tuple[str, str]:
    """Remove the path that both URLs end with, so that requests outside this path also get a public URL."""
    path = urlsplit(public).path
    return (base.removesuffix(path), public.removesuffix(path)) if path and base.endswith(path) else (base, public)


class ExchangeLog:
    """Log of a cell's exchanges, in order, in `exchanges`.

    Secrets are removed from headers and URLs. Bodies stay unchanged because the adapter's values are compared with
    them; they are redacted when a result leaves the run.

    `chat` is the index of the current chat and is set by the runner. URLs under `base_url`, the real server, are logged
    under `public_url`, so that logs do not depend on the server's address.
    """

    def __init__(self, base_url: str, public_url: str, keep: ExchangeStore | None = None) -> None:
        self.chat: int | None = None
        self.exchanges: list[Exchange] = []
        self.base_url = base_url.rstrip("/")
        self._base, self._public = _roots(self.base_url, public_url.rstrip("/"))
        self._keep = keep
        self._lock = Lock()

    def public(self, request: HttpRequest) -> HttpRequest:
        """Return the request with its public URL."""
        if self._base == self._public:
            return request
        path = request.url.removeprefix(self._base)
        if path == request.url or path[:1] not in {"", "/", "?"}:
            return request
        return replace(request, url=self._public + path)

    def earlier_response(self, request: HttpRequest) -> HttpResponse | None:
        """Return and log the response that an earlier recording stored for this request, or return `None` if the
        request has to be sent.

        Raises:
            CassetteError: the rest of that recording cannot be moved away.
        """
        if self._keep is None:
            return None
        public = self.public(request)
        with self._lock:
            response = self._keep.earlier_response(public)
            if response is not None:
                self._add(public, response, None)
        return response

    def note(self, request: HttpRequest, response: HttpResponse | None, recorded: HttpRequest | None = None) -> None:
        """Log an exchange. `response` is `None` if none arrived; `recorded` is the matching recorded request.

        Raises:
            CassetteError: it could not be kept.
        """
        public = self.public(request)
        with self._lock:
            if self._keep is not None and response is not None:
                self._keep.keep(public, response)
            self._add(public, response, recorded)

    def _add(self, request: HttpRequest, response: HttpResponse | None, recorded: HttpRequest | None) -> None:
        sent = replace(
            request, url=url_without_secrets(request.url), headers=mask_headers(request.headers, REQUEST_HEADERS)
        )
        received = response and replace(response, headers=mask_headers(response.headers, RESPONSE_HEADERS))
        self.exchanges.append(Exchange(sent, received, recorded, self.chat, monotonic()))


Converter: TypeAlias = Callable[[HttpRequest, HttpRequest | None, HttpResponse], HttpResponse]
"""`convert(request, recorded, response)` converts the response to `recorded` into the form that `request` expects. If
`recorded` is `None`, the response is an error of harness itself.
"""


def stream_converter(wire: Api, profile: Profile, seed: str) -> Converter:
    """Return a function that converts recorded responses to a stream or a whole body, depending on the request.

    One adapter may request a stream where another one recorded a whole body. A truncated or unreadable response is
    replaced by the API's broken response.
    """

    def adapt(request: HttpRequest, answered: HttpRequest | None, response: HttpResponse) -> HttpResponse:
        if answered is None:
            return wire.error_for(response, request)
        if request.body == answered.body and request.url == answered.url:
            return response
        new_view, before = _request_view(wire, request), _request_view(wire, answered)
        if new_view is None or before is None or _rewrite_of(new_view) == _rewrite_of(before):
            return response
        if response.status >= HTTPStatus.BAD_REQUEST:
            return wire.error_for(response, request)
        view = _complete_view(wire, response)
        if view is None or not isinstance(view.body, dict):
            return wire.broken_for(response, request)
        if not new_view.stream:
            return one_body(view)
        stream = wire.stream_of(view.body, seed, profile, new_view)
        return replace(stream, body=separators_escaped(stream.body))

    return adapt


def one_body(view: ResponseView) -> HttpResponse:
    """Convert a response to a single JSON body."""
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(view.body).encode())


def asks_for_stream(wire: Api, request: HttpRequest) -> bool:
    """Return whether a request asks for a stream. Return `False` for unreadable requests."""
    view = _request_view(wire, request)
    return view is not None and view.stream


def _rewrite_of(request: RequestView) -> tuple[bool, str]:
    return request.stream, request.stream_format


def _request_view(wire: Api, request: HttpRequest) -> RequestView | None:
    try:
        return wire.view(request) if wire.recognises(request) else None
    except WireError:
        return None


def _complete_view(wire: Api, response: HttpResponse) -> ResponseView | None:
    try:
        view = wire.read(response)
    except WireError:
        return None
    return view if view.error is None and view.complete and response.delivery.ending == "complete" else None


Key: TypeAlias = tuple[str, str, str, str | bytes]

IsFailure: TypeAlias = Callable[[HttpRequest, HttpResponse], bool]
"""`failed(recorded, response)` returns whether the exchange failed in a way that a retry may fix."""

_REPEATS = 6
"""Number of times that a failure is repeated. It is one more than the permitted retries of an adapter, so that excess
retries are noticed but do not go on forever.
"""

_EXHAUSTED_RESPONSE = HttpResponse(
    500,
    {"content-type": "application/json", EXHAUSTED: "1"},
    b'{"error": {"type": "harness_exhausted", "message": "harness: the cassette has no further exchange"}}',
)


class Player:
    """Replays a cassette once, in constant time per request; thread-safe.

    Responses keep the recorded chunks and endings, but not the pauses. Pass `failed` for adapters that retry: if the
    recording has no second attempt, a repeated request gets the same failure again.
    """

    def __init__(self, cassette: Cassette, failed: IsFailure | None = None) -> None:
        self._interactions = [
            (each.request, _without_pause(each.response)) for each in cassette.interactions if each.response is not None
        ]
        self._played = [False] * len(self._interactions)
        self._next = 0
        self._failed = failed
        self._last: tuple[HttpRequest, int] | None = None
        """Last request that got a recorded response, and that response's position."""
        self._repeated = 0
        self._lock = Lock()

    @cached_property
    def _index(self) -> Mapping[Key, list[int]]:
        """Positions of each request, in reverse order. Only needed for requests that are out of order or spelled
        differently.
        """
        index: defaultdict[Key, list[int]] = defaultdict(list)
        for position in reversed(range(len(self._interactions))):
            index[request_key(self._interactions[position][0])].append(position)
        return index

    @property
    def unplayed(self) -> int:
        """Number of exchanges that have not been replayed."""
        return self._played.count(False)

    def answer(self, request: HttpRequest) -> tuple[HttpResponse, HttpRequest | None]:
        """Return the response to a request, and the recorded request that it belongs to.

        A request that was recorded gets its own response. Any other request gets the next unused response, so that the
        cell continues and the rules report the difference. If no response is left, return an HTTP 500 with the header
        `EXHAUSTED`, and `None`.
        """
        with self._lock:
            position = self._position_to_repeat(request)
            if position is None:
                position = self._take(request)
                self._repeated = 0
            self._last = None if position is None else (request, position)
        if position is None:
            return _EXHAUSTED_RESPONSE, None
        recorded, response = self._interactions[position]
        return response, recorded

    def _position_to_repeat(self, request: HttpRequest) -> int | None:
        if self._failed is None or self._last is None or self._repeated == _REPEATS:
            return None
        sent, position = self._last
        recorded, response = self._interactions[position]
        if not _is_spelled_alike(sent, request) or not self._failed(recorded, response):
            return None
        self._advance()
        left = self._interactions[self._next :][:1]
        if left and request_key(left[0][0]) == request_key(recorded):
            return None
        self._repeated += 1
        return position

    def _advance(self) -> None:
        while self._next < len(self._played) and self._played[self._next]:
            self._next += 1

    def _take(self, request: HttpRequest) -> int | None:
        self._advance()
        if self._next == len(self._played):
            return None
        position = self._next
        # Most cells send what was recorded, byte for byte and in order. That check needs no JSON.
        if not _is_spelled_alike(self._interactions[position][0], request):
            same = self._index.get(request_key(request), [])
            while same and self._played[same[-1]]:
                same.pop()
            position = same.pop() if same else position
        self._played[position] = True
        return position


def _without_pause(response: HttpResponse) -> HttpResponse:
    delivery = response.delivery
    return replace(response, delivery=replace(delivery, pause=0.0)) if delivery.pause else response


def _is_spelled_alike(recorded: HttpRequest, sent: HttpRequest) -> bool:
    return (recorded.body, recorded.method, recorded.url) == (sent.body, sent.method, sent.url)


def request_key(request: HttpRequest) -> Key:
    """Return a key that is the same for equal requests. It consists of method, endpoint, query and JSON body, and
    ignores the base URL and the order of JSON keys.
    """
    try:
        body: str | bytes = canonical(loads(request.body))
    except (WireError, RecursionError):
        body = request.body
    return request.method, endpoint(request.url), urlsplit(request.url).query, body


_HEADERS = sorted(REQUEST_HEADERS - {"accept"})
"""Headers that are compared. `accept` is left out because it does not change the APIs' responses."""

_MAX_SHOWN_CHARACTERS = 120
"""Maximum number of characters of a value in a message."""


@dataclass(frozen=True, slots=True)
class RequestDifference:
    """Difference between a recorded and a sent request.

    `pointer` is a JSON pointer into the sent body. It is empty for differences in method, path or headers.
    `changes_meaning` is set if the neutral views of the requests differ, and not only their spelling. `section` is the
    field of the neutral view that differs, and `setting` the name of the setting. Either may be empty. `recorded` and
    `sent` are JSON values, or `None` if absent. `place` is the location as shown in messages: a path in the neutral
    view, or a name such as `method`.
    """

    pointer: str
    recorded: JSON
    sent: JSON
    changes_meaning: bool
    message: str
    section: str = ""
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
    if recorded.body == sent.body and not any(one != other for _, one, other in _parts_outside_body(recorded, sent)):
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
        found = [_with_section(each) for each in diff(normal_form(one), normal_form(with_ids_of(one, other, issued)))]
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


def _with_section(found: ViewDifference) -> RequestDifference:
    section, setting = str(found.path[0]), str(found.path[1]) if found.path[0] == "settings" else ""
    return replace(_neutral(found), section=section, setting=setting)


def _neutral(found: ViewDifference) -> RequestDifference:
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in found.path).lstrip(".")
    recorded, sent = plain(found.one), plain(found.other)
    if found.schema is not None:
        at = f"{place}{found.schema.pointer}: recorded {_describe(recorded)}, sent {_describe(sent)}"
        message = at + found.schema.describe("the recorded schema")
    elif found.lengths is not None:
        more, word = (recorded, "recorded only") if recorded else (sent, "sent only")
        message = f"{place}: {found.lengths[0]} recorded, {found.lengths[1]} sent; {word}: {_describe(more)}"
    else:
        return _difference(recorded, sent, place, found.pointer, changes_meaning=True)
    return RequestDifference(found.pointer, recorded, sent, changes_meaning=True, message=message, place=place)


def _parts_outside_body(recorded: HttpRequest, sent: HttpRequest) -> Iterator[tuple[str, JSON, JSON]]:
    """Yield the name, the recorded value and the sent value of each compared part outside the body."""
    yield "method", recorded.method, sent.method
    if recorded.url != sent.url:
        yield "path", endpoint(recorded.url), endpoint(sent.url)
        yield "query", urlsplit(recorded.url).query, urlsplit(sent.url).query
    for name in _HEADERS:
        yield f"header {name}", recorded.headers.get(name), sent.headers.get(name)


def _in_spelling(recorded: HttpRequest, sent: HttpRequest) -> Iterator[RequestDifference]:
    for name, one, other in _parts_outside_body(recorded, sent):
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
    if isinstance(recorded, str) and isinstance(sent, str) and max(len(recorded), len(sent)) > _MAX_SHOWN_CHARACTERS:
        change = text_change(recorded, sent)
        named = _SYSTEM_TEXT.sub("system prompt", place)
        message = f"{named}, {change.summary}" if change else place
    else:
        message = f"{place}: recorded {_describe(recorded)}, sent {_describe(sent)}"
    return RequestDifference(pointer, recorded, sent, changes_meaning=changes_meaning, message=message, place=place)


_SYSTEM_TEXT = re.compile(r"system\[\d+\]\.text")


def _describe(value: JSON) -> str:
    text = "nothing" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[:_MAX_SHOWN_CHARACTERS]}… ({len(text)} characters)"
