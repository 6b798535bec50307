"""A budget in money: what may still be spent, asked before each request, so that it is not passed.

A request is held to cost what its text comes to by the rule of thumb of `estimate`, or the conversation by then, and as
much of an answer as it allows, at the list prices of the API's provider. What an answer says of tokens takes the place
of that; where it says nothing, what was held stays spent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from threading import Lock

from harness.apis.targets import Target
from harness.contract.errors import UsageError
from harness.contract.model import Usage
from harness.results import Exchange
from harness.running.cells import not_applicable
from harness.running.costs import cost, paid
from harness.running.estimate import CellKey, Foreseen, foreseen, key_of
from harness.running.recorder import Withheld
from harness.running.stages import Cell

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
