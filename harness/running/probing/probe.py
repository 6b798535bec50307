"""Sends the questions of a probe, one after the other, and says what each answer makes of its fact."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Self

import httpx2

from harness import catalog
from harness.apis.api import Api
from harness.apis.failure import waiting_time
from harness.contract.errors import UsageError
from harness.contract.http import HttpRequest, HttpResponse
from harness.running.probing.answer import Answer, Told, answer, told
from harness.running.probing.question import Question
from harness.running.stages.live import NO_SUCH_PATH, Live, way_out
from harness.running.stages.routes import SECONDS
from harness.tape.transport import ALONE

_TRIES = 3
"""How often a request is sent that the server was too busy for."""

_BUSY = frozenset({429, 503, 529})

_LONGEST_WAIT = 60.0
"""Seconds; who asks to wait longer is not waited for."""

_NO_ACCESS = frozenset({401, 402})
"""What everything else would be answered as well."""


class Probe:
    """A probe of servers. `key_of` says what is sent as a key; `most` bounds the requests, `None`: nothing does."""

    def __init__(self, live: Live, most: int | None = None, wait: Callable[[float], None] = time.sleep) -> None:
        self.sent = 0
        self._live = live
        self._most = most
        self._wait = wait
        self._answered: set[str] = set()
        self._shut: dict[str, Answer] = {}
        line = httpx2.HTTPTransport(trust_env=False, limits=ALONE)
        self._client = httpx2.Client(transport=line, trust_env=False, timeout=SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    def __call__(self, asked: Sequence[Question]) -> Iterator[Told]:
        """Ask, and tell each as soon as it is known.

        Raises:
            UsageError: nobody answers where a target sends its requests, or the server has no such path.
        """
        for question in asked:
            yield self._told(question)

    def _told(self, question: Question) -> Told:
        if question.pair is None:
            return Told(question, "cannot tell", question.why)
        shut = self._shut.get(question.target.name)
        if shut is not None:
            return Told(question, "cannot tell", f"it was not asked: {shut.reason}")
        answers: list[Answer] = []
        for request in (question.pair.meant, question.pair.twin):
            if self._most is not None and self.sent >= self._most:
                return Told(question, "cannot tell", "it was not asked to the end: --max-requests is reached")
            answers.append(self._answer(question, request))
            found = told(question, answers)
            if found is not None:
                return found
        raise AssertionError("two answers always tell something")

    def _answer(self, question: Question, request: HttpRequest) -> Answer:
        api, name = catalog.api(question.target.api), question.target.name
        try:
            response = self._response(api, question, request)
        except httpx2.TransportError as error:
            if name not in self._answered:
                raise self._unreached(question, request, f"was not answered: {error}", []) from None
            return Answer("untold", reason=f"no answer came: {error}")
        found = answer(api, question.fact, response)
        if name not in self._answered and found.outcome == "untold" and response.status in NO_SUCH_PATH:
            raise self._unreached(
                question, request, f"was answered with HTTP {response.status}: {found.words}", [response.status]
            )
        self._answered.add(name)
        if found.outcome == "untold" and found.status in _NO_ACCESS:
            self._shut[name] = found
        return found

    def _response(self, api: Api, question: Question, request: HttpRequest) -> HttpResponse:
        """The answer, once the server is not too busy. Raises `httpx2.TransportError`."""
        if api.smallest is None:
            raise AssertionError(api.name)
        authorized = api.smallest.authorized(request, self._live.key(question.target))
        for tries in range(1, _TRIES + 1):
            self.sent += 1
            got = self._client.request(
                authorized.method, authorized.url, headers=dict(authorized.headers), content=authorized.body
            )
            response = HttpResponse(got.status_code, dict(got.headers.items()), got.content)
            pause = waiting_time(response.headers)
            pause = float(2**tries) if pause is None else pause
            is_bounded = self._most is not None and self.sent >= self._most
            if response.status not in _BUSY or tries == _TRIES or is_bounded or pause > _LONGEST_WAIT:
                return response
            self._wait(pause)
        raise AssertionError("the last try returns")

    def _unreached(self, question: Question, request: HttpRequest, happened: str, found: list[int]) -> UsageError:
        target = question.target
        api = catalog.api(target.api)
        given = None if question.base_url == api.provider_url else question.base_url
        return UsageError(
            f"the target {target.name!r} does not reach its API, so the probe was stopped: "
            f"{request.method} {request.url} {happened}. {way_out(target.name, given, api.base_url_ending, found)}"
        )
