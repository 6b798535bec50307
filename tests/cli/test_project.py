"""What a project says of itself in `pyproject.toml`, with one adapter or several."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import NO_SUCH_TOOL, Command
from tests.serving.served import KEYS, serving

ONE = ("call-single", "--target=anthropic", "--variant=whole")


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder inside a repository whose project has facts of its own."""
    (folder / ".git").mkdir()
    (folder / "ours.yaml").write_text(NO_SUCH_TOOL)
    (folder / "pyproject.toml").write_text('[tool.harness]\nfacts = ["ours.yaml"]\n')
    (folder / "tests").mkdir()
    (folder / "tests" / "pyproject.toml").write_text("[tool.ruff]\n")
    monkeypatch.chdir(folder / "tests")
    return folder / "tests"


@pytest.mark.parametrize(
    "command",
    [
        ("list", "facts", "--api=anthropic"),
        ("explain", "anthropic-ours-no-weather"),
        ("show", *ONE),
        ("run", *ONE, "--mode=reference"),
        ("record", *ONE, "--from=reference"),
        ("check", "anthropic", *ONE[1:]),
    ],
    ids=lambda command: command[0],
)
def test_every_command_knows_the_facts_of_the_project(harness: Command, inside: Path, command: tuple[str, ...]) -> None:
    assert inside.is_dir()
    assert "anthropic-ours-no-weather" in harness(*command).out


@pytest.mark.usefixtures("inside")
def test_a_server_knows_the_facts_of_the_project() -> None:
    body = {
        "model": "claude-opus-5-5",
        "max_tokens": 99,
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}],
    }
    with serving("call-single") as server:
        server.ask("/call-single/1/v1/messages", body, KEYS["anthropic"])

    assert "anthropic-ours-no-weather" in server.out


def test_options_add_to_what_the_project_says(harness: Command, inside: Path) -> None:
    (inside / "more.yaml").write_text(NO_SUCH_TOOL.replace("no-weather", "no-wether"))
    outcome = harness("list", "facts", "--api=anthropic", "--facts=more.yaml", "--facts=../ours.yaml")
    assert [outcome.out.count(f"anthropic-ours-no-{name} ") for name in ("weather", "wether")] == [1, 1]


def test_nothing_beyond_the_repository_counts(harness: Command, inside: Path) -> None:
    (inside / ".git").mkdir()
    assert "anthropic-ours" not in harness("list", "facts", "--api=anthropic").out


pytestmark = pytest.mark.usefixtures("in_process")

MIXED = """
[tool.harness]
adapters = ["anthropic", "tests.examples.plain_http:ADAPTER"]
conversations = ["tests.driving.capable:naive@openai-chat"]
models = {openai-chat = "gpt-5.1", gemini-3 = "gemini-3.8-flash"}
"""


@pytest.fixture
def mixed(folder: Path) -> Path:
    (folder / "pyproject.toml").write_text(MIXED)
    return folder


@pytest.mark.usefixtures("mixed")
def test_an_agent_of_the_project_is_left_out_of_replays(harness: Command) -> None:
    ran = harness("run", "call-single", "--target", "anthropic")

    assert ran.code == 0, ran.err
    assert "naive@openai-chat is left out: it runs its own tool loop" in " ".join(ran.out.split())
    assert "harness run --mode reference" in ran.out
    assert harness("record", "--from", "reference", "call-single", "--target", "anthropic").code == 0


@pytest.mark.usefixtures("mixed")
def test_a_target_chooses_among_adapters(harness: Command) -> None:
    ran = harness("run", "--mode", "reference", "call-single", "--target", "anthropic")

    assert ran.code == 0, ran.err
    assert "plain-http is left out: it speaks openai-chat" in ran.out
    nobody = harness("run", "call-single", "--adapter", "anthropic", "--target", "gemini-3")
    assert nobody.code == 2
    assert "none of the chosen targets does" in nobody.err


@pytest.mark.usefixtures("mixed")
def test_only_typed_models_of_other_targets_are_errors(harness: Command) -> None:
    ran = harness("run", "--mode", "reference", "call-single", "--adapter", "anthropic")
    assert ran.code == 0, ran.err
    typed = harness("run", "call-single", "--adapter", "anthropic", "--model", "openai-chat=gpt-5.1")
    assert typed.code == 2
    assert "--model: unknown target 'openai-chat'" in typed.err


def test_a_missing_cassette_names_that_of_another_model(harness: Command, folder: Path) -> None:
    model = ("--target", "openai-chat", "--variant", "whole", "--model")
    harness("record", "--from", "reference", "call-single", *model, "openai-chat=gpt-5.1")
    ran = harness("run", "call-single", *model, "openai-chat=gpt-5.2")
    assert "there is one of gpt-5.1: --model openai-chat=gpt-5.1 replays it" in " ".join(ran.out.split())
