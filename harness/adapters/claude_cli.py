"""Adapter `claude-cli`: the `claude` command in print mode, with one process per request.

It accepts a system prompt and one user message of text, and returns text. The following was observed with version
2.1.197 and a loopback server in place of the provider:

- `--tools ""` removes the built-in tools. The command still reads and sends files that a prompt names as `@path`, even
  with `Read` denied. `CLAUDE_CODE_DISABLE_ATTACHMENTS` prevents that. It also prevents extra prompts for words like
  "ultrathink".
- A prompt that begins with `/` is treated as a command, even with `--disable-slash-commands`. The result is "Unknown
  command", reported as success, and no request is sent. The adapter rejects such prompts and blank ones as
  `Unsupported`.
- `--setting-sources ""` disables the settings, hooks and `CLAUDE.md` of user and project. `--strict-mcp-config`
  disables their MCP servers.
- Without `--system-prompt` the command sends its own system prompt. If the request has no system prompt, the adapter
  therefore passes an empty one.
- The command always adds a line about itself before the system prompt, and a reminder of the date before the user's
  prompt.
- `CLAUDE_CODE_MAX_OUTPUT_TOKENS` limits the response. A response that reaches the limit is lost: after three
  continuations the command reports an error without a status.
- `CLAUDE_CODE_MAX_RETRIES=0` disables retries.
- Failures are reported with the subtype `success`, `is_error` and exit status 1. `api_error_status` is the provider's
  status, or null if no request was sent ("Not logged in"). A refusal has the stop reason `refusal`.
- The name of the model is only in `modelUsage`.

The executable must be on the path. It uses its own login or environment variables.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from harness.adapters._common import string
from harness.model.errors import (
    ConnectionFailed,
    MalformedResponse,
    PluginError,
    ProviderError,
    Unsupported,
    provider_error,
)
from harness.model.http import Command
from harness.model.messages import ChatResponse, Message, Opaque, Refusal, Role, StopReason, Text, Usage
from harness.model.protocols import Adapter, Capability, Requirement, Route

if TYPE_CHECKING:
    from harness.model.http import Completed
    from harness.model.messages import ChatRequest
    from harness.model.protocols import ChatClient, Endpoint, ProcessRunner


def connect(endpoint: Endpoint, model: str) -> ChatClient:
    """Return a client for `model`.

    Raises:
        PluginError: `endpoint.processes` is not set.
    """
    from harness.adapters.claude_cli import ClaudeCliClient  # noqa: PLC0415 - as in the adapters with SDKs

    if endpoint.processes is None:
        reason = "it runs a command: give Endpoint.processes a runner, such as harness.kit.client.LocalRunner()."
        raise PluginError("adapter", ADAPTER.name, reason)
    return ClaudeCliClient(endpoint.processes, model)


ADAPTER = Adapter(
    name="claude-cli",
    api="claude-cli",
    capabilities=frozenset({Capability.SYSTEM_PROMPT}),
    connect=connect,
    requires=Requirement("claude"),
    route=Route.PROCESS,
)


_TIMEOUT_SECONDS = 600.0


class ClaudeCliClient:
    """A `ChatClient` for one model."""

    def __init__(self, processes: ProcessRunner, model: str) -> None:
        self._processes = processes
        self._model = model

    def chat(self, request: ChatRequest) -> ChatResponse:
        """See `harness.model.protocols.ChatClient.chat`."""
        command = encode(request, request.model or self._model)
        try:
            completed = self._processes.run(command, _TIMEOUT_SECONDS)
        except FileNotFoundError as error:
            reason = f"there is no executable {EXECUTABLE!r} on PATH; install Claude Code, or add its folder to PATH"
            raise ConnectionFailed(reason) from error
        except OSError as error:
            raise ConnectionFailed(str(error)) from error
        return decode(completed)

    def close(self) -> None:
        """Do nothing: the caller owns the process runner."""


API = "claude-cli"
EXECUTABLE = "claude"

_FLAGS = (
    *("--print", "--output-format", "json"),
    *("--tools", ""),
    "--strict-mcp-config",
    *("--setting-sources", ""),
    "--disable-slash-commands",
    "--no-session-persistence",
)

_ENVIRONMENT = {
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
}

_INHERITED = (
    *("HOME", "LOGNAME", "PATH", "TMPDIR", "USER"),
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"),
    *("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "NODE_EXTRA_CA_CERTS"),
)
"""Environment variables needed to find the command, to log in and to reach the provider."""


def encode(request: ChatRequest, model: str) -> Command:
    """Return the command for a request. The prompt is passed on standard input, because other users can see
    arguments.

    Raises:
        Unsupported: the command line cannot express the request.
    """
    _refuse_settings(request)
    prompt = _prompt(request)
    system = request.system or ""
    for name, text in (("model", model), ("system prompt", system), ("prompt", prompt)):
        _check_text(name, text)
    environment = dict(_ENVIRONMENT)
    if request.max_tokens is not None:
        environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(request.max_tokens)
    argv = (EXECUTABLE, *_FLAGS, "--model", model, "--system-prompt", system)
    return Command(argv, prompt, environment, _INHERITED)


def _refuse_settings(request: ChatRequest) -> None:
    no_flag = "the command line has no flag for it"
    refused = (
        ("tools", bool(request.tools), "the command line knows only tools of its own, and they are switched off"),
        ("tool_choice", request.tool_choice is not None, "there are no tools to choose from"),
        ("response_format", request.response_format is not None, "print mode answers in text"),
        ("thinking", request.thinking is not None, "the result does not show it"),
        ("temperature", request.temperature is not None, no_flag),
        ("top_p", request.top_p is not None, no_flag),
        ("stop", bool(request.stop), no_flag),
        ("provider_metadata", API in request.provider_metadata, "there is no body to put fields into"),
    )
    for feature, is_given, reason in refused:
        if is_given:
            raise Unsupported(API, feature, reason)


def _prompt(request: ChatRequest) -> str:
    if len(request.messages) != 1 or request.messages[0].role is not Role.USER:
        raise Unsupported(API, "history", "a run takes one user message and keeps nothing of it")
    message = request.messages[0]
    for part in message.parts:
        if not isinstance(part, Text) and not (isinstance(part, Opaque) and part.api != API):
            raise Unsupported(API, type(part).__name__, "a prompt is text")
    prompt = message.text
    if not prompt.strip():
        raise Unsupported(API, "a blank prompt", "the command needs a prompt")
    if prompt.startswith("/"):
        raise Unsupported(API, "a prompt that begins with '/'", "the command line takes it for a command of its own")
    return prompt


def _check_text(name: str, text: str) -> None:
    if "\0" in text:
        raise Unsupported(API, name, "it holds a null character, which no command takes")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Unsupported(API, name, f"it cannot be written as UTF-8: {error.reason}") from error


_STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "model_context_window_exceeded": StopReason.MAX_TOKENS,
    "pause_turn": StopReason.PAUSE,
    "refusal": StopReason.REFUSAL,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_USE,
}

_MAX_SHOWN_CHARACTERS = 300


def decode(completed: Completed) -> ChatResponse:
    """Parse the output of a run and return the response.

    Raises:
        ProviderError: the result is an error, or the run failed without a result.
        MalformedResponse: the output is not a result, or is the result of a slash command.
    """
    result = _result(completed)
    text = result.get("result")
    stop = result.get("stop_reason")
    if result.get("is_error") or result.get("subtype") != "success":
        if stop != "refusal":
            raise _result_error(result)
        parts = (Refusal(text if isinstance(text, str) else ""),)
    elif completed.status != 0:
        raise _run_error(completed)
    elif result.get("num_turns") == 0:
        raise MalformedResponse(f"no request was sent; claude printed: {_describe(text)}")
    elif not isinstance(text, str):
        raise MalformedResponse("the result has no text")
    else:
        parts = (Text(text),) if text else ()
    return ChatResponse(
        Message(Role.ASSISTANT, parts),
        _STOP_REASONS.get(stop, StopReason.UNKNOWN) if isinstance(stop, str) else StopReason.UNKNOWN,
        _usage(result.get("usage")),
        _model(result.get("modelUsage")),
        string(stop),
    )


def _result(completed: Completed) -> dict[str, Any]:
    try:
        value: Any = json.loads(completed.stdout)
    except (ValueError, RecursionError):
        value = None
    result = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if result.get("type") == "result":
        return result
    if completed.status != 0:
        raise _run_error(completed)
    raise MalformedResponse(f"claude printed no result but: {_describe(completed.stdout)}")


def _run_error(completed: Completed) -> ProviderError:
    ended = f"status {completed.status}" if completed.status > 0 else f"signal {-completed.status}"
    output = completed.stderr.strip() or completed.stdout.strip() or "nothing"
    return provider_error(500, f"claude ended with {ended} and printed: {_describe(output)}")


def _result_error(result: dict[str, Any]) -> ProviderError:
    """Return the exception for an error result. If the result has no status of the provider, the exception has the
    status 500.
    """
    reported = result.get("api_error_status")
    status = reported if isinstance(reported, int) and 400 <= reported < 600 else 500
    subtype = result.get("subtype")
    code = subtype if isinstance(subtype, str) and subtype != "success" else None
    return provider_error(status, _message(result), code=code)


def _message(result: dict[str, Any]) -> str:
    errors = result.get("errors")
    listed = [str(each) for each in cast("list[Any]", errors)] if isinstance(errors, list) else []
    text = result.get("result")
    return text if isinstance(text, str) and text else "; ".join(listed) or "an error without a message"


def _usage(value: Any) -> Usage:
    usage = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    fresh, read, written, output = (
        count if isinstance(count := usage.get(key), int) else None
        for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    )
    return Usage(
        input_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _model(usage: Any) -> str | None:
    """Return the model's name, if only one model was used."""
    models = list(cast("dict[str, Any]", usage)) if isinstance(usage, dict) else []
    return models[0] if len(models) == 1 else None


def _describe(text: Any) -> str:
    return repr(text)[:_MAX_SHOWN_CHARACTERS]
