"""Ask providers whether facts still hold: with the smallest request that a fact is about, and with its twin."""

from __future__ import annotations

import datetime as dt
import difflib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, Self

import httpx2
import yaml

from harness import catalog
from harness.apis.api import Api
from harness.apis.examples import request_of
from harness.apis.fact import Example, Fact
from harness.apis.fact_files import today
from harness.apis.server import waiting_time
from harness.apis.services import OTHER, OWN, RuleSet
from harness.apis.targets import Target
from harness.apis.view import WireError
from harness.contract.errors import UnknownName, UsageError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import Usage
from harness.host.exceptions import shortened
from harness.running.backends import SECONDS
from harness.running.costs import cost
from harness.running.live import NO_SUCH_PATH, Live, way_out
from harness.tape.redact.address import shown
from harness.tape.transport import ALONE

_BYTES = 4
"""Bytes of JSON that count as one token: a rule of thumb for English."""

_UNBOUNDED = 256
"""Tokens that count for an answer to "Hello." that no bound keeps short."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests, without a key. The fact is about `meant`; its `twin` is another that it is not about."""

    meant: HttpRequest
    twin: HttpRequest


@dataclass(frozen=True, slots=True)
class Question:
    """A fact of a target, to be asked at a base URL. Without a `pair` there is nothing to send: `why` says so."""

    target: Target
    base_url: str
    fact: Fact
    pair: Pair | None
    why: str = ""


