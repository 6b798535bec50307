"""A recording played to a test."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from urllib.parse import urlsplit

from harness.apis.view import WireError
from harness.contract.errors import CassetteError
from harness.contract.http import EXHAUSTED, HttpRequest, HttpResponse
from harness.tape.cassette import Cassette, Interaction
from harness.tape.compare import RequestDifference
from harness.tape.deck.sameness import Key, apart, is_comparable, key
from harness.tape.deck.storing import request_as_stored
from harness.tape.deck.taken import Taken, spoken
from harness.tape.read import read
from harness.tape.redact import Redactor
from harness.tape.redact.address import bare


@dataclass(frozen=True, slots=True)
class Played:
    """A request of a test, with the interaction of the cassette by which it was answered: its index and what it has.
    Nothing was recorded for one that has none."""

    request: HttpRequest
    index: int | None = None
    recorded: Interaction | None = None
    differences: tuple[RequestDifference, ...] = ()

    @property
    def response(self) -> HttpResponse | None:
        """The answer; `None` if there was none to give."""
        return self.recorded.response if self.recorded is not None else None


def load(path: Path) -> Cassette:
    """A cassette of whomever's, to be played to a test.

    Raises:
        CassetteMissing: there is no such file.
        CassetteError: it cannot be read, is no cassette, or the address of a request is none.
    """
    cassette = read(path)
    for at, each in enumerate(cassette.interactions):
        try:
            urlsplit(each.request.url)
        except ValueError as error:
            reason = f"the address {each.request.url!r} is none ({error}): somebody has written over it."
            raise CassetteError(str(path), reason, f"interaction {at}") from None
    return cassette


class Playing:
    """Answers a test from a cassette, `None` if there is none; thread-safe.

    A request gets the first answer that is left of those to requests that mean the same. Where there is none, it gets
    that of the request which differs least, so that the test goes on and all that differs is seen at once; the test is
    told what differs when it ends. What nothing is left for is refused, in a way that no client tries again.

    `redactor` makes what takes the secrets of requests out of them, as it was done with the recorded ones.
    """

    def __init__(
        self,
        cassette: Cassette | None,
        taken: Taken,
        redactor: Callable[[Sequence[HttpRequest]], Redactor],
        ignored: Sequence[str] = (),
    ) -> None:
        self.exchanges: list[Played] = []
        every = enumerate(cassette.interactions if cassette is not None else ())
        playable = [(at, each) for at, each in every if each.response is not None and taken(each.request)]
        self._indices = [at for at, _ in playable]
        self._interactions = [each for _, each in playable]
        self._played = [False] * len(self._interactions)
        self._issued: set[str] = set()
        self._read = 0
        self._taken = taken
        self._redactor = redactor
        self._ignored = ignored
        self._lock = Lock()

    def asked(self, request: HttpRequest) -> HttpResponse | None:
        """The answer to a request; `None` if it is to be let through."""
        if not self._taken(request):
            return None
        request = replace(request, url=bare(request.url))
        with self._lock:
            found, differences = self._found(request)
            if found is None:
                self.exchanges.append(Played(request))
                return _refused()
            self._played[found] = True
            recorded = self._interactions[found]
            self.exchanges.append(Played(request, self._indices[found], recorded, differences))
        return recorded.response

    @property
    def unused(self) -> list[tuple[int, HttpRequest]]:
        """The recorded requests that nothing has asked the answers of, each with its index."""
        pairs = zip(self._indices, self._interactions, self._played, strict=True)
        return [(index, each.request) for index, each, played in pairs if not played]

    def _found(self, request: HttpRequest) -> tuple[int | None, tuple[RequestDifference, ...]]:
        left = [at for at, played in enumerate(self._played) if not played]
        if not left:
            return None, ()
        first = self._interactions[left[0]].request
        if (first.method, first.url, first.body) == (request.method, request.url, request.body):
            return left[0], ()
        clean = request_as_stored(request, self._redactor([request]))  # as the recorded ones are
        same = self._index.get(key(clean), deque())
        while same and self._played[same[0]]:
            same.popleft()
        if same:
            return same.popleft(), ()
        return self._nearest(clean, left)

    def _nearest(self, request: HttpRequest, left: Sequence[int]) -> tuple[int | None, tuple[RequestDifference, ...]]:
        found: int | None = None
        least: tuple[RequestDifference, ...] = ()
        for at in left:
            recorded = self._interactions[at].request
            if not is_comparable(recorded, request):
                continue
            differences = apart(recorded, request, self._ids(), self._ignored)
            if found is None or _weight(differences) < _weight(least):
                found, least = at, differences
            if not _weight(least):
                break
        return found, least

    @cached_property
    def _index(self) -> Mapping[Key, deque[int]]:
        index: defaultdict[Key, deque[int]] = defaultdict(deque)
        for at, each in enumerate(self._interactions):
            index[key(replace(each.request, url=bare(each.request.url)))].append(at)
        return index

    def _ids(self) -> set[str]:
        """The ids of calls in what was answered so far: those that a client has from an API."""
        for each in self.exchanges[self._read :]:
            self._issued |= _issued(each)
        self._read = len(self.exchanges)
        return self._issued


def _weight(differences: Sequence[RequestDifference]) -> int:
    return sum(each.neutral for each in differences)


def _issued(played: Played) -> set[str]:
    wire = spoken(played.request)
    if wire is None or played.response is None:
        return set()
    try:
        return {call.id for call in wire.read(played.response).calls if call.id}
    except WireError:
        return set()


def _refused() -> HttpResponse:
    """What every API's client raises at once: a client tries again what fails with 5xx."""
    message = "harness: this request was not recorded; the test says more when it ends"
    error = {"type": "harness_not_recorded", "code": 400, "status": "NOT_RECORDED", "message": message}
    body = json.dumps({"type": "error", "error": error}).encode()
    return HttpResponse(400, {"content-type": "application/json", EXHAUSTED: "1", "x-should-retry": "false"}, body)
