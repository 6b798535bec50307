"""Check of a gateway: runs its cells one after the other and counts the outcomes of each detail."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from harness import plugins
from harness.apis import registry
from harness.apis.fact_files import FactSelection
from harness.apis.profiles import ShippedTarget
from harness.apis.registry import Target
from harness.cassettes.redact import Redactor
from harness.cassettes.redact.secret_patterns import display_url
from harness.checks.finding_scope import EVERY_FINDING, FindingPolicy
from harness.checks.gateway_exchange import ApiPair, GatewayDetail, GatewayExchange, GatewaySide
from harness.checks.gateway_findings import (
    DETAILS,
    DirectRun,
    JudgedRun,
    judge_run,
    unreached_finding,
    unsupported_reason,
)
from harness.checks.gateway_traffic import (
    FIRST_SCENARIO,
    GatewayEndpoint,
    GatewayRun,
    Upstream,
    extras_unsupported,
    run_through_gateway,
    with_extras,
)
from harness.equivalence.request_meaning import is_model_name
from harness.model.errors import ChatError, UsageError
from harness.platform.environment import utc_now
from harness.results import (
    CellResult,
    CheckResult,
    ConversationRecord,
    DetailCounts,
    DetailOutcome,
    ExchangeRecord,
    Finding,
    Provenance,
    RunResult,
    Severity,
    Verdict,
)
from harness.rules.conversation_report import chat_messages, limit_bodies, max_conversation_chars, shown_exchange
from harness.rules.evidence import Evidence
from harness.runner.cells import VARIANTS, Cell, cells, not_applicable
from harness.runner.live import NO_SUCH_PATH, url_suggestion
from harness.runner.recorder import versions
from harness.runner.suite_run import OnResult, Plan
from harness.scenarios.schema import Scenario, Variant


def conversation_of(run: GatewayRun, redactor: Redactor, max_characters: int) -> ConversationRecord:
    """Return the conversation of a cell in about `max_characters` characters.

    Findings do not refer to its exchange numbers, because each finding contains both bodies.
    """
    words = chat_messages(run.chats, redactor)
    left = max_characters - sum(len(each.text) for each in words)
    return ConversationRecord(words, limit_bodies(_exchanges(run, redactor), left))


def _exchanges(gateway_run: GatewayRun, redactor: Redactor) -> Iterator[ExchangeRecord]:
    number = 0
    for exchange in gateway_run.exchanges:
        ends = [("client to gateway", exchange.client), *(("gateway to upstream", each) for each in exchange.upstream)]
        for end, side in ends:
            number -= 1
            yield _exchange(number, end, side, redactor)


def _exchange(number: int, end: str, side: GatewaySide, redactor: Redactor) -> ExchangeRecord:
    exchange = side.exchange
    shown = shown_exchange(number, exchange.request, exchange.response, side.response, redactor)
    return replace(shown, request=f"{end}: {shown.request}", chat=exchange.chat)


@dataclass(frozen=True, slots=True)
class GatewayRoute:
    """A column of the result: a client's API and an upstream.

    `target` is the client, with the model name that the gateway routes. `upstream` is the reference server's target,
    with the model that the gateway must request.
    """

    target: Target
    upstream: Target

    @property
    def way(self) -> ApiPair:
        """The APIs of the client and the upstream."""
        return ApiPair(registry.api(self.target.api), registry.api(self.upstream.api))


def gateway_route(
    client: ShippedTarget, upstream: ShippedTarget, models: Mapping[str, str], model: str, fact_selection: FactSelection
) -> GatewayRoute:
    """Return the route between two targets. `models` maps upstream targets to models. `model` is the model that the
    client requests.
    """
    there = _target(upstream, models.get(upstream.name, upstream.model), fact_selection)
    here = replace(_target(client, model, fact_selection), name=f"{client.api}>{upstream.name}")
    return GatewayRoute(here, there)


def _target(shipped: ShippedTarget, model: str, fact_selection: FactSelection) -> Target:
    profile = registry.api(shipped.api).profile_for(model, fact_selection)
    return Target(shipped.name, plugins.adapter(shipped.adapter), model, profile, shipped.name, fact_selection)


_Done: TypeAlias = tuple[GatewayRoute, CellResult, JudgedRun]


@dataclass(slots=True)
class GatewayCheck:
    """Check of one gateway at `endpoint`. The gateway sends its requests to the reference server `upstream`."""

    endpoint: GatewayEndpoint
    upstream: Upstream
    redactor: Redactor = field(default_factory=Redactor)
    policy: FindingPolicy = EVERY_FINDING
    conversations: bool = False
    _room: int = field(default=0, init=False)
    _direct: dict[tuple[str, str, Variant], DirectRun] = field(
        default_factory=dict[tuple[str, str, Variant], DirectRun], init=False
    )
    _reached: set[str] = field(default_factory=set[str], init=False)
    _unreached: dict[str, str] = field(default_factory=dict[str, str], init=False)

    @staticmethod
    def cells(
        pairs: Sequence[GatewayRoute], scenarios: Sequence[Scenario], variants: Sequence[Variant] = VARIANTS
    ) -> list[tuple[GatewayRoute, Cell]]:
        """Return the cells by route. The first cell of a route shows whether the gateway reaches the upstream."""
        return [(each, cell) for each in pairs for cell in cells(scenarios, [each.target], variants)]

    def __call__(
        self, cells: Sequence[tuple[GatewayRoute, Cell]], progress: OnResult = lambda _cell: None
    ) -> RunResult:
        """Run the cells, one after the other.

        Raises:
            UsageError: the gateway cannot be reached, or reaches none of its upstreams.
        """
        started, at = time.perf_counter(), utc_now()
        done: list[_Done] = []
        self._room = max_conversation_chars(len(cells)) if self.conversations else 0
        pairs = len({each.target.name for each, _ in cells})
        for each, cell in cells:
            done.append((each, *self._cell(each, cell)))
            progress(done[-1][1])
            if len(self._unreached) == pairs:
                raise UsageError(
                    f"check gateway {display_url(self.endpoint.url)}: {' '.join(self._unreached.values())}"
                )
        results = tuple(result for _, result, _ in done)
        return RunResult(
            "reference",
            results,
            versions=versions(),
            timing={"seconds": round(time.perf_counter() - started, 3)},
            played_at=at,
            check=CheckResult(gateway=tuple(_table(done))),
            **self.policy.outcome(results),
        )

    def _cell(self, each: GatewayRoute, cell: Cell) -> tuple[CellResult, JudgedRun]:
        result = replace(cell.result(), api=each.upstream.api)
        reason = not_applicable(cell, "reference") or extras_unsupported(cell.scenario.id, cell.target)
        if reason is not None:
            return replace(result, verdict=Verdict.NOT_APPLICABLE, reason=reason), JudgedRun()
        if each.target.name in self._unreached:
            reason = f"it was not run, because no request of this gateway reaches {each.upstream.name}"
            return replace(result, verdict=Verdict.INCONCLUSIVE, reason=reason), JudgedRun()
        unexpected = len(self.upstream.unexpected)
        what = run_through_gateway(cell, each.way, self.endpoint, self.upstream)
        declines = unsupported_reason(what.chats)
        if declines is not None:
            return replace(result, verdict=Verdict.NOT_APPLICABLE, reason=declines), JudgedRun()
        astray = self._routing_problem(each, cell, what, self.upstream.unexpected[unexpected:])
        if astray is not None:
            self._unreached[each.target.name] = astray
            return self._result(result, each, what, [unreached_finding(what.exchanges, astray)]), JudgedRun()
        judged = judge_run(what, lambda: self._directly(each, cell))
        return self._result(result, each, what, judged.findings), judged

    def _result(self, result: CellResult, each: GatewayRoute, what: GatewayRun, found: Sequence[Finding]) -> CellResult:
        provenance = Provenance("reference", model_requested=each.upstream.model)
        made = self.policy.judge(replace(result, provenance=provenance, exchanges=len(what.exchanges)), found)
        crashed = next((chat for chat in what.chats if chat.crashed), None)
        if crashed is not None and not any(finding.severity is Severity.ERROR for finding in made.findings):
            reason = f"{crashed.error}: {crashed.error_text}"
            made = replace(made, verdict=Verdict.ERROR, reason=reason, traceback=crashed.traceback)
        made = self.redactor.result(made)
        return replace(made, conversation=conversation_of(what, self.redactor, self._room)) if self._room else made

    def _directly(self, each: GatewayRoute, cell: Cell) -> DirectRun:
        key = (each.upstream.name, cell.scenario.id, cell.variant)
        if key not in self._direct:
            self._direct[key] = run_directly(Cell(cell.scenario, each.upstream, cell.variant))
        return self._direct[key]

    @staticmethod
    def _may_be_refused(cell: Cell, exchange: GatewayExchange) -> bool:
        """Return whether the request was refused, possibly because of its content. A missing path does not count, and
        the plain-text scenario contains nothing to refuse.
        """
        response = exchange.client.exchange.response
        is_there = response is not None and response.status not in NO_SUCH_PATH
        return cell.scenario.id != FIRST_SCENARIO and is_there and exchange.is_refused

    def _routing_problem(
        self, each: GatewayRoute, cell: Cell, what: GatewayRun, unexpected: Sequence[str]
    ) -> str | None:
        """Explain why the gateway does not reach the upstream, or return `None`. After the first success on a route,
        the result is always `None`.
        """
        if each.target.name in self._reached:
            return None
        models = [exchange.requests[1].model for exchange in what.exchanges if exchange.requests is not None]
        if models and not is_model_name(models[0] or "", each.upstream.model):
            return (
                f"the gateway requests the model {models[0]!r} of {each.upstream.name} instead of "
                f"{each.upstream.model!r}. Correct its configuration, or pass --upstream-model "
                f"{each.upstream.name}={models[0]}."
            )
        if any(exchange.upstream or self._may_be_refused(cell, exchange) for exchange in what.exchanges):
            self._reached.add(each.target.name)
            return None
        exchange = what.exchanges[0] if what.exchanges else None
        response = exchange.client.exchange.response if exchange is not None else None
        if exchange is None or response is None:
            return "the gateway does not answer. Is it running?"
        if exchange.client.is_answer:
            return (
                f"the gateway answers {each.target.model!r} without a request to the reference server: "
                f"{_required_route(each, self.upstream.origin)}"
            )
        error = exchange.client.response.error if exchange.client.response is not None else None
        reply = _sentence(error.message if error is not None else response.body.decode(errors="replace")[:200])
        answers = f"the gateway answers HTTP {response.status}"
        turned = next(iter(what.rejected_requests), None)
        if turned is not None:
            return (
                f"{answers}: {reply} The upstream rejects its {turned.request} with {_sentence(turned.answer)} The "
                f"reason: {turned.reason}. {_required_route(each, self.upstream.origin)}"
            )
        arrived = f" What arrived at the reference server: {'; '.join(unexpected)}." if unexpected else ""
        is_lost = response.status in NO_SUCH_PATH
        meant = (
            url_suggestion(each.way.client, self.endpoint.url, exchange.client.exchange.request.url) if is_lost else ""
        )
        return (
            f"{answers} and has sent no chat to the reference server: {reply}{arrived}{meant} "
            f"{_required_route(each, self.upstream.origin)}"
        )


def _sentence(text: str) -> str:
    return f"{text.strip().rstrip('.') or 'without words'}."


def _required_route(each: GatewayRoute, origin: str) -> str:
    base = origin + each.way.upstream.base_url_ending
    return (
        f"It must route the model name {each.target.model!r} to {each.upstream.model!r} of {each.upstream.api}, at "
        f"{base}. 'harness help gateways' shows how."
    )


def run_directly(cell: Cell) -> DirectRun:
    """Run a cell of an upstream's target against the reference server, without a gateway."""
    if (
        not_applicable(cell, "reference") or extras_unsupported(cell.scenario.id, cell.target, in_form=False)
    ) is not None:
        return DirectRun(possible=False)
    cell = replace(cell, target=with_extras(cell.scenario.id, cell.target))
    try:
        result, evidence = Plan(mode="reference").run([cell.target]).run_one(cell)
    except ChatError:
        return DirectRun(possible=False)
    if result.verdict is Verdict.NOT_APPLICABLE or evidence is None:
        return DirectRun(possible=False)
    is_possible = unsupported_reason(evidence.transcript.chats) is None
    requests = [each.request.body for each in evidence.transcript.exchanges]
    return DirectRun(is_possible, frozenset(_violated_limits(evidence)), requests)


