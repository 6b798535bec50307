"""The cost of requests, the estimate for a recording, and the budget in US dollars that limits it.

Prices are the list prices in the installed package `genai-prices`; nothing is downloaded. Contracts, batches and
service tiers are ignored. Every cache write is priced as a five-minute one. Some prices depend on the length of a
request, so each request is priced separately.

Before a request is sent, its maximum cost is reserved. The input is the larger of the planned request and the
conversation so far. The output is the longest response that the request allows. The reservation is replaced by the
actual cost once the response reports its tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from threading import Lock

from harness import plugins
from harness.apis import registry
from harness.apis.api import Api
from harness.apis.prices import PricedModel, cost, priced_models, provider_url
from harness.apis.registry import Target
from harness.apis.view import ResponseView, WireError
from harness.model.errors import UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import Usage
from harness.model.protocols import Capability
from harness.reference_server.script_session import ScriptSession
from harness.results import Exchange, Provenance, Spending
from harness.results.run_result import CellKey
from harness.rules.evidence import Evidence, ParsedEmbeddingExchange, ParsedExchange
from harness.runner.backends import ReplayBackend
from harness.runner.cells import Cell, not_applicable
from harness.runner.recorder import CellNotRecorded
from harness.runner.tool_loop import ADAPTER_EXCEPTIONS, run_scenario


def spending(evidence: Evidence, provenance: Provenance) -> Spending:
    """Return the cost of a cell's requests, based on the usage that the responses report.

    Responses of the reference server are priced as the provider's. Recordings are priced as of the day they were made.
    """
    transcript = evidence.transcript
    day = _day(provenance.recorded_at)
    is_real = provenance.origin != "reference" and provider_url(transcript.api) is not None

    def price_of(parsed: ParsedExchange, usage: Usage) -> Decimal | None:
        served = parsed.response.model if parsed.response else None
        priced_model = _requested_model(parsed) or transcript.model
        url = parsed.exchange.request.url if is_real else None
        for model in dict.fromkeys(filter(None, (served, priced_model))):
            dollars = cost(transcript.api, model, usage, url=url, day=day)
            if dollars is not None:
                return dollars
        return None

    sent = [parsed for parsed in evidence.parsed_exchanges if not parsed.is_made_up]
    paid = [(parsed, _usage(evidence, parsed)) for parsed in sent if not _is_refused(parsed)]
    prices = [None if parsed.is_cut else price_of(parsed, usage) for parsed, usage in paid]
    model = next(filter(None, map(_requested_model, sent)), None) or transcript.model
    return Spending.of(model, len(sent), (usage for _, usage in paid), prices)


def paid_usage(api: str, exchange: Exchange) -> Usage | None:
    """Return the tokens that a request is billed for, or `None` if the response does not report them."""
    wire, response = registry.api(api), exchange.response
    if response is None:
        return None
    if response.status >= 400:
        return Usage(0, 0)
    try:
        view = wire.read(response)
    except WireError:
        view = None
    if view is not None and view.usage.output_tokens is not None:
        return view.usage
    counted = wire.embeddings.usage if wire.embeddings is not None else None
    usage = counted(response) if counted is not None else None
    return usage if usage is not None and usage.input_tokens is not None else None


def _requested_model(parsed: ParsedExchange) -> str | None:
    return (
        parsed.embedding_request.model
        if isinstance(parsed, ParsedEmbeddingExchange) and parsed.embedding_request
        else None
    )


def _usage(evidence: Evidence, parsed: ParsedExchange) -> Usage:
    if parsed.response is not None:
        return parsed.response.usage
    embeddings, response = evidence.api.embeddings, parsed.exchange.response
    if embeddings is None or embeddings.usage is None or response is None:
        return Usage()
    came = isinstance(parsed, ParsedEmbeddingExchange) and parsed.vectors is not None
    return embeddings.usage(response) if came else Usage()


def _day(recorded_at: str | None) -> date | None:
    try:
        return date.fromisoformat((recorded_at or "")[:10])
    except ValueError:  # no recording, or an edited cassette
        return None


def _is_refused(parsed: ParsedExchange) -> bool:
    """Return whether the request was rejected or failed. Providers do not bill such requests."""
    return parsed.exchange.response is not None and parsed.exchange.response.status >= 400


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model of an API.

    `vision` and `thinking` report whether the API's adapter supports the feature with this model; `None` if no source
    documents it. `context` is the size of the context window in tokens, or `None` if unknown. `targets` lists the
    shipped targets that use this model. Some ids name a model family, such as `gpt-4o`, and some models have no chat
    API.
    """

    id: str
    api: str
    profile: str
    vision: bool | None
    thinking: bool | None
    context: int | None = None
    deprecated: bool = False
    targets: tuple[str, ...] = ()


