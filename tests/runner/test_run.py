"""Runs: every verdict, recordings, and that nothing but the cells decides what comes out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.apis.registry import Target
from harness.apis.response_rules import Subject
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.transport import Handler
from harness.model.errors import ConnectionFailed, MissingDependency, UsageError, provider_error
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import ChatRequest, ChatResponse
from harness.model.protocols import Capability, Endpoint
from harness.results import Blame, CellResult, ExpectedFailure, Kind, Mode, RunResult, Severity, Verdict
from harness.rules.evidence import Evidence
from harness.rules.rule import Rule, RuleViolation, all_rules
from harness.runner.backends import ReferenceBackend, ReplayBackend
from harness.runner.cells import Cell, cells
from harness.runner.recorder import Recorder
from harness.runner.suite_run import EarlyStop, Run
from harness.scenarios.schema import Scenario
from harness.stdio.workers import RunCancelled
from tests.backends import InProcess, shipped_scenarios, shipped_targets
from tests.broken.fault import sends
from tests.scenarios.files import MINIMAL, WITH_TOOLS, changed, scenario
from tests.wrapped import Chat, asynchronous, chatting, connecting, without_http_client

Made = Callable[..., Scenario]


class Live(InProcess):
    mode: Mode = "live"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(content: dict[str, Any] = WITH_TOOLS, **changes: Any) -> Scenario:
        return scenario(tmp_path, content | changes)

    return make


@pytest.fixture(scope="module")
def target() -> Target:
    return shipped_targets()["anthropic"]


def flaw(severity: Severity = Severity.ERROR, name: str = "odd", kind: Kind = Kind.LOSS) -> Rule:
    def check(evidence: Evidence) -> Iterable[RuleViolation]:
        yield RuleViolation("it is odd", 0, "/messages/0")

    return Rule(name, Subject.TOOLS, "It is even.", "us", check, kind, "", severity=severity)


def is_located(reason: str | None, text: str) -> bool:
    """It says what was raised, and on which line of whose file."""
    return re.fullmatch(rf"{re.escape(text)} \(.*test_run\.py, line \d+\)", reason or "") is not None


def run_one(run: Run, scenario: Scenario, target: Target) -> CellResult:
    return run([Cell(scenario, target, "whole")]).cells[0]


def rules_of(cell: CellResult) -> list[tuple[str, Blame]]:
    return [(finding.rule, finding.blame) for finding in cell.findings]


@pytest.mark.parametrize("name", shipped_targets())
def test_pass(made: Made, name: str) -> None:
    cell = run_one(Run(InProcess(), all_rules()), made(), shipped_targets()[name])
    assert (cell.verdict, cell.findings, cell.reason, cell.exchanges) == (Verdict.PASS, (), None, 2)
    assert (cell.scenario, cell.target, cell.variant) == ("with-tools", name, "whole")
    assert cell.provenance is not None
    assert cell.provenance.origin == "reference"


WARNING, ERROR, NOTE = Severity.WARNING, Severity.ERROR, Severity.NOTE


@pytest.mark.parametrize(
    ("rules", "strict", "severities", "verdict", "code"),
    [
        ([flaw(WARNING)], False, [WARNING], Verdict.WARN, 0),
        ([flaw(ERROR)], False, [ERROR], Verdict.FAIL, 1),
        ([flaw(WARNING), flaw(ERROR)], False, [WARNING, ERROR], Verdict.FAIL, 1),
        ([flaw(kind=Kind.CONVENTION)], False, [NOTE], Verdict.NOTE, 0),
        ([flaw(kind=Kind.CONVENTION)], True, [ERROR], Verdict.FAIL, 1),
    ],
)
def test_findings_decide_and_conventions_fail_only_strict_runs(
    *,
    made: Made,
    target: Target,
    rules: list[Rule],
    strict: bool,
    severities: list[Severity],
    verdict: Verdict,
    code: int,
) -> None:
    run = Run(InProcess(), rules, strict=strict)([Cell(made(), target, "whole")])
    assert [finding.severity for finding in run.cells[0].findings] == severities
    assert (run.cells[0].verdict, run.exit_code) == (verdict, code)


def test_not_applicable_by_the_profiles_that_the_scenario_names(made: Made, target: Target) -> None:
    cell = run_one(Run(InProcess(), []), made(profiles=["gemini-2", "gemini-3"]), target)
    assert cell.verdict is Verdict.NOT_APPLICABLE
    assert cell.reason == "it is only for the profiles gemini-2, gemini-3"
    assert run_one(Run(InProcess(), []), made(profiles=["claude-opus-5-5"]), target).verdict is Verdict.PASS


def test_no_adapter_can_run_a_scenario_for_a_client_s_own_tools(made: Made, target: Target) -> None:
    city = {"type": "object", "properties": {"city": {"type": "string"}}}
    theirs = made(tools=[{"name": "get_weather", "parameters": city, "answered_by": "client"}])
    cell = run_one(Run(InProcess(), []), theirs, target)
    assert cell.verdict is Verdict.NOT_APPLICABLE
    assert cell.reason == "its tools are answered by what runs it: 'harness serve' or '--agent-command'"


def test_what_is_scripted_is_never_sent_to_a_provider(made: Made, target: Target) -> None:
    scripted = made(scripted=True)
    cell = run_one(Run(Live(), []), scripted, target)
    assert cell.verdict is Verdict.NOT_APPLICABLE
    assert cell.reason == "scripted: no model does this on request, so it is never sent to a provider"
    assert run_one(Run(Live(), []), made(), target).verdict is Verdict.PASS
    assert run_one(Run(InProcess(), []), scripted, target).verdict is Verdict.PASS


@pytest.mark.parametrize("error", [ConnectionFailed("refused"), KeyError("model")])
@pytest.mark.parametrize("where", ["connect", "close"])
def test_an_adapter_that_cannot_be_connected_or_closed_breaks_its_cell_only(
    made: Made, target: Target, error: Exception, where: str
) -> None:
    def connect(endpoint: Endpoint, model: str) -> Any:
        if where == "connect":
            raise error
        client: Any = target.adapter.connect(endpoint, model)
        return Unclosable(client, error)

    result = Run(InProcess(), [])([Cell(made(), each, "whole") for each in (connecting(target, connect), target)])
    assert [cell.verdict for cell in result.cells] == [Verdict.ERROR, Verdict.PASS]
    assert is_located(result.cells[0].reason, f"{type(error).__name__}: {error}")


class Unclosable:
    def __init__(self, client: Any, error: Exception) -> None:
        self.chat = client.chat
        self._error = error

    def close(self) -> None:
        raise self._error


def test_what_the_user_has_to_mend_ends_the_run(made: Made, target: Target) -> None:
    def connect(endpoint: Endpoint, model: str) -> Any:
        raise MissingDependency("mine", "sdk", "all")

    for jobs in (1, 4):
        with pytest.raises(MissingDependency):
            Run(InProcess(), [])([Cell(made(), connecting(target, connect), "whole")] * 3, jobs=jobs)


def raising(error: Exception) -> Callable[[Chat, ChatRequest], ChatResponse]:
    def chat(inner: Chat, request: ChatRequest) -> ChatResponse:
        raise error

    return chat


def test_an_adapter_that_crashes_is_an_error_with_its_evidence(made: Made, target: Target) -> None:
    cell = run_one(Run(InProcess(), all_rules()), made(), chatting(target, raising(KeyError("usage"))))
    assert cell.verdict is Verdict.ERROR
    assert is_located(cell.reason, "KeyError: 'usage'")
    assert ("chat-failure", Blame.ADAPTER) in rules_of(cell)
    assert [each.raised for each in cell.findings if each.rule == "chat-failure"] == ["KeyError"]


def test_a_rule_that_breaks_breaks_its_cell_only(made: Made, target: Target) -> None:
    def check(evidence: Evidence) -> Iterable[RuleViolation]:
        if evidence.transcript.scenario is not None and evidence.transcript.scenario.id == "with-tools":
            raise ZeroDivisionError("division by zero")
        return ()

    broken = Rule("broken", Subject.TOOLS, "It holds.", "us", check, Kind.LOSS, "")
    result = Run(InProcess(), [broken])(cells([made(), made(MINIMAL)], [target], ["whole"]))
    assert [cell.verdict for cell in result.cells] == [Verdict.ERROR, Verdict.PASS]
    assert is_located(result.cells[0].reason, "ZeroDivisionError: division by zero")


def test_nothing_runs_after_the_last_permitted_failure(made: Made, target: Target) -> None:
    asked: list[str] = []

    def noting(inner: Chat, request: ChatRequest) -> ChatResponse:
        asked.append(request.model)
        raise KeyError("usage")

    chosen = [Cell(made(), chatting(target, noting), "whole")] * 5
    result = Run(InProcess(), all_rules())(chosen, jobs=1, stop=EarlyStop(2))
    assert (len(asked), len(result.cells), result.unplayed) == (2, 2, 3)


@pytest.mark.parametrize(("seconds", "least", "ran"), [(60.0, 0, 3), (0.0, 0, 0), (0.0, 2, 2)])
def test_no_cell_but_the_first_ones_starts_late(
    made: Made, target: Target, seconds: float, least: int, ran: int
) -> None:
    chosen = [Cell(made(), target, "whole")] * 3

    result = Run(InProcess(), all_rules())(chosen, jobs=1, stop=EarlyStop(seconds=seconds, min_cells=least))

    assert (len(result.cells), result.unplayed) == (ran, 3 - ran)


def test_a_cell_that_is_cancelled_ends_a_run_with_a_time_limit_and_breaks_one_without(
    made: Made, target: Target
) -> None:
    """As the caller's clock may be ahead of that of the run."""

    def cancelled(inner: Chat, request: ChatRequest) -> ChatResponse:
        raise RunCancelled

    cells = [Cell(made(), chatting(target, cancelled), "whole")]
    result = Run(InProcess(), all_rules())(cells, jobs=1, stop=EarlyStop(seconds=60.0))
    assert (len(result.cells), result.unplayed) == (0, 1)
    with pytest.raises(RunCancelled):
        Run(InProcess(), all_rules())(cells, jobs=1)


