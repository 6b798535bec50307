"""Adapter `claude-cli`: the `claude` command line in print mode, one run for each chat.

It takes a system prompt and one user message of text, and gives text. Facts of version 2.1.197, each seen against a
loopback server in place of the provider:

- `--tools ""` takes the built-in tools away. It does not keep `@path` in a prompt from being read and sent, be `Read`
  denied or not: `CLAUDE_CODE_DISABLE_ATTACHMENTS` does, and keeps words like "ultrathink" from adding to the prompt.
- A prompt that begins with `/` is a command of its own, also with `--disable-slash-commands`: it answers "Unknown
  command" as a success, and no model is asked. Such a prompt is `Unsupported`, and so is a blank one.
- `--setting-sources ""` keeps out settings, hooks and `CLAUDE.md` of the user and the project, `--strict-mcp-config`
  their MCP servers.
- Without `--system-prompt` it sends its own for software engineering, so an absent one goes out as an empty one. A line
  that says what it is stands before any, and a reminder of the date before the prompt; neither can be switched off.
- `CLAUDE_CODE_MAX_OUTPUT_TOKENS` bounds the answer. One that reaches the bound is thrown away: after three
  continuations of its own it reports an error, which names no status.
- `CLAUDE_CODE_MAX_RETRIES=0` keeps it from asking again when the provider fails.
- Failures are results of the subtype `success` with `is_error` and exit status 1; `api_error_status` is the provider's
  status, and null where none was asked ("Not logged in"). A refusal is one with the stop reason `refusal`.
- `modelUsage` alone says which model has answered.

The executable must be on the path. It logs in by itself, with the variables or the login that it finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.contract.errors import PluginError
from harness.contract.protocols import Adapter, Capability, Requirement, Route

if TYPE_CHECKING:
    from harness.contract.protocols import ChatClient, Endpoint


def connect(endpoint: Endpoint, model: str) -> ChatClient:
    """A client of `model`, which answers requests that name no model of their own.

    Raises:
        PluginError: the endpoint has nothing to run a command with.
    """
    from harness.adapters.claude_cli.client import Client  # noqa: PLC0415 - loaded when it is needed, as SDKs are

    if endpoint.processes is None:
        reason = "it runs a command: give Endpoint.processes a runner, such as harness.kit.processes.LocalRunner()."
        raise PluginError("adapter", ADAPTER.name, reason)
    return Client(endpoint.processes, model)


ADAPTER = Adapter(
    name="claude-cli",
    api="claude-cli",
    capabilities=frozenset({Capability.SYSTEM_PROMPT}),
    connect=connect,
    requires=Requirement("claude"),
    route=Route.PROCESS,
)
