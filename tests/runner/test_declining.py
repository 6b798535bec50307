"""Adapters that say no: where that is honest the cell is not applicable, and named; where it is not, it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.apis.registry import Target, targets_for
from harness.cassettes.library import CassetteLibrary
from harness.model.errors import Unsupported
from harness.model.messages import ChatRequest, ChatResponse, File, NamedTool
from harness.model.protocols import Capability
from harness.results import CellResult, Verdict
from harness.rules.rule import all_rules
from harness.runner.backends import ReplayBackend
from harness.runner.cells import Cell
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.scenarios.schema import Scenario
from harness.stdio import adapter_specs
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.scenarios.files import MINIMAL, scenario
from tests.wrapped import Chat, chatting

Declines = Callable[[ChatRequest], object]

REASON = "mine: that is not supported: the library has no word for it"
AT_ONCE = f"the adapter 'mine' declines before anything is sent: {REASON}"
LATER = f"the adapter 'mine' declines after 1 answer, before anything more is sent: {REASON}"

STOP = {**MINIMAL, "id": "stop", "requires": ["system-prompt"], "system": "Be brief.", "settings": {"stop": ["END"]}}
FIRST, SECOND = MINIMAL["turns"][0], {**MINIMAL["turns"][0], "settings": {"stop": ["END"]}}
STOP_LATER = {**STOP, "id": "later", "requires": ["system-prompt", "history"], "settings": {}, "turns": [FIRST, SECOND]}
EXPECTED = {**MINIMAL, "id": "expected", "scripted": True, "settings": {"stop": ["END"]}}
EXPECTED["turns"] = [{**FIRST, "expect": {"error": {"name": "unsupported"}}}]
OWN = {each["id"]: each for each in (STOP, STOP_LATER, EXPECTED)}


def stops(request: ChatRequest) -> object:
    return request.stop


def forces(request: ChatRequest) -> object:
    return request.tool_choice == "required" or isinstance(request.tool_choice, NamedTool)


def has_error(request: ChatRequest) -> object:
    return any(result.is_error for message in request.messages for result in message.tool_results)


def has_file(request: ChatRequest) -> object:
    return any(isinstance(part, File) for message in request.messages for part in message.parts)


def caches(request: ChatRequest) -> object:
    return request.cache


def chooses(request: ChatRequest) -> object:
    return request.tool_choice is not None


def declining(declines: Declines, *lacks: Capability, late: bool = False, shouts: bool = False) -> Target:
    """The shipped adapter for `openai-chat`, which declines such requests: before they are sent, or `late`."""

    def chat(inner: Chat, request: ChatRequest) -> ChatResponse:
        response = inner(request) if late else None
        if declines(request):
            raise Unsupported("mine", "that", "the library has no word for it")
        return response or inner(replace(request, system=(request.system or "").upper()) if shouts else request)

    (target,) = targets_for([adapter_specs.adapter("openai-chat")], ["openai-chat"], {"openai-chat": "gpt-4o"})
    chosen = chatting(target, chat)
    has = chosen.adapter.capabilities - {*lacks}
    return replace(chosen, adapter=replace(chosen.adapter, name="mine", capabilities=has))


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., CellResult]:
    """Run a scenario, of this file or shipped, with a target."""

    def one(name: str, target: Target, backend: Any = None, **options: Any) -> CellResult:
        chosen: Scenario = scenario(tmp_path, OWN[name]) if name in OWN else shipped_scenarios()[name]
        return Run(backend or InProcess(), all_rules(), **options)([Cell(chosen, target, "whole")]).cells[0]

    return one


def errors(cell: CellResult) -> list[str]:
    return [finding.rule for finding in cell.findings if finding.severity == "error"]


@pytest.mark.parametrize(
    ("name", "target", "reason"),
    [
        (
            "seeds-terminal-assistant-cache",
            declining(caches, Capability.CACHE_MARKS),
            "the adapter 'mine' does not have: cache-marks",
        ),
        (
            "choice-required",
            declining(forces, Capability.FORCED_TOOL_CHOICE),
            "the adapter 'mine' does not have: forced-tool-choice",
        ),
        ("stop", declining(stops), AT_ONCE),
        ("later", declining(stops), LATER),
        ("result-error", declining(has_error), LATER),
        ("file-of-text", declining(has_file), AT_ONCE),
    ],
)
def test_what_nobody_has_declared_may_be_declined(
    run: Callable[..., CellResult], name: str, target: Target, reason: str
) -> None:
    cell = run(name, target)
    assert (cell.verdict, cell.reason, cell.findings) == (Verdict.NOT_APPLICABLE, reason, ())


@pytest.mark.parametrize(
    ("name", "declines", "capability"),
    [
        ("seeds-terminal-assistant-cache", caches, "cache-marks"),
        ("choice-required", forces, "forced-tool-choice"),
        ("choice-auto", chooses, "tool-choice"),
        ("file-from-user", has_file, "files"),
    ],
)
def test_what_is_declared_and_declined_fails(
    run: Callable[..., CellResult], name: str, declines: Declines, capability: str
) -> None:
    cell = run(name, declining(declines))
    assert (cell.verdict, errors(cell)) == (Verdict.FAIL, ["declared-and-declined"])
    assert capability in cell.findings[0].message
    assert cell.findings[0].blame == "adapter"


@pytest.mark.parametrize(
    ("name", "target", "verdict", "found"),
    [
        ("call-single", declining(forces), Verdict.PASS, []),  # is not asked for what it declines
        ("stop", declining(stops, late=True), Verdict.FAIL, ["chat-failure"]),  # declines after it has sent
        ("later", declining(stops, shouts=True), Verdict.FAIL, ["system-verbatim"]),  # was wrong before it declined
        ("expected", declining(stops), Verdict.PASS, []),
    ],
)
def test_declining_hides_nothing(
    run: Callable[..., CellResult], name: str, target: Target, verdict: Verdict, found: list[str]
) -> None:
    cell = run(name, target)
    assert (cell.verdict, errors(cell)) == (verdict, found)


def test_unused_exchanges_of_a_declined_cell_are_no_fault(run: Callable[..., CellResult], tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path / "cassettes")
    run("later", replace(declining(lambda _: False), name="openai-chat"), recorder=Recorder(library))

    cell = run("later", declining(stops), ReplayBackend([library]))

    assert (cell.verdict, cell.findings, cell.exchanges) == (Verdict.NOT_APPLICABLE, (), 1)
    assert cell.reason == LATER


def test_a_model_that_takes_no_forced_choice_is_not_asked_for_one(run: Callable[..., CellResult]) -> None:
    cell = run("choice-required", shipped_targets()["anthropic"])
    assert cell.reason == "claude-opus-5-5 (profile claude-opus-5-5) does not have: forced-tool-choice"
