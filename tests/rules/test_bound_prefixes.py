"""The severity of a changed prefix in front of reasoning follows the documented treatment by the model's provider."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.apis import registry
from harness.results import Kind
from harness.runner.cells import Cell
from harness.runner.suite_run import Run
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.broken.fault import Wrap
from tests.broken.prefixes import FAULTS
from tests.rules.transcripts import RULES

WRAPS: dict[str, tuple[Wrap, str]] = {
    fault.name: (fault.wrap, expected.case or "")
    for expected, faults in FAULTS.items()
    for fault in faults
    if fault.name not in {"instructions-moved", "tools-reversed-by-an-addition", "tools-reversed-without-thinking"}
}
"""Broken adapters and the case of their finding, for each that changes a prefix of the scenario with reasoning."""

MODELS = {
    "claude-fable-5-2": ("anthropic", Kind.LIMIT, "anthropic-thinking-bound"),
    "claude-opus-5-5": ("anthropic", Kind.LOSS, None),
    "gpt-6.2-astra": ("openai-responses", Kind.LOSS, "state-dropped"),
}


@pytest.mark.parametrize("fault", WRAPS)
@pytest.mark.parametrize("model", MODELS)
def test_each_change_has_the_severity_of_the_model(model: str, fault: str) -> None:
    (wrap, case), (target, kind, reported) = WRAPS[fault], MODELS[model]
    shipped = shipped_targets()[target]
    profile = registry.api(shipped.api).profile_for(model)
    broken = replace(shipped, model=model, profile=profile, adapter=wrap(shipped.adapter))
    found = Run(InProcess(), RULES)([Cell(shipped_scenarios()["prefix-with-thinking"], broken, "whole")]).cells[0]
    assert {(each.kind, each.case) for each in found.findings if each.rule == "prefix-changed"} == {(kind, case)}
    assert reported is None or reported in {each.rule for each in found.findings}
