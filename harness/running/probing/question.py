"""What a probe asks about a fact of a target: a request that the fact is about, and its twin, which it is not about."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from harness import catalog
from harness.apis.api import Api
from harness.apis.fact import Fact
from harness.apis.facts import today
from harness.apis.law import OTHER, OWN, Law
from harness.apis.limit import Violation
from harness.apis.targets import Target
from harness.apis.twins import twins
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
    """Two requests, without a key. The fact is about `meant`; its `twin` differs in the fact's first condition."""

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
    if not fact.when:
        why = fact.unchecked or "it has no conditions, of which a request could be made"
        return Question(target, base_url, fact, None, why)
    pair = paired(api, fact, target.model, base_url, law)
    why = "" if pair else "no request could be made that it alone is about"
    return Question(target, base_url, fact, pair, why)


def paired(api: Api, fact: Fact, model: str, base_url: str, law: Law) -> Pair | None:
    """The pair against which the least is known beside the fact, of those that the API's smallest chats make.

    Of the twin nothing should be known, certain or not: where it is refused too, the pair tells nothing.

    `None`: none can be made, or the request of a fact that something is accepted would be refused for something else.
    """
    if api.smallest is None:
        return None
    best: tuple[tuple[int, ...], Pair] | None = None
    for body in api.smallest.bodies(model):
        made = twins(fact, body, api.schema_places)
        if made is None:
            continue
        meant, twin = (api.smallest.request(each, model, base_url) for each in made)
        beside = [each for each in api.judge(meant, law) if fact.id not in each.source.split(", ")]
        known = api.judge(twin, law), beside
        errors = [_errors(each) for each in known]
        if fact.verdict == "accepted" and any(errors):
            continue
        against = (*errors, *map(len, known))
        if best is None or against < best[0]:
            best = against, Pair(meant, twin)
    return best and best[1]


def _errors(violations: Iterable[Violation]) -> int:
    return sum(each.severity == "error" for each in violations)


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
