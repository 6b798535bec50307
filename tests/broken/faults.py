"""All faults of the shipped scenarios, by subject."""

from __future__ import annotations

from tests.broken import (
    arguments,
    context,
    declining,
    deliveries,
    embeddings,
    events,
    failures,
    history,
    ids,
    json_mode,
    naive,
    outages,
    requests,
    responses,
    results,
    seeds,
    seeds_generator,
    seeds_scene,
    system,
    tools,
    truncation,
)
from tests.broken.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *ids.FAULTS,
    *results.FAULTS,
    *arguments.FAULTS,
    *system.FAULTS,
    *json_mode.FAULTS,
    *tools.FAULTS,
    *history.FAULTS,
    *requests.FAULTS,
    *declining.FAULTS,
    *context.FAULTS,
    *responses.FAULTS,
    *failures.FAULTS,
    *outages.FAULTS,
    *truncation.FAULTS,
    *events.FAULTS,
    *deliveries.FAULTS,
    *naive.FAULTS,
    *embeddings.FAULTS,
    *seeds.FAULTS,
    *seeds_scene.FAULTS,
    *seeds_generator.FAULTS,
)
