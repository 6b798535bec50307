"""What commits each limit of the command line."""

from __future__ import annotations

from tests.limits.case import PLAIN, Case
from tests.limits.edits import Edit, Sent, append, put


def _case(limit: str, edit: Edit) -> Case:
    return Case(f"claude-cli-{limit}", edit, PLAIN, "claude-cli")


def _without(option: str, *, values: int = 0) -> Edit:
    def edit(sent: Sent) -> None:
        at = sent.body["argv"].index(option)
        del sent.body["argv"][at : at + 1 + values]

    return edit


CASES = (
    _case("command", put("environment.CLAUDE_CODE_MAX_RETRIES", 0)),
    _case("option-unknown", append("argv", "--loud")),
    _case("option-value", append("argv", "--effort")),
    _case("print", _without("--print")),
    _case("output-format", _without("--output-format", values=1)),
    _case("tools", _without("--tools", values=1)),
    _case("prompt-argument", append("argv", "What is for dinner?")),
    _case("prompt-blank", put("stdin", " ")),
    _case("prompt-command", put("stdin", "/help")),
    _case("attachments", put("environment.CLAUDE_CODE_DISABLE_ATTACHMENTS", "0")),
    _case("setting-sources", _without("--setting-sources", values=1)),
    _case("strict-mcp-config", _without("--strict-mcp-config")),
    _case("no-session-persistence", _without("--no-session-persistence")),
    _case("system-prompt", _without("--system-prompt", values=1)),
    _case("max-tokens", put("environment.CLAUDE_CODE_MAX_OUTPUT_TOKENS", "many")),
)
