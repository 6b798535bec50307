"""Settings of a request that both APIs take alike, or refuse alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.adapters._openai.models import is_reasoning
from harness.contract.errors import Unsupported
from harness.contract.model import Role, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.contract.model import JSON, ChatRequest, Message, ThinkingSettings, ToolChoice


def user_says_json(messages: Iterable[Message]) -> bool:
    """The user says "json", without which JSON mode is refused (openai-chat-word-json, openai-responses-word-json).

    What the model or a tool said does not count, lest a growing history drops the instruction from its beginning.
    """
    parts = (part for message in messages if message.role is Role.USER for part in message.parts)
    return any("json" in part.text.lower() for part in parts if isinstance(part, Text))


def tool_choice(request: ChatRequest, api: str) -> ToolChoice | None:
    """The choice to send, or `None`.

    Without tools the field is refused (openai-chat-choice-needs-tools), and "auto" and "none" mean what is so anyway.

    Raises:
        Unsupported: a call is demanded and there are no tools.
    """
    choice = request.tool_choice
    if request.tools or choice in (None, "auto", "none"):
        return choice if request.tools else None
    raise Unsupported(api, "tool_choice", "a call is demanded and there are no tools")


def effort(thinking: ThinkingSettings, api: str) -> str:
    """The effort that is asked for.

    Raises:
        Unsupported: only a budget of tokens is given.
    """
    if thinking.effort is None and thinking.budget_tokens is not None:
        raise Unsupported(api, "thinking", "the API has efforts and no token budgets")
    return thinking.effort or "medium"


def sampling(request: ChatRequest, model: str, api: str, **others: JSON) -> dict[str, JSON]:
    """Temperature, top_p and `others` like them, as far as they are asked for.

    Raises:
        Unsupported: the model takes none of them (openai-chat-max-completion-tokens).
    """
    asked: dict[str, JSON] = {"temperature": request.temperature, "top_p": request.top_p, **others}
    sent: dict[str, JSON] = {key: value for key, value in asked.items() if value is not None}
    if sent and is_reasoning(model):
        raise Unsupported(api, ", ".join(sent), f"{model} refuses sampling parameters")
    return sent
