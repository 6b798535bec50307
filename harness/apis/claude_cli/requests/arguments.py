"""The options of a `claude` command, told apart as it tells them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.apis.jsonvalue import join

_SWITCHES = frozenset(
    {
        *(
            "--allow-dangerously-skip-permissions",
            "--ax-screen-reader",
            "--background",
            "--bare",
            "--brief",
            "--chrome",
        ),
        *("--continue", "--dangerously-skip-permissions", "--disable-slash-commands", "--fork-session", "--help"),
        *("--exclude-dynamic-system-prompt-sections", "--ide", "--include-hook-events", "--include-partial-messages"),
        *("--no-chrome", "--no-session-persistence", "--print", "--replay-user-messages", "--safe-mode"),
        *("--strict-mcp-config", "--verbose", "--version"),
    }
)

_ONE_VALUE = frozenset(
    {
        *("--agent", "--agents", "--append-system-prompt", "--append-system-prompt-file", "--debug-file", "--effort"),
        *(
            "--fallback-model",
            "--input-format",
            "--json-schema",
            "--max-budget-usd",
            "--max-turns",
            "--model",
            "--name",
        ),
        *("--output-format", "--permission-mode", "--plugin-dir", "--plugin-url", "--session-id", "--setting-sources"),
        *("--settings", "--system-prompt", "--system-prompt-file"),
    }
)

_OPTIONAL_VALUE = frozenset(
    {"--debug", "--from-pr", "--prompt-suggestions", "--remote-control", "--resume", "--tmux", "--worktree"}
)

_SEVERAL_VALUES = frozenset(
    {"--add-dir", "--allowedTools", "--betas", "--disallowedTools", "--file", "--mcp-config", "--tools"}
)

_SPELLINGS = {
    "-c": "--continue",
    "-d": "--debug",
    "-h": "--help",
    "-n": "--name",
    "-p": "--print",
    "-r": "--resume",
    "-v": "--version",
    "-w": "--worktree",
    "--allowed-tools": "--allowedTools",
    "--bg": "--background",
    "--disallowed-tools": "--disallowedTools",
}

_KNOWN = _SWITCHES | _ONE_VALUE | _OPTIONAL_VALUE | _SEVERAL_VALUES


@dataclass(frozen=True, slots=True)
class Argument:
    """A text of the command, and where it stands."""

    text: str
    pointer: str


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a command says. `options` maps the long names to their values, of which a switch has none.

    `positional` is the prompt, if it stands among the arguments; `unknown` are options that do not exist, `lacking`
    those whose value is not there.
    """

    options: Mapping[str, tuple[Argument, ...]]
    positional: tuple[Argument, ...]
    unknown: tuple[Argument, ...]
    lacking: tuple[Argument, ...]

    def value(self, name: str) -> Argument | None:
        """The value of an option, the last one if it is given several times."""
        values = self.options.get(name, ())
        return values[-1] if values else None


def arguments(argv: Sequence[str]) -> Arguments:
    """Read the arguments that follow the executable, `argv[0]`."""
    options: dict[str, tuple[Argument, ...]] = {}
    positional: list[Argument] = []
    unknown: list[Argument] = []
    lacking: list[Argument] = []
    left = [Argument(text, join("/argv", index)) for index, text in enumerate(argv)][1:]
    while left:
        argument = left.pop(0)
        if argument.text == "--":
            positional += left
            break
        if not argument.text.startswith("-") or argument.text == "-":
            positional.append(argument)
            continue
        spelled, has_value, joined = argument.text.partition("=")
        name = _SPELLINGS.get(spelled, spelled)
        if name not in _KNOWN:
            unknown.append(argument)
            continue
        values = [Argument(joined, argument.pointer)] if has_value else _taken(name, left)
        if not values and name in _ONE_VALUE | _SEVERAL_VALUES:
            lacking.append(argument)
        options[name] = (*options.get(name, ()), *values)
    return Arguments(options, tuple(positional), tuple(unknown), tuple(lacking))


def _taken(name: str, left: list[Argument]) -> list[Argument]:
    """Take the values of an option off what is left: one whatever it looks like, or those that look like no option."""
    if name in _ONE_VALUE or (name in _SEVERAL_VALUES and left):
        most = len(left) if name in _SEVERAL_VALUES else 1
    else:
        most = 1 if name in _OPTIONAL_VALUE and left and not left[0].text.startswith("-") else 0
    count = min(most, len(left))
    if name in _SEVERAL_VALUES:  # the first is taken whatever it looks like, as a single value is
        others = [index for index in range(1, count) if left[index].text.startswith("-")]
        count = others[0] if others else count
    values, left[:] = left[:count], left[count:]
    return values
