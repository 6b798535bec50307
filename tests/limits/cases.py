"""All cases, by the limit that they commit."""

from __future__ import annotations

from tests.limits import anthropic, claude_cli, gemini, openai_chat, openai_responses
from tests.limits.case import Case

CASES: dict[str, Case] = {
    case.limit: case
    for module in (anthropic, openai_chat, openai_responses, gemini, claude_cli)
    for case in module.CASES
}
