"""Adapter `claude-cli`: the `claude` command in print mode, with one run per chat.

It accepts a system prompt and one user message of text, and returns text. The following was observed with version
2.1.197 and a loopback server in place of the provider:

- `--tools ""` removes the built-in tools. The command still reads and sends files that a prompt names as `@path`, even
  with `Read` denied. `CLAUDE_CODE_DISABLE_ATTACHMENTS` prevents that. It also prevents extra prompts for words like
  "ultrathink".
- A prompt that begins with `/` is treated as a command, even with `--disable-slash-commands`: the result is "Unknown
  command", reported as success, and no request is sent. Such a prompt is `Unsupported`, and so is a blank one.
- `--setting-sources ""` disables the settings, hooks and `CLAUDE.md` of user and project. `--strict-mcp-config`
  disables their MCP servers.
- Without `--system-prompt` the command sends its own system prompt. If the request has no system prompt, the adapter
  therefore passes an empty one. The command always adds a line about itself before the system prompt, and a reminder of
  the date before the user's prompt.
- `CLAUDE_CODE_MAX_OUTPUT_TOKENS` limits the response. A response that reaches the limit is lost: after three
  continuations the command reports an error without a status.
- `CLAUDE_CODE_MAX_RETRIES=0` disables retries.
- Failures are reported with the subtype `success`, `is_error` and exit status 1. `api_error_status` is the provider's
  status, or null if no request was sent ("Not logged in"). A refusal has the stop reason `refusal`.
- The name of the model is only in `modelUsage`.

The executable must be on the path. It uses its own login or environment variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.model.errors import PluginError
from harness.model.protocols import Adapter, Capability, Requirement, Route

if TYPE_CHECKING:
    from harness.model.protocols import ChatClient, Endpoint


def connect(endpoint: Endpoint, model: str) -> ChatClient:
    """Return a client of `model`.

    Raises:
        PluginError: `endpoint.processes` is not set.
    """
    from harness.adapters.claude_cli.client import ClaudeCliClient  # noqa: PLC0415 - as in the adapters with SDKs

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
