"""Findings of a gateway cell, with the bodies on both sides of the gateway, and an outcome for each checked detail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from harness.apis.jsonvalue import loads
from harness.apis.view import CallView, OpaqueView, RequestView, ResponseView, TextView, WireError
from harness.cassettes.redact.json_strings import REDACTED
from harness.checks.gateway_answer_details import ANSWERS, FAILURES
from harness.checks.gateway_exchange import DetailResult, GatewayDetail, GatewayExchange, GatewaySide, lost_detail
from harness.checks.gateway_history_details import HISTORY, STATE
from harness.checks.gateway_request_details import DECLARATIONS, PROMPTS, SETTINGS
from harness.model.messages import JSON
from harness.results import Blame, Chat, DetailOutcome, Exchange, Finding, FindingBody, Kind, Severity, Subject
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.rule import all_rules
from harness.runner.excerpts import excerpt, json_lines

DETAILS: tuple[GatewayDetail, ...] = (*PROMPTS, *DECLARATIONS, *SETTINGS, *HISTORY, *ANSWERS, *FAILURES)


if TYPE_CHECKING:  # keeps the import of `harness list rules` small
    from harness.checks.gateway_traffic import GatewayRun

SOURCE = "harness help gateways"

REFUSED = GatewayDetail(
    "gateway-refused",
    "requests",
    "The gateway accepts requests that the upstream accepts.",
    "the client cannot use a feature of its upstream",
    severity=Severity.WARNING,
)
UNREADABLE = GatewayDetail(
    "gateway-answer-unreadable",
    "answers",
    "The official SDK of the client's API can read the gateway's answers.",
    "the client has no answer",
    of_answer=True,
)
TURNED_AWAY = GatewayDetail(
    "gateway-turned-away",
    "requests",
    "The gateway's requests have the headers that a provider requires, and refer only to earlier answers.",
    "the provider refuses it before the model sees the conversation",
)
UNREACHED = GatewayDetail(
    "gateway-unreached",
    "upstreams",
    "The gateway routes each model name to its upstream.",
    "that upstream cannot be used",
)
OTHER_DETAILS = (REFUSED, UNREADABLE, TURNED_AWAY, UNREACHED)
"""Rules that the report's table of details does not count."""

RULES = frozenset(detail.id for detail in (*DETAILS, *OTHER_DETAILS))
"""Ids of all gateway rules. Limits of the upstreams are not included."""

_WIDTH_COLUMNS = 100
_MAX_LINES = 20

_RANK = {
    outcome: rank
    for rank, outcome in enumerate(
        (DetailOutcome.PRESERVED, DetailOutcome.TRANSLATED, DetailOutcome.REFUSED, DetailOutcome.LOST)
    )
}


@dataclass(frozen=True, slots=True)
class DirectRun:
    """Result of the same cell without the gateway.

    `possible` is set if the adapter of the upstream's API can express the cell. `broken` holds the limits that it
    exceeds even without the gateway. `requests` are the bodies of its requests.
    """

    possible: bool
    broken: frozenset[str] = frozenset()
    requests: Sequence[bytes] = ()


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """Judgement of a gateway cell. `outcomes` maps detail ids to outcomes. `taken` holds the client's accepted
    requests, `refused` the refused ones.
    """

    findings: tuple[Finding, ...] = ()
    outcomes: Mapping[str, DetailOutcome] = field(default_factory=dict[str, DetailOutcome])
    taken: tuple[RequestView, ...] = ()
    refused: tuple[RequestView, ...] = ()


def judge_run(run: GatewayRun, direct: Callable[[], DirectRun]) -> JudgedRun:
    """Judge a gateway cell. `direct` runs the cell without the gateway and is called only if needed."""
    outcomes: dict[str, DetailOutcome] = {}
    found: dict[tuple[str, str], Finding] = {}

    def note(detail: GatewayDetail, result: DetailResult, exchange: GatewayExchange) -> None:
        if exchange.is_refused and result.outcome is not DetailOutcome.LOST:
            return  # the request was refused with everything that it states
        if not result.added:
            outcomes[detail.id] = max(outcomes.get(detail.id, result.outcome), result.outcome, key=_RANK.__getitem__)
        if result.outcome is DetailOutcome.LOST:
            found.setdefault((detail.id, result.message), _finding(detail, result, exchange))

    for exchange in run.exchanges:
        for detail in DETAILS:
            for result in detail.check(exchange):
                note(detail, result, exchange)
    for result, exchange in _state(run):
        note(STATE, result, exchange)
    findings = (*found.values(), *_limits(run, direct), *_refusals(run, direct), *_unreadable(run, found))
    requests = [(each.client.request, each.is_refused) for each in run.exchanges if each.client.request is not None]
    return JudgedRun(
        _link(findings),
        outcomes,
        tuple(request for request, is_refused in requests if not is_refused),
        tuple(request for request, is_refused in requests if is_refused),
    )


