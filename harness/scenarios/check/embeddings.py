"""Embeddings: texts and queries, and nothing of a conversation."""

from __future__ import annotations

from collections.abc import Iterator

from harness.scenarios.check.problem import Problem
from harness.scenarios.schema import Scenario

_FOR_BOTH = {"version", "id", "title", "covers", "requires", "embeddings", "variants", "scripted"}


def problems(scenario: Scenario) -> Iterator[Problem]:
    """What makes no sense in a scenario of embeddings."""
    if scenario.embeddings is None:
        return
    for key in sorted(scenario.model_fields_set - _FOR_BOTH):
        yield Problem((key,), "this is of conversations, and embeddings are none. Remove it.")
    if scenario.variants != ["whole"]:
        yield Problem(("embeddings",), "vectors are not streamed. Add variants: [whole].")
    for index, text in enumerate(scenario.embeddings.texts):
        if not text:
            yield Problem(("embeddings", "texts", index), "an empty text, which not every API embeds.")
    for index, query in enumerate(scenario.embeddings.queries):
        if not query.text:
            yield Problem(("embeddings", "queries", index, "text"), "an empty text, which not every API embeds.")
        if query.indexed_with is not None and query.indexed_with.dimensions == scenario.embeddings.dimensions:
            path = ("embeddings", "queries", index, "indexed_with", "dimensions")
            yield Problem(path, f"{scenario.embeddings.dimensions} is what the query has too. Give another length.")
