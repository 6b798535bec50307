"""Commands → neutral views. Pointers lead into the body `{"argv", "stdin", "environment", "inherited"}`."""

from __future__ import annotations

from urllib.parse import urlsplit

from harness.apis.claude_cli.requests.arguments import Argument, Arguments, arguments
from harness.apis.jsonvalue import join, loads
from harness.apis.view import FormatView, RequestView, SettingView, SystemView, TextView, ToolView, TurnView, WireError
from harness.contract.http import HttpRequest
from harness.contract.process import METHOD, Command, from_request

MAX_TOKENS = "CLAUDE_CODE_MAX_OUTPUT_TOKENS"

_SYSTEM = ("--system-prompt", "--append-system-prompt")
_STATEFUL = ("--continue", "--resume", "--from-pr")


def recognises(request: HttpRequest) -> bool:
    """Whether this is a run of the executable `claude`."""
    parts = urlsplit(request.url)
    return request.method == METHOD and parts.scheme == "process" and parts.path == "/claude"


def command_of(request: HttpRequest) -> Command:
    """The command of a request. Raises `WireError`."""
    try:
        return from_request(request)
    except ValueError as error:
        raise WireError(str(error)) from None


def model_of(request: HttpRequest) -> str | None:
    """The model that the command names."""
    try:
        model = arguments(command_of(request).argv).value("--model")
    except WireError:
        return None
    return model.text if model else None


def view(request: HttpRequest) -> RequestView:
    """The neutral view of a command. Raises `WireError`: the body is no command, or a schema in it no JSON."""
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
        response_format=_format(schema) if schema else None,
        settings=_settings(command, given),
        effort=SettingView(effort.text, effort.pointer) if (effort := given.value("--effort")) else None,
        stream=output is not None and output.text == "stream-json",
        stateful=next((name for name in _STATEFUL if name in given.options), None),
    )


def _system(given: Arguments) -> tuple[SystemView, ...]:
    """The system texts; an empty one is none, and only keeps out the command line's own."""
    values = [(name, given.value(name)) for name in _SYSTEM]
    return tuple(SystemView(value.text, name, value.pointer) for name, value in values if value and value.text)


def _turns(command: Command, given: Arguments) -> tuple[TurnView, ...]:
    texts = [TextView(argument.text, argument.pointer) for argument in given.positional]
    if command.stdin:
        texts.append(TextView(command.stdin, "/stdin"))
    return (TurnView("user", tuple(texts), texts[0].pointer, "prompt"),) if texts else ()


def _tools(given: Arguments) -> list[ToolView]:
    named = [(name.strip(), value.pointer) for value in given.options.get("--tools", ()) for name in _split(value)]
    return [ToolView(name, None, None, pointer, kind="built-in") for name, pointer in named if name]


def _split(value: Argument) -> list[str]:
    return value.text.replace(",", " ").split(" ")


def _format(schema: Argument) -> FormatView:
    return FormatView("json-schema", "--json-schema", schema.pointer, loads(schema.text), schema.pointer)


def _settings(command: Command, given: Arguments) -> dict[str, SettingView]:
    settings: dict[str, SettingView] = {}
    bound = command.environment.get(MAX_TOKENS, "")
    if bound.isascii() and bound.isdigit():
        settings["max_tokens"] = SettingView(int(bound), join("/environment", MAX_TOKENS))
    effort = given.value("--effort")
    if effort:
        settings["thinking"] = SettingView(effort.text, effort.pointer)
    return settings
