"""`--harness-record`: what is missing is recorded while it is tested."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.apis import registry
from harness.cassettes.loopback_server import serve
from harness.reference_server.script_session import ScriptSession
from harness.scenarios.load import load_file
from tests.pytest_plugin.project import configure, run_pytest

RECORDING = {"harness_scenarios": "scenarios", "harness_cassettes": "cassettes"}
BOTH = "openai-chat forgetful:ADAPTER"


def written(project: pytest.Pytester) -> dict[str, int]:
    root = project.path / "cassettes"
    return {str(path.relative_to(root)): path.stat().st_mtime_ns for path in sorted(root.rglob("*.yaml"))}


def test_missing_cassettes_are_recorded_once_and_then_replayed(project: pytest.Pytester) -> None:
    configure(project, **RECORDING, harness_adapters=BOTH)
    first = run_pytest(project, "--harness-record=missing")
    first.assert_outcomes(passed=7, failed=2)
    first.stdout.fnmatch_lines(
        [
            "harness: 4 cassettes to be recorded from the reference server into */cassettes.",
            "system-missing (loss, error, blame: adapter): *",
            "harness: 4 cassettes recorded: cassettes/plain/openai-chat.yaml, *, cassettes/prompted/openai-chat*.yaml",
        ]
    )
    made = written(project)
    assert [*made] == [f"{name}/openai-chat{end}.yaml" for name in ("plain", "prompted") for end in (".stream", "")]

    configure(project, **RECORDING, harness_adapters="openai-chat", harness_mode="replay")
    again = run_pytest(project, "--harness-record=missing")
    again.assert_outcomes(passed=5)
    again.stdout.no_fnmatch_line("harness: *")
    run_pytest(project, "--harness-mode=replay").assert_outcomes(passed=5)
    assert written(project) == made

    anew = run_pytest(
        project, "--harness-mode=reference", "--harness-record=all", "scenarios/plain.yaml::openai-chat[whole]"
    )
    anew.stdout.fnmatch_lines(["harness: 1 cassette recorded: cassettes/plain/openai-chat.yaml"])
    changed = written(project)
    assert [name for name in made if made[name] != changed[name]] == ["plain/openai-chat.yaml"]


@pytest.fixture
def provider(project: pytest.Pytester) -> Iterator[str]:
    """A server that speaks the API, and has one conversation to give."""
    shipped = registry.target_named("openai-chat")
    wire = registry.api(shipped.api)
    scenario = load_file(project.path / "scenarios" / "plain.yaml")
    with serve() as server:
        session = ScriptSession(scenario, wire, shipped.model, wire.profile_for(shipped.model))
        yield server.mount(session) + wire.base_url_ending


ONE = "scenarios/plain.yaml::openai-chat[whole]"


def test_from_a_provider_the_cost_is_said_before_and_after(
    project: pytest.Pytester, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-of-somebody")
    settings = f'[tool.harness]\nbase-urls = {{openai-chat = "{provider}"}}\n'
    (project.path / "pyproject.toml").write_text(settings)
    configure(project, **RECORDING, harness_adapters="openai-chat", harness_mode="replay")
    done = run_pytest(project, "--harness-record=missing", ONE)
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(
        [
            "harness: 1 cassette to be recorded from providers into */cassettes.",
            "To be sent: about 1 request, *; reasoning costs extra (genai-prices *).",
            "  openai-chat (gpt-*): about 1 request, *",
            "harness: 1 cassette recorded*: cassettes/plain/openai-chat.yaml",
        ]
    )
    text = (project.path / "cassettes" / "plain" / "openai-chat.yaml").read_text()
    assert "origin: server" in text
    assert "sk-a-key-of-somebody" not in text
    run_pytest(project, ONE).assert_outcomes(passed=1)


def test_without_a_key_nothing_is_begun(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in registry.api("openai-chat").key_variables:
        monkeypatch.delenv(name, raising=False)
    configure(project, **RECORDING, harness_adapters="openai-chat", harness_mode="replay")
    done = run_pytest(project, "--harness-record=missing")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["ERROR: *openai-chat*OPENAI_API_KEY*"])
    assert not Path(project.path / "cassettes" / "plain" / "openai-chat.yaml").exists()


def test_the_keys_of_other_tests_stay_where_they_are(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-test")
    usual = "import os\ndef test_usual():\n    assert os.environ['OPENAI_API_KEY'] == 'sk-of-another-test'\n"
    (project.path / "tests" / "test_usual.py").write_text(usual)
    configure(project, harness_scenarios="scenarios", harness_adapters="openai-chat")
    run_pytest(project, "scenarios", "tests").assert_outcomes(passed=5)