KNOWN = ExpectedFailure("with-*", "anthropic", "odd", "tracked as #1")


def test_an_expected_failure_is_one_only_if_all_errors_are_expected(made: Made, target: Target) -> None:
    expected = run_one(Run(InProcess(), [flaw(), flaw(Severity.WARNING, "w")], expected=[KNOWN]), made(), target)
    assert (expected.verdict, expected.reason) == (Verdict.EXPECTED_FAILURE, "tracked as #1")
    assert len(expected.findings) == 2
    both = run_one(Run(InProcess(), [flaw(), flaw(name="other")], expected=[KNOWN]), made(), target)
    assert both.verdict is Verdict.FAIL


def test_cells_that_nothing_was_seen_of_make_nothing_stale(made: Made, target: Target, tmp_path: Path) -> None:
    missing = Run(ReplayBackend([CassetteLibrary(tmp_path)]), [], expected=[KNOWN])
    assert missing([Cell(made(), target, "whole")]).stale == ()
    broken = connecting(target, lambda endpoint, model: 1 / 0)  # type: ignore[arg-type, return-value]
    assert Run(InProcess(), [], expected=[KNOWN])([Cell(made(), broken, "whole")]).stale == ()
    lacking = replace(target, adapter=replace(target.adapter, capabilities=frozenset()))
    assert Run(InProcess(), [], expected=[KNOWN])([Cell(made(), lacking, "whole")]).stale == ()


