"""Projects with several adapters, APIs or loops: what does not fit is left out with the reason, and stops nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Command

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


def test_a_project_of_loops_alone_says_how_they_are_played(harness: Command, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.harness]\nconversations = ["tests.driving.capable:naive@openai-chat"]\n'
    )
    ran = harness("run")
    assert ran.code == 2
    assert "it runs its own tool loop and cannot be played from cassettes" in ran.err


def test_a_missing_cassette_names_that_of_another_model(harness: Command, folder: Path) -> None:
    model = ("--target", "openai-chat", "--variant", "whole", "--model")
    harness("record", "--from", "reference", "call-single", *model, "openai-chat=gpt-5.1")
    ran = harness("run", "call-single", *model, "openai-chat=gpt-5.2")
    assert "there is one of gpt-5.1: --model openai-chat=gpt-5.1 plays it" in " ".join(ran.out.split())
