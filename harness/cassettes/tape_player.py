"""Playback of a recording to a user's test. Requests to known APIs are matched by meaning, other requests by their
text.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TypeAlias
from urllib.parse import urlsplit

from harness.apis.api import Api
from harness.apis.jsonvalue import canonical, join, keys, loads, resolve
from harness.apis.prefix import prefix_changes, prefix_pieces
from harness.apis.view import WireError
from harness.cassettes.cassette import Cassette
from harness.cassettes.cassette_files import read
from harness.cassettes.player import RequestDifference, asks_for_stream, differences, in_bodies, request_key
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import url_without_secrets
from harness.cassettes.tape_recorder import RequestFilter, TapeExchange, api_of, request_as_stored
from harness.model.errors import CassetteError
from harness.model.http import EXHAUSTED, HttpRequest, HttpResponse

Key: TypeAlias = tuple[str, ...]

_VOLATILE = frozenset(
    {
        "labels",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "user",
    }
)
"""Fields for user, storage or billing. They vary between runs or library versions and do not affect the response."""

_BOUNDARY = re.compile(r"multipart/.*boundary=\"?([^\";,]+)", re.IGNORECASE)


def key(request: HttpRequest) -> Key:
    """Return a key that is the same for equal requests. It consists of the target and the body, and ignores white
    space, key order and the boundary of a form. For known APIs it also ignores the host.
    """
    if api_of(request) is not None:
        method, path, query, body = request_key(request)
        return method, path, query, _text(body)
    try:
        body = canonical(loads(request.body))
    except (WireError, RecursionError):
        body = _without_boundary(request)
    return request.method, url_without_secrets(request.url), _text(body)


def is_comparable(recorded: HttpRequest, sent: HttpRequest) -> bool:
    """Return whether two requests are similar enough for a list of their differences to be useful."""
    one, other = api_of(recorded), api_of(sent)
    if one is not None or other is not None:
        return one is not None and other is not None and one.name == other.name
    return recorded.method == sent.method and _place(recorded) == _place(sent)


def request_differences(
    recorded: HttpRequest, sent: HttpRequest, issued: Container[str], ignored: Sequence[str]
) -> tuple[RequestDifference, ...]:
    """Return the differences between two comparable requests. Those with `changes_meaning` set change the meaning of
    the request and fail the test.

    For requests to unknown APIs, all differences count except the formatting of JSON. `issued` contains the call ids
    that the API has issued. `ignored` contains JSON pointers into a body, in which `*` matches any one step.
    Differences at or below these pointers are left out.
    """
    wire = api_of(sent)
    if wire is None:
        found = [replace(each, changes_meaning=True) for each in _outside_apis(recorded, sent)]
    else:
        found = [
            _with_settings_weighed(each, recorded, sent, wire)
            for each in differences(recorded, sent, wire, issued=issued)
        ]
        if not any(each.changes_meaning and each.section == "tools" for each in found):
            found = [*_changed_tools(recorded, sent, wire), *found]
        before, now = asks_for_stream(wire, recorded), asks_for_stream(wire, sent)
        if before != now:
            message = f"stream: recorded {str(before).lower()}, sent {str(now).lower()}"
            found = [*found, RequestDifference("/stream", before, now, changes_meaning=True, message=message)]
    return tuple(each for each in found if not any(is_below(each.pointer, pointer) for pointer in ignored))


def _changed_tools(recorded: HttpRequest, sent: HttpRequest, wire: Api) -> Iterator[RequestDifference]:
    """Yield the first change of the tools, for a model whose reasoning is bound to its tools.

    The comparison by meaning ignores the order of tools and of lists in schemas, but providers do not
    (anthropic-thinking-bound-to-prefix, openai-responses-gpt-6-2-reasoning-dropped).
    """
    if wire.profile_for(wire.model_of(sent) or "").changed_prefix is None or recorded.body == sent.body:
        return
    try:
        then, now = (
            [each for each in prefix_pieces(wire.view(request), loads(request.body)) if each.section == "tools"]
            for request in (recorded, sent)
        )
    except (WireError, RecursionError):
        return
    for change in prefix_changes(then, now):
        if change.kind == "tool-order":
            names = [[each.name for each in pieces] for pieces in (then, now)]
            message = f"the tools have another order: recorded {', '.join(names[0])}, sent {', '.join(names[1])}"
            yield RequestDifference(change.pointer, [*names[0]], [*names[1]], changes_meaning=True, message=message)
        elif change.kind == "tool-changed" and change.then and change.now:
            message = f"the tool {change.now.name} is declared in another way than recorded"
            one, other = (loads(piece.value) for piece in (change.then, change.now))
            yield RequestDifference(change.pointer, one, other, changes_meaning=True, message=message)


def _with_settings_weighed(
    found: RequestDifference, recorded: HttpRequest, sent: HttpRequest, wire: Api
) -> RequestDifference:
    """Set `changes_meaning` for a difference in a setting that providers read but the neutral view does not cover, such
    as a seed. Other differences are returned unchanged.
    """
    steps = keys(found.pointer)
    if found.changes_meaning or not steps or steps[0] in _VOLATILE or any(step.isdigit() for step in steps):
        return found
    is_unread = all(_is_unread(steps, request, wire) for request in (recorded, sent))
    return replace(found, changes_meaning=True) if is_unread else found


def _is_unread(steps: Sequence[str], request: HttpRequest, wire: Api) -> bool:
    try:
        body = loads(request.body)
        holder = resolve(body, join("", *steps[:-1]))
        if not isinstance(holder, dict) or steps[-1] not in holder:
            return True
        before = wire.view(request)
        del holder[steps[-1]]
        return wire.view(replace(request, body=json.dumps(body).encode())) == before
    except (WireError, RecursionError):
        return False


def is_below(pointer: str, pattern: str) -> bool:
    """Return whether a JSON pointer matches a pattern, or is below a location that matches it."""
    steps, wanted = pointer.split("/"), pattern.split("/")
    pairs = zip(wanted, steps, strict=False)
    return len(wanted) <= len(steps) and all(want in ("*", step) for want, step in pairs)


def _outside_apis(recorded: HttpRequest, sent: HttpRequest) -> list[RequestDifference]:
    found = list(in_bodies(_without_boundary(recorded), _without_boundary(sent)))
    one, other = urlsplit(url_without_secrets(recorded.url)).query, urlsplit(url_without_secrets(sent.url)).query
    if one != other:
        message = f"query: recorded {one!r}, sent {other!r}"
        found.insert(0, RequestDifference("", one, other, changes_meaning=True, message=message))
    return found


def _place(request: HttpRequest) -> tuple[str, str]:
    parts = urlsplit(request.url)
    return parts.netloc.rpartition("@")[2], parts.path


def _without_boundary(request: HttpRequest) -> bytes:
    found = _BOUNDARY.search(request.headers.get("content-type", ""))
    return request.body.replace(found[1].encode(), b"boundary") if found else request.body


def _text(body: str | bytes) -> str:
    return body if isinstance(body, str) else body.decode("latin-1")


def load(path: Path) -> Cassette:
    """Load a cassette for a test, written by any recorder.

    Raises:
        CassetteMissing: the file does not exist.
        CassetteError: the file cannot be read, is not a cassette, or contains an invalid request URL.
    """
    cassette = read(path)
    for at, each in enumerate(cassette.interactions):
        try:
            urlsplit(each.request.url)
        except ValueError as error:
            reason = f"the address {each.request.url!r} is none ({error}): somebody has written over it."
            raise CassetteError(str(path), reason, f"interaction {at}") from None
    return cassette


class TapePlayer:
    """Responds to a test's requests from a cassette; thread-safe. Without a cassette, every recordable request is
    rejected.

    A request gets the first unused response of an equal request. If there is none, it gets the response of the most
    similar request, so that the test continues and reports all differences at its end. If no comparable request is
    left, it is rejected with an error that clients do not retry.

    `redactor` creates the object that removes secrets from requests, in the same way as they were removed from the
    recorded ones.
    """

    def __init__(
        self,
        cassette: Cassette | None,
        taken: RequestFilter,
        redactor: Callable[[Sequence[HttpRequest]], Redactor],
        ignored: Sequence[str] = (),
    ) -> None:
        self.exchanges: list[TapeExchange] = []
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

    def handle(self, request: HttpRequest) -> HttpResponse | None:
        """Return the response to a request, or `None` if the request is to be sent over the network."""
        if not self._taken(request):
            return None
        request = replace(request, url=url_without_secrets(request.url))
        with self._lock:
            found, differences = self._find(request)
            if found is None:
                self.exchanges.append(TapeExchange(request))
                return _refusal()
            self._played[found] = True
            recorded = self._interactions[found]
            self.exchanges.append(TapeExchange(request, self._indices[found], recorded, differences))
        return recorded.response

    @property
    def unused(self) -> list[tuple[int, HttpRequest]]:
        """The recorded requests that the test did not send, each with its index."""
        pairs = zip(self._indices, self._interactions, self._played, strict=True)
        return [(index, each.request) for index, each, played in pairs if not played]

    def _find(self, request: HttpRequest) -> tuple[int | None, tuple[RequestDifference, ...]]:
        left = [at for at, played in enumerate(self._played) if not played]
        if not left:
            return None, ()
        first = self._interactions[left[0]].request
        if (first.method, first.url, first.body) == (request.method, request.url, request.body):
            return left[0], ()
        clean = request_as_stored(request, self._redactor([request]))  # like the recorded requests
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
            differences = request_differences(recorded, request, self._ids(), self._ignored)
            if found is None or _weight(differences) < _weight(least):
                found, least = at, differences
            if not _weight(least):
                break
        return found, least

    @cached_property
    def _index(self) -> Mapping[Key, deque[int]]:
        index: defaultdict[Key, deque[int]] = defaultdict(deque)
        for at, each in enumerate(self._interactions):
            index[key(replace(each.request, url=url_without_secrets(each.request.url)))].append(at)
        return index

    def _ids(self) -> set[str]:
        """Return the call ids that the API has issued to the client, taken from the responses so far."""
        for each in self.exchanges[self._read :]:
            self._issued |= _issued_ids(each)
        self._read = len(self.exchanges)
        return self._issued


def _weight(differences: Sequence[RequestDifference]) -> int:
    return sum(each.changes_meaning for each in differences)


def _issued_ids(played: TapeExchange) -> set[str]:
    wire = api_of(played.request)
    if wire is None or played.response is None:
        return set()
    try:
        return {call.id for call in wire.read(played.response).calls if call.id}
    except WireError:
        return set()


def _refusal() -> HttpResponse:
    """Return an error that the client of every API raises at once, instead of retrying as it would for a 5xx."""
    message = "harness: this request was not recorded; see the end of the test's output"
    error = {"type": "harness_not_recorded", "code": 400, "status": "NOT_RECORDED", "message": message}
    body = json.dumps({"type": "error", "error": error}).encode()
    return HttpResponse(400, {"content-type": "application/json", EXHAUSTED: "1", "x-should-retry": "false"}, body)
