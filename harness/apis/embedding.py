"""Embeddings on the wire, in neutral words: texts in, vectors out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from harness.apis.law import Law
from harness.apis.limit import Violation
from harness.apis.seeded import number
from harness.apis.view import TextView, WireError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON, Usage


@dataclass(frozen=True, slots=True)
class EmbeddingView:
    """A request for embeddings. `dimensions` is the length of the vectors that it asks for, `None` if it asks for none.

    Texts that share one vector are one text here, joined.
    """

    model: str | None
    texts: tuple[TextView, ...]
    dimensions: int | None
    dimensions_pointer: str = ""


@dataclass(frozen=True, slots=True)
class VectorView:
    """One vector of an answer, in the place of the text that it belongs to."""

    values: tuple[float, ...]
    pointer: str


@dataclass(frozen=True, slots=True)
class EmbeddingFormat:
    """An API's embeddings.

    `recognises(request)`: the request is one for embeddings, by path.
    `view(request)`: the neutral view; raises `WireError`.
    `violations(request, law)`: what the provider refuses. Never raises: a body that cannot be read is a violation.
    `read(response)`: the vectors of an answer that is no failure, in the order of the texts; raises `WireError`.
    `build(view)`: the body of an answer, its vectors functions of model, text and length.
    `usage(response)`: the tokens that an answer says it took (`None`: answers do not say).
    """

    recognises: Callable[[HttpRequest], bool]
    view: Callable[[HttpRequest], EmbeddingView]
    violations: Callable[[HttpRequest, Law], list[Violation]]
    read: Callable[[HttpResponse], tuple[VectorView, ...]]
    build: Callable[[EmbeddingView], dict[str, JSON]]
    usage: Callable[[HttpResponse], Usage] | None = None


def vector_of(numbers: list[JSON], pointer: str) -> tuple[float, ...]:
    """The numbers of a vector at `pointer`. Raises `WireError` for anything else in it."""
    values = [float(each) for each in numbers if isinstance(each, int | float) and not isinstance(each, bool)]
    if len(values) != len(numbers):
        raise WireError("a vector of something else than numbers", pointer)
    return tuple(values)


def seeded_vector(view: EmbeddingView, text: str, dimensions: int) -> list[float]:
    """A vector of the length 1 for a text: the same one for the same text, and for another model another one.

    Its numbers have six digits, as long as a recording has to be to stay readable.
    """
    raw = [number(f"{view.model}/{text}", str(place), -999, 999) or 1 for place in range(dimensions)]
    scale = math.sqrt(math.fsum(value * value for value in raw))
    return [round(value / scale, 6) for value in raw]
