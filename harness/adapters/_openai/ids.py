"""Ids of tool calls."""

from __future__ import annotations

import hashlib
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from harness.contract.model import Message, ToolResult


def is_legal(call_id: str, longest: int) -> bool:
    """An API whose ids have at most `longest` characters takes this id, whoever issued it."""
    return 0 < len(call_id) <= longest


def synthesised(position: int, taken: Collection[str]) -> str:
    """An id for a call that came without one; `position` counts the calls before it in the history."""
    return next(call_id for n in count(position) if (call_id := f"call_{n}") not in taken)


class WireIds:
    """The ids of one history, asked for in its order → the ids that stand for them on the wire, one-to-one.

    Ids that the API issued or takes, up to `longest` characters, stay as they are. Any other becomes a digest of
    itself, so that it is the same in every request of a conversation. Calls with an empty id are told apart by their
    order; their results find them by name, then by order.
    """

    def __init__(self, history: Iterable[Message], longest: int) -> None:
        self._longest = longest
        self._taken = {call.id for message in history for call in message.tool_calls}
        self._issued: set[str] = set()
        self._empty = 0
        self._unanswered: list[tuple[str, str]] = []

    def issued(self, call_id: str) -> str:
        """The id of a call that came from this API with it."""
        self._issued.add(call_id)
        return call_id

    def of_call(self, call_id: str, name: str) -> str:
        """The id of the next call."""
        if call_id:
            return self._wire_id(call_id)
        self._empty += 1
        wire = self._substitute(f"empty id {self._empty}")
        self._unanswered.append((name, wire))
        return wire

    def of_result(self, result: ToolResult) -> str:
        """The id of the call that the next result answers."""
        if result.call_id or not self._unanswered:
            return self._wire_id(result.call_id)
        names = [name for name, _ in self._unanswered]
        return self._unanswered.pop(names.index(result.name) if result.name in names else 0)[1]

    def _wire_id(self, call_id: str) -> str:
        return call_id if call_id in self._issued or is_legal(call_id, self._longest) else self._substitute(call_id)

    def _substitute(self, text: str) -> str:
        digests = (hashlib.sha256(f"{n}:{text}".encode(errors="surrogatepass")).hexdigest() for n in count())
        return next(wire for digest in digests if (wire := f"call_{digest[:24]}") not in self._taken)
