"""`POST /embeddings`. The limits come from the API reference, which the SDK quotes (openai-chat-embeddings)."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from harness.apis.api import EmbeddingFormat, EmbeddingView, VectorView, seeded_vector, vector_of
from harness.apis.fact_files import ApiLimits
from harness.apis.jsonvalue import as_object, body_of, join, parse_body, string
from harness.apis.limits import Violation
from harness.apis.openai_chat.checks import FACTS
from harness.apis.profiles import RuleSet
from harness.apis.view import TextView, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, Usage

_LENGTHS = {"text-embedding-3-large": 3072}
_DEFAULT_DIMENSIONS = 1536
"""Vector length of text-embedding-3-small, text-embedding-ada-002 and unknown models."""

limit = ApiLimits(FACTS, "openai-embeddings")
_MAX_TEXTS = 2048


def recognises(request: HttpRequest) -> bool:
    """Return whether a request is a POST to …/embeddings."""
    return request.method.upper() == "POST" and urlsplit(request.url).path.endswith("/embeddings")


def view(request: HttpRequest) -> EmbeddingView:
    """Return the neutral view of a request.

    Raises:
        WireError: the body is not a JSON object, or its input is neither a string nor a list of strings.
    """
    if not recognises(request):
        raise WireError("no request for embeddings")
    body = parse_body(request.body)
    if not isinstance(body, dict):
        raise WireError("the body is not a JSON object")
    model, dimensions = body.get("model"), body.get("dimensions")
    return EmbeddingView(
        string(model),
        tuple(_texts(body.get("input"))),
        dimensions if isinstance(dimensions, int) else None,
        "/dimensions" if "dimensions" in body else "",
    )


def _texts(given: JSON) -> Iterator[TextView]:
    if isinstance(given, str):
        yield TextView(given, "/input")
        return
    if not isinstance(given, list):
        raise WireError("the input is not a list of strings", "/input")
    for index, text in enumerate(given):
        if not isinstance(text, str):
            raise WireError("an input that is not a string", join("/input", index))
        yield TextView(text, join("/input", index))


def violations(request: HttpRequest, rule_set: RuleSet) -> list[Violation]:
    """Return the violations for which the provider would reject a request."""
    try:
        seen = view(request)
    except WireError as error:
        pointer = error.pointer or ""
        return [limit("body").make_violation(f"'$' is invalid: {error.reason}.", pointer)]
    return [*_refusals(seen, rule_set)]


def _refusals(seen: EmbeddingView, rule_set: RuleSet) -> Iterator[Violation]:
    if not rule_set.is_own:
        return
    if seen.model is None:
        yield limit("model").make_violation("you must provide a model parameter", "")
    if not 0 < len(seen.texts) <= _MAX_TEXTS:
        message = f"'$.input' is invalid: an array of 1 to {_MAX_TEXTS} inputs is expected."
        yield limit("count").make_violation(message, "/input", actual=len(seen.texts), expected=_MAX_TEXTS)
    for text in seen.texts:
        if not text.text:
            message = "'$.input' is invalid: an input cannot be an empty string."
            yield limit("empty").make_violation(message, text.pointer, actual="")
    longest = _LENGTHS.get(seen.model or "", _DEFAULT_DIMENSIONS)
    if seen.dimensions is not None and seen.model == "text-embedding-ada-002":
        message = "This model does not support specifying dimensions."
        yield limit("dimensions").make_violation(message, "/dimensions", actual=seen.dimensions)
    elif seen.dimensions is not None and not 0 < seen.dimensions <= longest:
        message = f"Invalid value for 'dimensions' = {seen.dimensions}. Must be from 1 to {longest}."
        yield limit("dimensions").make_violation(message, "/dimensions", actual=seen.dimensions)


def read(response: HttpResponse) -> tuple[VectorView, ...]:
    """Return the vectors of a response, sorted by index.

    Raises:
        WireError: the body has no vectors, or their indices are not consecutive from 0.
    """
    body = body_of(response)
    entries = as_object(body).get("data")
    if not isinstance(entries, list):
        raise WireError("a body without vectors", "/data")
    placed: dict[JSON, VectorView] = {}
    for position, entry in enumerate(entries):
        pointer = join("/data", position)
        match entry:
            case {"index": int(index), "embedding": list(numbers)} if index not in placed:
                placed[index] = VectorView(vector_of(numbers, pointer), join(pointer, "embedding"))
            case _:
                raise WireError("no vector with an index of its own", pointer)
    if placed.keys() != {*range(len(placed))}:
        raise WireError("the indices leave one out", "/data")
    return tuple(placed[index] for index in range(len(placed)))


def usage(response: HttpResponse) -> Usage:
    """Return the token counts of a response. Raises `WireError`."""
    match body_of(response):
        case {"usage": {"prompt_tokens": int(count)}}:
            return Usage(count, 0)
        case _:
            return Usage()


def build(seen: EmbeddingView) -> dict[str, JSON]:
    """Return the body of a response."""
    length = seen.dimensions or _LENGTHS.get(seen.model or "", _DEFAULT_DIMENSIONS)
    data: list[JSON] = [
        {"object": "embedding", "index": index, "embedding": [*seeded_vector(seen, text.text, length)]}
        for index, text in enumerate(seen.texts)
    ]
    tokens = sum(1 + len(text.text) // 4 for text in seen.texts)
    took: dict[str, JSON] = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "data": data, "model": seen.model, "usage": took}


EMBEDDINGS = EmbeddingFormat(recognises, view, violations, read, build, usage, numbered="data")