def other_city(inner: Chat, request: ChatRequest) -> ChatResponse:
    response = inner(request)
    parts = tuple(
        replace(part, arguments={"city": "Rome"}) if part in response.tool_calls else part  # type: ignore[arg-type]
        for part in response.message.parts
    )
    return replace(response, message=replace(response.message, parts=parts))  # type: ignore[arg-type]


def test_a_call_that_the_scenario_has_no_result_for_is_the_scenarios_fault(made: Made, target: Target) -> None:
    only_paris = made(changed(WITH_TOOLS, "tools.0.results", [{"when": {"city": "Paris"}, "return": 18}]))
    cell = run_one(Run(Live(), []), only_paris, chatting(target, other_city))
    assert cell.verdict is Verdict.FAIL
    assert rules_of(cell) == [("tool-unanswered", Blame.SCENARIO)]
    assert cell.findings[0].message == (
        "scenario 'with-tools': the tool 'get_weather' has no result for the arguments {\"city\": \"Rome\"}. "
        "Add one to its results, or one without when, which matches all others."
    )


def test_a_call_that_the_adapter_has_mangled_is_the_adapters_fault_alone(made: Made, target: Target) -> None:
    only_paris = made(changed(WITH_TOOLS, "tools.0.results", [{"when": {"city": "Paris"}, "return": 18}]))
    cell = run_one(Run(InProcess(), all_rules()), only_paris, chatting(target, other_city))
    assert cell.verdict is Verdict.FAIL
    assert ("response-calls", Blame.ADAPTER) in rules_of(cell)
    assert Blame.SCENARIO not in {finding.blame for finding in cell.findings}


def without_timing(result: RunResult) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(result.to_json())
    del document["timing"]
    return document


SOME = ("call-parallel-same-tool", "system-changed", "json-with-tools", "call-unknown-tool")


