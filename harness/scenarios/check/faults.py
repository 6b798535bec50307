"""Faults: each befalls an answer that the script has."""

from __future__ import annotations

from collections.abc import Iterator

from harness.scenarios.check.problem import Problem
from harness.scenarios.check.steps import script
from harness.scenarios.schema import Scenario


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Faults of answers that are not there, or that cannot fail like that."""
    count = len(script(scenario))
    taken: set[int] = set()
    for index, fault in enumerate(scenario.faults):
        path = ("faults", index)
        if fault.answer >= count:
            yield Problem((*path, "answer"), f"there is no answer {fault.answer}: the script has {count}, from 0 on.")
        elif fault.answer in taken:
            yield Problem((*path, "answer"), f"a second fault of answer {fault.answer}.")
        elif fault.fails and fault.answer < count - 1:
            reason = f"a chat that fails is the last one: this can befall answer {count - 1} only."
            yield Problem((*path, "answer"), reason)
        taken.add(fault.answer)
        if fault.is_of_streams and scenario.variants != ["stream"]:
            what = "stream_error" if fault.stream_error is not None else "at: end"
            yield Problem(path, f"{what} is of streams alone. Add variants: [stream].")
    if scenario.faults and not scenario.scripted:
        yield Problem(("faults",), "a provider does not fail when asked to. Add scripted: true.")