def models(api: str) -> tuple[ModelInfo, ...]:
    """Return the models of an API, sorted by name. No provider is contacted.

    A capability is reported only if a source documents it for exactly this model: a price for images or reasoning, or
    the profile of a shipped target.

    Raises:
        UnknownName: There is no such API.
    """
    of_api = registry.api(api)
    shipped = of_api.targets
    capabilities = plugins.adapter(shipped[0].adapter).capabilities
    known = {each.id: each for each in priced_models(api, shipped[0].model)}
    for each in shipped:  # a provider resolves some names to another model
        known.setdefault(each.model, PricedModel(each.model, None, deprecated=False))

    def info(model: PricedModel) -> ModelInfo:
        profile = of_api.profile_for(model.id)
        shipped_as = tuple(each.name for each in shipped if each.model == model.id)
        able = capabilities - profile.lacks
        thinks = model.reasoning or (bool(shipped_as) and profile.thinking != "none")
        return ModelInfo(
            model.id,
            api,
            profile.name,
            _capability_state(Capability.VISION in able, is_said=model.images),
            _capability_state(Capability.THINKING in able, is_said=thinks),
            model.context,
            model.deprecated,
            shipped_as,
        )

    return tuple(info(known[name]) for name in sorted(known))


def _capability_state(is_able: bool, *, is_said: bool) -> bool | None:
    if not is_able:
        return False
    return True if is_said else None


_BYTES_PER_TOKEN = 4
"""A rule of thumb for English."""


def estimate(
    cells: Sequence[Cell], *, base_urls: Mapping[str, str] | None = None, max_requests: int | None = None
) -> dict[str, Spending]:
    """Estimate the cost of the cells by target, without network traffic.

    Request tokens are estimated from the size of the body. Response tokens are estimated from the script, capped at the
    request's token limit. A real model may write more. `base_urls` maps targets to servers that replace their
    providers. `max_requests` is the maximum number of requests to count.
    """
    estimator = _Estimator(base_urls or {}, max_requests)
    with ReplayBackend(()) as backend:
        for cell in cells:
            try:
                estimator.add_cell(cell, backend)
            except _LimitReached:
                break
    return {target: Spending.sum_of(parts) for target, parts in estimator.parts.items()}


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """Estimated tokens of a planned request.

    `read` counts the request and `written` its scripted response. `bound` is the request's token limit: `None` for no
    limit, 0 for embeddings.
    """

    read: int
    written: int
    bound: int | None


def plan_requests(cells: Sequence[Cell]) -> dict[CellKey, list[PlannedRequest]]:
    """Return the planned requests of each cell, without network traffic. Cells whose adapter cannot run on this machine
    have none.
    """
    estimator = _Estimator({}, None)
    with ReplayBackend(()) as backend:
        for cell in cells:
            estimator.add_cell(cell, backend)
    return estimator.requests


class _Estimator:
    def __init__(self, base_urls: Mapping[str, str], max_requests: int | None) -> None:
        self.parts: dict[str, list[Spending]] = {}
        self.requests: dict[CellKey, list[PlannedRequest]] = {}
        self._base_urls = base_urls
        self._max_requests = max_requests
        self._begun = 0

    def add_cell(self, cell: Cell, backend: ReplayBackend) -> None:
        """Run one cell against the script and add the estimated cost of its requests. Raises `_LimitReached`."""
        target = cell.target
        wire = registry.api(target.api)
        session = ScriptSession(cell.scenario, wire, target.model, target.profile)

        def handle(request: HttpRequest) -> HttpResponse:
            response = session(request)
            if response.status < 400:
                self._note(cell, wire, request, response)
            return response

        with backend.endpoint(target, handle) as endpoint:
            try:
                run_scenario(cell.scenario, target, endpoint, self._begin, cell.variant)
            except _LimitReached:
                raise
            except ADAPTER_EXCEPTIONS:  # the recording will report it
                return

    def _begin(self, _chat: int) -> None:
        if self._begun == self._max_requests:
            raise _LimitReached
        self._begun += 1

    def _note(self, cell: Cell, wire: Api, request: HttpRequest, response: HttpResponse) -> None:
        target, model, tokens, most = cell.target, cell.target.model, 0, None
        if cell.scenario.embeddings is not None and wire.embeddings is not None:
            model, most = wire.embeddings.view(request).model or model, 0
        else:
            tokens = _tokens(_written_text(wire.read(response)))
            bound = wire.view(request).settings.get("max_tokens")
            if bound is not None and isinstance(bound.value, int):
                tokens, most = min(tokens, bound.value), bound.value
        usage = Usage(_tokens(request.body), tokens)
        self.requests.setdefault(cell.key, []).append(PlannedRequest(_tokens(request.body), tokens, most))
        dollars = cost(target.api, model, usage, url=self._base_urls.get(target.name))
        self.parts.setdefault(target.name, []).append(Spending.of(model, 1, [usage], [dollars]))


