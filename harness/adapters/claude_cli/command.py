"""Canonical request → command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.contract.errors import Unsupported
from harness.contract.model import Opaque, Role, Text
from harness.contract.process import Command

if TYPE_CHECKING:
    from harness.contract.model import ChatRequest

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

_SWITCHES = {
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
"""What it needs to be found, to log in and to reach the provider."""


def encode(request: ChatRequest, model: str) -> Command:
    """The command that asks what `request` asks. The prompt goes over stdin: arguments are there for all to see.

    Raises:
        Unsupported: the command line cannot express the request.
    """
    _refuse_settings(request)
    prompt = _prompt(request)
    system = request.system or ""
    for name, text in (("model", model), ("system prompt", system), ("prompt", prompt)):
        _check_text(name, text)
    environment = dict(_SWITCHES)
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
        raise Unsupported(API, "a blank prompt", "the command line wants to be asked something")
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
