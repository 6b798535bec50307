"""Neutral views of commands, and checks of their options, mode, prompt and isolation from the machine.

Pointers refer to the body `{"argv", "stdin", "environment", "inherited"}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.apis.fact_files import ApiLimits, Facts
from harness.apis.jsonvalue import join, loads
from harness.apis.limits import Violation
from harness.apis.profiles import RuleSet
from harness.apis.view import FormatView, RequestView, SettingView, SystemView, TextView, ToolView, TurnView, WireError
from harness.model.http import COMMAND_METHOD, Command, HttpRequest, from_request

FACTS = Facts.next_to(__file__)

_ATTACHMENTS = "CLAUDE_CODE_DISABLE_ATTACHMENTS"
limit = ApiLimits(FACTS, "claude-cli")

_SWITCHES = frozenset(
    {
        *("--allow-dangerously-skip-permissions", "--ax-screen-reader"),
        *("--background", "--bare", "--brief", "--chrome"),
        *("--continue", "--dangerously-skip-permissions", "--disable-slash-commands", "--fork-session", "--help"),
        *("--exclude-dynamic-system-prompt-sections", "--ide", "--include-hook-events", "--include-partial-messages"),
        *("--no-chrome", "--no-session-persistence", "--print", "--replay-user-messages", "--safe-mode"),
        *("--strict-mcp-config", "--verbose", "--version"),
    }
)

_ONE_VALUE = frozenset(
    {
        *("--agent", "--agents", "--append-system-prompt", "--append-system-prompt-file", "--debug-file", "--effort"),
        *("--fallback-model", "--input-format", "--json-schema"),
        *("--max-budget-usd", "--max-turns", "--model", "--name"),
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
class CliArgument:
    """A command-line argument with its pointer."""

    text: str
    pointer: str


@dataclass(frozen=True, slots=True)
class CliArguments:
    """Parsed arguments of a command.

    `options` maps long option names to their values; a switch has none. `positional` contains the prompt. `unknown`
    contains options that do not exist, and `lacking` options whose value is missing.
    """

    options: Mapping[str, tuple[CliArgument, ...]]
    positional: tuple[CliArgument, ...]
    unknown: tuple[CliArgument, ...]
    lacking: tuple[CliArgument, ...]

    def value(self, name: str) -> CliArgument | None:
        """Return the last value of an option, or `None`."""
        values = self.options.get(name, ())
        return values[-1] if values else None


def arguments(argv: Sequence[str]) -> CliArguments:
    """Parse the arguments after the executable `argv[0]`."""
    options: dict[str, tuple[CliArgument, ...]] = {}
    positional: list[CliArgument] = []
    unknown: list[CliArgument] = []
    lacking: list[CliArgument] = []
    left = [CliArgument(text, join("/argv", index)) for index, text in enumerate(argv)][1:]
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
        values = [CliArgument(joined, argument.pointer)] if has_value else _pop_values(name, left)
        if not values and name in _ONE_VALUE | _SEVERAL_VALUES:
            lacking.append(argument)
        options[name] = (*options.get(name, ()), *values)
    return CliArguments(options, tuple(positional), tuple(unknown), tuple(lacking))


def _pop_values(name: str, left: list[CliArgument]) -> list[CliArgument]:
    """Remove an option's values from the remaining arguments and return them.

    The first required value may start with a dash. An optional value must not. Further values end at the next argument
    that starts with a dash.
    """
    if name in _ONE_VALUE or (name in _SEVERAL_VALUES and left):
        most = len(left) if name in _SEVERAL_VALUES else 1
    else:
        most = 1 if name in _OPTIONAL_VALUE and left and not left[0].text.startswith("-") else 0
    count = min(most, len(left))
    if name in _SEVERAL_VALUES:  # like a single required value, the first one may look like an option
        others = [index for index in range(1, count) if left[index].text.startswith("-")]
        count = others[0] if others else count
    values, left[:] = left[:count], left[count:]
    return values


MAX_TOKENS = "CLAUDE_CODE_MAX_OUTPUT_TOKENS"

_SYSTEM = ("--system-prompt", "--append-system-prompt")
_STATEFUL = ("--continue", "--resume", "--from-pr")


def recognises(request: HttpRequest) -> bool:
    """Return whether the request is a run of the executable `claude`."""
    parts = urlsplit(request.url)
    return request.method == COMMAND_METHOD and parts.scheme == "process" and parts.path == "/claude"


def command_of(request: HttpRequest) -> Command:
    """Return the command of a request. Raises `WireError` if the body does not contain a command."""
    try:
        return from_request(request)
    except ValueError as error:
        raise WireError(str(error)) from None


def model_of(request: HttpRequest) -> str | None:
    """Return the model of the command."""
    try:
        model = arguments(command_of(request).argv).value("--model")
    except WireError:
        return None
    return model.text if model else None


def view(request: HttpRequest) -> RequestView:
    """Return the neutral view of a command. Raises `WireError` if the body is not a command or a schema is invalid."""
    command = command_of(request)
    given = arguments(command.argv)
    model, output = given.value("--model"), given.value("--output-format")
    schema = given.value("--json-schema")
    return RequestView(
        api="claude-cli",
        model=model.text if model else None,
        system=_system(given),
        turns=_turns(command, given),
        tools=tuple(_tools(given)),
        response_format=FormatView("json-schema", "--json-schema", schema.pointer, loads(schema.text), schema.pointer)
        if schema
        else None,
        settings=_settings(command, given),
        effort=SettingView(effort.text, effort.pointer) if (effort := given.value("--effort")) else None,
        stream=output is not None and output.text == "stream-json",
        stateful=next((name for name in _STATEFUL if name in given.options), None),
    )


def _system(given: CliArguments) -> tuple[SystemView, ...]:
    """Return the system texts. An empty text is skipped: it only removes the command's default prompt."""
    values = [(name, given.value(name)) for name in _SYSTEM]
    return tuple(SystemView(value.text, name, value.pointer) for name, value in values if value and value.text)


