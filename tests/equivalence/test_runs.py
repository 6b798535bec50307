"""Adapters that spell schemas in their own way pass, against the reference server and in replay; wrong ones do not."""

from __future__ import annotations

from itertools import cycle

import pytest

from harness.cassettes.library import CassetteLibrary
from harness.equivalence.schema_changes import SchemaComparison, _cached_change
from harness.results import CellResult, Verdict
from harness.runner.backends import ReplayBackend
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from tests.backends import InProcess, shipped_scenarios
from tests.broken.fault import Wrap
from tests.broken.running import RULES, cell, run_cell, said
from tests.equivalence.unusual import RIGHT, WRONG

_ENDLESS = "schema-recursive"  # which nobody can write out
SCENARIOS = sorted(
    name for name in shipped_scenarios() if name.startswith(("schema-", "json-schema")) and name != _ENDLESS
)
PLAYABLE = [*SCENARIOS, *sorted({scenario for _, _, scenario, _ in WRONG} - set(SCENARIOS))]
TARGETS = ("anthropic", "openai-chat", "gemini-3")
"""One of each way to send a schema: as it is, in strict form, beside the OpenAPI dialect."""

FOUND = [pytest.param(*row[1:], target, id=row[0]) for row, target in zip(WRONG, cycle(TARGETS), strict=False)]
"""Each wrong way on one of the targets: what is found does not depend on the wire."""

FINE = {Verdict.PASS, Verdict.NOT_APPLICABLE}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CassetteLibrary:
    """Cassettes that the shipped adapters recorded."""
    recorded = CassetteLibrary(tmp_path_factory.mktemp("cassettes"))
    cells = [cell(scenario, target) for scenario in PLAYABLE for target in TARGETS]
    assert {each.verdict for each in Run(InProcess(), RULES, recorder=Recorder(recorded))(cells).cells} <= FINE
    return recorded


def replayed(library: CassetteLibrary, scenario: str, target: str, wrap: Wrap) -> CellResult:
    return Run(ReplayBackend([library]), RULES)([cell(scenario, target, wrap)]).cells[0]


@pytest.mark.parametrize(("way", "target"), [*zip(RIGHT, cycle(TARGETS), strict=False)])
def test_another_spelling_is_right(way: str, target: str) -> None:
    results = [run_cell(scenario, target, RIGHT[way]) for scenario in SCENARIOS]
    assert {result.verdict for result in results} <= FINE, "\n".join(said(result.findings) for result in results)


@pytest.mark.parametrize(("way", "target"), [*zip(RIGHT, cycle(TARGETS[::-1]), strict=False)])
def test_in_replay_another_spelling_is_at_most_a_warning(library: CassetteLibrary, way: str, target: str) -> None:
    results = [replayed(library, scenario, target, RIGHT[way]) for scenario in SCENARIOS]
    allowed = {*FINE, Verdict.WARN}
    assert {result.verdict for result in results} <= allowed, "\n".join(said(result.findings) for result in results)


@pytest.mark.parametrize(("wrap", "scenario", "words", "target"), FOUND)
def test_changed_schema_is_found_with_an_instance(wrap: Wrap, scenario: str, words: str, target: str) -> None:
    result = run_cell(scenario, target, wrap)
    messages = [each.message for each in result.findings if each.rule == "tool-declaration-changed"]
    assert result.verdict is Verdict.FAIL
    assert any(words in message for message in messages), messages


@pytest.mark.parametrize(("wrap", "scenario", "words", "target"), FOUND)
def test_in_replay_another_schema_is_a_difference_in_meaning(
    library: CassetteLibrary, wrap: Wrap, scenario: str, words: str, target: str
) -> None:
    result = replayed(library, scenario, target, wrap)
    messages = [each.message for each in result.findings if each.rule == "recorded-request"]
    assert result.verdict is Verdict.FAIL
    assert any("tools[0].parameters" in message for message in messages), messages
    if "accepts" in words:
        assert any("accepts" in message and "the recorded schema" in message for message in messages), messages


@pytest.mark.parametrize("target", TARGETS)
def test_shipped_adapters_need_no_search_for_instances(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*_: object) -> None:
        raise AssertionError("looked for instances")

    _cached_change.cache_clear()
    monkeypatch.setattr(SchemaComparison, "_difference_at_level", searched)
    results = [run_cell(scenario, target) for scenario in SCENARIOS]
    assert {result.verdict for result in results} <= FINE
