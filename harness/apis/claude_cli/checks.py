"""Checks of `claude` commands: options, mode, prompt, and isolation from the machine."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.claude_cli.requests import MAX_TOKENS, CliArguments, arguments, command_of
from harness.apis.fact_files import ApiLimits, Facts
from harness.apis.jsonvalue import join
from harness.apis.limits import Violation
from harness.apis.profiles import RuleSet
from harness.apis.view import WireError
from harness.model.http import Command, HttpRequest

FACTS = Facts.next_to(__file__)

_ATTACHMENTS = "CLAUDE_CODE_DISABLE_ATTACHMENTS"
limit = ApiLimits(FACTS, "claude-cli")


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
