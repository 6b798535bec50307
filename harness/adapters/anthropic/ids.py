"""Tool-call ids as the API takes them."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.contract.model import ToolCall, ToolResult

_LEGAL = re.compile(r"[a-zA-Z0-9_-]+")


class WireIds:
    """Maps the ids of one history, read in its order, onto legal ones (anthropic-call-fields).

    Legal ids stay. Another becomes a digest of itself, so that it is the same in every request. Calls with an empty
    id are told apart by their order, and their results find them by name, then by order.
    """

    def __init__(self) -> None:
        self._unanswered: dict[str, list[tuple[str, str]]] = {}
        self._empty = 0

    def of_call(self, call: ToolCall) -> str:
        """The id on the wire of the next call."""
        if call.id:
            wire = _legal(call.id)
        else:
            self._empty += 1
            wire = _digest(f"empty id {self._empty}")
        self._unanswered.setdefault(call.id, []).append((call.name, wire))
        return wire

    def of_result(self, result: ToolResult) -> str:
        """The id on the wire of the call that the next result answers."""
        calls = self._unanswered.get(result.call_id)
        if not calls:
            return _legal(result.call_id)
        place = next((index for index, (name, _) in enumerate(calls) if name == result.name), 0)
        return calls.pop(place)[1]


def _legal(call_id: str) -> str:
    return call_id if _LEGAL.fullmatch(call_id) else _digest(call_id)


def _digest(text: str) -> str:
    return "toolu_" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]