class _LimitReached(Exception):  # not an error: the recording may send nothing more
    pass


def _written_text(view: ResponseView) -> bytes:
    calls = [json.dumps({call.name: call.arguments}, ensure_ascii=False) for call in view.calls]
    return "".join([view.text, *calls]).encode("utf-8", "backslashreplace")


def _tokens(text: bytes) -> int:
    return -(-len(text) // _BYTES_PER_TOKEN)


UNBOUNDED_TOKENS = 4096
"""The assumed length of a response if its request sets no limit."""


class Budget:
    """A budget of `limit` US dollars for all cells of a run. Thread-safe."""

    def __init__(self, limit: Decimal) -> None:
        self.limit = limit
        self._requests: Mapping[CellKey, Sequence[PlannedRequest]] = {}
        self.spent = Decimal(0)
        self._held = Decimal(0)
        self._lock = Lock()

    @staticmethod
    def check(targets: Sequence[Target]) -> None:
        """Check that each target's model has a known price. Raises `UsageError`."""
        for target in targets:
            if cost(target.api, target.model, Usage(1000, 1000)) is None:
                raise UsageError(
                    f"--budget: no price is known for {target.model} of the target {target.name!r}, so the budget "
                    "could not be enforced. Leave out that target, or --budget."
                )

    def plan_cells(self, cells: Sequence[Cell]) -> None:
        """Plan the requests of the cells that are about to run, so that `account` knows their maximum cost."""
        self._requests = plan_requests([cell for cell in cells if not_applicable(cell, "live") is None])

    def account(self, cell: Cell, exchanges: Sequence[Exchange]) -> CellBudget:
        """Return the budget of a cell. `exchanges` is the live list of the cell's exchanges; later ones are appended to
        it.
        """
        return CellBudget(self, cell.target, self._requests.get(cell.key, ()), exchanges)

    def hold(self, dollars: Decimal) -> None:
        """Reserve the cost of a request. Raises `CellNotRecorded` if it exceeds the limit."""
        with self._lock:
            if self.spent + self._held + dollars > self.limit:
                raise CellNotRecorded(
                    f"not sent: ${self.spent:.4f} of the budget of ${self.limit:f} is spent, what is under way may "
                    f"cost ${self._held:.4f}, and this request ${dollars:.4f}"
                )
            self._held += dollars

    def settle(self, held: Decimal, dollars: Decimal) -> None:
        """Replace a reservation by the actual cost."""
        with self._lock:
            self._held -= held
            self.spent += dollars


class CellBudget:
    """Tracks the cost of one cell.

    `requests` are the planned requests. `exchanges` is the live list of exchanges; later ones are appended to it.
    """

    def __init__(
        self, budget: Budget, target: Target, requests: Sequence[PlannedRequest], exchanges: Sequence[Exchange]
    ) -> None:
        self._budget = budget
        self._target = target
        self._requests = requests
        self._exchanges = exchanges
        self._settled = 0
        self._held = Decimal(0)
        self._context = 0

    def open(self, chat: int) -> None:
        """Reserve the cost of a chat before it is sent. Raises `CellNotRecorded`."""
        self.settle()
        known = self._requests[min(chat, len(self._requests) - 1)] if self._requests else _UNKNOWN_REQUEST
        dollars = self._cost(Usage(max(known.read, self._context), self._cache_write_tokens(known))) or Decimal(0)
        self._budget.hold(dollars)
        self._held = dollars

    def settle(self) -> None:
        """Replace the reservation by the actual cost of the responses received since the last call."""
        done = self._exchanges[self._settled :]
        self._budget.settle(self._held, sum((self._cost_of(each) for each in done), Decimal(0)))
        self._settled, self._held = len(self._exchanges), Decimal(0)

    def _cache_write_tokens(self, request: PlannedRequest) -> int:
        return max(request.written, UNBOUNDED_TOKENS) if request.bound is None else request.bound

    def _cost_of(self, exchange: Exchange) -> Decimal:
        usage = paid_usage(self._target.api, exchange)
        if usage is None:
            return self._held
        self._context = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        found = self._cost(Usage(usage.input_tokens, usage.output_tokens or 0))
        return self._held if found is None else found

    def _cost(self, usage: Usage) -> Decimal | None:
        return cost(self._target.api, self._target.model, usage)


_UNKNOWN_REQUEST = PlannedRequest(UNBOUNDED_TOKENS, UNBOUNDED_TOKENS, None)
"""The assumed request of a cell whose adapter cannot run on this machine."""
