"""An option that several commands have means the same in each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.cli.main import COMMANDS, HEADINGS
from tests.cli.conftest import Command, command_of

NARROWER = {
    "--model": {"serve", "list", "check server", "check gateway"},  # names a model alone, without a target
    "--to": {"adopt", "accept"},  # where to: a folder, a file
    "--strict": {"list"},  # what is not fresh fails
}
"""What takes another value somewhere, and where: known, and said in its help."""


def options() -> Iterator[tuple[str, str, str | None, str]]:
    """Option, command, what stands for its value (`None`: it takes none), and the help."""
    for name in (*COMMANDS, *(f"check {kind}" for kind in command_of("check").commands)):
        for parameter in command_of(*name.split()).params:
            for option in parameter.opts:
                if option.startswith("-"):
                    flag = getattr(parameter, "is_flag", False)
                    yield option, name, None if flag else parameter.metavar or "", parameter.help or ""


def test_an_option_takes_the_same_kind_of_value_in_every_command() -> None:
    values: dict[str, dict[str | None, set[str]]] = {}
    for option, command, value, _ in options():
        if command not in NARROWER.get(option, ()):
            values.setdefault(option, {}).setdefault(value, set()).add(command)

    assert {option: told for option, told in values.items() if len(told) > 1} == {}


def test_every_option_says_what_it_is_for() -> None:
    assert [(command, option) for option, command, _, said in options() if not said and option != "--help"] == []


def test_every_command_stands_under_one_of_the_four_headings() -> None:
    assert len(HEADINGS) == 4
    assert list(COMMANDS) == list(command_of().commands)
    assert "compare" in HEADINGS["Results"]


@pytest.mark.parametrize("command", [*COMMANDS, *(f"check {kind}" for kind in command_of("check").commands)])
def test_the_help_of_a_command_fits(harness: Command, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    lines = harness(*command.split(), "--help").out.splitlines()

    assert len(lines) <= 100
    assert max(map(len, lines)) <= 80


def test_a_usage_error_names_the_help_of_its_command(harness: Command) -> None:
    assert harness("check", "server").err == (
        "harness: Missing argument 'URL|NAME'. 'harness check server --help' shows the usage.\n"
    )
