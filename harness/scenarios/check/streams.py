"""Streams: the variants that are played, and what a stream is provoked to do."""

from __future__ import annotations

from collections.abc import Iterator

from harness.scenarios.check.problem import Problem
from harness.scenarios.check.steps import script
from harness.scenarios.schema import Provocation, Scenario


def problems(scenario: Scenario) -> Iterator[Problem]:
    """Variants and provocations that stand twice, and provocations of what is no scripted stream."""
    yield from _variants(scenario)
    yield from _provocations(scenario)


def _variants(scenario: Scenario) -> Iterator[Problem]:
    variants = scenario.variants or []
    for index, variant in enumerate(variants):
        if variant in variants[:index]:
            yield Problem(("variants", index), f"{variant!r} stands here twice.")


def _provocations(scenario: Scenario) -> Iterator[Problem]:
    for index, provocation in enumerate(scenario.provocations):
        if provocation in scenario.provocations[:index]:
            yield Problem(("provocations", index), f"{provocation.value!r} stands here twice.")
    if not scenario.provocations:
        return
    if scenario.variants != ["stream"] and set(scenario.provocations) - {Provocation.EMPTY_ARGUMENTS}:
        yield Problem(("provocations",), "they are of streams alone. Add variants: [stream].")
    if not scenario.scripted:
        yield Problem(("provocations",), "no provider does this when asked to. Add scripted: true.")
    parallel = any(len(step.calls) > 1 and not step.truncated for step in script(scenario))
    if Provocation.INTERLEAVED_CALLS in scenario.provocations and not parallel:
        yield Problem(("provocations",), "no answer has two whole calls that could come in turns. Add one.")
    bare = any(not arguments for step in script(scenario) for _, arguments in step.named_calls)
    if Provocation.EMPTY_ARGUMENTS in scenario.provocations and not bare:
        yield Problem(("provocations",), "no answer has a call without arguments. Add one.")
