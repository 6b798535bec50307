"""Record and live against an endpoint that is not ours: the npm package `@copilotkit/aimock`, on loopback."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.apis import registry
from harness.apis.registry import targets_for
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.redact import Redactor
from harness.checks.server_check import CheckSelection, ServerCheckRun
from harness.checks.server_checks import CHECKS
from harness.checks.server_session import RetryingClient, ServerUnderTest
from harness.platform.files import shipped_folder
from harness.results import Blame, Finding, RunResult, Severity, Verdict
from harness.rules.rule import all_rules
from harness.runner.backends import Backend, ReplayBackend
from harness.runner.cells import cells
from harness.runner.live import LiveBackend
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.scenarios.load import load_paths
from harness.stdio import adapter_specs

FOLDER = os.environ.get("HARNESS_AIMOCK_DIR")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="HARNESS_AIMOCK_DIR names no folder with @copilotkit/aimock; .ci/run installs it where Node is"
)

SCENARIOS = {"call-single", "call-parallel-same-tool", "history-two-turns", "system-plain", "json-mode", "json-schema"}
PATHS = {"anthropic": "", "openai-chat": "/v1", "openai-responses": "/v1", "gemini": "/v1beta"}
SERVED = [target for target in registry.targets() if target.api in PATHS]
KEY = "sk-harness-0123456789abcdefghijklmnopqrstuvwxyz"
REFUSED = ("system-plain", "openai-chat")
"""aimock reads no `developer` message, so that it does not find the system prompt that its fixture asks for."""


@contextmanager
def serving(*fixtures: Path) -> Iterator[str]:
    """The origin of a running aimock."""
    command = ["node", str(Path(__file__).with_name("server.mjs")), str(FOLDER), *map(str, fixtures)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        try:
            origin = process.stdout.readline().strip()
            assert origin.startswith("http://127.0.0.1:"), "aimock did not start"
            yield origin
        finally:
            process.stdin.close()


def base_urls(origin: str) -> dict[str, str]:
    return {target.name: origin + PATHS[target.api] for target in SERVED}


def run(backend: Backend, *, targets: tuple[str, ...] = (), recorder: Recorder | None = None) -> RunResult:
    chosen = [served for served in SERVED if not targets or served.name in targets]
    adapters = [adapter_specs.adapter(name) for name in dict.fromkeys(served.adapter for served in chosen)]
    scenarios = [scenario for scenario in load_paths([shipped_folder("scenarios")]) if scenario.id in SCENARIOS]
    made = targets_for(adapters, targets, {})
    return Run(backend, all_rules(), recorder=recorder)(cells(scenarios, made, ["whole"]))


def findings(result: RunResult) -> list[tuple[str, str, Finding]]:
    return [(cell.scenario, cell.target, finding) for cell in result.cells for finding in cell.findings]


def verdicts(result: RunResult) -> dict[tuple[str, str], Verdict]:
    return {(cell.scenario, cell.target): cell.verdict for cell in result.cells}


@dataclass(frozen=True)
class Recorded:
    root: Path
    result: RunResult
    replayed: RunResult
    """Once the server has stopped."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    library = CassetteLibrary(tmp_path_factory.mktemp("cassettes"))
    with pytest.MonkeyPatch.context() as environment:
        for api in PATHS:
            for name in registry.api(api).key_variables:
                environment.setenv(name, KEY)
        with serving() as origin:
            result = run(LiveBackend(base_urls(origin)), recorder=Recorder(library))
    return Recorded(library.root, result, run(ReplayBackend([library])))


def test_everything_is_recorded_but_what_aimock_refuses(recorded: Recorded) -> None:
    fine = {cell: verdict for cell, verdict in verdicts(recorded.result).items() if cell != REFUSED}

    assert recorded.result.mode == "record"
    assert len(fine) == len(SCENARIOS) * len(SERVED) - 1
    assert set(fine.values()) <= {Verdict.PASS, Verdict.WARN}
    assert Verdict.PASS in fine.values()
    library = CassetteLibrary(recorded.root)
    assert len(library.paths()) == len(fine)
    assert library.journals() == []
    assert {cell.provenance.origin for cell in recorded.result.cells if cell.provenance} == {"server"}


