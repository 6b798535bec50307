"""What requests cost, and which models there are to pay for, by the package `genai-prices`, which others keep.

Prices are those that come with the installed package: nothing is fetched here. They are list prices, without what a
contract, a batch or a service tier changes, and a cache write counts as one for five minutes, since usage does not say
for how long. A price in steps depends on the length of each single request, so requests are priced one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version

from harness import catalog
from harness.apis.view import WireError
from harness.contract.model import Usage
from harness.contract.protocols import Capability
from harness.results import Exchange, Provenance, Spending, summed
from harness.rules.evidence import Evidence
from harness.rules.reading import EmbeddingReading, Reading

PACKAGE = "genai-prices"
"""Where prices come from."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A model that a price is kept for. `context` is the length of its context, in tokens, where that is known;
    `images` and `reasoning` say that there is a price for images that it reads, and one for tokens of reasoning."""

    id: str
    context: int | None
    deprecated: bool
    images: bool = False
    reasoning: bool = False


def price_version() -> dict[str, str]:
    """The package and its version, which is all that says of when its prices are."""
    try:
        return {PACKAGE: version(PACKAGE)}
    except PackageNotFoundError:
        return {}


def cost(api: str, model: str, usage: Usage, *, url: str | None = None, day: date | None = None) -> Decimal | None:
    """The price of one request, in US dollars.

    `None` where it is not known: no price is kept for the model, or the usage lacks what was read or written. `url` is
    where the request went (`None`: to the API's own provider), since the same model has another price elsewhere. `day`
    is when (`None`: today); prices of an hour are those at noon, so that they repeat.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    return _cost(url or _home(api), model.removeprefix("models/"), usage, day or datetime.now(UTC).date())


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
        return None  # the package knows the model, and counts as nothing what it has no price for
    return found.total_price


@cache
def _home(api: str) -> str | None:
    """The URL of the API's provider; `None` for a command, whose models tell by their names whose they are."""
    url = catalog.api(api).provider_url
    return url if url.startswith("https://") else None


def spending(evidence: Evidence, provenance: Provenance) -> Spending:
    """What the requests of a cell took, by the answers as the witness reads them.

    What the reference server answers is priced as if the API's provider had; a recording as of its day.
    """
    transcript = evidence.transcript
    day = _day(provenance.recorded_at)
    is_real = provenance.origin != "reference" and _home(transcript.api) is not None

    def priced(reading: Reading, usage: Usage) -> Decimal | None:
        served = reading.response.model if reading.response else None
        asked = _asked(reading) or transcript.model
        url = reading.exchange.request.url if is_real else None
        for model in dict.fromkeys(filter(None, (served, asked))):
            dollars = cost(transcript.api, model, usage, url=url, day=day)
            if dollars is not None:
                return dollars
        return None

    sent = [reading for reading in evidence.readings if not reading.is_made_up]
    paid = [(reading, _usage(evidence, reading)) for reading in sent if not _is_refused(reading)]
    prices = [None if reading.is_cut else priced(reading, usage) for reading, usage in paid]
    known = [dollars for dollars in prices if dollars is not None]
    return Spending(
        next(filter(None, map(_asked, sent)), None) or transcript.model,
        len(sent),
        summed(usage for _, usage in paid),
        sum(known, Decimal(0)) if known or not prices else None,
        len(prices) - len(known),
    )


def paid(api: str, exchange: Exchange) -> Usage | None:
    """The tokens that a request is paid for, by its answer; `None` where that does not say."""
    wire, response = catalog.api(api), exchange.response
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


def _asked(reading: Reading) -> str | None:
    """The model that a request for embeddings names."""
    return reading.asked.model if isinstance(reading, EmbeddingReading) and reading.asked else None


def _usage(evidence: Evidence, reading: Reading) -> Usage:
    if reading.response is not None:
        return reading.response.usage
    embeddings, response = evidence.api.embeddings, reading.exchange.response
    if embeddings is None or embeddings.usage is None or response is None:
        return Usage()
    came = isinstance(reading, EmbeddingReading) and reading.vectors is not None
    return embeddings.usage(response) if came else Usage()


def _day(recorded_at: str | None) -> date | None:
    try:
        return date.fromisoformat((recorded_at or "")[:10])
    except ValueError:  # nothing was recorded, or somebody has edited the cassette
        return None


def _is_refused(reading: Reading) -> bool:
    """Providers charge nothing for what they refuse or fail to answer at all."""
    return reading.exchange.response is not None and reading.exchange.response.status >= 400


def listed(api: str, model: str) -> tuple[Listed, ...]:
    """The models of the API's provider that tokens of text have a price for, by their names.

    `model` is any of its models, by which a provider without a URL is found. Not all of them need answer chats: the
    package does not say. None, where it does not know the provider.
    """
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - its tables are large

    snapshot = get_snapshot()
    home = _home(api)
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
        Listed(
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


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model of an API.

    `vision` and `thinking` say whether the API's adapter can do that with it; `None` where no source says so. `context`
    is in tokens, `None` where it is not known. `targets` are the shipped targets that have this model. Names may be
    those of families (`gpt-4o`), and not each answers chats.
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
    """The models of an API, by their names.

    Raises:
        UnknownName: there is no such API.
    """
    of_api = catalog.api(api)
    shipped = of_api.targets
    capabilities = catalog.adapter(shipped[0].adapter).capabilities
    known = {each.id: each for each in listed(api, shipped[0].model)}
    for each in shipped:  # some are names that a provider resolves to another one
        known.setdefault(each.model, Listed(each.model, None, deprecated=False))

    def info(model: Listed) -> ModelInfo:
        profile = of_api.profile_for(model.id)
        shipped_as = tuple(each.name for each in shipped if each.model == model.id)
        able = capabilities - profile.lacks
        thinks = model.reasoning or (bool(shipped_as) and profile.thinking != "none")
        return ModelInfo(
            model.id,
            api,
            profile.name,
            _known(Capability.VISION in able, is_said=model.images),
            _known(Capability.THINKING in able, is_said=thinks),
            model.context,
            model.deprecated,
            shipped_as,
        )

    return tuple(info(known[name]) for name in sorted(known))


def _known(is_able: bool, *, is_said: bool) -> bool | None:
    if not is_able:
        return False
    return True if is_said else None