def _link(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Link findings to their causes.

    If the gateway loses part of a request, the upstream may refuse that request. If it loses the text of a refusal, the
    stop reason may be wrong as a result, because some APIs derive it from that text.
    """

    def cause(finding: Finding) -> int | None:
        for at, other in enumerate(findings):
            if other is finding or other.exchange != finding.exchange or other.severity is not Severity.ERROR:
                continue
            if finding.kind is Kind.LIMIT and other.kind is Kind.LOSS and not other.of_response:
                return at
            if finding.rule == "gateway-answer-stop-reason" and other.rule == "gateway-answer-refusal":
                return at
        return None

    return tuple(replace(each, follows=cause(each)) for each in findings)


def _finding(
    detail: GatewayDetail,
    result: DetailResult,
    exchange: GatewayExchange,
    bodies: tuple[FindingBody, ...] | None = None,
) -> Finding:
    severity = max(result.severity, detail.severity, key=list(Severity).index)
    return Finding(
        detail.id,
        Kind.LOSS,
        severity,
        Blame.GATEWAY,
        result.message,
        result.pointer or result.origin or None,
        result.actual,
        result.expected,
        SOURCE,
        exchange.number,
        of_response=detail.of_answer,
        subject=Subject.RESPONSES if detail.of_answer else Subject.REQUESTS,
        bodies=tuple(_bodies(exchange, result, of_answer=detail.of_answer)) if bodies is None else bodies,
    )


def _client_bodies(exchange: GatewayExchange) -> tuple[FindingBody, ...]:
    request = _request("the client's request", exchange.client, "")
    return request, _answer("the gateway's answer", exchange.client, "")


def _bodies(exchange: GatewayExchange, result: DetailResult, *, of_answer: bool) -> Iterator[FindingBody]:
    """Yield the bodies at both ends, the sender's first."""
    upstream = exchange.last
    if of_answer:
        if upstream is not None:
            yield _answer("the upstream's answer", upstream, result.origin)
        yield _answer("the gateway's answer", exchange.client, result.pointer)
        return
    yield _request("the client's request", exchange.client, result.origin)
    if upstream is not None:
        yield _request("the gateway's request", upstream, result.pointer)


def _request(end: str, side: GatewaySide, pointer: str) -> FindingBody:
    body = side.exchange.request.body
    return FindingBody(end, body.decode(errors="replace"), pointer, _piece(lambda: loads(body), pointer, "/:"))


def _answer(end: str, side: GatewaySide, pointer: str) -> FindingBody:
    response, view = side.exchange.response, side.response
    if response is None:
        return FindingBody(end, "", pointer)
    kept = (f"{name}: {value}" for name, value in response.headers.items() if value != REDACTED)
    head = [f"HTTP {response.status}", *kept]
    text = "\n".join([*head, "", response.body.decode(errors="replace")])
    return FindingBody(end, text, pointer, () if view is None else _piece(lambda: view.body, pointer, *head))


def _piece(body: Callable[[], JSON], pointer: str, *head: str) -> tuple[str, ...]:
    """Return an excerpt around the pointer, or the beginning of the body if the pointer is empty."""
    try:
        return (
            excerpt(body(), pointer)
            if pointer
            else (*head, *(line.text for line in json_lines(body(), _WIDTH_COLUMNS)))[:_MAX_LINES]
        )
    except WireError:  # show the body as text
        return ()


def _state(run: GatewayRun) -> Iterator[tuple[DetailResult, GatewayExchange]]:
    rule = next(each for each in all_rules() if each.id == "opaque-state-lost")
    evidence = _with_refusals(run.upstream)
    numbers = {id(side.exchange): exchange for exchange in run.exchanges for side in exchange.upstream}
    without_state: set[int] = set()
    for violation in rule.check(evidence):
        exchange = numbers.get(id(run.upstream.parsed_exchanges[violation.exchange or 0].exchange))
        if exchange is None or violation.kind is Kind.CONVENTION:
            continue
        without_state.add(exchange.number)
        issued = next((each for each in exchange.before if _has_state(_upstream_response(each))), exchange)
        fieldless = issued.own is not None and not _has_state(issued.own)
        has_none = f"; {exchange.way.client.name} has no field of its own for it" if fieldless else ""
        bad = violation.severity or rule.severity
        severity = Severity.WARNING if fieldless and not exchange.is_refused else bad
        result = DetailResult(
            DetailOutcome.LOST,
            f"{violation.message}{has_none}",
            "",
            violation.pointer or "",
            violation.actual,
            violation.expected,
            severity,
        )
        yield result, exchange
    for exchange in run.exchanges:
        if (
            exchange.number not in without_state
            and exchange.requests
            and any(_has_state(_upstream_response(each)) for each in exchange.before)
        ):
            yield DetailResult(DetailOutcome.PRESERVED), exchange


def _with_refusals(evidence: Evidence) -> Evidence:
    """Return the upstream's evidence with each refused request assigned to the script response that it would have
    received.

    The upstream may refuse a request because the gateway lost part of it.
    """
    played, exchanges = 0, list[Exchange]()
    for parsed in evidence.parsed_exchanges:
        exchange, response = parsed.exchange, parsed.response
        if exchange.chat is not None:
            played = exchange.chat + 1
        elif response is not None and response.error is not None:
            exchange = replace(exchange, chat=played)
        exchanges.append(exchange)
    return Evidence(replace(evidence.transcript, exchanges=tuple(exchanges)))


def _upstream_response(exchange: GatewayExchange) -> ResponseView | None:
    return exchange.responses[0] if exchange.responses else None


def _has_state(view: ResponseView | None) -> bool:
    for part in view.parts if view is not None else ():
        if isinstance(part, OpaqueView) and part.returns and part.kind not in ("thought", "refusal"):
            return True
        if isinstance(part, CallView | TextView) and part.opaque is not None and not _is_label(part.opaque):
            return True
    return False


def _is_label(state: JSON) -> bool:
    """Return whether the state only labels text and contains no model state."""
    return isinstance(state, dict) and state.keys() == {"phase"}


def _limits(run: GatewayRun, direct: Callable[[], DirectRun]) -> Iterator[Finding]:
    """Yield the limits that the gateway's requests exceed although a direct request would not."""
    evidence, seen = run.upstream, set[str]()
    numbers = {id(side.exchange): exchange for exchange in run.exchanges for side in exchange.upstream}
    for parsed in evidence.parsed_exchanges:
        for violation in evidence.violations(parsed):
            without, exchange = direct(), numbers.get(id(parsed.exchange))
            theirs = _of_client(run, parsed, exchange) if exchange is not None else ()
            if not without.possible or violation.rule in (*without.broken, *theirs, *seen):
                continue
            seen.add(violation.rule)
            result = DetailResult(DetailOutcome.LOST, pointer=violation.pointer)
            yield Finding(
                violation.rule,
                Kind.LIMIT,
                Severity(violation.severity),
                Blame.GATEWAY,
                violation.message,
                violation.pointer,
                violation.actual,
                violation.expected,
                violation.source,
                None if exchange is None else exchange.number,
                subject=Subject.LIMITS,
                bodies=() if exchange is None else tuple(_bodies(exchange, result, of_answer=False)),
            )
    for each in run.rejected_requests:
        answer = f"{each.answer.rstrip('.')} ({each.reason})"
        message = f"the upstream rejects the gateway's request, {each.request}, with {answer}"
        yield Finding(TURNED_AWAY.id, Kind.LIMIT, Severity.ERROR, Blame.GATEWAY, message, source=SOURCE)


def _of_client(run: GatewayRun, parsed: ParsedExchange, exchange: GatewayExchange) -> list[str]:
    """Return the limits that the client's own request exceeds, if client and upstream use the same API."""
    if exchange.way.client is not exchange.way.upstream:
        return []
    request, rule_set = exchange.client.exchange.request, run.upstream.rule_set(parsed)
    return [each.rule for each in exchange.way.upstream.judge(request, rule_set)]


def _refusals(run: GatewayRun, direct: Callable[[], DirectRun]) -> Iterator[Finding]:
    for exchange in run.exchanges:
        response = exchange.client.response
        if not exchange.is_refused or exchange.last is not None or response is None or response.error is None:
            continue
        if direct().possible:
            error = response.error
            refused = f"the gateway refuses a request that {exchange.way.upstream.name} accepts"
            message = f"{refused}: HTTP {error.status}: {error.message}"
            yield _finding(REFUSED, lost_detail(message), exchange, _client_bodies(exchange))


def _unreadable(run: GatewayRun, found: Iterable[object]) -> Iterator[Finding]:
    chat = next((each for each in run.chats if each.error is not None), None)
    if chat is None or chat.error != "MalformedResponse" or any(True for _ in found) or not run.exchanges:
        return
    last: GatewayExchange = run.exchanges[-1]
    if last.last is not None and not last.last.is_answer:
        return  # nor could it be of the upstream's
    message = f"the client cannot read the gateway's answer: {chat.error_text}"
    yield _finding(UNREADABLE, lost_detail(message), last)


def unreached_finding(gateway_exchanges: Sequence[GatewayExchange], message: str) -> Finding:
    """Return the finding for a gateway that does not reach an upstream."""
    bodies = _client_bodies(gateway_exchanges[0]) if gateway_exchanges else ()
    found = Finding(UNREACHED.id, Kind.LOSS, Severity.ERROR, Blame.GATEWAY, message, source=SOURCE)
    return replace(found, subject=Subject.REQUESTS, bodies=bodies)


def unsupported_reason(chats: Sequence[Chat]) -> str | None:
    """Return why the client's API cannot express the scenario, or `None`."""
    return next((each.error_text or "" for each in chats if each.error == "Unsupported"), None)
