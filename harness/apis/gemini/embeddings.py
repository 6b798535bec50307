"""Embedding requests: `batchEmbedContents` and `embedContent`.

The error message for batches that are too large is the provider's own, as quoted in many reports
(langchain-ai/langchainjs 4491).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from harness.apis.api import EmbeddingFormat, EmbeddingView, VectorView, seeded_vector, vector_of
from harness.apis.gemini.proto import ProtoMessage, limit, repeated_values
from harness.apis.jsonvalue import body_of, parse_body
from harness.apis.limits import Violation
from harness.apis.profiles import RuleSet
from harness.apis.view import TextView, WireError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON

_METHOD = re.compile(r".*/([^/:]+):(batchEmbedContents|embedContent)")
_MAX_TEXTS = 100
_DEFAULT_DIMENSIONS = 3072
_BATCH = "langchain-ai/langchainjs 4491"
_REFERENCE = "Gemini API, models.batchEmbedContents"


def recognises(request: HttpRequest) -> bool:
    """Return whether the request is for embeddings."""
    return request.method.upper() == "POST" and _method(request) is not None


def view(request: HttpRequest) -> EmbeddingView:
    """Return the neutral view of a request. Each content is one text, since its parts share a vector.

    Raises:
        WireError: the body is not JSON, a field has a wrong type, or the entries of a batch request different models or
            vector lengths.
    """
    method = _method(request)
    if method is None:
        raise WireError("no request for embeddings")
    body = ProtoMessage.of(parse_body(request.body))
    requests = body.messages("requests") if method[2] == "batchEmbedContents" else [body]
    lengths = {each.get("outputDimensionality"): each.at("outputDimensionality") for each in reversed(requests)}
    models = {(each.text("model") or method[1]).removeprefix("models/") for each in requests} or {method[1]}
    if len(lengths) > 1 or models != {method[1]}:
        raise WireError("the texts are not all for one model and one length")
    length, pointer = next(iter(lengths.items()), (None, ""))
    return EmbeddingView(
        method[1],
        tuple(_text(each) for each in requests),
        length if isinstance(length, int) else None,
        pointer if length is not None else "",
    )


def _method(request: HttpRequest) -> re.Match[str] | None:
    return _METHOD.fullmatch(unquote(urlsplit(request.url).path))


def _text(request: ProtoMessage) -> TextView:
    content = request.message("content") or ProtoMessage.of({}, request.pointer)
    texts = [part.text("text") or "" for part in content.messages("parts")]
    return TextView("\n".join(texts), content.pointer)


def violations(request: HttpRequest, _rule_set: RuleSet) -> list[Violation]:
    """Return the violations for which the provider would reject a request."""
    try:
        seen = view(request)
    except WireError as error:
        message = f"Invalid JSON payload received. {error.reason}"
        return [limit("embeddings-body").make_violation(message, error.pointer or "")]
    return [*_refusals(seen)]


def _refusals(seen: EmbeddingView) -> Iterator[Violation]:
    count = len(seen.texts)
    if count > _MAX_TEXTS:
        message = f"* BatchEmbedContentsRequest.requests: at most {_MAX_TEXTS} requests can be in one batch\n"
        yield limit("embeddings-count").make_violation(message, "/requests", actual=count, expected=_MAX_TEXTS)
    elif count == 0:
        message = "* BatchEmbedContentsRequest.requests: requests is not specified\n"
        yield limit("embeddings-count").make_violation(message, "", actual=count)
    if seen.dimensions is not None and not 0 < seen.dimensions <= _DEFAULT_DIMENSIONS:
        message = f"* EmbedContentRequest.output_dimensionality: must be from 1 to {_DEFAULT_DIMENSIONS}\n"
        pointer = seen.dimensions_pointer
        yield limit("embeddings-dimensions").make_violation(message, pointer, actual=seen.dimensions)


def read(response: HttpResponse) -> tuple[VectorView, ...]:
    """Return the vectors of a response.

    Raises:
        WireError: the body has no vectors.
    """
    body = ProtoMessage.of(body_of(response))
    if not {"embeddings", "embedding"} & {*body.names}:
        raise WireError("a body without vectors")
    entries = body.messages("embeddings" if "embeddings" in body.names else "embedding")
    return tuple(VectorView(_values(entry), entry.at("values")) for entry in entries)


def _values(entry: ProtoMessage) -> tuple[float, ...]:
    return vector_of([value for value, _ in repeated_values(entry.get("values"), "")], entry.pointer)


def build(seen: EmbeddingView) -> dict[str, JSON]:
    """Return the body of a response. Like gemini-embedding-001, it does not normalise shortened vectors to length 1."""
    length = seen.dimensions or _DEFAULT_DIMENSIONS
    entries: list[JSON] = []
    for text in seen.texts:
        whole = seeded_vector(seen, text.text, length)
        entries.append(
            {"values": [round(value * 0.7, 6) if length < _DEFAULT_DIMENSIONS else value for value in whole]}
        )
    return {"embeddings": entries}


EMBEDDINGS = EmbeddingFormat(recognises, view, violations, read, build)
