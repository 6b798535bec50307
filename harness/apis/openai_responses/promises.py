"""Promises of the API's servers: numbered events and the items that they open and close
(openai-responses-stream-order), and where answers have what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.apis.departure import EVENTS, Departure
from harness.apis.jsonvalue import equal, resolve
from harness.apis.openai_responses.responses import read
from harness.apis.openai_responses.streams import FIELDS as STRINGS
from harness.apis.openai_responses.streams import TERMINAL, TEXTS
from harness.apis.promises import Grammar, Order, Promises, Sent
from harness.contract.model import JSON

_FAMILIES = {**STRINGS, **{family: key for family, (_, _, key) in TEXTS.items()}}
"""Event family → the string that its deltas are pieces of, and its `done` has whole."""

_PIECES = frozenset(f"{family}.{step}" for family in _FAMILIES for step in ("delta", "done"))
_ARGUMENTS = "response.function_call_arguments"


class _Order(Order):
    """Some servers end with Chat's sentinel, at which the official SDK stops reading here too: it harms nobody."""

    grammar = Grammar(
        is_named=True,
        sentinel="skipped",
        first="response.created",
        last=frozenset(TERMINAL),
        closing=frozenset({"response.completed"}),
        opens="response.output_item.added",
        grows=_PIECES,
        closes="response.output_item.done",
        schemas={
            "response.output_item.added": "item",
            "response.output_item.done": "item",
            **dict.fromkeys(_PIECES, "piece"),
            **dict.fromkeys(TERMINAL, "end"),
        },
        index="output_index",
        holds="item",
    )

    def __init__(self) -> None:
        super().__init__()
        self._number: int | None = None
        self._done: dict[int, dict[str, JSON]] = {}
        self._texts: dict[tuple[int, str, JSON], str] = {}

    def block_at(self, data: dict[str, JSON]) -> int | None:
        index, item = super().block_at(data), data.get("item")
        if index is not None or data.get("type") == self.grammar.opens:
            return index
        name = item.get("id") if isinstance(item, dict) else data.get("item_id")
        return next((at for at, block in self.open.items() if block.get("id") == name), None)

    def check(self, event: Sent) -> Iterator[Departure]:
        data = event.data or {}
        number, at, index = data.get("sequence_number"), event.index, self.block_at(data)
        if isinstance(number, int):
            if self._number is not None and number <= self._number:
                yield EVENTS.broken("the sequence numbers do not grow", "/sequence_number", at, number)
            self._number = number
        if event.kind in TERMINAL:
            yield from self._repeated(data, at)
        elif index in self.open and event.kind == self.grammar.closes:
            item = data.get("item")
            yield from self._closed(index, item if isinstance(item, dict) else {}, at)
        elif index in self.open and event.kind in _PIECES:
            yield from self._piece(index, event.kind, data, at)

    def _repeated(self, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        output, done = resolve(data, "/response/output"), [_bare(item) for _, item in sorted(self._done.items())]
        if done and isinstance(output, list) and not self.open and not equal([*map(_bare, output)], done):
            said = "the output of the last event is not what the stream has said"
            yield EVENTS.broken(said, "/response/output", at, output, done)

    def _piece(self, index: int, kind: str, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        family, _, step = kind.rpartition(".")
        if data.get("item_id") != self.open[index].get("id"):
            said = "the item_id is not the id of the item with this output_index"
            yield EVENTS.broken(said, "/item_id", at, data.get("item_id"), self.open[index].get("id"))
        part = data.get("content_index", data.get("summary_index"))
        where = (index, family, part if isinstance(part, int) else None)
        so_far, delta, key = self._texts.get(where, ""), data.get("delta"), _FAMILIES[family]
        if step == "delta":
            self._texts[where] = so_far + (delta if isinstance(delta, str) else "")
        elif data.get(key) != so_far:
            yield EVENTS.broken("the pieces do not add up to the whole", f"/{key}", at, so_far, data.get(key))

    def _closed(self, index: int, item: dict[str, JSON], at: int) -> Iterator[Departure]:
        self._done[index], begun = item, self.open[index]
        for name in ("id", "call_id", "name"):
            if begun.get(name) != item.get(name):
                said = f"the {name!r} of an item changes while it is streamed"
                yield EVENTS.broken(said, f"/item/{name}", at, item.get(name), begun.get(name))
        pieces, whole = self._texts.get((index, _ARGUMENTS, None), ""), item.get("arguments")
        if isinstance(whole, str) and item.get("type") == "function_call" and pieces != whole:
            said = "the pieces of the arguments do not add up to the arguments of the item"
            yield EVENTS.broken(said, "/item/arguments", at, pieces, whole)


def _bare(item: JSON) -> JSON:
    """An item without state that is encrypted anew each time (openai-responses-reasoning-back)."""
    if not isinstance(item, dict):
        return item
    return {key: value for key, value in item.items() if key != "encrypted_content"}


departures = Promises(
    file=Path(__file__).with_suffix(".yaml"),
    read=read,
    order=_Order,
    arguments=("arguments",),
    is_text=True,
    total="total_tokens",
    parts=("input_tokens", "output_tokens"),
)
"""Checks an answer to a request."""
