"""The cost of a cell's requests, and the models of an API with what is known about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from harness import plugins
from harness.apis import registry
from harness.apis.prices import PricedModel, cost, priced_models, provider_url
from harness.apis.view import WireError
from harness.model.messages import Usage
from harness.model.protocols import Capability
from harness.results import Exchange, Provenance, Spending
from harness.rules.evidence import Evidence, ParsedEmbeddingExchange, ParsedExchange


def spending(evidence: Evidence, provenance: Provenance) -> Spending:
    """Return the cost of a cell's requests, based on the usage that the responses report.

    Responses of the reference server are priced as the provider's. Recordings are priced as of the day they were made.
    """
    transcript = evidence.transcript
    day = _day(provenance.recorded_at)
    is_real = provenance.origin != "reference" and provider_url(transcript.api) is not None

    def priced(reading: ParsedExchange, usage: Usage) -> Decimal | None:
        served = reading.response.model if reading.response else None
        priced_model = _requested_model(reading) or transcript.model
        url = reading.exchange.request.url if is_real else None
        for model in dict.fromkeys(filter(None, (served, priced_model))):
            dollars = cost(transcript.api, model, usage, url=url, day=day)
            if dollars is not None:
                return dollars
        return None

    sent = [reading for reading in evidence.readings if not reading.is_made_up]
    paid = [(reading, _usage(evidence, reading)) for reading in sent if not _is_refused(reading)]
    prices = [None if reading.is_cut else priced(reading, usage) for reading, usage in paid]
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


def _requested_model(reading: ParsedExchange) -> str | None:
    return (
        reading.embedding_request.model
        if isinstance(reading, ParsedEmbeddingExchange) and reading.embedding_request
        else None
    )


def _usage(evidence: Evidence, reading: ParsedExchange) -> Usage:
    if reading.response is not None:
        return reading.response.usage
    embeddings, response = evidence.api.embeddings, reading.exchange.response
    if embeddings is None or embeddings.usage is None or response is None:
        return Usage()
    came = isinstance(reading, ParsedEmbeddingExchange) and reading.vectors is not None
    return embeddings.usage(response) if came else Usage()


def _day(recorded_at: str | None) -> date | None:
    try:
        return date.fromisoformat((recorded_at or "")[:10])
    except ValueError:  # no recording, or an edited cassette
        return None


def _is_refused(reading: ParsedExchange) -> bool:
    """Return whether the request was rejected or failed. Providers do not bill such requests."""
    return reading.exchange.response is not None and reading.exchange.response.status >= 400


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
    for each in shipped:  # some are names that a provider resolves to another one
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
