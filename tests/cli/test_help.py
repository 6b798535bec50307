"""The topics of `harness help` and the README: every command can be typed, and what they show happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import harness as package
from harness.cli import try_sample
from harness.cli.explain import render, topics
from harness.cli.main import COMMANDS
from harness.scenarios.load import load_paths
from tests.cli.conftest import Command, command_of

TOPICS = Path(package.__file__).parent / "cli" / "topics"
NAMES = sorted(file.stem for file in TOPICS.glob("*.md"))
README_FILE = Path(__file__).parent.parent.parent / "README.md"


def test_every_topic_is_listed_with_what_it_is_for(harness: Command) -> None:
    outcome = harness("help")

    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()[2:]] == NAMES
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_topic_in_a_pipe_is_its_markdown(harness: Command, name: str) -> None:
    text = (TOPICS / f"{name}.md").read_text(encoding="utf-8")

    outcome = harness("help", name)

    assert (outcome.code, outcome.out, outcome.err) == (0, text, "")
    assert re.match(r"# \S.*\n\n\S", text)
    assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []
    assert text.count("```") % 2 == 0


def test_a_topic_on_a_terminal_is_rendered(capsys: pytest.CaptureFixture[str]) -> None:
    render(topics()["costs"] + "See [config](config.md).\n")

    out = capsys.readouterr().out
    assert "What a run costs" in out
    assert "harness providers" in out
    assert "See config (harness help config)." in out
    assert "```" not in out
    assert "# What" not in out


def shown_commands(text: str) -> list[list[str]]:
    """Return the words of all harness commands in a Markdown text: in fenced blocks, in sentences, and inside other
    commands. Text after three spaces or # explains a command."""
    start = re.compile(r"^ *\$? ?(?:\.venv/bin/)?(?=harness [a-z])", re.MULTILINE)
    commands: list[str] = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        at = len(block) if language not in ("", "sh") else 0
        while found := start.search(block, at):
            commands.append(_typed(block[found.end() :]))
            at = found.end() + len(commands[-1])
    commands += re.findall(r"(?<!`)`(harness [a-z][^`\n]*)`(?!`)", text)
    shown = [shlex.split(each) for each in commands]
    inner = [word.strip() for words in shown for word in words if word.strip().startswith("harness ")]
    return [*shown, *map(shlex.split, inner)]


def _typed(text: str) -> str:
    """The command that a text begins with."""
    typed = ""
    for line in text.split("\n"):
        typed += re.split(r"(?<=\S) {3,}| +#", line)[0]
        if typed.count("'") % 2 == typed.count('"') % 2 == 0 and not typed.endswith("\\"):
            break
        typed = typed.removesuffix("\\") + "\n"
    return typed


SHOWN = {tuple(each) for text in [*topics().values(), README_FILE.read_text("utf-8")] for each in shown_commands(text)}


def test_commands_are_found_wherever_they_are_shown() -> None:
    assert len(SHOWN) > 80
    assert ("harness", "check", "--adapter-command", "node adapter.mjs") in SHOWN
    assert (
        "harness",
        "check",
        "server",
        "$HARNESS_URL/_harness/server/v1",
        *("--api", "openai-chat", "--model", "any"),
    ) in SHOWN


@pytest.mark.parametrize("words", sorted(SHOWN), ids=" ".join)
def test_every_command_that_is_shown_can_be_typed(words: tuple[str, ...]) -> None:
    """It is parsed, with the values of its options; `N` stands for a number, and what is left out for more words."""
    _, name, *rest = (word.replace("PATH=", "") for word in words if word != "…")

    assert name in COMMANDS
    if name == "check":
        rest = rest if rest[:1] and rest[0] in command_of("check").commands else ["adapter", *rest]
        name, rest = f"check {rest[0]}", rest[1:]
    if rest:  # else the command is only named
        command_of(*name.split()).make_context(name, ["2" if word == "N" else word for word in rest])


def test_a_command_with_a_wrong_value_cannot_be_typed() -> None:
    command = command_of("run")
    with pytest.raises(Exception, match="valid integer"):
        command.make_context("run", ["--recut", "five"])


@pytest.mark.parametrize(
    "topic", sorted({each for text in topics().values() for each in re.findall(r"\]\(([a-z]+)\.md\)", text)})
)
def test_a_topic_that_is_referred_to_exists(topic: str) -> None:
    assert topic in NAMES


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
def test_the_scenario_in_the_help_can_be_run(harness: Command, folder: Path, text: str) -> None:
    name = re.findall(r"^id: (\S+)", text, re.MULTILINE)[0] + ".yaml"
    (folder / name).write_text(text, encoding="utf-8")

    assert harness("validate", name).code == 0
    outcome = harness("run", "--mode", "reference", "--target", "openai-chat", name)
    assert (outcome.code, outcome.out.partition(" (")[0]) == (0, "PASS  2 cells")


def test_the_broken_client_fails_as_shown(harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(try_sample, "_SECONDS", 120.0)
    (code,) = blocks(README, "python")
    (folder / "my_client.py").write_text(code, encoding="utf-8")
    (shown,) = [block for block in blocks(README, "") if block.startswith("$ harness try")]
    command, _, output = shown.partition("\n")

    outcome = harness(*command.split()[2:])

    assert outcome.code == 1
    assert outcome.out == output


def test_the_readme_counts_the_shipped_scenarios() -> None:
    assert f"{len(load_paths([ROOT / 'scenarios']))} scenarios" in README


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert [target for target in re.findall(r"\]\(([^)#]+)\)", text) if not (ROOT / target).exists()] == []
