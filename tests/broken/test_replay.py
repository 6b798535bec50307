"""What only replay can say: the request is another one, an exchange is left over, the cassette is old."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cassettes.library import CassetteLibrary
from harness.cli.main import main
from harness.model.messages import ChatRequest
from harness.results import Blame, CellResult, Kind, RunResult, Severity, Verdict
from harness.runner.backends import ReplayBackend
from harness.runner.cells import Cell
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from tests.backends import InProcess, shipped_targets
from tests.broken.calls import contents
from tests.broken.fault import ALL, Expected, Fault, Table, Wrap, answers, arrives, asks, posts, sends
from tests.broken.places import BODY, RESULT_CONTENT, TOOL
from tests.broken.requests import tools, twice_versioned
from tests.broken.responses import without_calls
from tests.broken.running import RULES, cell
from tests.cli.conftest import without_workers

REPLAYED: Table = {
    Expected("path-unknown", BODY, 0): [Fault("version-twice-since", "call-not-needed", posts(twice_versioned))],
    Expected("recorded-request", TOOL, 0): [
        Fault("description-changed-since", "call-single", tools(lambda t: replace(t, description="Weather."))),
    ],
    Expected("recorded-request", RESULT_CONTENT): [
        Fault("result-changed-since", "call-single", contents(lambda _: "sleet"))
    ],
    Expected("exchange-unplayed", None, None): [Fault("calls-lost-since", "call-single", answers(without_calls))],
    Expected("request-unexpected", BODY): [
        Fault("asks-twice-since", "call-not-needed", sends(lambda *_: None, times=2))
    ],
}
"""Faults that only a recording shows: the adapter no longer sends what it sent then."""

CASES = [
    pytest.param(expected, fault, target, id=f"{fault.name}-{target}")
    for expected, faults in REPLAYED.items()
    for fault in faults
    for target in fault.played_on
]
SCENARIOS = sorted({fault.scenario for faults in REPLAYED.values() for fault in faults})


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CassetteLibrary:
    """Cassettes that the shipped adapters recorded."""
    recorded = CassetteLibrary(tmp_path_factory.mktemp("cassettes"))
    cells = [cell(scenario, target) for scenario in SCENARIOS for target in ALL]
    result = Run(InProcess(), RULES, recorder=Recorder(recorded))(cells)
    assert {each.verdict for each in result.cells} == {Verdict.PASS}
    return recorded


def replayed(library: CassetteLibrary, scenario: str, target: str, wrap: Wrap | None = None) -> CellResult:
    return Run(ReplayBackend([library]), RULES, strict=True)([cell(scenario, target, wrap)]).cells[0]


@pytest.mark.parametrize(("expected", "fault", "target"), CASES)
def test_a_broken_adapter_is_caught(library: CassetteLibrary, expected: Expected, fault: Fault, target: str) -> None:
    result = replayed(library, fault.scenario, target, fault.wrap)
    assert expected.found_in(result.findings, result.api), result.findings
    assert result.verdict is Verdict.FAIL


def test_a_cassette_of_an_earlier_scenario_is_stale(tmp_path: Path) -> None:
    now = cell("call-single", "gemini-3")
    then = Cell(now.scenario.model_copy(update={"max_iterations": 4}), now.target, now.variant)
    library = CassetteLibrary(tmp_path)
    Run(InProcess(), RULES, recorder=Recorder(library))([then])
    result = replayed(library, "call-single", "gemini-3")
    assert [(f.rule, f.blame) for f in result.findings] == [("cassette-stale", Blame.CASSETTE)]
    assert result.verdict is Verdict.FAIL


def beside(fault: Wrap, edit: Callable[[ChatRequest], ChatRequest]) -> Wrap:
    """An adapter of somebody else, which is wrong in one way and asks in another one of its own."""
    return lambda adapter: replace(asks(edit)(fault(adapter)), name="somebody-else-s")


DESCRIBED = tools(lambda t: replace(t, description="Weather."))


@pytest.mark.parametrize(
    ("scenario", "wrap", "setting", "kind"),
    [
        ("call-single", beside(DESCRIBED, lambda r: replace(r, temperature=0.7)), "temperature", Kind.CONVENTION),
        ("call-single", beside(DESCRIBED, lambda r: replace(r, top_p=0.7)), "top_p", Kind.CONVENTION),
        ("stop-max-tokens-set", beside(lambda a: a, lambda r: replace(r, max_tokens=77)), "max_tokens", Kind.LOSS),
    ],
)
def test_a_setting_that_nobody_gave_is_a_note_whatever_else_is_wrong(
    tmp_path: Path, scenario: str, wrap: Wrap, setting: str, kind: Kind
) -> None:
    library = CassetteLibrary(tmp_path)
    Run(InProcess(), RULES, recorder=Recorder(library))([cell(scenario, "gemini-3")])
    result = replayed(library, scenario, "gemini-3", wrap)
    reported = [each for each in result.findings if each.rule == "recorded-request"]
    assert {each.kind for each in reported if f"settings.{setting}" in each.message} == {kind}, reported
    assert scenario != "call-single" or Kind.LOSS in {each.kind for each in reported if "description" in each.message}


def under_output(*, as_it_is: bool) -> Wrap:
    """Results are sent as their JSON text under a key, or one of them is another."""

    def sent(_api: str, body: dict[str, Any]) -> None:
        for part in (part for content in body["contents"] for part in content["parts"]):
            if "functionResponse" in part:
                given = json.dumps(part["functionResponse"]["response"]) if as_it_is else "full speed"
                part["functionResponse"]["response"] = {"output": given}

    return sends(sent)


@pytest.mark.parametrize(("as_it_is", "rules"), [(True, set[str]()), (False, {"result-changed"})])
def test_a_differing_request_is_no_second_finding(tmp_path: Path, as_it_is: bool, rules: set[str]) -> None:
    library = CassetteLibrary(tmp_path)
    Run(InProcess(), RULES, recorder=Recorder(library))([cell("schema-enums", "gemini-3")])
    wrap = beside(lambda adapter: DESCRIBED(under_output(as_it_is=as_it_is)(adapter)), lambda request: request)
    result = Run(ReplayBackend([library]), RULES)([cell("schema-enums", "gemini-3", wrap)]).cells[0]
    errors = [finding for finding in result.findings if finding.severity is Severity.ERROR]
    assert {finding.rule for finding in errors} == {"tool-declaration-changed", "recorded-request"} | rules
    recorded = [finding.pointer or "" for finding in errors if finding.rule == "recorded-request"]
    assert {"/".join(pointer.split("/")[:2]) for pointer in recorded} == {"/tools"} | (
        {"/contents"} if rules else set()
    )


def _twice(body: Iterable[bytes]) -> Iterator[bytes]:
    """The arguments of a call's first piece arrive twice (simonw/llm#1130). OpenAI's own first piece has none."""
    for line in b"".join(body).splitlines(keepends=True):
        if not line.startswith(b"data: {"):
            yield line
            continue
        chunk: dict[str, Any] = json.loads(line.removeprefix(b"data: "))
        for piece in (piece for choice in chunk["choices"] for piece in choice["delta"].get("tool_calls") or ()):
            if "id" in piece:
                piece["function"]["arguments"] *= 2
        yield b"data: " + json.dumps(chunk).encode() + b"\n"


DOUBLED = replace(arrives(_twice)(shipped_targets()["openai-chat"].adapter), name="doubled")


def test_a_fault_that_only_the_streams_of_some_servers_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_workers(monkeypatch)
    stream = ["call-single", "--target=openai-chat", "--model=openai-chat=mistral-small-latest", "--variant=stream"]
    stream.append(f"--cassettes={tmp_path / 'cassettes'}")
    report = tmp_path / "run.json"
    adapters = ["--adapter=openai-chat", "--adapter=tests.broken.test_replay:DOUBLED"]
    main(["record", "--from", "reference", *stream])

    main(["run", *stream, *adapters, f"--report=json:{report}"])

    cells = {cell.adapter: cell for cell in RunResult.from_json(report.read_text()).cells}
    assert cells["openai-chat"].verdict is Verdict.PASS, cells["openai-chat"].findings
    assert cells["doubled"].verdict is Verdict.FAIL, cells["doubled"].reason
    assert "response-calls" in {finding.rule for finding in cells["doubled"].findings}
