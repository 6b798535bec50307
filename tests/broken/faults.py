"""All faults of the shipped scenarios, by subject."""

from __future__ import annotations

from tests.broken import arguments, failures, history, ids, json_mode, requests, responses, results, system, tools
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
    *responses.FAULTS,
    *failures.FAULTS,
)
