"""The topics of `harness help`: each is shown as it stands, and what it shows can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

import harness as package
from harness.cli.app import app
from harness.cli.help import topics
from harness.cli.main import COMMANDS
from tests.cli.conftest import Command

TOPICS = Path(package.__file__).parent / "cli" / "topics"
NAMES = sorted(file.stem for file in TOPICS.glob("*.txt"))
README = Path(__file__).parent.parent.parent / "README.md"


def test_every_topic_is_listed_with_what_it_is_for(harness: Command) -> None:
    outcome = harness("help")

    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()[2:]] == NAMES
    assert len(NAMES) >= 10


@pytest.mark.parametrize("name", NAMES)
def test_a_topic_is_shown_as_it_stands(harness: Command, name: str) -> None:
    text = (TOPICS / f"{name}.txt").read_text(encoding="utf-8")

    outcome = harness("help", name)

    assert (outcome.code, outcome.out, outcome.err) == (0, text, "")
    assert text.splitlines()[0].endswith(".")
    assert text.splitlines()[1] == ""
    assert max(map(len, text.splitlines())) <= 120


def test_a_near_miss_is_suggested(harness: Command) -> None:
    outcome = harness("help", "recordings")

    assert outcome.code == 2
    assert outcome.err == (
        f"harness: unknown topic 'recordings'. Did you mean 'recording'? Known: {', '.join(NAMES)}.\n"
    )


def shown_commands(text: str) -> list[str]:
    """The commands of ours that a text shows, in blocks of their own or in the midst of a sentence."""
    return re.findall(r"(?:^ *\$? ?|[`'])(?:\.venv/bin/)?(harness [a-z][^\n`']*)", text, re.MULTILINE)


@pytest.mark.parametrize(
    "command",
    sorted({each for text in [*topics().values(), README.read_text("utf-8")] for each in shown_commands(text)}),
)
def test_every_command_that_is_shown_can_be_typed(command: str) -> None:
    """Its name and its options exist; what follows three spaces explains it."""
    name, *words = shlex.split(re.split(r" {3,}| +#", command.replace("\n", " "))[0])[1:]

    assert name in COMMANDS
    known = typer.main.get_command(app()).commands[name]  # type: ignore[attr-defined]
    options = {option for parameter in known.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= {*options, "--help"}


@pytest.mark.parametrize(
    "topic", sorted({each for text in topics().values() for each in re.findall(r"see '([a-z]+)'", text)})
)
def test_a_topic_that_is_referred_to_exists(topic: str) -> None:
    assert topic in NAMES