def _turns(command: Command, given: CliArguments) -> tuple[TurnView, ...]:
    texts = [TextView(argument.text, argument.pointer) for argument in given.positional]
    if command.stdin:
        texts.append(TextView(command.stdin, "/stdin"))
    return (TurnView("user", tuple(texts), texts[0].pointer, "prompt"),) if texts else ()


def _tools(given: CliArguments) -> list[ToolView]:
    named = [(name.strip(), value.pointer) for value in given.options.get("--tools", ()) for name in _split(value)]
    return [ToolView(name, None, None, pointer, kind="built-in") for name, pointer in named if name]


def _split(value: CliArgument) -> list[str]:
    return value.text.replace(",", " ").split(" ")


def _settings(command: Command, given: CliArguments) -> dict[str, SettingView]:
    settings: dict[str, SettingView] = {}
    bound = command.environment.get(MAX_TOKENS, "")
    if bound.isascii() and bound.isdigit():
        settings["max_tokens"] = SettingView(int(bound), join("/environment", MAX_TOKENS))
    effort = given.value("--effort")
    if effort:
        settings["thinking"] = SettingView(effort.text, effort.pointer)
    return settings


# --- Checks ---


def violations(request: HttpRequest, _rule_set: RuleSet) -> list[Violation]:
    """Return the violations of a command, in the order in which the command itself checks them."""
    try:
        command = command_of(request)
    except WireError as error:
        return [limit("command").make_violation(error.reason, error.pointer)]
    given = arguments(command.argv)
    return [*_options(given), *_mode(given), *_prompt(command, given), *_isolation(command, given)]


def _options(given: CliArguments) -> Iterator[Violation]:
    for argument in given.unknown:
        message = f"error: unknown option '{argument.text}'"
        yield limit("option-unknown").make_violation(message, argument.pointer, actual=argument.text)
    for argument in given.lacking:
        message = f"error: option '{argument.text}' argument missing"
        yield limit("option-value").make_violation(message, argument.pointer, actual=argument.text)


def _mode(given: CliArguments) -> Iterator[Violation]:
    if "--print" not in given.options:
        message = "without --print the command opens an interactive session"
        yield limit("print").make_violation(message, "/argv", expected="--print")
    output = given.value("--output-format")
    if output is None or output.text != "json":
        message = "only --output-format json reports the usage and the error of an answer"
        pointer, actual = (output.pointer, output.text) if output else ("/argv", None)
        yield limit("output-format").make_violation(message, pointer, actual=actual, expected="json")
    tools = given.options.get("--tools")
    if not tools or any(value.text for value in tools):
        message = 'the built-in tools are enabled, so the model could act on this machine: --tools "" disables them'
        pointer, actual = (tools[0].pointer, " ".join(value.text for value in tools)) if tools else ("/argv", None)
        yield limit("tools").make_violation(message, pointer, actual=actual, expected="")


def _prompt(command: Command, given: CliArguments) -> Iterator[Violation]:
    for argument in given.positional:
        message = "all users of this machine can see a prompt among the arguments: send it over stdin"
        yield limit("prompt-argument").make_violation(message, argument.pointer, actual=argument.text)
    pointer = given.positional[0].pointer if given.positional else "/stdin"
    prompt = given.positional[0].text if given.positional else command.stdin
    if not prompt.strip():
        message = "Error: Input must be provided either through stdin or as a prompt argument when using --print"
        yield limit("prompt-blank").make_violation(message, pointer, actual=prompt)
    elif prompt.startswith("/"):
        message = "a prompt that begins with '/' is read as a command of `claude`"
        yield limit("prompt-command").make_violation(message, pointer, actual=prompt)


def _isolation(command: Command, given: CliArguments) -> Iterator[Violation]:
    """Check that the command is isolated from the files, settings, MCP servers and stored sessions of this machine.

    It also reports a missing system prompt and an invalid token limit.
    """
    if command.environment.get(_ATTACHMENTS) != "1":
        message = f"without {_ATTACHMENTS}=1 a file that the prompt names after '@' is read and sent"
        yield limit("attachments").make_violation(message, "/environment", expected="1")
    sources = given.value("--setting-sources")
    if sources is None or sources.text:
        message = "settings, hooks and CLAUDE.md of the user or the project are used"
        pointer = sources.pointer if sources else "/argv"
        yield limit("setting-sources").make_violation(message, pointer, expected="")
    for missing, option, what in (
        (limit("strict-mcp-config"), "--strict-mcp-config", "MCP servers that are configured elsewhere are started"),
        (limit("no-session-persistence"), "--no-session-persistence", "the conversation is stored on disk"),
        (
            limit("system-prompt"),
            "--system-prompt",
            "a system prompt for software engineering precedes the conversation",
        ),
    ):
        if option not in given.options:
            yield missing.make_violation(f"{what}: {option} is missing", "/argv")
    bound = command.environment.get(MAX_TOKENS)
    if bound is not None and not (bound.isascii() and bound.isdigit()):
        message = f"{MAX_TOKENS} is not a number and is ignored"
        yield limit("max-tokens").make_violation(message, join("/environment", MAX_TOKENS), actual=bound)
