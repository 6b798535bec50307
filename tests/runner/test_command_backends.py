"""A target that runs a command, with every backend: it is recorded, replayed and judged as one that sends requests."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.apis.registry import Target
from harness.cassettes.library import CassetteLibrary
from harness.model.errors import UsageError
from harness.model.http import Command, Completed, from_request, from_response
from harness.model.messages import ChatRequest, ChatResponse
from harness.model.protocols import Adapter, ChatClient, Endpoint, ProcessRunner
from harness.results import CellResult, Verdict
from harness.rules.rule import all_rules
from harness.runner.backends import Backend, ReferenceBackend, ReplayBackend
from harness.runner.cells import Cell
from harness.runner.live import LiveBackend
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.scenarios.schema import Scenario
from tests.backends import every_target
from tests.scenarios.files import MINIMAL, scenario

KEY = "sk-ant-0123456789abcdefghij"
CLAUDE = f"""#!{sys.executable}
import json, os, sys
prompt = sys.stdin.read()
print(json.dumps({{
    "type": "result", "subtype": "success", "is_error": False, "num_turns": 1, "stop_reason": "end_turn",
    "result": f"You said {{prompt!r}}.",
    "usage": {{"input_tokens": 3, "output_tokens": 5}}, "modelUsage": {{"claude-opus-5-5-20260101": {{}}}}
}}))
print("the key is", os.environ["ANTHROPIC_API_KEY"], file=sys.stderr)
"""


@pytest.fixture
def target() -> Target:
    return every_target()["claude-cli"]


@pytest.fixture
def asked(tmp_path: Path) -> Scenario:
    return scenario(tmp_path, {**MINIMAL, "system": "Be brief.", "requires": ["system-prompt"]})


def run_cell(
    backend: Backend, scenario: Scenario, target: Target, library: CassetteLibrary | None = None
) -> CellResult:
    recorder = Recorder(library) if library else None
    return Run(backend, all_rules(), recorder=recorder)([Cell(scenario, target, "whole")]).cells[0]


class Changing:
    """A runner that runs another command than it is given."""

    def __init__(self, inner: ProcessRunner, change: Callable[[Command], Command]) -> None:
        self._inner = inner
        self._change = change

    def run(self, command: Command, timeout: float) -> Completed:
        return self._inner.run(self._change(command), timeout)


def changed(target: Target, change: Callable[[Command], Command]) -> Target:
    """The target with an adapter that sends another command."""

    def connect(endpoint: Endpoint, model: str) -> ChatClient:
        assert endpoint.processes is not None
        made = target.adapter.connect(replace(endpoint, processes=Changing(endpoint.processes, change)), model)
        assert isinstance(made, ChatClient)
        return made

    return replace(target, adapter=replace(target.adapter, connect=connect))


# --- offline ----------------------------------------------------------------------------------------------------------


def test_a_recorded_command_is_replayed_without_a_process(
    asked: Scenario, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = CassetteLibrary(tmp_path / "cassettes")
    assert run_cell(ReferenceBackend(), asked, target, library).verdict is Verdict.PASS
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a command was run"))

    replayed = run_cell(ReplayBackend([library]), asked, target)

    assert (replayed.verdict, replayed.findings, replayed.exchanges) == (Verdict.PASS, (), 1)
    (interaction,) = library.load("claude-cli", asked.id, "whole").interactions
    assert interaction.request.url == "process://local/claude"
    assert from_request(interaction.request).stdin == "Hello"
    assert interaction.response is not None
    assert json.loads(from_response(interaction.response).stdout)["result"] == "Hi"


def test_another_command_than_the_recorded_one_is_reported(asked: Scenario, target: Target, tmp_path: Path) -> None:
    library = CassetteLibrary(tmp_path / "cassettes")
    run_cell(ReferenceBackend(), asked, target, library)
    other = changed(target, lambda command: replace(command, argv=(*command.argv[:-1], "Be verbose.")))

    replayed = run_cell(ReplayBackend([library]), asked, other)

    assert replayed.verdict is Verdict.FAIL
    (message,) = [found.message for found in replayed.findings if found.rule == "recorded-request"]
    assert "Be brief." in message
    assert "Be verbose." in message


# --- faults that are caught -------------------------------------------------------------------------------------------


def without(option: str) -> Callable[[Command], Command]:
    def change(command: Command) -> Command:
        at = command.argv.index(option)
        return replace(command, argv=(*command.argv[:at], *command.argv[at + 2 :]))

    return change


def with_system_in_prompt(command: Command) -> Command:
    return replace(command, argv=(*command.argv[:-1], ""), stdin=f"{command.argv[-1]}\n\n{command.stdin}")


def with_prompt_among_arguments(command: Command) -> Command:
    return replace(command, argv=(*command.argv, command.stdin), stdin="")


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        (without("--tools"), {"claude-cli-tools"}),
        (without("--output-format"), {"claude-cli-output-format"}),
        (without("--model"), set[str]()),
        (without("--system-prompt"), {"system-missing", "claude-cli-system-prompt"}),
        (with_system_in_prompt, {"system-missing", "system-in-message"}),
        (with_prompt_among_arguments, {"claude-cli-prompt-argument"}),
        (lambda command: replace(command, environment={}), {"claude-cli-attachments", "setting-lost"}),
    ],
)
def test_an_adapter_that_sends_another_command_is_caught(
    asked: Scenario, target: Target, change: Callable[[Command], Command], rules: set[str]
) -> None:
    replayed = run_cell(ReferenceBackend(), asked, changed(target, change))

    assert rules <= {found.rule for found in replayed.findings}


def test_an_adapter_that_runs_twice_is_caught(asked: Scenario, target: Target) -> None:
    def connect(endpoint: Endpoint, model: str) -> ChatClient:
        client = target.adapter.connect(endpoint, model)
        assert isinstance(client, ChatClient)

        class Twice:
            def chat(self, request: ChatRequest) -> ChatResponse:
                response = client.chat(request)
                assert endpoint.processes is not None
                endpoint.processes.run(Command(("claude", "--version")), 1)
                return response

            def close(self) -> None:
                client.close()

        return Twice()

    adapter: Adapter = replace(target.adapter, connect=connect)
    replayed = run_cell(ReferenceBackend(), asked, replace(target, adapter=adapter))

    assert "one-request-per-chat" in {found.rule for found in replayed.findings}


# --- for real ---------------------------------------------------------------------------------------------------------


def test_a_live_run_is_recorded_without_its_keys_and_replayed(
    asked: Scenario, target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "claude"
    script.parent.mkdir()
    script.write_text(CLAUDE)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    library = CassetteLibrary(tmp_path / "cassettes")

    assert run_cell(LiveBackend({}), asked, target, library).verdict is Verdict.PASS
    replayed = run_cell(ReplayBackend([library]), asked, target)

    assert (replayed.verdict, replayed.findings) == (Verdict.PASS, ())
    assert replayed.provenance is not None
    assert (replayed.provenance.origin, replayed.provenance.model_served) == ("provider", "claude-opus-5-5-20260101")
    text = next(iter((tmp_path / "cassettes").rglob("*.yaml"))).read_text()
    assert KEY not in text
    assert "You said 'Hello'." in text
    assert "the key is REDACTED" in text


def test_without_a_key_the_command_may_have_logged_in_by_itself(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    LiveBackend({}).key(target)

    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "another-token")
    assert LiveBackend({}).redactor().text(f"{KEY} and another-token") == "REDACTED and REDACTED"


def test_a_command_is_not_sent_elsewhere_by_a_base_url(target: Target) -> None:
    with pytest.raises(UsageError, match="runs a command and ignores --base-url"):
        LiveBackend({"claude-cli": "http://127.0.0.1:9"}).key(target)


def test_what_a_command_is_sent_to_by_the_environment_is_no_provider(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LiveBackend({}).provenance(target).origin == "provider"

    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:4000/messages?key=secret")
    provenance = LiveBackend({}).provenance(target)
    assert (provenance.origin, provenance.recorded_from) == ("server", "http://127.0.0.1:4000")

    monkeypatch.setenv("ANTHROPIC_BASE_URL", "a-secret-that-is-no-url")
    with pytest.raises(UsageError) as refusal:
        LiveBackend({}).check(target)
    assert str(refusal.value) == (
        "ANTHROPIC_BASE_URL: not a URL: it must begin with http:// or https://, as in http://127.0.0.1:4000/v1."
    )


def test_a_missing_command_is_reported_before_anything_runs(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as refusal:
        LiveBackend({}).check(target)
    assert str(refusal.value) == (
        "the target 'claude-cli' runs the command 'claude', which is not on PATH: install it, or add its folder to "
        "PATH. Without it: 'harness run' replays recordings, and 'harness run --mode reference' or 'harness record "
        "--from reference' the reference server."
    )
    (tmp_path / "claude").write_text(CLAUDE)
    (tmp_path / "claude").chmod(0o755)
    LiveBackend({}).check(target)
