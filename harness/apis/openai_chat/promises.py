"""Promises of the API's servers: the chunks and the pieces of calls (openai-chat-call-deltas), and where answers have
what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.apis.departure import CALL_ID, FIELDS, INDEX, Departure
from harness.apis.jsonvalue import join, resolve
from harness.apis.openai_chat.responses import read
from harness.apis.promises import Grammar, Order, Promises, Sent
from harness.contract.model import JSON

_DELTA = "/choices/0/delta"


class _Order(Order):
    grammar = Grammar(
        sentinel="end",
        # The time of creation is stable too, by the documents; that of some servers is the chunk's, which harms nobody.
        stable=("id", "model"),
        finish="/choices/0/finish_reason",
        content=(f"{_DELTA}/content", f"{_DELTA}/tool_calls", f"{_DELTA}/refusal"),
    )

    def __init__(self) -> None:
        super().__init__()
        self._has_role = False
        self._calls: list[dict[str, Any]] = []

    def check(self, event: Sent) -> Iterator[Departure]:
        data = event.data or {}
        at = event.index
        delta = resolve(data, _DELTA)
        if not isinstance(delta, dict):
            return
        if not self._has_role and delta.get("role") != "assistant":
            said = "the first delta has not the role of the assistant"
            yield FIELDS.broken(said, f"{_DELTA}/role", at, delta.get("role"), "assistant")
        self._has_role = True
        pieces = delta.get("tool_calls")
        for number, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            if isinstance(piece, dict):
                yield from self._piece(piece, join(f"{_DELTA}/tool_calls", number), at)

    def _piece(self, piece: dict[str, JSON], pointer: str, at: int) -> Iterator[Departure]:
        """Check one piece of a call, which belongs to a call by its index and by nothing else."""
        calls, given, call_id = self._calls, piece.get("index"), piece.get("id")
        name = resolve(piece, "/function/name")
        index = given if isinstance(given, int) else len(calls) if call_id else max(len(calls) - 1, 0)
        known = next((call for call in reversed(calls) if call["index"] == index), None)
        if known is None:
            if index != len(calls):
                said = f"call {len(calls) + 1} of the answer has another index than {len(calls)}"
                yield INDEX.broken(said, f"{pointer}/index", at, index, len(calls))
            if not call_id:
                yield CALL_ID.broken("the first piece of a call has no id", f"{pointer}/id", at, call_id)
        elif call_id and call_id != known["id"] and name:
            said = "two calls have one index: clients put their arguments together into one call"
            yield INDEX.broken(said, f"{pointer}/index", at, given)
            known = None
        elif call_id and call_id != known["id"]:
            said = "the id of a call changes from one piece to the next"
            yield CALL_ID.broken(said, f"{pointer}/id", at, call_id, known["id"])
        elif index == given:
            # Only the first piece has them: OpenAI's own SDK joins the texts of one call, whatever they are
            # (`openai/lib/streaming/_deltas.py` of 3.54.0).
            for promise, key, place, value in ((CALL_ID, "id", "id", call_id), (FIELDS, "name", "function/name", name)):
                if value:
                    said = f"a later piece of a call has its {key} again: clients put the two together"
                    yield promise.broken(said, f"{pointer}/{place}", at, value)
        if known is None:
            calls.append({"index": index, "id": call_id})


departures = Promises(
    file=Path(__file__).with_suffix(".yaml"),
    read=read,
    order=_Order,
    arguments=("function", "arguments"),
    is_text=True,
    stop=("/choices/0/finish_reason", frozenset({"stop", "function_call"}), "tool_calls"),
    total="total_tokens",
    parts=("prompt_tokens", "completion_tokens"),
    counts_on_request=True,
)
"""Checks an answer to a request."""
