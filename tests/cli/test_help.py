"""The topics of `harness help`: each is shown as it stands, and what it shows can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import harness as package
from harness.cli.help import topics
from harness.cli.main import COMMANDS
from tests.cli.conftest import Command, command_of

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


def shown_commands(text: str) -> list[list[str]]:
    """The words of the commands of ours that a text shows: in lines of their own, which go on where a quote is open, in
    the midst of a sentence, and inside of other commands. What follows three spaces, or #, explains a command."""
    blocks: list[str] = []
    start = re.compile(r"^ *\$? ?(?:\.venv/bin/)?(?=harness [a-z])", re.MULTILINE)
    at = 0
    while found := start.search(text, at):
        blocks.append(_typed(text[found.end() :]))
        at = found.end() + len(blocks[-1])
    inline = [each[1] for each in re.findall(r"(?<=[^\n])([`'])(harness [a-z](?:(?!\1)[^\n])*)\1", text)]
    shown = [shlex.split(each) for each in (*blocks, *inline)]
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


SHOWN = {tuple(each) for text in [*topics().values(), README.read_text("utf-8")] for each in shown_commands(text)}


def test_commands_are_found_wherever_they_are_shown() -> None:
    assert len(SHOWN) > 90
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
    "topic", sorted({each for text in topics().values() for each in re.findall(r"see '([a-z]+)'", text)})
)
def test_a_topic_that_is_referred_to_exists(topic: str) -> None:
    assert topic in NAMES
