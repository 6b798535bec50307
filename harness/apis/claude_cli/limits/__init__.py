"""What the command line refuses, and what it does beside answering."""

from __future__ import annotations

from harness.apis.limit import Limit, limits_among

COMMAND = Limit(
    "claude-cli-command",
    "The exchange is a command.",
    "claude-cli-options",
    remedy="run the command `claude`",
)
OPTION_UNKNOWN = Limit(
    "claude-cli-option-unknown",
    "There is no option that does not exist.",
    "claude-cli-options",
    remedy="leave out the option that does not exist",
)
OPTION_VALUE = Limit(
    "claude-cli-option-value",
    "Every option that takes a value has one.",
    "claude-cli-options",
    remedy="give the option its value",
)
PRINT = Limit(
    "claude-cli-print",
    "It prints its answer rather than open a session.",
    "claude-cli-options",
    remedy="add `--print`",
)
OUTPUT_FORMAT = Limit(
    "claude-cli-output-format",
    "It answers in JSON, which alone tells usage and errors.",
    "claude-cli-options",
    remedy="add `--output-format json`",
)
TOOLS = Limit(
    "claude-cli-tools",
    "The built-in tools are taken away, with which the model acts on this machine.",
    "claude-cli-surroundings",
    remedy='take the built-in tools away by `--tools ""`',
)
PROMPT_ARGUMENT = Limit(
    "claude-cli-prompt-argument",
    "The prompt goes over stdin: arguments are there for everybody to see.",
    "claude-cli-surroundings",
    remedy="write the prompt to the command's standard input",
)
PROMPT_BLANK = Limit(
    "claude-cli-prompt-blank",
    "There is a prompt.",
    "claude-cli-options",
    remedy="write a prompt that is not blank",
)
PROMPT_COMMAND = Limit(
    "claude-cli-prompt-command",
    "No prompt begins with '/', which makes it a command of the command line's.",
    "claude-cli-options",
    remedy="put something before a prompt that begins with '/'",
)
ATTACHMENTS = Limit(
    "claude-cli-attachments",
    "Files that a prompt names behind '@' are not read and sent.",
    "claude-cli-surroundings",
    remedy="set CLAUDE_CODE_DISABLE_ATTACHMENTS=1 in the command's environment",
)
SETTING_SOURCES = Limit(
    "claude-cli-setting-sources",
    "Settings, hooks and CLAUDE.md of the machine are left out.",
    "claude-cli-surroundings",
    remedy='add `--setting-sources ""`',
)
STRICT_MCP_CONFIG = Limit(
    "claude-cli-strict-mcp-config",
    "MCP servers that are configured elsewhere are not started.",
    "claude-cli-surroundings",
    remedy="add `--strict-mcp-config`",
)
NO_SESSION_PERSISTENCE = Limit(
    "claude-cli-no-session-persistence",
    "The conversation is not kept on the disk.",
    "claude-cli-surroundings",
    remedy="add `--no-session-persistence`",
)
SYSTEM_PROMPT = Limit(
    "claude-cli-system-prompt",
    "Its own system prompt, for software engineering, is replaced.",
    "claude-cli-surroundings",
    remedy="replace the system prompt by `--system-prompt`",
)
MAX_TOKENS = Limit(
    "claude-cli-max-tokens",
    "The bound of an answer is a number.",
    "claude-cli-surroundings",
    remedy="set the bound of the answer to a number",
)

LIMITS = limits_among(globals())
