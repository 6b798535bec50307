"""The costs of recording, estimated before anything is sent, and a budget in money that is kept while it is sent.

A request is held to cost what its text comes to by a rule of thumb, or the conversation by then, and as much of an
answer as it allows, at the list prices of the API's provider. The tokens that an answer reports take the place of that;
without them, what was held stays spent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from threading import Lock
from typing import TypeAlias

from harness import catalog
from harness.apis.api import Api
from harness.apis.targets import Target
from harness.apis.view import ResponseView
from harness.contract.errors import UsageError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import Usage
from harness.reference.script_session import ScriptSession
from harness.results import Exchange, Spending
from harness.running.backends import Replay
from harness.running.cells import Cell, not_applicable
from harness.running.costs import cost, paid
from harness.running.recorder import Withheld
from harness.running.tool_loop import BROKEN, play

CellKey: TypeAlias = tuple[str, str, str]
"""Scenario, target and variant."""

_BYTES = 4
"""Bytes of JSON that count as one token: a rule of thumb for English."""


def estimate(
    cells: Sequence[Cell], *, base_urls: Mapping[str, str] | None = None, max_requests: int | None = None
) -> dict[str, Spending]:
    """What the cells would take, by target. Nothing leaves this process.

    Each request counts with the bytes of its body, each answer with those that the scenario scripts, up to the bound
    that the request sets: a model may well say more, and its reasoning comes on top. `base_urls` are the servers that
    stand in for providers, by target; `max_requests` is the most that would be sent.
    """
    rehearsal = _Rehearsal(base_urls or {}, max_requests)
    with Replay(()) as stages:
        for cell in cells:
            try:
                rehearsal.play(cell, stages)
            except _Enough:
                break
    return {target: Spending.together(parts) for target, parts in rehearsal.parts.items()}


@dataclass(frozen=True, slots=True)
class Foreseen:
    """One request as it is rehearsed: the tokens of its text and of the scripted answer, and the most that it allows
    (`None`: it sets no bound; 0: of embeddings nothing is written)."""

    read: int
    written: int
    bound: int | None


def foreseen(cells: Sequence[Cell]) -> dict[CellKey, list[Foreseen]]:
    """The requests of each cell; of one whose adapter cannot be rehearsed here there are none. Nothing leaves this
    process."""
    rehearsal = _Rehearsal({}, None)
    with Replay(()) as stages:
        for cell in cells:
            rehearsal.play(cell, stages)
    return rehearsal.requests


class _Rehearsal:
    def __init__(self, base_urls: Mapping[str, str], max_requests: int | None) -> None:
        self.parts: dict[str, list[Spending]] = {}
        self.requests: dict[CellKey, list[Foreseen]] = {}
        self._base_urls = base_urls
        self._max_requests = max_requests
        self._begun = 0

    def play(self, cell: Cell, stages: Replay) -> None:
        """Play one cell, noting what each of its requests would take. Raises `_Enough`."""
        target = cell.target
        wire = catalog.api(target.api)
        session = ScriptSession(cell.scenario, wire, target.model, target.profile)

        def handle(request: HttpRequest) -> HttpResponse:
            response = session(request)
            if response.status < 400:
                self._note(cell, wire, request, response)
            return response

        with stages.endpoint(target, handle) as endpoint:
            try:
                play(cell.scenario, target, endpoint, self._begin, cell.variant)
            except _Enough:
                raise
            except BROKEN:  # the recording will tell, and whose fault it is
                return

    def _begin(self, _chat: int) -> None:
        if self._begun == self._max_requests:
            raise _Enough
        self._begun += 1

    def _note(self, cell: Cell, wire: Api, request: HttpRequest, response: HttpResponse) -> None:
        target, model, said, most = cell.target, cell.target.model, 0, None
        if cell.scenario.embeddings is not None and wire.embeddings is not None:
            model, most = wire.embeddings.view(request).model or model, 0
        else:
            said = _tokens(_said(wire.read(response)))
            bound = wire.view(request).settings.get("max_tokens")
            if bound is not None and isinstance(bound.value, int):
                said, most = min(said, bound.value), bound.value
        usage = Usage(_tokens(request.body), said)
        self.requests.setdefault(key_of(cell), []).append(Foreseen(_tokens(request.body), said, most))
        dollars = cost(target.api, model, usage, url=self._base_urls.get(target.name))
        part = Spending(model, 1, usage, dollars, int(dollars is None))
        self.parts.setdefault(target.name, []).append(part)


def key_of(cell: Cell) -> CellKey:
    """Which cell of a run it is."""
    return cell.scenario.id, cell.target.name, cell.variant


class _Enough(Exception):  # not an error: the recording may send nothing more
    pass


def _said(view: ResponseView) -> bytes:
    """The text of an answer and the JSON of its calls: what of it the model writes."""
    calls = [json.dumps({call.name: call.arguments}, ensure_ascii=False) for call in view.calls]
    return "".join([view.text, *calls]).encode("utf-8", "backslashreplace")


def _tokens(text: bytes) -> int:
    return -(-len(text) // _BYTES)


UNBOUNDED = 4096
"""Tokens that an answer is held to have at most where its request sets no bound."""


class Purse:
    """What is left of `limit` US dollars, for all cells of a run, whichever thread plays them."""

    def __init__(self, limit: Decimal) -> None:
        self.limit = limit
        self._requests: Mapping[CellKey, Sequence[Foreseen]] = {}
        self.spent = Decimal(0)
        self._held = Decimal(0)
        self._lock = Lock()

    @staticmethod
    def check(targets: Sequence[Target]) -> None:
        """Whether the price of each target is known. Raises `UsageError`: of one it is not."""
        for target in targets:
            if cost(target.api, target.model, Usage(1000, 1000)) is None:
                raise UsageError(
                    f"--budget: no price is known for {target.model} of the target {target.name!r}, so that nothing "
                    "would stop in time. Leave out that target, or --budget."
                )

    def foresee(self, cells: Sequence[Cell]) -> None:
        """These cells are about to be played: each is rehearsed, by which nothing is sent."""
        self._requests = foreseen([cell for cell in cells if not_applicable(cell, "live") is None])

    def account(self, cell: Cell, exchanges: Sequence[Exchange]) -> Account:
        """That of a cell, whose exchanges are in a list that grows."""
        return Account(self, cell.target, self._requests.get(key_of(cell), ()), exchanges)

    def hold(self, dollars: Decimal) -> None:
        """Take what a request may cost. Raises `Withheld`: that would pass the limit."""
        with self._lock:
            if self.spent + self._held + dollars > self.limit:
                raise Withheld(
                    f"not sent: ${self.spent:.4f} of the budget of ${self.limit:f} is spent, what is under way may "
                    f"cost ${self._held:.4f}, and this request ${dollars:.4f}"
                )
            self._held += dollars

    def settle(self, held: Decimal, dollars: Decimal) -> None:
        """What was held for a request has cost this much."""
        with self._lock:
            self._held -= held
            self.spent += dollars


class Account:
    """The requests of one cell, as they are paid for: `requests` as they are foreseen, `exchanges` as they were made;
    that list grows."""

    def __init__(
        self, purse: Purse, target: Target, requests: Sequence[Foreseen], exchanges: Sequence[Exchange]
    ) -> None:
        self._purse = purse
        self._target = target
        self._requests = requests
        self._exchanges = exchanges
        self._settled = 0
        self._held = Decimal(0)
        self._context = 0

    def open(self, chat: int) -> None:
        """A chat is about to be sent. Raises `Withheld`: it may cost more than is left."""
        self.settle()
        known = self._requests[min(chat, len(self._requests) - 1)] if self._requests else _UNKNOWN
        dollars = self._cost(Usage(max(known.read, self._context), self._written(known))) or Decimal(0)
        self._purse.hold(dollars)
        self._held = dollars

    def settle(self) -> None:
        """What has come back by now is paid."""
        done = self._exchanges[self._settled :]
        self._purse.settle(self._held, sum((self._paid(each) for each in done), Decimal(0)))
        self._settled, self._held = len(self._exchanges), Decimal(0)

    def _written(self, request: Foreseen) -> int:
        return max(request.written, UNBOUNDED) if request.bound is None else request.bound

    def _paid(self, exchange: Exchange) -> Decimal:
        usage = paid(self._target.api, exchange)
        if usage is None:
            return self._held
        self._context = (usage.input_tokens or 0) + (usage.output_tokens or 0)
        found = self._cost(Usage(usage.input_tokens, usage.output_tokens or 0))
        return self._held if found is None else found

    def _cost(self, usage: Usage) -> Decimal | None:
        return cost(self._target.api, self._target.model, usage)


_UNKNOWN = Foreseen(UNBOUNDED, UNBOUNDED, None)
"""A request of an adapter that cannot be rehearsed."""
