"""Prices of models, from the package `genai-prices`.

Prices are the list prices in the installed package; nothing is downloaded. Contracts, batches and service tiers are
ignored. Every cache write is priced as a five-minute one. Some prices depend on the length of a request, so each
request is priced separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version

from harness.apis import registry
from harness.model.messages import Usage

PACKAGE = "genai-prices"


@dataclass(frozen=True, slots=True)
class PricedModel:
    """A model that has a price.

    `context` is the size of its context window in tokens, if known. `images` and `reasoning` are set if it has a
    separate price for images or for reasoning tokens.
    """

    id: str
    context: int | None
    deprecated: bool
    images: bool = False
    reasoning: bool = False


def price_version() -> dict[str, str]:
    """Return the price package and its version; empty if it is not installed."""
    try:
        return {PACKAGE: version(PACKAGE)}
    except PackageNotFoundError:
        return {}


def cost(api: str, model: str, usage: Usage, *, url: str | None = None, day: date | None = None) -> Decimal | None:
    """Return the price of one request in US dollars, or `None` if it is unknown.

    The price is unknown if the model has none or the usage lacks a token count. `url` is the request's URL, because
    other servers charge other prices for the same model; `None` means the API's own provider. `day` is the date of the
    prices; `None` means today. Prices that vary by the hour are those at noon, so that results are reproducible.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return _cost(url or provider_url(api), model.removeprefix("models/"), usage, day or datetime.now(UTC).date())


@lru_cache(maxsize=8192)  # the two variants of a cell often take the same
def _cost(url: str | None, model: str, usage: Usage, day: date) -> Decimal | None:
    from genai_prices import Usage as Tokens  # noqa: PLC0415 - its tables are large, and most commands want no price
    from genai_prices import calc_price  # noqa: PLC0415 - the same

    noon = datetime.combine(day, time(12), UTC)
    try:
        tokens = Tokens(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_reasoning_tokens=usage.reasoning_tokens,
        )
        found = calc_price(tokens, model, provider_api_url=url, genai_request_timestamp=noon)
    except (LookupError, ValueError):  # an unknown server or model; counts below 0, or that contradict each other
        return None
    price = found.model_price
    if (usage.input_tokens and price.input_mtok is None) or (usage.output_tokens and price.output_mtok is None):
        return None  # the package knows the model, but counts tokens without a price as free
    return found.total_price


@cache
def provider_url(api: str) -> str | None:
    """Return the URL of the API's provider, or `None` for the API of a command-line tool. The models of such an API are
    looked up by name.
    """
    url = registry.api(api).provider_url
    return url if url.startswith("https://") else None


def priced_models(api: str, model: str) -> tuple[PricedModel, ...]:
    """Return the models of the API's provider that have a price for text, sorted by name.

    `model` is any model of the provider; it identifies a provider that has no URL. The list may contain models without
    a chat API, because the package does not distinguish them. It is empty if the provider is unknown.
    """
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - its tables are large

    snapshot = get_snapshot()
    home = provider_url(api)
    try:
        provider = snapshot.find_provider(None if home else model, None, home)
    except LookupError:
        return ()
    noon = datetime.combine(datetime.now(UTC).date(), time(12), UTC)

    def is_its_own(name: str) -> bool:  # clouds sell models of others too, through other APIs
        try:
            return snapshot.find_provider(name, None, None) is provider
        except LookupError:
            return True

    return tuple(
        PricedModel(
            each.id,
            each.context_window,
            bool(each.deprecated),
            images=prices.input_image_mtok is not None,
            reasoning=prices.output_reasoning_mtok is not None,
        )
        for each in provider.models
        if is_its_own(each.id)
        and (prices := each.get_prices(noon)).input_mtok is not None
        and prices.output_mtok is not None
    )
