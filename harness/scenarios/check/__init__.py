"""What has to hold between the parts of a scenario: the types of `harness.scenarios.schema` cannot say it."""

from __future__ import annotations

from collections.abc import Iterator

from harness import catalog
from harness.scenarios.check import (
    capabilities,
    embeddings,
    failures,
    faults,
    history,
    settings,
    streams,
    tools,
    trim,
    turns,
)
from harness.scenarios.check.names import unknown, unknown_apis
from harness.scenarios.check.problem import Problem
from harness.scenarios.schema import Scenario


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Everything that contradicts itself."""
    yield from tools.problems(scenario)
    yield from unknown_apis(scenario.provider_tools, ("provider_tools",))
    yield from history.problems(scenario)
    yield from settings.problems(scenario, ("settings",), scenario.settings)
    for index, turn in enumerate(scenario.turns):
        yield from turns.problems(scenario, ("turns", index), turn)
    yield from faults.problems(scenario)
    yield from failures.problems(scenario)
    yield from streams.problems(scenario)
    yield from trim.problems(scenario)
    yield from embeddings.problems(scenario)
    yield from capabilities.problems(scenario)
    known = [profile.name for api in catalog.apis() for profile in api.profiles]
    yield from unknown("profile", scenario.profiles or (), known, ("profiles",))