def test_what_was_recorded_replays_without_the_server(recorded: Recorded) -> None:
    replayed = verdicts(recorded.replayed)

    assert replayed.pop(REFUSED) is Verdict.MISSING
    assert replayed == {cell: verdict for cell, verdict in verdicts(recorded.result).items() if cell != REFUSED}
    answered = [cell for cell in recorded.replayed.cells if cell.provenance]
    assert {cell.provenance.origin for cell in answered if cell.provenance} == {"server"}
    assert all(cell.provenance.recorded_at for cell in answered if cell.provenance)


def test_its_departures_are_found(recorded: Recorded) -> None:
    found = {(finding.rule, target) for _, target, finding in findings(recorded.result)}
    errors = [each for each in findings(recorded.result) if each[2].severity is Severity.ERROR]

    assert {f.blame for result in (recorded.result, recorded.replayed) for *_, f in findings(result)} == {
        Blame.PROVIDER
    }
    assert [(scenario, target, finding.rule) for scenario, target, finding in errors] == [(*REFUSED, "chat-refused")]
    assert found == {
        ("chat-refused", "openai-chat"),
        ("provider-id-missing", "gemini-3"),
        ("provider-signature-missing", "gemini-3"),
        ("provider-signature-missing", "gemini-4"),
        *(("provider-stop-reason", each.name) for each in SERVED if each.api == "gemini"),
        *(("provider-usage-missing", each.name) for each in SERVED if each.name != "openai-chat"),
    }
    assert {str(f.actual) for _, _, f in findings(recorded.result) if f.rule == "provider-stop-reason"} == {
        "FUNCTION_CALL"
    }


def test_no_key_reaches_the_disk_or_the_result(recorded: Recorded) -> None:
    files = [path for path in recorded.root.rglob("*") if path.is_file()]

    assert files
    assert [path for path in files if KEY in path.read_text()] == []
    assert KEY not in recorded.result.to_json()


def test_live_finds_the_same_and_writes_nothing(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving() as origin:
        result = run(LiveBackend(base_urls(origin)), targets=("openai-chat", "gemini-3"))

    assert result.mode == "live"
    assert verdicts(result).items() <= verdicts(recorded.result).items()
    assert list(tmp_path.iterdir()) == []


DEPARTING = {
    "openai-chat": {"server-integers"},
    "openai-responses": {"server-integers", "server-events", "server-usage", "server-error-messages"},
    "anthropic": {"server-integers", "server-usage", "server-error-body"},
    "gemini": {"server-fields", "server-usage"},
}
"""What of aimock is not as the APIs promise: JavaScript holds no integer beyond the doubles, and it counts no tokens,
numbers no events, fails over a request without input, has no type at its errors and names no version."""


def test_a_check_of_aimock_finds_where_it_departs_and_nothing_else(tmp_path: Path) -> None:
    fixtures = tmp_path / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": [*scripted()]}))
    found: dict[str, set[str]] = {}
    with serving(fixtures) as origin:
        for api in DEPARTING:
            server = ServerUnderTest.of(registry.api(api), "toy-1", origin + PATHS[api])
            with RetryingClient(server.api, KEY) as line:
                result = ServerCheckRun(server, line, CheckSelection(), Redactor())()
            failing = [each for cell in result.cells for each in cell.findings if each.fails]
            found[api] = {each.rule for each in failing}
            assert {each.blame for each in failing} == {Blame.PROVIDER}

    assert found == DEPARTING


def scripted() -> Iterator[dict[str, object]]:
    """The scripts of the checks as fixtures; the most particular ones first, as aimock wants them."""
    for check in CHECKS.values():
        for number, step in reversed([*enumerate(check.script)]):
            said = check.prompt if number < 2 else "Oslo"  # the third answer is to another question
            calls = [{"name": name, "arguments": arguments} for name, arguments in step.named_calls]
            match: dict[str, object] = {"userMessage": said}
            if len(check.script) > 1 and number < 2:
                match["hasToolResult"] = bool(number)
            yield {"match": match, "response": {"toolCalls": calls} if calls else {"content": step.text}}
