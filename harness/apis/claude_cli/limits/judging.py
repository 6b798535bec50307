"""What the command line refuses, and what it does beside answering."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.claude_cli import limits
from harness.apis.claude_cli.requests import MAX_TOKENS, command_of
from harness.apis.claude_cli.requests.arguments import Arguments, arguments
from harness.apis.jsonvalue import join
from harness.apis.law import Law
from harness.apis.limit import Violation
from harness.apis.view import WireError
from harness.contract.http import HttpRequest
from harness.contract.process import Command

_ATTACHMENTS = "CLAUDE_CODE_DISABLE_ATTACHMENTS"


def violations(request: HttpRequest, _law: Law) -> list[Violation]:
    """The rules that a command breaks, in the order in which the command line looks."""
    try:
        command = command_of(request)
    except WireError as error:
        return [limits.COMMAND.broken(error.reason, error.pointer)]
    given = arguments(command.argv)
    return [*_options(given), *_mode(given), *_prompt(command, given), *_isolation(command, given)]


def _options(given: Arguments) -> Iterator[Violation]:
    for argument in given.unknown:
        message = f"error: unknown option '{argument.text}'"
        yield limits.OPTION_UNKNOWN.broken(message, argument.pointer, actual=argument.text)
    for argument in given.lacking:
        message = f"error: option '{argument.text}' argument missing"
        yield limits.OPTION_VALUE.broken(message, argument.pointer, actual=argument.text)


def _mode(given: Arguments) -> Iterator[Violation]:
    if "--print" not in given.options:
        message = "without --print it opens a session, which nobody can lead here"
        yield limits.PRINT.broken(message, "/argv", expected="--print")
    output = given.value("--output-format")
    if output is None or output.text != "json":
        message = "the usage and the error of an answer are told with --output-format json alone"
        pointer, actual = (output.pointer, output.text) if output else ("/argv", None)
        yield limits.OUTPUT_FORMAT.broken(message, pointer, actual=actual, expected="json")
    tools = given.options.get("--tools")
    if not tools or any(value.text for value in tools):
        message = 'the built-in tools are not taken away: --tools "" does it, and the model could act on this machine'
        pointer, actual = (tools[0].pointer, " ".join(value.text for value in tools)) if tools else ("/argv", None)
        yield limits.TOOLS.broken(message, pointer, actual=actual, expected="")


def _prompt(command: Command, given: Arguments) -> Iterator[Violation]:
    for argument in given.positional:
        message = "a prompt among the arguments is there for everybody on this machine to see; it goes over stdin"
        yield limits.PROMPT_ARGUMENT.broken(message, argument.pointer, actual=argument.text)
    pointer = given.positional[0].pointer if given.positional else "/stdin"
    prompt = given.positional[0].text if given.positional else command.stdin
    if not prompt.strip():
        message = "Error: Input must be provided either through stdin or as a prompt argument when using --print"
        yield limits.PROMPT_BLANK.broken(message, pointer, actual=prompt)
    elif prompt.startswith("/"):
        message = "a prompt that begins with '/' is taken for a command of the command line's own"
        yield limits.PROMPT_COMMAND.broken(message, pointer, actual=prompt)


def _isolation(command: Command, given: Arguments) -> Iterator[Violation]:
    """What else it reads, sends and keeps, unless it is told not to."""
    if command.environment.get(_ATTACHMENTS) != "1":
        message = f"without {_ATTACHMENTS}=1 a file that the prompt names behind '@' is read and sent"
        yield limits.ATTACHMENTS.broken(message, "/environment", expected="1")
    sources = given.value("--setting-sources")
    if sources is None or sources.text:
        message = "settings, hooks and CLAUDE.md of the user or the project are taken into account"
        pointer = sources.pointer if sources else "/argv"
        yield limits.SETTING_SOURCES.broken(message, pointer, expected="")
    for limit, option, what in (
        (limits.STRICT_MCP_CONFIG, "--strict-mcp-config", "MCP servers that are configured elsewhere are started"),
        (limits.NO_SESSION_PERSISTENCE, "--no-session-persistence", "the conversation is kept on the disk"),
        (
            limits.SYSTEM_PROMPT,
            "--system-prompt",
            "a system prompt for software engineering stands before the conversation",
        ),
    ):
        if option not in given.options:
            yield limit.broken(f"{what}: {option} is missing", "/argv")
    bound = command.environment.get(MAX_TOKENS)
    if bound is not None and not (bound.isascii() and bound.isdigit()):
        message = f"{MAX_TOKENS} is no number, and is ignored"
        yield limits.MAX_TOKENS.broken(message, join("/environment", MAX_TOKENS), actual=bound)
