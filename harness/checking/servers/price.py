"""What the requests of a check cost: by a price that was given, or else by the one that is kept for the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from harness.contract.errors import UsageError
from harness.contract.model import Usage
from harness.results import Spending, summed
from harness.running.costs import cost

_MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens that are read, and for a million that are written."""

    input: Decimal
    output: Decimal

    @staticmethod
    def of(text: str, place: str = "--price") -> Price:
        """The price in `IN,OUT`. Raises `UsageError`, which names the `place` of the text."""
        said = f"{place} {text!r}: it has to be two prices in US dollars for a million tokens, read and written, as in "
        said += "0.15,0.60."
        try:
            prices = [Decimal(each) for each in text.split(",")]
        except InvalidOperation:
            raise UsageError(said) from None
        if len(prices) != 2 or not all(each.is_finite() and each >= 0 for each in prices):
            raise UsageError(said)
        return Price(*prices)

    def dollars(self, usage: Usage) -> Decimal | None:
        """What an answer cost; `None`: it does not say what it took."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return None
        return (self.input * usage.input_tokens + self.output * usage.output_tokens) / _MILLION


def spending(  # noqa: PLR0913 - what was sent, and where
    usages: Iterable[Usage], requests: int, *, api: str, model: str, url: str, price: Price | None
) -> Spending:
    """What requests to a model took."""
    every = list(usages)
    prices = [cost(api, model, usage, url=url) if price is None else price.dollars(usage) for usage in every]
    known = [each for each in prices if each is not None]
    total = sum(known, Decimal(0)) if known or not prices else None
    return Spending(model, requests, summed(every), total, len(prices) - len(known))
