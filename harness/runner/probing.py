"""Probes of providers, which test whether facts still hold.

A probe sends the smallest request that a fact is about, and a control request.
"""

from __future__ import annotations

import datetime as dt
import difflib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import httpx2
import yaml

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.examples import request_of
from harness.apis.fact import Example, Fact
from harness.apis.fact_files import today
from harness.apis.prices import cost
from harness.apis.profiles import OTHER, OWN, RuleSet
from harness.apis.registry import Target
from harness.apis.server import waiting_time
from harness.apis.view import WireError
from harness.cassettes.redact.secret_patterns import display_url
from harness.cassettes.transport import NO_KEEPALIVE
from harness.model.errors import UnknownName, UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import Usage
from harness.platform.exceptions import shorten
from harness.results import Spending
from harness.runner.backends import TIMEOUT_SECONDS
from harness.runner.live import NO_SUCH_PATH, LiveBackend, reach_hint

_BYTES_PER_TOKEN = 4
"""Typical number of bytes per token in English text."""

_UNBOUNDED_TOKENS = 256
"""Assumed length of a response, in tokens, if the request sets no limit."""


@dataclass(frozen=True, slots=True)
class ProbePair:
    """Two requests without a key. The fact applies to `tested`, but not to the control request."""

    tested: HttpRequest
    control: HttpRequest


@dataclass(frozen=True, slots=True)
class FactProbe:
    """A fact to probe, with a target and a base URL. Without a request, `pair` is `None` and `why` is the reason."""

    target: Target
    base_url: str
    fact: Fact
    pair: ProbePair | None
    why: str = ""


