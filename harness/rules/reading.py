"""One exchange as the witness reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from harness.apis.api import Api
from harness.apis.embeddings import EmbeddingFormat, EmbeddingView, VectorView
from harness.apis.view import RequestView, ResponseView, WireError
from harness.contract.http import EXHAUSTED
from harness.results import Exchange


@dataclass(frozen=True)
class Reading:
    """One exchange as the witness reads it. A side that cannot be read is `None`, with the reason in `unread`."""

    index: int
    exchange: Exchange
    request: RequestView | None
    response: ResponseView | None
    unread: str | None = None

    @cached_property
    def answer(self) -> ResponseView | None:
        """The response, if it is a whole answer: no error, and nothing of it missing."""
        view = self.response
        return None if view is None or view.error is not None or self.is_cut else view

    @cached_property
    def is_cut(self) -> bool:
        """The response ends too early: on its connection, or as a stream without the event that makes it complete."""
        response, view = self.exchange.response, self.response
        broken = response is not None and response.delivery.ending != "complete"
        return broken or (view is not None and not view.complete)

    @property
    def is_made_up(self) -> bool:
        """The harness had nothing left to answer with."""
        return self.exchange.response is not None and EXHAUSTED in self.exchange.response.headers


@dataclass(frozen=True)
class EmbeddingReading(Reading):
    """One exchange for embeddings: its sides are `asked` and `vectors`. A failure of the provider has no vectors."""

    asked: EmbeddingView | None = None
    vectors: tuple[VectorView, ...] | None = None


def read(api: Api, index: int, exchange: Exchange) -> Reading:
    """A chat as its API reads it."""
    request: RequestView | None = None
    response: ResponseView | None = None
    unread: str | None = None
    try:
        request = api.view(exchange.request)
    except WireError as error:
        unread = f"request {error}"
    if exchange.response is not None:
        try:
            response = api.read(exchange.response)
        except WireError as error:
            unread = f"response {error}"
    return Reading(index, exchange, request, response, unread)


def read_embedding(embeddings: EmbeddingFormat, index: int, exchange: Exchange) -> EmbeddingReading:
    """Embeddings as their format reads them."""
    try:
        view = embeddings.view(exchange.request)
    except WireError as error:
        return EmbeddingReading(index, exchange, None, None, f"request {error}")
    answered = exchange.response is not None and exchange.response.status < 400
    try:
        vectors = embeddings.read(exchange.response) if answered and exchange.response else None
    except WireError as error:
        return EmbeddingReading(index, exchange, None, None, f"response {error}", view)
    return EmbeddingReading(index, exchange, None, None, None, view, vectors)
