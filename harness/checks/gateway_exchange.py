"""Exchanges through a gateway, parsed at both ends, and the definition of the details that a gateway must preserve."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps

from harness.apis.api import Api
from harness.apis.eventstream import without_invalid_json
from harness.apis.jsonvalue import equal
from harness.apis.server import json_response
from harness.apis.view import CallView, ModelStep, RequestView, ResponseView, WireError
from harness.model.messages import JSON
from harness.results import DetailOutcome, Exchange, Severity
from harness.rules.evidence import parse_exchange
from harness.scenarios.schema import Scenario, StepSpec


@dataclass(frozen=True, slots=True)
class ApiPair:
    """The client's API and the upstream's API."""

    client: Api
    upstream: Api


@dataclass(frozen=True, slots=True)
class GatewaySide:
    """An HTTP exchange at one end of the gateway.

    `unread` is the reason why the wire reader cannot read the request or the complete response. In that case the view
    is `None` or partial.
    """

    exchange: Exchange
    request: RequestView | None
    response: ResponseView | None
    unread: str | None = None

    @property
    def is_cut(self) -> bool:
        """The connection or the stream ended too early."""
        response, view = self.exchange.response, self.response
        broken = response is None or response.delivery.ending != "complete"
        return broken or (view is not None and not view.complete)

    @property
    def is_answer(self) -> bool:
        """The response is complete and is not an error."""
        return self.response is not None and self.response.error is None and not self.is_cut

    @property
    def is_refusal(self) -> bool:
        """The upstream refuses the request, as opposed to returning an error that the scenario injects."""
        response = self.response
        return response is not None and response.error is not None and self.exchange.chat is None


_REFUSED_CONTENT = (400, 404, 405, 413, 415, 422, 501)
"""Status codes that reject a request's content, as opposed to authentication, rate limits or overload."""


@dataclass(frozen=True, slots=True)
class GatewayExchange:
    """A client request with all upstream exchanges that the gateway made for it.

    `client` is the exchange between client and gateway. `upstream` holds the exchanges between gateway and upstream.
    There are several if the gateway retried. `before` holds the earlier exchanges of the conversation. `own` is the
    scripted answer, encoded directly in the client's API. A detail that `own` lacks cannot be expressed in that API.
    """

    way: ApiPair
    number: int
    client: GatewaySide
    upstream: tuple[GatewaySide, ...] = ()
    before: tuple[GatewayExchange, ...] = field(default=(), repr=False)
    own: ResponseView | None = field(default=None, repr=False)

    @property
    def last(self) -> GatewaySide | None:
        """The upstream exchange from which the gateway made the client's answer."""
        return self.upstream[-1] if self.upstream else None

    @property
    def requests(self) -> tuple[RequestView, RequestView] | None:
        """The client's request and the gateway's request, or `None` unless both can be read."""
        if self.last is None or self.client.request is None or self.last.request is None:
            return None
        return self.client.request, self.last.request

    @property
    def responses(self) -> tuple[ResponseView, ResponseView] | None:
        """The upstream's response and the gateway's response, or `None` unless both are complete."""
        if self.last is None or not (self.last.is_answer and self.client.is_answer):
            return None
        sent, received = self.last.response, self.client.response
        return None if sent is None or received is None else (sent, received)

    @property
    def is_refused(self) -> bool:
        """The client's request was rejected, by the gateway itself or by the upstream."""
        error = self.client.response.error if self.client.response is not None else None
        status = 0 if error is None else error.meant or error.status
        if self.last is None:
            return status in _REFUSED_CONTENT
        return status in range(400, 500) and self.last.is_refusal


def side(api: Api, exchange: Exchange) -> GatewaySide:
    """Read an HTTP exchange."""
    parsed = parse_exchange(api, 0, exchange)
    return GatewaySide(exchange, parsed.request, parsed.response, parsed.unread)


def client_side(api: Api, exchange: Exchange) -> GatewaySide:
    """Read an HTTP exchange of the client, including as much of a malformed response as possible."""
    found = side(api, exchange)
    if found.response is not None or exchange.response is None:
        return found
    for done in (True, False):
        with contextlib.suppress(WireError):
            return replace(found, response=api.read(without_invalid_json(exchange.response, done=done)))
    return found


def gateway_exchanges(
    way: ApiPair, scenario: Scenario, client: Sequence[Exchange], upstream: Sequence[tuple[int, Exchange]]
) -> tuple[GatewayExchange, ...]:
    """Pair the client's exchanges with the upstream's. Each upstream exchange comes with the number of its client
    request.
    """
    script = [step for turn in scenario.turns for step in turn.model]
    found: list[GatewayExchange] = []
    for number, exchange in enumerate(client):
        sides = tuple(side(way.upstream, each) for during, each in upstream if during == number)
        step = sides[-1].exchange.chat if sides else None
        own = None if step is None else _own_answer(way.client, scenario, script[step])
        found.append(GatewayExchange(way, number, client_side(way.client, exchange), sides, tuple(found), own))
    return tuple(found)


def _own_answer(api: Api, scenario: Scenario, step: StepSpec) -> ResponseView | None:
    answer = ModelStep(
        step.text, step.thinking, step.named_calls, step.refusal, step.stop, (), step.truncated
    )  # raw wire parts belong to one API
    model = api.targets[0].model
    body = api.build(answer, scenario.id, model, api.profile_for(model))
    try:
        return api.read(json_response(body))
    except WireError:
        return None


