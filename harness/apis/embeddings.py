"""Provider-neutral views of embedding requests and responses."""

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

    Several texts that get a single vector, such as the parts of a Gemini content, are joined into one.
    """

    model: str | None
    texts: tuple[TextView, ...]
    dimensions: int | None
    dimensions_pointer: str = ""


@dataclass(frozen=True, slots=True)
class VectorView:
    """A vector of a response. `pointer` is the JSON pointer of its numbers in the body."""

    values: tuple[float, ...]
    pointer: str


@dataclass(frozen=True, slots=True)
class EmbeddingFormat:
    """Functions that read, check and build the embedding requests and responses of an API.

    `recognises(request)`: return whether the path is that of an embedding request.

    `view(request)`: return the neutral view; raises `WireError`.

    `violations(request, rule_set)`: return the reasons why the provider refuses the request. It never raises: an
    unreadable body is a violation.

    `read(response)`: return the vectors of a successful response, in the order of the texts; raises `WireError`.

    `build(view)`: return the body of a response. Its vectors depend only on the model, the text and the length.

    `usage(response)`: return the token counts of a response (`None`: responses have none).
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
    """Return a unit vector that is derived from the model and the text. Its components are rounded to six decimal
    places.
    """
    raw = [number(f"{view.model}/{text}", str(place), -999, 999) or 1 for place in range(dimensions)]
    scale = math.sqrt(math.fsum(value * value for value in raw))
    return [round(value / scale, 6) for value in raw]
