"""Plays the embeddings of a scenario: an index of texts, and queries of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import astuple, replace

from harness.contract import errors
from harness.contract.errors import HarnessError, PluginError, UsageError
from harness.contract.protocols import Adapter, EmbeddingProvider, Endpoint
from harness.host.crash import class_of, located, said, traceback_of
from harness.kit.embeddings import EmbeddingRecord
from harness.results import Embedded
from harness.scenarios.schema import EmbeddingsSpec, QuerySpec

_BROKEN = (Exception, SystemExit)
"""How an adapter can break, which takes its cell with it, not the run."""


def embedded(
    spec: EmbeddingsSpec, adapter: Adapter, endpoint: Endpoint, begin: Callable[[int], None]
) -> tuple[Embedded, ...]:
    """The texts of a scenario and then each query, embedded by an adapter that sends to `endpoint`.

    `begin(n)` is called before the n-th of these sends anything. One that fails ends the cell, unless the scenario has
    it refused; what it raised is noted.

    Raises:
        PluginError: the adapter declares embeddings and has none.
        harness.contract.errors.UsageError: it cannot be connected.
    """
    if adapter.embeddings is None:
        raise PluginError(
            "adapter", adapter.name, "it declares the capability 'embeddings', and its `embeddings` is None."
        )
    begin(0)
    with closing(adapter.embeddings.connect(endpoint, adapter.embeddings.model, spec.dimensions)) as provider:
        done = [_embedded(provider, tuple(spec.texts), lambda: provider.embed(spec.texts))]
        for place, query in enumerate(spec.queries, start=1):
            if done[-1].vectors is None and not done[-1].refuses:
                break
            begin(place)
            done.append(_queried(provider, query))
    return tuple(done)


def _queried(provider: EmbeddingProvider, query: QuerySpec) -> Embedded:
    def vectors() -> list[list[float]]:
        record = EmbeddingRecord.of(provider)
        if query.indexed_with is not None:
            record = replace(record, **query.indexed_with.model_dump(exclude_none=True))
        return [record.query(provider, query.text)]

    return replace(_embedded(provider, (query.text,), vectors), refuses=query.indexed_with is not None)


def _embedded(
    provider: EmbeddingProvider, texts: tuple[str, ...], vectors: Callable[[], list[list[float]]]
) -> Embedded:
    result = Embedded(texts, None)
    try:
        provider_name, model, dimensions = astuple(EmbeddingRecord.of(provider))
        result = replace(result, declared=(provider_name, model, dimensions))
        return replace(result, vectors=tuple(tuple(map(float, vector)) for vector in vectors()))
    except UsageError:
        raise
    except HarnessError as error:
        known = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == errors.__name__]
        return replace(result, error=known[0], error_text=said(error))
    except _BROKEN as error:
        failed = replace(result, error=class_of(error), error_text=located(error), crashed=True)
        return replace(failed, traceback=traceback_of(error))
