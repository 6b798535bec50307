"""Playback and the tap: the responses of a cassette for requests as they come, and notes of what goes over the wire."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from http import HTTPStatus
from threading import Lock
from time import monotonic
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from harness.apis.api import Api
from harness.apis.eventstream import separators_escaped
from harness.apis.jsonvalue import canonical, loads
from harness.apis.targets import Profile
from harness.apis.view import RequestView, ResponseView, WireError
from harness.contract.http import EXHAUSTED, HttpRequest, HttpResponse, endpoint
from harness.results import Exchange
from harness.tape.cassette import Cassette
from harness.tape.redact import REQUEST_HEADERS, RESPONSE_HEADERS, masked
from harness.tape.redact.address import bare


class Keep(Protocol):
    """Where the exchanges of a cell are kept, each before its response is handed on: `Recording`."""

    def keep(self, request: HttpRequest, response: HttpResponse) -> None:
        """Keep an exchange. Raises `CassetteError`."""
        ...

    def taken_up(self, request: HttpRequest) -> HttpResponse | None:
        """The answer that was kept by an earlier recording which did not come to its end. Raises `CassetteError`."""
        ...


def _roots(base: str, public: str) -> tuple[str, str]:
    """Both URLs without the path that they share, so that a request beside the base URL has a public URL as well."""
    path = urlsplit(public).path
    return (base.removesuffix(path), public.removesuffix(path)) if path and base.endswith(path) else (base, public)


class Tap:
    """Notes every exchange of a cell in `exchanges`, in order.

    They are what was sent and received, since the adapter's values are compared with them: only what may not be stored
    of headers and URLs is left out. Secrets go where a result leaves the run.

    `chat` is the index of the chat that is under way; the runner sets it. URLs under `base_url`, where the requests
    really go, are noted as URLs under `public_url`, so that they say the same wherever the server listened.
    """

    def __init__(self, base_url: str, public_url: str, keep: Keep | None = None) -> None:
        self.chat: int | None = None
        self.exchanges: list[Exchange] = []
        self.base_url = base_url.rstrip("/")
        self._base, self._public = _roots(self.base_url, public_url.rstrip("/"))
        self._keep = keep
        self._lock = Lock()

    def public(self, request: HttpRequest) -> HttpRequest:
        """The request under its public URL."""
        if self._base == self._public:
            return request
        path = request.url.removeprefix(self._base)
        if path == request.url or path[:1] not in {"", "/", "?"}:
            return request
        return replace(request, url=self._public + path)

    def taken_up(self, request: HttpRequest) -> HttpResponse | None:
        """The answer to a request that need not be sent, since an earlier recording has it; it is noted.

        Raises:
            CassetteError: what that recording has left cannot be put away.
        """
        if self._keep is None:
            return None
        public = self.public(request)
        with self._lock:
            response = self._keep.taken_up(public)
            if response is not None:
                self._add(public, response, None)
        return response

    def note(self, request: HttpRequest, response: HttpResponse | None, recorded: HttpRequest | None = None) -> None:
        """Note an exchange; `response` is `None` if none came, `recorded` the request it was played back for.

        Raises:
            CassetteError: it could not be kept.
        """
        public = self.public(request)
        with self._lock:
            if self._keep is not None and response is not None:
                self._keep.keep(public, response)
            self._add(public, response, recorded)

    def _add(self, request: HttpRequest, response: HttpResponse | None, recorded: HttpRequest | None) -> None:
        sent = replace(request, url=bare(request.url), headers=masked(request.headers, REQUEST_HEADERS))
        received = response and replace(response, headers=masked(response.headers, RESPONSE_HEADERS))
        self.exchanges.append(Exchange(sent, received, recorded, self.chat, monotonic()))


Telling: TypeAlias = Callable[[HttpRequest, HttpRequest | None, HttpResponse], HttpResponse]
"""`told(request, answered, response)`: the response that `answered` got, in the way in which `request` asks for it;
without `answered` it is an error of our own."""


def as_asked(wire: Api, profile: Profile, seed: str) -> Telling:
    """Answers come as a request asks for them, whatever way they came in.

    An adapter may ask for a stream and hand it on whole: what another one recorded of the same question has the answer
    as one body. What was cut off or cannot be read is told as the API says, or as it is.
    """

    def told(request: HttpRequest, answered: HttpRequest | None, response: HttpResponse) -> HttpResponse:
        if answered is None:
            return wire.error_for(response, request)
        if request.body == answered.body and request.url == answered.url:
            return response
        asked, before = _asked(wire, request), _asked(wire, answered)
        if asked is None or before is None or _way(asked) == _way(before):
            return response
        if response.status >= HTTPStatus.BAD_REQUEST:
            return wire.error_for(response, request)
        view = _good(wire, response)
        if view is None or not isinstance(view.body, dict):
            return wire.broken_for(response, request)
        if not asked.stream:
            return one_body(view)
        stream = wire.stream_of(view.body, seed, profile, asked)
        return replace(stream, body=separators_escaped(stream.body))

    return told


def one_body(view: ResponseView) -> HttpResponse:
    """An answer as a whole one."""
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(view.body).encode())


def asks_for_stream(wire: Api, request: HttpRequest) -> bool:
    """Whether a request asks for a stream; one that cannot be read does not."""
    asked = _asked(wire, request)
    return asked is not None and asked.stream


def _way(request: RequestView) -> tuple[bool, str]:
    return request.stream, request.stream_format


def _asked(wire: Api, request: HttpRequest) -> RequestView | None:
    try:
        return wire.view(request) if wire.recognises(request) else None
    except WireError:
        return None


def _good(wire: Api, response: HttpResponse) -> ResponseView | None:
    try:
        view = wire.read(response)
    except WireError:
        return None
    return view if view.error is None and view.complete and response.delivery.ending == "complete" else None


Key: TypeAlias = tuple[str, str, str, str | bytes]

Failed: TypeAlias = Callable[[HttpRequest, HttpResponse], bool]
"""`failed(recorded, response)`: the exchange failed in a way that another try may mend."""

_REPEATS = 6
"""How often a failure is played again: once more than an adapter may retry, so that the excess is seen and ends."""

_NOTHING_LEFT = HttpResponse(
    500,
    {"content-type": "application/json", EXHAUSTED: "1"},
    b'{"error": {"type": "harness_exhausted", "message": "harness: the cassette has no further exchange"}}',
)


class Player:
    """Plays a cassette once. Takes constant time for each request, however long the cassette; thread-safe.

    Responses come in the pieces and with the ending that were recorded, but nothing waits.

    `failed` is given for an adapter that retries. Who recorded the cassette may not have: what is sent again behind a
    failure, and was not recorded again, fails again as it did.
    """

    def __init__(self, cassette: Cassette, failed: Failed | None = None) -> None:
        self._interactions = [
            (each.request, _without_pause(each.response)) for each in cassette.interactions if each.response is not None
        ]
        self._played = [False] * len(self._interactions)
        self._next = 0
        self._failed = failed
        self._last: tuple[HttpRequest, int] | None = None
        """The last request that was answered, and the position of its answer."""
        self._repeated = 0
        self._lock = Lock()

    @cached_property
    def _index(self) -> Mapping[Key, list[int]]:
        """The positions of each request, the first one last, made when one is played out of order or in another
        spelling."""
        index: defaultdict[Key, list[int]] = defaultdict(list)
        for position in reversed(range(len(self._interactions))):
            index[normalised(self._interactions[position][0])].append(position)
        return index

    @property
    def unplayed(self) -> int:
        """How many exchanges no request has asked for."""
        return self._played.count(False)

    def answer(self, request: HttpRequest) -> tuple[HttpResponse, HttpRequest | None]:
        """The response to a request, and the recorded request that it belongs to.

        A request that was recorded gets its own response. One that was not gets the next in order, since its cell goes
        on and the rules say what is wrong with it. When all are played the answer is an HTTP 500 that `EXHAUSTED`
        marks as the harness's own, and no recorded request.
        """
        with self._lock:
            position = self._again(request)
            if position is None:
                position = self._take(request)
                self._repeated = 0
            self._last = None if position is None else (request, position)
        if position is None:
            return _NOTHING_LEFT, None
        recorded, response = self._interactions[position]
        return response, recorded

    def _again(self, request: HttpRequest) -> int | None:
        if self._failed is None or self._last is None or self._repeated == _REPEATS:
            return None
        sent, position = self._last
        recorded, response = self._interactions[position]
        if not _is_spelled_alike(sent, request) or not self._failed(recorded, response):
            return None
        self._go_on()
        left = self._interactions[self._next :][:1]
        if left and normalised(left[0][0]) == normalised(recorded):
            return None
        self._repeated += 1
        return position

    def _go_on(self) -> None:
        while self._next < len(self._played) and self._played[self._next]:
            self._next += 1

    def _take(self, request: HttpRequest) -> int | None:
        self._go_on()
        if self._next == len(self._played):
            return None
        position = self._next
        # Most cells send what was recorded, letter for letter and in order, which is told without reading any JSON.
        if not _is_spelled_alike(self._interactions[position][0], request):
            same = self._index.get(normalised(request), [])
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


def normalised(request: HttpRequest) -> Key:
    """What makes two requests the same: method, endpoint, query and JSON body, whatever base URL and key order."""
    try:
        body: str | bytes = canonical(loads(request.body))
    except (WireError, RecursionError):
        body = request.body
    return request.method, endpoint(request.url), urlsplit(request.url).query, body
