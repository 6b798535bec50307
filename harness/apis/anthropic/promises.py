"""Promises of the API's servers: the order of its events (anthropic-stream-order), and where its answers have what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.apis.anthropic.responses import read
from harness.apis.departure import EVENTS, Departure
from harness.apis.jsonvalue import resolve
from harness.apis.promises import Grammar, Order, Promises, Sent

_DELTAS = {
    "text_delta": ("text",),
    "citations_delta": ("text",),
    "input_json_delta": ("tool_use", "server_tool_use", "mcp_tool_use"),
    "thinking_delta": ("thinking",),
    "signature_delta": ("thinking",),
}
"""Type of a delta → the types of the blocks that it can be of."""


class _Order(Order):
    grammar = Grammar(
        is_named=True,
        first="message_start",
        last=frozenset({"message_stop"}),
        before_last="message_delta",
        closing=frozenset({"message_delta"}),
        opens="content_block_start",
        grows=frozenset({"content_block_delta"}),
        closes="content_block_stop",
        holds="content_block",
    )

    def check(self, event: Sent) -> Iterator[Departure]:
        data = event.data or {}
        of, index = resolve(data, "/delta/type"), self.block_at(data)
        block = None if index is None else self.open.get(index)
        if block is not None and isinstance(of, str) and of in _DELTAS and block.get("type") not in _DELTAS[of]:
            said = f"a {of} is for a block of type {block.get('type')!r}"
            yield EVENTS.broken(said, "/delta/type", event.index, of)


departures = Promises(
    file=Path(__file__).with_suffix(".yaml"),
    read=read,
    order=_Order,
    arguments=("input",),
    stop=("/stop_reason", frozenset({"end_turn", "stop_sequence"}), "tool_use"),
)
"""Checks an answer to a request."""
