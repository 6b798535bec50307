"""Streams read strictly: numbered events, and the items that they open and close (openai-responses-stream-order)."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from harness.apis.departure import END, ERROR_STATUS, EVENTS, FIELDS, INDEX, Departure
from harness.apis.jsonvalue import equal
from harness.apis.openai_responses.streams import FIELDS as STRINGS
from harness.apis.openai_responses.streams import TERMINAL, TEXTS
from harness.apis.strictly import Sent, framing, sent, whole_number
from harness.contract.http import HttpResponse
from harness.contract.model import JSON

_FAMILIES = {**STRINGS, **{family: key for family, (_, _, key) in TEXTS.items()}}
"""Event family → the string that its deltas are pieces of, and its `done` has whole."""


def streamed(response: HttpResponse) -> Generator[Departure, None, dict[str, JSON] | None]:
    """Where a stream departs; returns the response that its last event has, `None` if it never came.

    Some servers end it with Chat's sentinel, at which the official SDK stops reading here too: nobody is harmed by it.
    """
    yield from framing(response)
    response_ = _Response()
    for event in sent(response):
        if event.data is not None:
            yield from response_.take(event, event.data)
    yield from response_.unsaid()
    return response_.ended


class _Response:
    """A response as its events tell it."""

    def __init__(self) -> None:
        self.ended: dict[str, JSON] | None = None
        self._number: int | None = None
        self._begun = self._failed = False
        self._open: dict[int, dict[str, JSON]] = {}
        self._done: dict[int, dict[str, JSON]] = {}
        self._texts: dict[tuple[Any, ...], str] = {}
        self._uncounted = self._without_index = False

    def take(self, event: Sent, data: dict[str, JSON]) -> Iterator[Departure]:
        """One event."""
        kind, at = data.get("type"), event.index
        if event.name != kind:
            said = "the name of an event is not the type of its data: clients that go by names lose it"
            yield EVENTS.broken(said, "/type", event=at, actual=event.name, expected=kind)
        yield from self._counted(data, at)
        if kind == "error":
            self._failed = True
            said = "an error comes inside a stream whose status says that all is well"
            yield ERROR_STATUS.broken(said, "/message", event=at, actual=data.get("message"))
            return
        if self.ended is not None:
            yield EVENTS.broken("an event comes behind the last one of the response", "/type", event=at, actual=kind)
        if not self._begun and kind != "response.created":
            yield EVENTS.broken("the stream does not begin with response.created", "/type", event=at, actual=kind)
        self._begun = True
        family, _, step = str(kind).rpartition(".")
        if kind in TERMINAL:
            yield from self._ends(data, at)
        elif family == "response.output_item":
            yield from self._item(step, data, at)
        elif family in _FAMILIES:
            yield from self._text(family, step, data, at)

    def _counted(self, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        number, before = data.get("sequence_number"), self._number
        if not isinstance(number, int) or isinstance(number, bool):
            if not self._uncounted:
                self._uncounted = True
                yield EVENTS.broken("an event has no sequence_number", "/sequence_number", event=at, actual=number)
            return
        if before is not None and number <= before and not self._uncounted:
            self._uncounted = True
            said = "the sequence numbers do not grow"
            yield EVENTS.broken(said, "/sequence_number", event=at, actual=number, expected=before + 1)
        self._number = number

    def _item(self, step: str, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        item = data.get("item")
        if not isinstance(item, dict):
            yield FIELDS.broken("the event of an item has no item", "/item", event=at, actual=item)
            return
        yield from self._unindexed(data, at)
        index = self._index(data, item.get("id"), len(self._open) + len(self._done) if step == "added" else None)
        if step == "added":
            if index != len(self._open) + len(self._done):
                said = "the items are not counted from 0, one by one"
                expected = len(self._open) + len(self._done)
                yield INDEX.broken(said, "/output_index", event=at, actual=index, expected=expected)
            self._open[index] = item
        elif index not in self._open:
            said = "an item is done that is not open"
            yield INDEX.broken(said, "/output_index", event=at, actual=data.get("output_index"))
        else:
            begun = self._open.pop(index)
            self._done[index] = item
            for name in ("id", "call_id", "name"):
                if begun.get(name) != item.get(name):
                    said = f"the {name!r} of an item changes while it is streamed"
                    yield EVENTS.broken(
                        said, f"/item/{name}", event=at, actual=item.get(name), expected=begun.get(name)
                    )
            yield from self._whole(index, item, at)

    def _unindexed(self, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        """What an event lacks that all the others of its server lack too is said once of a stream."""
        index = data.get("output_index")
        if not whole_number(index) and not self._without_index:
            self._without_index = True
            said = "an event has no output_index, by which clients tell the items apart"
            yield INDEX.broken(said, "/output_index", event=at, actual=index)

    def _index(self, data: dict[str, JSON], name: JSON, following: int | None = None) -> int:
        """The index of the item that an event is about; where it has none, that of the open item with this id, or of
        the one that begins. -1: nobody can say."""
        index = data.get("output_index")
        if isinstance(index, int) and whole_number(index):
            return index
        known = next((each for each, item in self._open.items() if item.get("id") == name), -1)
        return known if following is None else following

    def _whole(self, index: int, item: dict[str, JSON], at: int) -> Iterator[Departure]:
        """Whether the pieces of an item's arguments add up to those that it has."""
        said, whole = self._texts.get((index, "response.function_call_arguments", None)), item.get("arguments")
        if isinstance(whole, str) and item.get("type") == "function_call" and (said or "") != whole:
            message = "the pieces of the arguments do not add up to the arguments of the item"
            yield EVENTS.broken(message, "/item/arguments", event=at, actual=said, expected=whole)

    def _text(self, family: str, step: str, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        yield from self._unindexed(data, at)
        index = self._index(data, data.get("item_id"))
        item = self._open.get(index)
        if item is None:
            said, given = "the event is for an item that is not open", data.get("output_index")
            yield INDEX.broken(said, "/output_index", event=at, actual=given, expected=[*self._open])
            return
        if data.get("item_id") != item.get("id"):
            said = "the item_id is not the id of the item with this output_index"
            yield EVENTS.broken(said, "/item_id", event=at, actual=data.get("item_id"), expected=item.get("id"))
        part = data.get("content_index", data.get("summary_index"))
        where = (index, family, part if isinstance(part, int) else None)
        delta, key = data.get("delta"), _FAMILIES[family]
        if step == "delta":
            if not isinstance(delta, str):
                yield FIELDS.broken("a delta is no text", "/delta", event=at, actual=delta)
            self._texts[where] = self._texts.get(where, "") + (delta if isinstance(delta, str) else "")
        elif step == "done" and data.get(key) != self._texts.get(where, ""):
            said = "the pieces do not add up to the whole"
            yield EVENTS.broken(said, f"/{key}", event=at, actual=self._texts.get(where, ""), expected=data.get(key))

    def _ends(self, data: dict[str, JSON], at: int) -> Iterator[Departure]:
        response = data.get("response")
        if not isinstance(response, dict):
            yield FIELDS.broken("the last event has no response", "/response", event=at, actual=response)
            self.ended = {}
            return
        self.ended = response
        if self._open and data.get("type") == "response.completed":
            said = "the response is completed, and has an item that is still open"
            yield EVENTS.broken(said, event=at, actual=[*self._open])
        output = response.get("output")
        done = [item for _, item in sorted(self._done.items())]
        known = [_bare(item) for item in output] if isinstance(output, list) else None
        if done and known is not None and not self._open and not equal(known, [_bare(item) for item in done]):
            said = "the output of the last event is not what the stream has said"
            yield EVENTS.broken(said, "/response/output", event=at, actual=output, expected=[*done])

    def unsaid(self) -> Iterator[Departure]:
        """What the stream should have said by its end."""
        if self.ended is None and not self._failed:
            yield END.broken("the stream has no end: there is no response.completed, so that a cut looks the same")


def _bare(item: JSON) -> JSON:
    """An item without state that is encrypted anew each time (openai-responses-reasoning-back)."""
    if not isinstance(item, dict):
        return item
    return {key: value for key, value in item.items() if key != "encrypted_content"}
