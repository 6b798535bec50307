"""What the command line refuses, and what it does beside answering."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

COMMAND = Limit("claude-cli-command", "The exchange is a command.", "claude-cli-options")
OPTION_UNKNOWN = Limit("claude-cli-option-unknown", "There is no option that does not exist.", "claude-cli-options")
OPTION_VALUE = Limit("claude-cli-option-value", "Every option that takes a value has one.", "claude-cli-options")
PRINT = Limit("claude-cli-print", "It prints its answer rather than open a session.", "claude-cli-options")
OUTPUT_FORMAT = Limit(
    "claude-cli-output-format", "It answers in JSON, which alone tells usage and errors.", "claude-cli-options"
)
TOOLS = Limit(
    "claude-cli-tools",
    "The built-in tools are taken away, with which the model acts on this machine.",
    "claude-cli-surroundings",
)
PROMPT_ARGUMENT = Limit(
    "claude-cli-prompt-argument",
    "The prompt goes over stdin: arguments are there for everybody to see.",
    "claude-cli-surroundings",
)
PROMPT_BLANK = Limit("claude-cli-prompt-blank", "There is a prompt.", "claude-cli-options")
PROMPT_COMMAND = Limit(
    "claude-cli-prompt-command",
    "No prompt begins with '/', which makes it a command of the command line's.",
    "claude-cli-options",
)
ATTACHMENTS = Limit(
    "claude-cli-attachments", "Files that a prompt names behind '@' are not read and sent.", "claude-cli-surroundings"
)
SETTING_SOURCES = Limit(
    "claude-cli-setting-sources",
    "Settings, hooks and CLAUDE.md of the machine are left out.",
    "claude-cli-surroundings",
)
STRICT_MCP_CONFIG = Limit(
    "claude-cli-strict-mcp-config",
    "MCP servers that are configured elsewhere are not started.",
    "claude-cli-surroundings",
)
NO_SESSION_PERSISTENCE = Limit(
    "claude-cli-no-session-persistence", "The conversation is not kept on the disk.", "claude-cli-surroundings"
)
SYSTEM_PROMPT = Limit(
    "claude-cli-system-prompt",
    "Its own system prompt, for software engineering, is replaced.",
    "claude-cli-surroundings",
)
MAX_TOKENS = Limit("claude-cli-max-tokens", "The bound of an answer is a number.", "claude-cli-surroundings")

LIMITS = limits_among(globals())
