"""What a probe asks about a fact of a target: a request that the fact is about, and its twin, which it is not about."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from harness import catalog
from harness.apis.api import Api
from harness.apis.examples import request_of
from harness.apis.fact import Example, Fact
from harness.apis.facts import today
from harness.apis.law import OTHER, OWN, Law
from harness.apis.targets import Target
from harness.apis.view import WireError
from harness.contract.errors import UnknownName, UsageError
from harness.contract.http import HttpRequest
from harness.contract.model import Usage
from harness.running.costs import cost

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
    if api.smallest is None:
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


def _law(api: Api, target: Target, base_url: str, service: str | None) -> Law:
    services = api.services
    if service is None:
        law = services.law_at(target.profile, target.model, base_url)
        return services.provider_law(target.profile, target.model) if law.service == OTHER else law
    known = {OWN, *(each for fact in _all(target) for each in fact.service or ())}
    if service not in known:
        raise UnknownName("service", service, sorted(known), "--service")
    return services.law_of(target.profile, service)


def _question(api: Api, target: Target, base_url: str, law: Law, fact: Fact) -> Question:
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
    api: Api, fact: Fact, model: str, base_url: str, law: Law, bases: Mapping[str, Example]
) -> Pair | None:
    """The first example that a fact is about and the first that it is not about, which else is the smallest chat.

    `None`: there is none, or the request of a fact that something is accepted would be refused for something else.
    """
    about, other = (fact.refuses, fact.accepts) if fact.verdict == "refused" else (fact.accepts, fact.accepts[1:])
    if api.smallest is None or not about:
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