def test_several_jobs_give_the_same_result_as_one_and_so_does_a_second_run() -> None:
    chosen = cells([shipped_scenarios()[name] for name in SOME], list(shipped_targets().values()))
    run = Run(ReferenceBackend(), all_rules())
    once = without_timing(run(chosen))
    assert once["summary"] == {**once["summary"], "pass": 54, "not-applicable": 2}
    assert without_timing(run(chosen, jobs=4)) == once


class Lost:
    """Sends to a path that no API has."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._url = endpoint.base_url + "/nowhere"

    def chat(self, request: ChatRequest) -> ChatResponse:
        reply = httpx2.post(self._url, json={}, trust_env=False)
        raise provider_error(reply.status_code, reply.json()["error"]["message"])

    def close(self) -> None:
        pass


def test_a_refusal_reads_the_same_wherever_the_server_listens(made: Made, target: Target) -> None:
    lost = connecting(without_http_client(target), lambda endpoint, model: Lost(endpoint))
    run = Run(ReferenceBackend(), all_rules())
    found = [run_one(run, made(), lost).findings for _ in range(2)]
    assert found[0] == found[1]
    assert any("POST http://reference-server.invalid/nowhere" in finding.message for finding in found[0])


LIMITS = {
    "error": ({"n": 0}, "openai-chat-parameter-range", Verdict.FAIL),
    "warning": ({"functions": []}, "openai-chat-legacy-functions", Verdict.WARN),
}


@pytest.mark.parametrize("severity", LIMITS)
def test_a_limit_fails_where_it_is_certain_and_else_warns(made: Made, severity: str) -> None:
    fields, rule, verdict = LIMITS[severity]
    target = shipped_targets()["openai-chat"]
    breaking = replace(target, adapter=sends(lambda _, body: body | fields)(target.adapter))
    cell = run_one(Run(InProcess(), all_rules()), made(MINIMAL), breaking)
    assert cell.verdict is verdict
    assert [(each.rule, each.severity) for each in cell.findings if each.kind is Kind.LIMIT] == [(rule, severity)]


def test_the_variants_that_are_run(made: Made, target: Target) -> None:
    deaf = replace(target, adapter=replace(target.adapter, capabilities=frozenset({Capability.TOOLS})))
    streamed = made(variants=["stream"])
    assert [c.variant for c in cells([made()], [target], ["stream"])] == ["stream"]
    assert [c.variant for c in cells([streamed], [target])] == ["stream"]
    assert not cells([streamed], [target], ["whole"])
    assert [c.variant for c in cells([made()], [deaf])] == ["whole"]
    (reported,) = Run(InProcess(), [])(cells([streamed], [deaf])).cells
    assert (reported.variant, reported.verdict) == ("stream", Verdict.NOT_APPLICABLE)
    assert reported.reason == "the adapter 'anthropic' does not have: streaming"


WAYS = [lambda target: target, without_http_client, asynchronous]


@pytest.mark.parametrize("way", WAYS, ids=["injected", "loopback", "async"])
def test_what_is_recorded_can_be_replayed(
    made: Made, target: Target, tmp_path: Path, way: Callable[[Target], Target]
) -> None:
    library = CassetteLibrary(tmp_path / "cassettes")
    chosen = cells([made(), made(MINIMAL)], [way(target), way(shipped_targets()["gemini-3"])])
    recorded = Run(ReferenceBackend(), all_rules(), recorder=Recorder(library))(chosen, jobs=4)
    assert recorded.mode == "record"
    assert recorded.summary["pass"] == 8
    files = {path: path.read_bytes() for path in library.paths()}
    assert len(files) == 8
    assert library.journals() == []
    replayed = Run(ReplayBackend([library]), all_rules())(chosen)
    assert replayed.mode == "replay"
    assert [(cell.verdict, cell.findings) for cell in replayed.cells] == [(Verdict.PASS, ())] * 8
    assert replayed.cells[0].provenance is not None
    assert replayed.cells[0].provenance.origin == "reference"
    assert replayed.differences == recorded.differences
    Run(ReferenceBackend(), [], recorder=Recorder(library, force=True))(chosen)
    assert {path: path.read_bytes() for path in library.paths()} == files


@pytest.fixture
def library(made: Made, target: Target, tmp_path: Path) -> CassetteLibrary:
    library = CassetteLibrary(tmp_path / "cassettes")
    Run(InProcess(), [], recorder=Recorder(library))([Cell(made(), target, "whole")])
    return library


def test_a_cut_cassette_fails_and_is_to_blame(made: Made, target: Target, library: CassetteLibrary) -> None:
    (path,) = library.paths()
    whole = path.read_bytes()
    for end in (0, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:end])
        cell = run_one(Run(ReplayBackend([library]), all_rules()), made(), target)
        assert cell.verdict is Verdict.FAIL
        assert rules_of(cell) == [("cassette-unreadable", Blame.CASSETTE)]
        assert str(path) in cell.findings[0].message


def test_what_is_not_sent_is_judged_afresh(made: Made, target: Target, library: CassetteLibrary) -> None:
    replayed = Run(ReplayBackend([library]), all_rules())
    retitled = made(changed(WITH_TOOLS, "title", "The model calls a tool, and answers"))
    assert run_one(replayed, retitled, target).verdict is Verdict.PASS
    content = json.loads(json.dumps(WITH_TOOLS))
    content["turns"][0]["model"][-1]["text"] = "Nothing of the kind."
    assert run_one(replayed, made(content), target).verdict is Verdict.PASS
    content["turns"][0]["expect"] = {"text": {"equals": "Nothing of the kind."}}
    cell = run_one(replayed, made(content), target)
    assert rules_of(cell) == [("expectation", Blame.MODEL)]
    assert cell.verdict is Verdict.FAIL


def test_whatever_a_stale_cassette_leads_to_is_the_cassettes_fault(
    made: Made, target: Target, library: CassetteLibrary
) -> None:
    content = json.loads(json.dumps(WITH_TOOLS))
    content["turns"][0]["user"] = "And now?"
    content["turns"][0]["model"][-1]["text"] = "Nothing of the kind."
    content["turns"][0]["expect"] = {"text": {"equals": "Nothing of the kind."}}
    cell = run_one(Run(ReplayBackend([library]), all_rules()), made(content), target)
    assert len(cell.findings) > 1
    assert {blame for _, blame in rules_of(cell)} == {Blame.CASSETTE}


@pytest.mark.parametrize(("where", "jobs"), [("connect", 1), ("chat", 2)])
def test_an_adapter_that_exits_breaks_its_cell_and_not_the_run(
    made: Made, target: Target, where: str, jobs: int
) -> None:
    def leave(*_: object) -> Any:
        raise SystemExit(0)

    leaving = connecting(target, leave) if where == "connect" else chatting(target, leave)
    chosen = cells([made()], [replace(leaving, name="leaving"), target], ["whole"])
    result = Run(InProcess(), all_rules())(chosen, jobs=jobs)
    assert [cell.verdict for cell in result.cells] == [Verdict.ERROR, Verdict.PASS]
    assert is_located(result.cells[0].reason, "SystemExit: 0")
    assert result.exit_code == 1


def test_another_request_than_the_recorded_one_is_the_adapters_fault(
    made: Made, target: Target, library: CassetteLibrary
) -> None:
    def chat(inner: Chat, request: ChatRequest) -> ChatResponse:
        return inner(replace(request, system="Be brief."))

    cell = run_one(Run(ReplayBackend([library]), all_rules()), made(), chatting(target, chat))
    assert cell.verdict is Verdict.FAIL
    assert ("recorded-request", Blame.ADAPTER) in rules_of(cell)


def test_another_models_cassette_is_not_overwritten(made: Made, target: Target, library: CassetteLibrary) -> None:
    with pytest.raises(UsageError, match="it was recorded with claude-opus-5-5, not with other"):
        run_one(Run(InProcess(), [], recorder=Recorder(library)), made(), replace(target, model="other"))


class Counting:
    def __init__(self) -> None:
        self.requests = 0

    def __call__(self, request: HttpRequest, session: Handler) -> HttpResponse:
        self.requests += 1
        return session(request)


@pytest.mark.parametrize(("limit", "recorded"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (100, 3)])
def test_no_more_requests_are_sent_than_allowed(made: Made, tmp_path: Path, limit: int, recorded: int) -> None:
    targets = [shipped_targets()[name] for name in ("anthropic", "gemini-3", "openai-chat")]
    library, counting = CassetteLibrary(tmp_path / "cassettes"), Counting()
    run = Run(InProcess(counting), [], recorder=Recorder(library, max_requests=limit))
    result = run(cells([made()], targets, ["whole"]))
    assert counting.requests == min(limit, 6)
    assert len(library.paths()) == recorded
    assert len(library.journals()) == limit % 2  # one is half done, and what was answered is kept
    missing = [cell for cell in result.cells if cell.verdict is Verdict.MISSING]
    assert len(missing) == 3 - recorded
    assert {cell.reason for cell in missing} <= {
        f"not recorded: {limit} requests were sent, --max-requests allows no more"
    }
