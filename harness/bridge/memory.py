"""A library's own messages, behind ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.contract.model import ChatRequest, Message, Opaque


class Memory:
    """Keeps what a library answered, so that it gets its own object back when the conversation goes on.

    The library's object may hold what has no canonical place (signatures, item ids, caches). It is found again by the
    place of our message in the history, or, where the history was trimmed, by what the message says; metadata does not
    count. One for each client: a client lives as long as a conversation.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Message, Any]] = {}

    def keep(self, request: ChatRequest, answer: Message, own: object) -> None:
        """`own` is what the library has for the answer to this request."""
        self._kept[len(request.messages)] = _said(answer), own

    def own(self, place: int, message: Message) -> Any:
        """What the library has for the message at this place of the history; nothing, if it never answered so."""
        said = _said(message)
        kept, own = self._kept.get(place, (None, None))
        if kept == said:
            return own
        return next((own for other, own in reversed(self._kept.values()) if other == said), None)


def _said(message: Message) -> Message:
    parts = tuple(part if isinstance(part, Opaque) else replace(part, provider_metadata={}) for part in message.parts)
    return Message(message.role, parts)