def _violated_limits(evidence: Evidence) -> Iterator[str]:
    for parsed in evidence.parsed_exchanges:
        yield from (violation.rule for violation in evidence.violations(parsed))


def _table(done: Sequence[_Done]) -> Iterator[DetailCounts]:
    """Yield the number of cells per outcome, for each gateway detail and route.

    A detail counts as refused if a refused request states it and no accepted request states the same value. A
    loss takes precedence.
    """
    names = list(dict.fromkeys(gateway_route.target.name for gateway_route, _, _ in done))
    of_pair = {
        name: [(gateway_route, judged) for gateway_route, _, judged in done if gateway_route.target.name == name]
        for name in names
    }
    taken = {
        name: {
            (detail.id, detail.stated(request)) for _, judged in those for request in judged.taken for detail in DETAILS
        }
        for name, those in of_pair.items()
    }
    for detail in DETAILS:
        for name, those in of_pair.items():
            outcomes = [
                outcome for _, judged in those if (outcome := _outcome(detail, judged, taken[name])) is not None
            ]
            if outcomes:
                client, upstream = those[0][0].target.api, those[0][0].upstream.name
                numbers = {outcome.value: outcomes.count(outcome) for outcome in DetailOutcome}
                yield DetailCounts(client, upstream, detail.name, detail.of_answer, **numbers)


def _outcome(
    detail: GatewayDetail, judged: JudgedRun, taken: Container[tuple[str, str | bool]]
) -> DetailOutcome | None:
    outcome = judged.outcomes.get(detail.id)
    values = {value for request in judged.refused if (value := detail.stated(request))}
    is_refused = any((detail.id, value) not in taken for value in values)
    return DetailOutcome.REFUSED if is_refused and outcome is not DetailOutcome.LOST else outcome
