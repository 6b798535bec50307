"""A server under test: how it is asked, and over which connection."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import httpx2

from harness.apis.api import Api
from harness.apis.departure import Strictly
from harness.apis.facts import SHIPPED, Edition
from harness.apis.failure import waiting_time
from harness.apis.law import Law
from harness.apis.profile import Profile
from harness.apis.questions import Body, Questions
from harness.contract.errors import UsageError
from harness.contract.http import AT_ONCE, Delivery, HttpRequest, HttpResponse
from harness.contract.model import ChatRequest

LONGEST = 1024
"""Tokens that an answer may take: enough for what is asked. A model that reasons takes more."""

NAME = "server"
"""The target of a check's cells, unless the server has a name of its own."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server of an API at a base URL, asked for a model; reports call it `name`. `bound` is the field that keeps its
    answers short, which may be `longest` tokens long unless a check is about that."""

    api: Api
    model: str
    base_url: str
    profile: Profile
    law: Law
    questions: Questions
    strictly: Strictly
    bound: str
    longest: int = LONGEST
    name: str = NAME

    @staticmethod
    def of(api: Api, model: str, base_url: str, longest: int = LONGEST, edition: Edition = SHIPPED) -> Server:
        """The server at a base URL, which is asked for what it takes by an edition of the facts.

        Raises:
            UsageError: nothing is known here of how a server of the API is asked.
            FactsError: see `Api.profile_for`.
        """
        if api.questions is None or api.departures is None or api.smallest is None:
            raise UsageError(f"--api {api.name}: 'harness check server' has no checks for this API.")
        profile = api.profile_for(model, edition)
        law = api.services.law_at(profile, model, base_url)
        bounds = api.questions.bounds
        own = api.is_provider(base_url)
        bound = bounds[-1] if own else bounds[0]  # the newest is the provider's own, and others know the oldest
        root = _root(base_url, api.questions.path)
        return Server(api, model, root, profile, law, api.questions, api.departures, bound, longest)

    def sources(self, source: str) -> str:
        """Those of the sources of a rule that are about this API, or all if none is."""
        own = [each for each in source.split(", ") if each.startswith(f"{self.api.name}-")]
        return ", ".join(own) or source

    def written(self, request: ChatRequest) -> Body:
        """The body of a request."""
        return self.questions.write(request, self.bound)

    def request(self, body: Body | bytes, *, stream: bool, model: str | None = None) -> HttpRequest:
        """A body as it is sent, without a key; one that is bytes goes as it is."""
        path = self.questions.stream_path if stream else self.questions.path
        url = self.base_url + path.format((model or self.model).removeprefix("models/"))
        headers = {"content-type": "application/json", **(self.api.smallest.headers if self.api.smallest else {})}
        if isinstance(body, bytes):
            return HttpRequest("POST", url, headers, body)
        made: dict[str, Any] = copy.deepcopy(body)
        if stream:
            made |= self.questions.streaming
        return HttpRequest("POST", url, headers, json.dumps(made, ensure_ascii=False).encode())


def _root(base_url: str, path: str) -> str:
    """The base URL without the version that the path begins with: SDKs add it or want it to be there, and people write
    it down either way."""
    return base_url.rstrip("/").removesuffix(f"/{path.split('/')[1]}")


_TRIES = 3
"""How often a request is sent that the server was too busy for."""

BUSY = frozenset({429, 503, 529})

_LONGEST_WAIT = 60.0
"""Seconds; who asks to wait longer is not waited for."""

Send = Callable[[HttpRequest], HttpResponse]


class Enough(Exception):
    """No more requests may be sent: `--max-requests` is reached."""


class Unanswered(Exception):
    """No answer came at all; the text says why."""


@dataclass
class Line:
    """Sends requests with the key and the `headers`, as often as a server that is busy wants, and never more than
    `most` of them.

    `send` replaces HTTP, for a server inside this process. `sent` counts the requests.
    """

    api: Api
    key: str
    most: int | None = None
    _: KW_ONLY
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    send: Send | None = None
    wait: Callable[[float], None] = time.sleep
    sent: int = field(default=0, init=False)
    _client: httpx2.Client | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._client is not None:
            self._client.close()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """The answer to a request, once the server is not too busy.

        Raises:
            Enough: it may not be sent.
            Unanswered: none came.
        """
        authorized = self.api.smallest.authorized(request, self.key) if self.api.smallest else request
        own = {name: value for name, value in authorized.headers.items() if name.lower() not in self.headers}
        authorized = replace(authorized, headers={**own, **self.headers})
        send = self.send or self._over_http
        for tries in range(1, _TRIES + 1):
            if self.sent == self.most:
                raise Enough
            self.sent += 1
            response = send(authorized)
            asked = waiting_time(response.headers)
            pause = float(2**tries) if asked is None else asked
            if response.status not in BUSY or tries == _TRIES or pause > _LONGEST_WAIT:
                return response
            self.wait(pause)
        raise AssertionError("the last try returns")

    def _over_http(self, request: HttpRequest) -> HttpResponse:
        import httpx2  # noqa: PLC0415 - the checks are listed without a way to any server

        from harness.running.backends import SECONDS  # noqa: PLC0415 - the same
        from harness.tape.transport import ALONE  # noqa: PLC0415 - the same

        if self._client is None:
            transport = httpx2.HTTPTransport(trust_env=False, limits=ALONE)
            self._client = httpx2.Client(transport=transport, trust_env=False, timeout=SECONDS)
        pieces: list[bytes] = []
        delivery = AT_ONCE
        try:
            with self._client.stream(
                request.method, request.url, headers=dict(request.headers), content=request.body
            ) as got:
                try:
                    pieces.extend(got.iter_bytes())
                except httpx2.TransportError:  # what came by then is judged
                    delivery = Delivery(ending="cut")
        except httpx2.TransportError as error:
            raise Unanswered(str(error) or type(error).__name__) from None
        return HttpResponse(got.status_code, dict(got.headers.items()), b"".join(pieces), delivery)
