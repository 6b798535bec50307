"""What the README and the topics show is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.cli.help import topics
from harness.scenarios.load import load_paths
from tests.cli.conftest import Command

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def test_the_front_documents_are_short() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        assert len((ROOT / name).read_text(encoding="utf-8").splitlines()) <= 120, name


@pytest.mark.parametrize(
    "text", [*blocks(README, "yaml"), blocks(topics()["scenarios"], "yaml")[0]], ids=["README", "topic"]
)
def test_the_scenario_that_is_shown_can_be_played(harness: Command, folder: Path, text: str) -> None:
    name = re.findall(r"^id: (\S+)", text, re.MULTILINE)[0] + ".yaml"
    (folder / name).write_text(text, encoding="utf-8")

    assert harness("validate", name).code == 0
    outcome = harness("run", "--mode", "reference", "--target", "openai-chat", name)
    assert (outcome.code, outcome.out.partition(" (")[0]) == (0, "PASS  2 cells")


def test_the_broken_client_fails_as_shown(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    (code,) = blocks(README, "python")
    (folder / "my_client.py").write_text(code, encoding="utf-8")
    (shown,) = [block for block in blocks(README, "") if block.startswith("$ harness try")]
    command, _, output = shown.partition("\n")

    outcome = harness(*command.split()[2:])

    assert outcome.code == 1
    assert re.sub(r"(   see      harness show).*", r"\1 …", outcome.out) == output


def test_the_readme_counts_the_shipped_scenarios() -> None:
    assert f"{len(load_paths([ROOT / 'scenarios']))} scenarios" in README


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert [target for target in re.findall(r"\]\(([^)#]+)\)", text) if not (ROOT / target).exists()] == []