def questions(
    targets: Sequence[Target], base_urls: Mapping[str, str], service: str | None, ids: Sequence[str]
) -> list[Question]:
    """The facts of the targets that can be asked, in their order; or those with these ids, whether they can or not.

    `base_urls` says where each target is asked. `service` says whose facts they are; without one, the address does, and
    an unknown one stands in for the provider.

    Raises:
        UsageError: there is no such fact of the targets' APIs, or one of these has no requests that could be made here.
        UnknownName: there is no such service.
        FactsError: see `Facts.all`.
    """
    known = {fact.id for target in targets for fact in _all(target)}
    for each in ids:
        if each not in known:
            close = difflib.get_close_matches(each, known, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            apis = " ".join(f"--api {api}" for api in dict.fromkeys(target.api for target in targets))
            raise UsageError(f"--fact: unknown fact {each!r}.{guess} 'harness list facts {apis}' shows them.")
    return [each for target in targets for each in _of(target, base_urls[target.name], service, ids)]


def _of(target: Target, base_url: str, service: str | None, ids: Sequence[str]) -> Iterator[Question]:
    api = catalog.api(target.api)
    if api.minimal_request is None:
        raise UsageError(f"the target {target.name!r} cannot be probed: no request of {api.name!r} can be made here.")
    law = _law(api, target, base_url, service)
    holding = [fact for fact in target.profile.facts if fact.is_at(law.services)]
    for fact in holding if not ids else [fact for fact in _all(target) if fact.id in ids]:
        if fact in holding:
            question = _question(api, target, base_url, law, fact)
            if ids or question.pair is not None:
                yield question
        else:
            day = target.edition.day or today()
            why = f"it is not about {target.model} at the service {law.service!r} on {day}"
            yield Question(target, base_url, fact, None, why)


def _all(target: Target) -> tuple[Fact, ...]:
    return catalog.api(target.api).facts.together(target.api, target.edition.files).all()


def _law(api: Api, target: Target, base_url: str, service: str | None) -> RuleSet:
    services = api.services
    if service is None:
        law = services.rules_at(target.profile, target.model, base_url)
        return services.provider_rules(target.profile, target.model) if law.service == OTHER else law
    known = {OWN, *(each for fact in _all(target) for each in fact.service or ())}
    if service not in known:
        raise UnknownName("service", service, sorted(known), "--service")
    return services.rules_of(target.profile, service)


def _question(api: Api, target: Target, base_url: str, law: RuleSet, fact: Fact) -> Question:
    if fact.verdict == "behaviour":
        return Question(target, base_url, fact, None, "it is about what answers are like, and no request can ask that")
    if not fact.refuses and not fact.accepts:
        why = fact.unchecked or "it has no example of a request"
        return Question(target, base_url, fact, None, why)
    bases = api.facts.together(target.api, target.edition.files).bases
    pair = paired(api, fact, target.model, base_url, law, bases)
    why = "" if pair else "no request could be made that it alone is about"
    return Question(target, base_url, fact, pair, why)


def paired(  # noqa: PLR0913, PLR0917 - a fact, and the server that is probed
    api: Api, fact: Fact, model: str, base_url: str, law: RuleSet, bases: Mapping[str, Example]
) -> Pair | None:
    """The first example that a fact is about and the first that it is not about, which else is the smallest chat.

    `None`: there is none, or the request of a fact that something is accepted would be refused for something else.
    """
    about, other = (fact.refuses, fact.accepts) if fact.verdict == "refused" else (fact.accepts, fact.accepts[1:])
    if api.minimal_request is None or not about:
        return None
    chosen = {"model": model}
    meant, twin = (
        request_of(api, bases, {**each, **chosen}, model, base_url) for each in (about[0], other[0] if other else {})
    )
    known = (*api.judge(meant, law), *api.judge(twin, law))
    if fact.verdict == "accepted" and any(each.severity == "error" for each in known):
        return None
    return Pair(meant, twin)


def dollars(asked: Sequence[Question], most: int | None) -> tuple[int, Decimal | None, int]:
    """How many requests are sent at most, what they cost at most, and for how many no price is known.

    All are counted as if they were answered; providers charge nothing for what they refuse.
    """
    requests = [(each, request) for each in asked for request in _requests(each)][:most]
    prices = [_price(each, request) for each, request in requests]
    known = [price for price in prices if price is not None]
    return len(requests), (sum(known, Decimal(0)) if known else None), len(prices) - len(known)


def _requests(question: Question) -> Iterator[HttpRequest]:
    if question.pair is not None:
        yield question.pair.meant
        yield question.pair.twin


def _price(question: Question, request: HttpRequest) -> Decimal | None:
    target = question.target
    try:
        bound = catalog.api(target.api).view(request).settings.get("max_tokens")
    except WireError:  # what the fact is about
        bound = None
    said = bound.value if bound is not None and isinstance(bound.value, int) else _UNBOUNDED
    usage = Usage(-(-len(request.body) // _BYTES), said)
    return cost(target.api, target.model, usage, url=question.base_url)


Verdict = Literal["holds", "no longer holds", "cannot tell"]

_LONGEST = 400
"""Characters of an error that cannot be read."""

_NOT_JUDGED = {
    401: "the key was refused",
    402: "the account cannot pay",
    403: "the key may not do this",
    404: "the server does not have the path or the model",
    405: "the server does not have the path",
    408: "the server timed out",
    429: "the rate limit is reached",
}
"""Statuses in the 400s that say nothing about the request, unless the fact says that it is refused so."""


@dataclass(frozen=True, slots=True)
class Answer:
    """`untold` has the reason, and `words` are what the provider said; `status` is missing where nobody answered."""

    outcome: Literal["taken", "refused", "untold"]
    status: int | None = None
    words: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What was found out about a fact. `answer` is the one that says so, `why` how it does."""

    question: Question
    verdict: Verdict
    why: str
    answer: Answer | None = None


def answer(api: Api, fact: Fact, response: HttpResponse) -> Answer:
    """What a response says of the request. An error inside HTTP 200 counts as the status that it stands for."""
    try:
        view = api.read(response)
        error, whole = view.error, view.complete
    except WireError as damage:
        if response.status < 400:
            return Answer("untold", response.status, _text(response), f"its answer cannot be read: {damage}")
        error, whole = None, True
    if error is None and response.status < 400:
        return Answer("taken", response.status) if whole else Answer("untold", response.status, "", "it was cut off")
    status = response.status if error is None or error.meant is None else error.meant
    words = error.message if error is not None else _text(response)
    if status == fact.status or (400 <= status < 500 and status not in _NOT_JUDGED):
        return Answer("refused", status, words)
    reason = _NOT_JUDGED.get(status, "the server failed" if status >= 500 else "it is an error of no known kind")
    return Answer("untold", status, words, reason)


def _text(response: HttpResponse) -> str:
    return shortened(response.body.decode("utf-8", "replace"), _LONGEST)


def told(question: Question, answers: Sequence[Answer]) -> Told | None:
    """What the answers to the request, and then to its twin, make of the fact; `None`: the twin has to be asked."""
    meant = answers[0]
    refused_one = question.fact.verdict == "refused"
    if meant.outcome == "untold":
        return Told(question, "cannot tell", meant.reason, meant)
    if meant.outcome == "taken":
        if refused_one:
            return Told(question, "no longer holds", "the request that breaks it is taken", meant)
        return Told(question, "holds", "the request is taken", meant)
    if len(answers) == 1:
        return None
    twin = answers[1]
    if twin.outcome == "untold":
        return Told(question, "cannot tell", f"nothing is known of the twin: {twin.reason}", twin)
    if twin.outcome == "refused":
        return Told(question, "cannot tell", "another error came first: the twin is refused too", twin)
    if refused_one:
        return Told(question, "holds", "the request that breaks it is refused, and its twin is taken", meant)
    return Told(question, "no longer holds", "the request is refused, and its twin is taken", meant)


_OPPOSITE = {"refused": "accepted", "accepted": "refused"}


def proposal(api: str, found: Iterable[Told]) -> str:
    """A file of facts, for `--facts` or to be merged into the shipped one; without entries where all still hold.

    A probe has seen one model at one address: the new entries say no more, and the old ones have a note of it.
    """
    entries = [entry for each in found if each.verdict == "no longer holds" for entry in _entries(each, today())]
    head = "# Proposed by 'harness probe'. The form is that of harness/apis/facts.schema.json.\n"
    return head + yaml.safe_dump({"api": api, "facts": entries}, sort_keys=False, allow_unicode=True, width=110)


def _entries(found: Told, day: dt.date) -> Iterator[dict[str, Any]]:
    fact, question = found.question.fact, found.question
    model, url = question.target.model, shown(question.base_url)
    ended = max(fact.since or dt.date.min, day - dt.timedelta(days=1))
    seen = f"A probe of {model} on {day} found that it no longer holds; other models were not asked."
    yield _written(fact) | {"until": ended.isoformat(), "note": " ".join(filter(None, (fact.note, seen)))}
    verdict = _OPPOSITE[fact.verdict]
    new = {
        "id": f"{fact.id}-{verdict}-{day}",
        "verdict": verdict,
        "says": f"{'Taken' if verdict == 'accepted' else 'Refused'} since a probe found so: {fact.says}",
        "models": [model.removeprefix("models/")],
        "service": fact.service,
        "since": day.isoformat(),
        "words": found.answer.words if verdict == "refused" and found.answer else None,
        "status": found.answer.status if verdict == "refused" and found.answer else None,
        "evidence": [{"kind": "probe", "address": url, "date": day.isoformat()}],
        "when": _written(fact).get("when"),
        "refuses" if verdict == "refused" else "accepts": fact.accepts[:1] if verdict == "refused" else fact.refuses,
    }
    yield {key: value for key, value in new.items() if value}


def _written(fact: Fact) -> dict[str, Any]:
    return fact.model_dump(mode="json", by_alias=True, exclude_unset=True)


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
        if api.minimal_request is None:
            raise AssertionError(api.name)
        authorized = api.minimal_request.authorized(request, self._live.key(question.target))
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
