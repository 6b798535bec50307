"""All faults of the shipped scenarios."""

from __future__ import annotations

from tests.broken import calls, embeddings, fields, history, prefixes, requests, responses, streams

FAULTS = tuple(
    (expected, fault)
    for module in (calls, requests, fields, history, prefixes, responses, streams, embeddings)
    for expected, faults in module.FAULTS.items()
    for fault in faults
)
"""Each fault with the finding that it must cause."""
