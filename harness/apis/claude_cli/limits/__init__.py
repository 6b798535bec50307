"""What the command line refuses, and what it does beside answering."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

_SOURCE = "claude 2.1.197"
"""Where the rules were seen: its help, and its runs against a loopback server in place of the provider."""

COMMAND = Limit("claude-cli-command", "The exchange is a command.", _SOURCE)
OPTION_UNKNOWN = Limit("claude-cli-option-unknown", "There is no option that does not exist.", _SOURCE)
OPTION_VALUE = Limit("claude-cli-option-value", "Every option that takes a value has one.", _SOURCE)
PRINT = Limit("claude-cli-print", "It prints its answer rather than open a session.", _SOURCE)
OUTPUT_FORMAT = Limit("claude-cli-output-format", "It answers in JSON, which alone tells usage and errors.", _SOURCE)
TOOLS = Limit(
    "claude-cli-tools", "The built-in tools are taken away, with which the model acts on this machine.", _SOURCE
)
PROMPT_ARGUMENT = Limit(
    "claude-cli-prompt-argument",
    "The prompt goes over stdin: arguments are there for everybody to see.",
    _SOURCE,
    "warning",
)
PROMPT_BLANK = Limit("claude-cli-prompt-blank", "There is a prompt.", _SOURCE)
PROMPT_COMMAND = Limit(
    "claude-cli-prompt-command", "No prompt begins with '/', which makes it a command of the command line's.", _SOURCE
)
ATTACHMENTS = Limit(
    "claude-cli-attachments", "Files that a prompt names behind '@' are not read and sent.", _SOURCE, "warning"
)
SETTING_SOURCES = Limit(
    "claude-cli-setting-sources", "Settings, hooks and CLAUDE.md of the machine are left out.", _SOURCE, "warning"
)
STRICT_MCP_CONFIG = Limit(
    "claude-cli-strict-mcp-config", "MCP servers that are configured elsewhere are not started.", _SOURCE, "warning"
)
NO_SESSION_PERSISTENCE = Limit(
    "claude-cli-no-session-persistence", "The conversation is not kept on the disk.", _SOURCE, "warning"
)
SYSTEM_PROMPT = Limit(
    "claude-cli-system-prompt", "Its own system prompt, for software engineering, is replaced.", _SOURCE, "warning"
)
MAX_TOKENS = Limit("claude-cli-max-tokens", "The bound of an answer is a number.", _SOURCE, "warning")

LIMITS = limits_among(globals())
