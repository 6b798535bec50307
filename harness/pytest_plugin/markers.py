"""The marks of cells: what they are about and what they need, for `pytest -m`.

`harness` has the scenario, target, adapter, API and variant as arguments, `harness_SUBJECT` says what a scenario
covers, and `harness_needs_CAPABILITY` what a target has to have. All begin with `harness`, as no mark of anybody else
does, and a subject cannot be taken for the capability of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.contract.protocols import Capability
from harness.running.stages import Cell
from harness.scenarios.schema import Subject


def registered() -> Iterator[str]:
    """The lines that make the marks known, as `pytest --markers` shows them."""
    for subject in Subject:
        yield f"{_about(subject)}: cells of scenarios about {subject.value}"
    for capability in Capability:
        yield f"{_needs(capability)}: cells that need the capability {capability.value}"


def marks(cell: Cell) -> Iterator[pytest.MarkDecorator]:
    """The marks of a cell."""
    target, scenario = cell.target, cell.scenario
    yield pytest.mark.harness(
        scenario=scenario.id, target=target.name, adapter=target.adapter.name, api=target.api, variant=cell.variant
    )
    yield from (getattr(pytest.mark, _about(subject)) for subject in scenario.covers)
    streamed = {Capability.STREAMING} if cell.variant == "stream" else set[Capability]()
    yield from (getattr(pytest.mark, _needs(each)) for each in sorted({*scenario.requires, *streamed}))


def _about(subject: Subject) -> str:
    return f"harness_{subject.value.replace('-', '_')}"


def _needs(capability: Capability) -> str:
    return f"harness_needs_{capability.value.replace('-', '_')}"
