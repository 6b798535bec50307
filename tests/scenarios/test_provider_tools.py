"""Tools that the provider runs: a scenario has them by API."""

from __future__ import annotations

from dataclasses import replace

from harness.contract.protocols import Capability
from harness.running.cells import Cell, not_applicable
from tests.stages import shipped_scenarios, shipped_targets


def test_they_hold_for_the_apis_for_which_there_are_some() -> None:
    scenario, target = shipped_scenarios()["history-opaque-parts"], shipped_targets()["openai-chat"]
    able = replace(target.adapter, capabilities=target.adapter.capabilities | {Capability.PROVIDER_TOOLS})
    reason = not_applicable(Cell(scenario, replace(target, adapter=able), "whole"), "replay")
    assert reason == "the scenario has no tool that the provider of openai-chat runs"
    assert not_applicable(Cell(scenario, shipped_targets()["openai-responses"], "whole"), "replay") is None