def fact_probes(
    targets: Sequence[Target], base_urls: Mapping[str, str], service: str | None, ids: Sequence[str]
) -> list[FactProbe]:
    """Return the facts of the targets to probe, in order.

    With `ids`, these are all facts with these ids. Without `ids`, these are all facts that can be probed. `base_urls`
    has the address of each target. `service` selects the facts of one service. If it is `None`, the address determines
    the service. An unknown address counts as the provider's.

    Raises:
        UsageError: The targets' APIs have no such fact, or no requests can be made for one of them.
        UnknownName: There is no such service.
        FactsError: See `Facts.all`.
    """
    known = {fact.id for target in targets for fact in _all_facts(target)}
    for each in ids:
        if each not in known:
            close = difflib.get_close_matches(each, known, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            apis = " ".join(f"--api {api}" for api in dict.fromkeys(target.api for target in targets))
            raise UsageError(f"--fact: unknown fact {each!r}.{guess} 'harness list facts {apis}' shows them.")
    return [each for target in targets for each in _probes_of(target, base_urls[target.name], service, ids)]


def _probes_of(target: Target, base_url: str, service: str | None, ids: Sequence[str]) -> Iterator[FactProbe]:
    api = registry.api(target.api)
    if api.minimal_request is None:
        raise UsageError(f"the target {target.name!r} cannot be probed: no request of {api.name!r} can be made here.")
    rule_set = _rule_set(api, target, base_url, service)
    holding = [fact for fact in target.profile.facts if fact.is_at(rule_set.services)]
    for fact in holding if not ids else [fact for fact in _all_facts(target) if fact.id in ids]:
        if fact in holding:
            question = _probe_of(api, target, base_url, rule_set, fact)
            if ids or question.pair is not None:
                yield question
        else:
            day = target.fact_selection.day or today()
            why = f"it is not about {target.model} at the service {rule_set.service!r} on {day}"
            yield FactProbe(target, base_url, fact, None, why)


def _all_facts(target: Target) -> tuple[Fact, ...]:
    return registry.api(target.api).facts.extended_by(target.api, target.fact_selection.files).all()


def _rule_set(api: Api, target: Target, base_url: str, service: str | None) -> RuleSet:
    services = api.services
    if service is None:
        rule_set = services.rules_at(target.profile, target.model, base_url)
        return services.provider_rules(target.profile, target.model) if rule_set.service == OTHER else rule_set
    known = {OWN, *(each for fact in _all_facts(target) for each in fact.service or ())}
    if service not in known:
        raise UnknownName("service", service, sorted(known), "--service")
    return services.rules_of(target.profile, service, target.model)


def _probe_of(api: Api, target: Target, base_url: str, rule_set: RuleSet, fact: Fact) -> FactProbe:
    if fact.verdict == "behaviour":
        return FactProbe(target, base_url, fact, None, "it is about what answers are like, and no request can ask that")
    if not fact.refuses and not fact.accepts:
        why = fact.unchecked or "it has no example of a request"
        return FactProbe(target, base_url, fact, None, why)
    bases = api.facts.extended_by(target.api, target.fact_selection.files).bases
    pair = probe_pair(api, fact, target.model, base_url, rule_set, bases)
    why = "" if pair else "no request could be made that it alone is about"
    return FactProbe(target, base_url, fact, pair, why)


def probe_pair(  # noqa: PLR0913, PLR0917 - a fact, and the server that is probed
    api: Api, fact: Fact, model: str, base_url: str, rule_set: RuleSet, bases: Mapping[str, Example]
) -> ProbePair | None:
    """Return requests for a fact: one that it is about, and one that it is not about.

    They are made from the fact's first examples. If there is no example of the second kind, the smallest chat is used.
    Return `None` if the fact has no example. Also return `None` for an "accepted" fact if another fact would reject
    either request.
    """
    about, other = (fact.refuses, fact.accepts) if fact.verdict == "refused" else (fact.accepts, fact.accepts[1:])
    if api.minimal_request is None or not about:
        return None
    chosen = {"model": model}
    tested, control = (
        request_of(api, bases, {**each, **chosen}, model, base_url) for each in (about[0], other[0] if other else {})
    )
    known = (*api.judge(tested, rule_set), *api.judge(control, rule_set))
    if fact.verdict == "accepted" and any(each.severity == "error" for each in known):
        return None
    return ProbePair(tested, control)


def estimate_cost(probes: Sequence[FactProbe], max_requests: int | None) -> Spending:
    """Return the maximum number of requests and their maximum cost.

    Every request is counted, although providers do not bill rejected requests.
    """
    pairs = [(each, each.pair) for each in probes if each.pair is not None]
    requests = [(each, request) for each, pair in pairs for request in (pair.tested, pair.control)][:max_requests]
    usages = [_usage(each, request) for each, request in requests]
    prices = [
        cost(each.target.api, each.target.model, usage, url=each.base_url)
        for (each, _), usage in zip(requests, usages, strict=True)
    ]
    return Spending.of("", len(requests), usages, prices)


def _usage(question: FactProbe, request: HttpRequest) -> Usage:
    try:
        bound = registry.api(question.target.api).view(request).settings.get("max_tokens")
    except WireError:  # the body is malformed because the fact is about that
        bound = None
    limit = bound.value if bound is not None and isinstance(bound.value, int) else _UNBOUNDED_TOKENS
    return Usage(-(-len(request.body) // _BYTES_PER_TOKEN), limit)


ProbeVerdict = Literal["holds", "no longer holds", "cannot tell"]

_MAX_ERROR_CHARACTERS = 400

_NOT_JUDGED = {
    401: "the key was refused",
    402: "the account cannot pay",
    403: "the key may not do this",
    404: "the server does not have the path or the model",
    405: "the server does not have the path",
    408: "the server timed out",
    429: "the rate limit is reached",
}
"""Reasons why a 4xx status says nothing about the request's content. They do not apply to a status that the fact
states.
"""


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """The outcome of a request: accepted, refused or unclear.

    `reason` explains an inconclusive outcome. `words` is the provider's message. `status` is `None` if there was no
    response.
    """

    outcome: Literal["accepted", "refused", "unclear"]
    status: int | None = None
    words: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe. `answer` is the decisive response, `why` the explanation."""

    question: FactProbe
    verdict: ProbeVerdict
    why: str
    answer: ProbeAnswer | None = None


def read_answer(api: Api, fact: Fact, response: HttpResponse) -> ProbeAnswer:
    """Return the outcome of a request. An error inside HTTP 200 counts as the status that it represents."""
    try:
        view = api.read(response)
        error, whole = view.error, view.complete
    except WireError as damage:
        if response.status < 400:
            return ProbeAnswer("unclear", response.status, _text(response), f"its answer cannot be read: {damage}")
        error, whole = None, True
    if error is None and response.status < 400:
        return (
            ProbeAnswer("accepted", response.status)
            if whole
            else ProbeAnswer("unclear", response.status, "", "it was cut off")
        )
    status = response.status if error is None or error.meant is None else error.meant
    words = error.message if error is not None else _text(response)
    if status == fact.status or (400 <= status < 500 and status not in _NOT_JUDGED):
        return ProbeAnswer("refused", status, words)
    reason = _NOT_JUDGED.get(status, "the server failed" if status >= 500 else "it is an error of no known kind")
    return ProbeAnswer("unclear", status, words, reason)


def _text(response: HttpResponse) -> str:
    return shorten(response.body.decode("utf-8", "replace"), _MAX_ERROR_CHARACTERS)


def conclude(question: FactProbe, answers: Sequence[ProbeAnswer]) -> ProbeResult | None:
    """Return the result for a fact, based on the responses to the request and its control request.

    Return `None` if the response to the control request is still needed.
    """
    tested = answers[0]
    refused_one = question.fact.verdict == "refused"
    if tested.outcome == "unclear":
        return ProbeResult(question, "cannot tell", tested.reason, tested)
    if tested.outcome == "accepted":
        if refused_one:
            return ProbeResult(question, "no longer holds", "the request that breaks it is accepted", tested)
        return ProbeResult(question, "holds", "the request is accepted", tested)
    if len(answers) == 1:
        return None
    control = answers[1]
    if control.outcome == "unclear":
        return ProbeResult(
            question, "cannot tell", f"the control request has no clear result: {control.reason}", control
        )
    if control.outcome == "refused":
        return ProbeResult(
            question, "cannot tell", "another error came first: the control request is refused, too", control
        )
    if refused_one:
        return ProbeResult(
            question,
            "holds",
            "the request that breaks it is refused, and the same request without the refused part is accepted",
            tested,
        )
    return ProbeResult(
        question,
        "no longer holds",
        "the request is refused, but the same request without the refused part is accepted",
        tested,
    )


_OPPOSITE = {"refused": "accepted", "accepted": "refused"}


def proposal(api: str, found: Iterable[ProbeResult]) -> str:
    """Return the content of a facts file, for `--facts` or to merge into the shipped file. It has no entries if all
    facts hold.

    New entries apply only to the probed model, because a probe tests one model at one address. Old entries get a note.
    """
    entries = [entry for each in found if each.verdict == "no longer holds" for entry in _entries(each, today())]
    head = "# Proposed by 'harness probe'. The form is that of harness/apis/facts.schema.json.\n"
    return head + yaml.safe_dump({"api": api, "facts": entries}, sort_keys=False, allow_unicode=True, width=110)


def _entries(found: ProbeResult, day: dt.date) -> Iterator[dict[str, Any]]:
    fact, question = found.question.fact, found.question
    model, url = question.target.model, display_url(question.base_url)
    ended = max(fact.since or dt.date.min, day - dt.timedelta(days=1))
    seen = f"A probe of {model} on {day} found that it no longer holds; other models were not tested."
    yield _fact_json(fact) | {"until": ended.isoformat(), "note": " ".join(filter(None, (fact.note, seen)))}
    verdict = _OPPOSITE[fact.verdict]
    new = {
        "id": f"{fact.id}-{verdict}-{day}",
        "verdict": verdict,
        "says": f"{'Accepted' if verdict == 'accepted' else 'Refused'} since a probe found so: {fact.says}",
        "models": [model.removeprefix("models/")],
        "service": fact.service,
        "since": day.isoformat(),
        "words": found.answer.words if verdict == "refused" and found.answer else None,
        "status": found.answer.status if verdict == "refused" and found.answer else None,
        "evidence": [{"kind": "probe", "address": url, "date": day.isoformat()}],
        "when": _fact_json(fact).get("when"),
        "refuses" if verdict == "refused" else "accepts": fact.accepts[:1] if verdict == "refused" else fact.refuses,
    }
    yield {key: value for key, value in new.items() if value}


def _fact_json(fact: Fact) -> dict[str, Any]:
    return fact.model_dump(mode="json", by_alias=True, exclude_unset=True)


_MAX_TRIES = 3

_BUSY_STATUSES = frozenset({429, 503, 529})

_MAX_WAIT_SECONDS = 60.0

_NO_ACCESS_STATUSES = frozenset({401, 402})
"""Statuses that every further request would also receive."""


class Probe:
    """A context manager that probes servers. `max_requests` limits the requests; `None` means no limit."""

    def __init__(
        self, live: LiveBackend, max_requests: int | None = None, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self.sent = 0
        self._live = live
        self._most = max_requests
        self._wait = wait
        self._answered: set[str] = set()
        self._shut: dict[str, ProbeAnswer] = {}
        line = httpx2.HTTPTransport(trust_env=False, limits=NO_KEEPALIVE)
        self._client = httpx2.Client(transport=line, trust_env=False, timeout=TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._client.close()

    def __call__(self, probes: Sequence[FactProbe]) -> Iterator[ProbeResult]:
        """Probe facts, and yield each result as soon as it is known.

        Raises:
            UsageError: A target's server does not respond, or does not know the path.
        """
        for question in probes:
            yield self._probe_fact(question)

    def _probe_fact(self, question: FactProbe) -> ProbeResult:
        if question.pair is None:
            return ProbeResult(question, "cannot tell", question.why)
        shut = self._shut.get(question.target.name)
        if shut is not None:
            return ProbeResult(question, "cannot tell", f"it was not tested: {shut.reason}")
        answers: list[ProbeAnswer] = []
        for request in (question.pair.tested, question.pair.control):
            if self._most is not None and self.sent >= self._most:
                return ProbeResult(question, "cannot tell", "it was not tested completely: --max-requests is reached")
            answers.append(self._answer(question, request))
            found = conclude(question, answers)
            if found is not None:
                return found
        raise AssertionError("two answers always tell something")

    def _answer(self, question: FactProbe, request: HttpRequest) -> ProbeAnswer:
        api, name = registry.api(question.target.api), question.target.name
        try:
            response = self._response(api, question, request)
        except httpx2.TransportError as error:
            if name not in self._answered:
                raise self._unreached_error(question, request, f"was not answered: {error}", []) from None
            return ProbeAnswer("unclear", reason=f"no answer came: {error}")
        found = read_answer(api, question.fact, response)
        if name not in self._answered and found.outcome == "unclear" and response.status in NO_SUCH_PATH:
            raise self._unreached_error(
                question, request, f"was answered with HTTP {response.status}: {found.words}", [response.status]
            )
        self._answered.add(name)
        if found.outcome == "unclear" and found.status in _NO_ACCESS_STATUSES:
            self._shut[name] = found
        return found

    def _response(self, api: Api, question: FactProbe, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response. If the server is busy, retry up to `_MAX_TRIES` times in total.

        Raises `httpx2.TransportError`.
        """
        if api.minimal_request is None:
            raise AssertionError(api.name)
        authorized = api.minimal_request.with_key(request, self._live.key(question.target))
        for tries in range(1, _MAX_TRIES + 1):
            self.sent += 1
            got = self._client.request(
                authorized.method, authorized.url, headers=dict(authorized.headers), content=authorized.body
            )
            response = HttpResponse(got.status_code, dict(got.headers.items()), got.content)
            pause = waiting_time(response.headers)
            pause = float(2**tries) if pause is None else pause
            is_bounded = self._most is not None and self.sent >= self._most
            if response.status not in _BUSY_STATUSES or tries == _MAX_TRIES or is_bounded or pause > _MAX_WAIT_SECONDS:
                return response
            self._wait(pause)
        raise AssertionError("the last try returns")

    def _unreached_error(
        self, question: FactProbe, request: HttpRequest, happened: str, found: list[int]
    ) -> UsageError:
        target = question.target
        api = registry.api(target.api)
        given = None if question.base_url == api.provider_url else question.base_url
        return UsageError(
            f"the target {target.name!r} does not reach its API, so the probe was stopped: "
            f"{request.method} {request.url} {happened}. {reach_hint(target.name, given, api.base_url_ending, found)}"
        )
