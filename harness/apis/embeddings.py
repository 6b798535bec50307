"""Embeddings in neutral terms: texts in, vectors out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from harness.apis.limits import Violation
from harness.apis.server import number
from harness.apis.services import RuleSet
from harness.apis.view import TextView, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, Usage


@dataclass(frozen=True, slots=True)
class EmbeddingView:
    """A request for embeddings. `dimensions` is the requested length of the vectors, if any.

    Texts that share one vector are joined into one text.
    """

    model: str | None
    texts: tuple[TextView, ...]
    dimensions: int | None
    dimensions_pointer: str = ""


@dataclass(frozen=True, slots=True)
class VectorView:
    """A vector of a response, at the position of its text."""

    values: tuple[float, ...]
    pointer: str


@dataclass(frozen=True, slots=True)
class EmbeddingFormat:
    """The embeddings of an API.

    `recognises(request)`: whether the request is one for embeddings, by path.
    `view(request)`: the neutral view; raises `WireError`.
    `violations(request, rule_set)`: refusals by the provider. Never raises: an unreadable body is a violation.
    `read(response)`: the vectors of a successful response, in the order of the texts; raises `WireError`.
    `build(view)`: the body of a response, with vectors that are functions of model, text and length.
    `usage(response)`: the token counts of a response (`None`: responses have none).
    """

    recognises: Callable[[HttpRequest], bool]
    view: Callable[[HttpRequest], EmbeddingView]
    violations: Callable[[HttpRequest, RuleSet], list[Violation]]
    read: Callable[[HttpResponse], tuple[VectorView, ...]]
    build: Callable[[EmbeddingView], dict[str, JSON]]
    usage: Callable[[HttpResponse], Usage] | None = None


def vector_of(numbers: list[JSON], pointer: str) -> tuple[float, ...]:
    """Return the numbers of a vector. Raises `WireError` for other values."""
    values = [float(each) for each in numbers if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(values) != len(numbers):
        raise WireError("a vector of something else than numbers", pointer)
    return tuple(values)


def seeded_vector(view: EmbeddingView, text: str, dimensions: int) -> list[float]:
    """Return a vector of length 1 with six digits per number, derived from the model and the text."""
    raw = [number(f"{view.model}/{text}", str(place), -999, 999) or 1 for place in range(dimensions)]
    scale = math.sqrt(math.fsum(value * value for value in raw))
    return [round(value / scale, 6) for value in raw]