@dataclass(frozen=True, slots=True)
class DetailResult:
    """Result of the check of one detail in one exchange.

    `message` describes how the detail was lost. `origin` points into the body that the gateway received, `pointer` into
    the body that it sent. `added` is set if the gateway invented the detail.
    """

    outcome: DetailOutcome
    message: str = ""
    origin: str = ""
    pointer: str = ""
    actual: JSON = None
    expected: JSON = None
    severity: Severity = Severity.ERROR
    added: bool = False


Outcomes = Iterable[DetailResult]


def _no_outcomes(_exchange: GatewayExchange) -> Outcomes:
    return ()


def _states_nothing(_request: RequestView) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class GatewayDetail:
    """A detail that a gateway must preserve.

    `id` is the rule id of its findings, and `name` its name in tables. `requirement` describes the correct behaviour,
    and `because` the consequence of a loss. `of_answer` is set if the detail comes from the upstream's response, not
    from the client's request. `check` yields nothing for an exchange without the detail. `stated` returns the detail's
    value in a request, for the comparison of refused requests with accepted ones. `severity` is the maximum severity of
    the findings.
    """

    id: str
    name: str
    requirement: str
    because: str
    check: Callable[[GatewayExchange], Outcomes] = _no_outcomes
    stated: Callable[[RequestView], str | bool] = _states_nothing
    of_answer: bool = False
    severity: Severity = Severity.ERROR


def exchange_detail(  # noqa: PLR0913 - all but the first three have a default
    id: str,  # noqa: A002 - as the field that it fills
    name: str,
    because: str,
    *,
    stated: Callable[[RequestView], str | bool] = _states_nothing,
    of_answer: bool = False,
    severity: Severity = Severity.ERROR,
) -> Callable[[Callable[[GatewayExchange], Outcomes]], GatewayDetail]:
    """Create a detail from a check function. The first line of the function's docstring is the requirement."""

    def make(check: Callable[[GatewayExchange], Outcomes]) -> GatewayDetail:
        requirement = (check.__doc__ or "").partition("\n")[0]
        return GatewayDetail(id, name, requirement, because, check, stated, of_answer, severity)

    return make


def request_detail(
    id: str,  # noqa: A002 - as the field that it fills
    name: str,
    because: str,
    *,
    stated: Callable[[RequestView], str | bool] = _states_nothing,
    severity: Severity = Severity.ERROR,
) -> Callable[[Callable[[RequestView, RequestView], Outcomes]], GatewayDetail]:
    """Create a detail from a function that compares the client's request with the gateway's. It runs only if both
    requests can be read.
    """

    def make(check: Callable[[RequestView, RequestView], Outcomes]) -> GatewayDetail:
        @wraps(check)
        def both(exchange: GatewayExchange) -> Outcomes:
            return check(*exchange.requests) if exchange.requests is not None else ()

        return exchange_detail(id, name, because, stated=stated, severity=severity)(both)

    return make


def response_detail(
    id: str,  # noqa: A002 - as the field that it fills
    name: str,
    because: str,
) -> Callable[[Callable[[ResponseView, ResponseView], Outcomes]], GatewayDetail]:
    """Create a detail from a function that compares the upstream's response with the gateway's. It runs only if both
    responses are complete.
    """

    def make(check: Callable[[ResponseView, ResponseView], Outcomes]) -> GatewayDetail:
        @wraps(check)
        def both(exchange: GatewayExchange) -> Outcomes:
            return check(*exchange.responses) if exchange.responses is not None else ()

        return exchange_detail(id, name, because, of_answer=True)(both)

    return make


def preserved_detail(*, same: bool) -> DetailResult:
    """Return the result for a detail that the gateway passed on, either unchanged (`same`) or translated."""
    return DetailResult(DetailOutcome.PRESERVED if same else DetailOutcome.TRANSLATED)


def lost_detail(  # noqa: PLR0913, PLR0917 - a loss with its evidence
    message: str,
    origin: str = "",
    pointer: str = "",
    actual: JSON = None,
    expected: JSON = None,
    severity: Severity = Severity.ERROR,
) -> DetailResult:
    """Return the outcome of a detail that is missing or changed at the other end."""
    return DetailResult(DetailOutcome.LOST, message, origin, pointer, actual, expected, severity)


def added_detail(message: str, pointer: str, actual: JSON, severity: Severity = Severity.ERROR) -> DetailResult:
    """Return the outcome of something that the gateway made up."""
    return DetailResult(DetailOutcome.LOST, message, "", pointer, actual, None, severity, added=True)


def matched_calls(sent: Iterable[CallView], received: Iterable[CallView]) -> Iterator[tuple[CallView, CallView]]:
    """Pair the calls of both ends in order, up to the first pair with different names."""
    for call, found in zip(sent, received, strict=False):
        if call.name != found.name:
            return
        yield call, found


def argument_outcomes(pairs: Iterable[tuple[CallView, CallView]]) -> Iterator[DetailResult]:
    """Compare the arguments of complete calls."""
    for call, found in pairs:
        if call.malformed is not None:
            continue
        if found.malformed is None and equal(call.arguments, found.arguments):
            yield preserved_detail(same=True)
        else:
            actual = found.arguments if found.malformed is None else found.malformed
            message = f"the arguments of the call of {call.name} arrive changed"
            yield lost_detail(message, call.arguments_pointer, found.arguments_pointer, actual, call.arguments)
