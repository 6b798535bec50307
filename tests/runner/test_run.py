"""Runs: every verdict, recordings, and that nothing but the cells decides what comes out."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.apis.response_rules import Subject
from harness.apis.targets import Target
from harness.cassettes.library import Library
from harness.cassettes.transport import Handler
from harness.model.errors import ConnectionFailed, MissingDependency, UsageError, provider_error
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import ChatRequest, ChatResponse
from harness.model.protocols import Capability, Endpoint
from harness.results import Blame, CellResult, Kind, Mode, RunResult, Severity, StaleExpectation, Verdict
from harness.rules.evidence import Evidence
from harness.rules.registry import all_rules
from harness.rules.rule import Rule, RuleViolation
from harness.runner.backends import ReferenceBackend, ReplayBackend
from harness.runner.cells import Cell, cells
from harness.runner.expected_failures import ExpectedFailure
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.runner.versions import versions
from harness.scenarios.schema import Scenario
from tests.scenarios.files import MINIMAL, WITH_TOOLS, changed, scenario
from tests.stages import InProcess, shipped_scenarios, shipped_targets
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


@pytest.mark.parametrize(
    ("severities", "verdict"),
    [
        ([Severity.WARNING], Verdict.WARN),
        ([Severity.ERROR], Verdict.FAIL),
        ([Severity.WARNING, Severity.ERROR], Verdict.FAIL),
    ],
)
def test_findings_decide(made: Made, target: Target, severities: list[Severity], verdict: Verdict) -> None:
    cell = run_one(Run(InProcess(), [flaw(severity) for severity in severities]), made(), target)
    assert cell.verdict is verdict
    assert [finding.severity for finding in cell.findings] == severities


@pytest.mark.parametrize(
    ("strict", "ends"),
    [(False, (Severity.NOTE, Verdict.NOTE, 0)), (True, (Severity.ERROR, Verdict.FAIL, 1))],
)
def test_a_convention_is_a_note_and_fails_only_a_strict_run(
    made: Made, target: Target, strict: bool, ends: tuple[Severity, Verdict, int]
) -> None:
    run = Run(InProcess(), [flaw(kind=Kind.CONVENTION)], strict=strict)([Cell(made(), target, "whole")])
    assert (run.cells[0].findings[0].severity, run.cells[0].verdict, run.exit_code) == ends


def test_a_note_hides_no_warning(made: Made, target: Target) -> None:
    rules = [flaw(kind=Kind.CONVENTION), flaw(Severity.WARNING, "strange")]
    assert run_one(Run(InProcess(), rules), made(), target).verdict is Verdict.WARN


def test_not_applicable_by_what_the_adapter_lacks(made: Made, target: Target) -> None:
    lacking = replace(target, adapter=replace(target.adapter, name="mine", capabilities=frozenset()))
    cell = run_one(Run(InProcess(), []), made(), lacking)
    assert (cell.verdict, cell.reason) == (Verdict.NOT_APPLICABLE, "the adapter 'mine' does not have: tools")


def test_not_applicable_by_what_the_profile_lacks() -> None:
    cell = run_one(Run(InProcess(), []), shipped_scenarios()["json-with-tools"], shipped_targets()["gemini-2.5"])
    assert cell.verdict is Verdict.NOT_APPLICABLE
    assert cell.reason == "gemini-2.5-flash-lite (profile gemini-2) does not have: json-with-tools"


def test_not_applicable_by_the_profiles_that_the_scenario_names(made: Made, target: Target) -> None:
    cell = run_one(Run(InProcess(), []), made(profiles=["gemini-2", "gemini-3"]), target)
    assert cell.verdict is Verdict.NOT_APPLICABLE
    assert cell.reason == "it holds only for the profiles gemini-2, gemini-3"
    assert run_one(Run(InProcess(), []), made(profiles=["claude-opus-5-5"]), target).verdict is Verdict.PASS


def test_what_a_client_s_own_tools_answer_no_adapter_can_play(made: Made, target: Target) -> None:
    city = {"type": "object", "properties": {"city": {"type": "string"}}}
    theirs = made(tools=[{"name": "get_weather", "parameters": city, "answered_by": "client"}])
    cell = run_one(Run(InProcess(), []), theirs, target)
    assert cell.verdict is Verdict.NOT_APPLICABLE
    assert cell.reason == "its tools are answered by what plays it: 'harness serve' or '--agent-command'"


def test_what_is_scripted_is_never_sent_to_a_provider(made: Made, target: Target) -> None:
    scripted = made(scripted=True)
    cell = run_one(Run(Live(), []), scripted, target)
    assert cell.verdict is Verdict.NOT_APPLICABLE
    assert cell.reason == "scripted: no model does this when asked, so it is never sent to a provider"
    assert run_one(Run(Live(), []), made(), target).verdict is Verdict.PASS
    assert run_one(Run(InProcess(), []), scripted, target).verdict is Verdict.PASS


def test_a_cell_that_is_not_applicable_connects_nothing(made: Made, target: Target) -> None:
    unconnected = connecting(target, lambda endpoint, model: pytest.fail("connected"))
    cell = run_one(Run(InProcess(), []), made(profiles=["gemini-2"]), unconnected)
    assert cell.verdict is Verdict.NOT_APPLICABLE


def test_a_missing_cassette_is_no_pass(made: Made, target: Target, tmp_path: Path) -> None:
    run = Run(ReplayBackend([Library(tmp_path / "one"), Library(tmp_path / "two")]), [])
    result = run([Cell(made(), target, "whole")])
    (cell,) = result.cells
    assert cell.verdict is Verdict.MISSING
    assert cell.reason is not None
    assert cell.reason.startswith(str(tmp_path / "one" / "with-tools" / "anthropic.yaml"))
    assert result.exit_code == 2
    assert all(set(difference.values.values()) == {"not observed"} for difference in result.differences)


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


def test_a_chat_error_for_nothing_fails(made: Made, target: Target) -> None:
    cell = run_one(Run(InProcess(), all_rules()), made(), chatting(target, raising(ConnectionFailed("reset"))))
    assert cell.verdict is Verdict.FAIL
    assert ("chat-failure", Blame.ADAPTER) in rules_of(cell)
    assert {each.raised for each in cell.findings} == {None}


def test_a_rule_that_breaks_breaks_its_cell_only(made: Made, target: Target) -> None:
    def check(evidence: Evidence) -> Iterable[RuleViolation]:
        if evidence.transcript.scenario is not None and evidence.transcript.scenario.id == "with-tools":
            raise ZeroDivisionError("division by zero")
        return ()

    broken = Rule("broken", Subject.TOOLS, "It holds.", "us", check, Kind.LOSS, "")
    result = Run(InProcess(), [broken])(cells([made(), made(MINIMAL)], [target], ["whole"]))
    assert [cell.verdict for cell in result.cells] == [Verdict.ERROR, Verdict.PASS]
    assert is_located(result.cells[0].reason, "ZeroDivisionError: division by zero")


def test_what_ends_a_run_leaves_what_was_played_before(made: Made, target: Target) -> None:
    def connect(endpoint: Endpoint, model: str) -> Any:
        raise MissingDependency("mine", "sdk", "all")

    told: list[CellResult] = []
    chosen = [Cell(made(), target, "whole"), Cell(made(MINIMAL), target, "whole")]
    with pytest.raises(MissingDependency):
        Run(InProcess(), [])(
            [*chosen, Cell(made(), connecting(target, connect), "whole")], jobs=1, progress=told.append
        )
    assert [each.verdict for each in told] == [Verdict.PASS, Verdict.PASS]


def test_nothing_is_played_behind_the_last_failure_that_is_borne(made: Made, target: Target) -> None:
    asked: list[str] = []

    def noting(inner: Chat, request: ChatRequest) -> ChatResponse:
        asked.append(request.model)
        raise KeyError("usage")

    chosen = [Cell(made(), chatting(target, noting), "whole")] * 5
    result = Run(InProcess(), all_rules())(chosen, jobs=1, enough=2)
    assert (len(asked), len(result.cells), result.unplayed) == (2, 2, 3)


def test_the_time_of_a_cell_is_that_of_its_playing_and_its_share_of_the_judging(made: Made, target: Target) -> None:
    def slow(inner: Chat, request: ChatRequest) -> ChatResponse:
        time.sleep(0.03)
        return inner(request)

    def check(evidence: Evidence) -> Iterable[RuleViolation]:
        time.sleep(0.01)
        return ()

    rule = Rule("slow", Subject.TOOLS, "It holds.", "us", check, Kind.LOSS, "")
    chosen = [Cell(made(MINIMAL), target, "whole"), Cell(made(MINIMAL), chatting(target, slow), "whole")]
    quick, late = Run(InProcess(), [rule])(chosen, jobs=1).cells
    assert quick.seconds >= 0.01
    assert late.seconds >= 0.04


KNOWN = ExpectedFailure("with-*", "anthropic", "odd", "tracked as #1")


def test_an_expected_failure_is_one_only_if_all_errors_are_expected(made: Made, target: Target) -> None:
    expected = run_one(Run(InProcess(), [flaw(), flaw(Severity.WARNING, "w")], expected=[KNOWN]), made(), target)
    assert (expected.verdict, expected.reason) == (Verdict.EXPECTED_FAILURE, "tracked as #1")
    assert len(expected.findings) == 2
    both = run_one(Run(InProcess(), [flaw(), flaw(name="other")], expected=[KNOWN]), made(), target)
    assert both.verdict is Verdict.FAIL


def test_an_expected_failure_that_passes_is_stale_and_fails_the_run(made: Made, target: Target) -> None:
    result = Run(InProcess(), [], expected=[KNOWN])([Cell(made(), target, "whole")])
    assert result.stale == (StaleExpectation("with-*", "anthropic", "odd", "tracked as #1"),)
    assert result.cells[0].verdict is Verdict.PASS
    assert result.exit_code == 1


def test_cells_that_nothing_was_seen_of_make_nothing_stale(made: Made, target: Target, tmp_path: Path) -> None:
    missing = Run(ReplayBackend([Library(tmp_path)]), [], expected=[KNOWN])
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


def test_progress_is_told_of_every_cell_once(made: Made, target: Target) -> None:
    chosen = cells([made(), made(MINIMAL)], [target, shipped_targets()["gemini-3"]])
    for jobs in (1, 4):
        seen: list[CellResult] = []
        result = Run(InProcess(), [])(chosen, jobs=jobs, progress=seen.append)
        assert sorted(map(repr, seen)) == sorted(map(repr, result.cells))


def test_the_order_of_cells_is_that_of_scenarios_and_targets(made: Made, target: Target) -> None:
    other = shipped_targets()["gemini-3"]
    chosen = cells([made(), made(MINIMAL)], [target, other])
    assert [(c.scenario.id, c.target.name, c.variant) for c in chosen] == [
        (scenario, name, variant)
        for scenario in ("with-tools", "minimal")
        for name in ("anthropic", "gemini-3")
        for variant in ("whole", "stream")
    ]


def test_the_variants_that_are_played(made: Made, target: Target) -> None:
    deaf = replace(target, adapter=replace(target.adapter, capabilities=frozenset({Capability.TOOLS})))
    streamed = made(variants=["stream"])
    assert [c.variant for c in cells([made()], [target], ["stream"])] == ["stream"]
    assert [c.variant for c in cells([streamed], [target])] == ["stream"]
    assert not cells([streamed], [target], ["whole"])
    assert [c.variant for c in cells([made()], [deaf])] == ["whole"]
    (told,) = Run(InProcess(), [])(cells([streamed], [deaf])).cells
    assert (told.variant, told.verdict) == ("stream", Verdict.NOT_APPLICABLE)
    assert told.reason == "the adapter 'anthropic' does not have: streaming"


def test_versions_are_those_of_what_is_installed() -> None:
    assert {"anthropic", "openai", "google-genai", "httpx2"} <= versions().keys()


WAYS = [lambda target: target, without_http_client, asynchronous]


@pytest.mark.parametrize("way", WAYS, ids=["injected", "loopback", "async"])
def test_what_is_recorded_can_be_replayed(
    made: Made, target: Target, tmp_path: Path, way: Callable[[Target], Target]
) -> None:
    library = Library(tmp_path / "cassettes")
    chosen = cells([made(), made(MINIMAL)], [way(target), way(shipped_targets()["gemini-3"])])
    recorded = Run(ReferenceBackend(), all_rules(), recorder=Recorder(library))(chosen)
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
def library(made: Made, target: Target, tmp_path: Path) -> Library:
    library = Library(tmp_path / "cassettes")
    Run(InProcess(), [], recorder=Recorder(library))([Cell(made(), target, "whole")])
    return library


def test_the_first_library_that_has_a_cassette_is_played(
    made: Made, target: Target, library: Library, tmp_path: Path
) -> None:
    run = Run(ReplayBackend([Library(tmp_path / "none"), library, Library(tmp_path / "none")]), [])
    assert run_one(run, made(), target).verdict is Verdict.PASS


def test_a_cut_cassette_fails_and_is_to_blame(made: Made, target: Target, library: Library) -> None:
    (path,) = library.paths()
    whole = path.read_bytes()
    for end in (0, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:end])
        cell = run_one(Run(ReplayBackend([library]), all_rules()), made(), target)
        assert cell.verdict is Verdict.FAIL
        assert rules_of(cell) == [("cassette-unreadable", Blame.CASSETTE)]
        assert str(path) in cell.findings[0].message


def test_a_cassette_of_the_scenario_as_it_was_is_stale(made: Made, target: Target, library: Library) -> None:
    later = made(changed(WITH_TOOLS, "max_iterations", 7))
    cell = run_one(Run(ReplayBackend([library]), all_rules()), later, target)
    assert cell.verdict is Verdict.FAIL
    assert rules_of(cell) == [("cassette-stale", Blame.CASSETTE)]


def test_what_is_not_sent_is_judged_afresh(made: Made, target: Target, library: Library) -> None:
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
    made: Made, target: Target, library: Library
) -> None:
    content = json.loads(json.dumps(WITH_TOOLS))
    content["turns"][0]["user"] = "And now?"
    content["turns"][0]["model"][-1]["text"] = "Nothing of the kind."
    content["turns"][0]["expect"] = {"text": {"equals": "Nothing of the kind."}}
    cell = run_one(Run(ReplayBackend([library]), all_rules()), made(content), target)
    assert len(cell.findings) > 1
    assert {blame for _, blame in rules_of(cell)} == {Blame.CASSETTE}


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("where", ["connect", "chat"])
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
    made: Made, target: Target, library: Library
) -> None:
    def chat(inner: Chat, request: ChatRequest) -> ChatResponse:
        return inner(replace(request, system="Be brief."))

    cell = run_one(Run(ReplayBackend([library]), all_rules()), made(), chatting(target, chat))
    assert cell.verdict is Verdict.FAIL
    assert ("recorded-request", Blame.ADAPTER) in rules_of(cell)


def test_a_recording_that_failed_leaves_the_old_cassette(made: Made, target: Target, library: Library) -> None:
    (path,) = library.paths()
    before = path.read_bytes()
    run = Run(InProcess(), [], recorder=Recorder(library, force=True))
    run_one(run, made(), chatting(target, raising(ConnectionFailed("reset"))))
    assert path.read_bytes() == before
    assert library.journals() == []


def test_another_models_cassette_is_not_overwritten(made: Made, target: Target, library: Library) -> None:
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
    library, counting = Library(tmp_path / "cassettes"), Counting()
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


def test_several_jobs_send_no_more_either(made: Made, tmp_path: Path) -> None:
    counting = Counting()
    run = Run(InProcess(counting), [], recorder=Recorder(Library(tmp_path / "cassettes"), max_requests=5))
    run(cells([made()], list(shipped_targets().values())), jobs=4)
    assert counting.requests == 5
