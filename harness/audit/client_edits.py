"""Edits by a recorded client: changes that it made to a response before it sent the response back. `undo_edits` returns
the turn without them.

Edits are found by comparing the recorded response with the recorded follow-up request. The adapter's own request is
never used, so its errors are not mistaken for edits. Where the client made edits, the adapter is compared with the
original response.

Classes of edits:

- `call-dropped`, `call-added`, `calls-reordered`, `call-renamed`, `arguments-rewritten`, `call-unanswered`: the client
  ran other calls than the model made, or sent them back changed.
- `id-left-out`, `id-mispaired`, `id-repeated`: an issued id is missing, belongs to another call or result, or is used
  twice.
- `result-unpaired`, `result-renamed`, `results-reordered`: a result has no call, another tool name or another position.
- `text-reworded`, `text-added`, `text-left-out`: a text was changed, added or omitted. `text-regrouped`: the same text
  is split differently.
- `state-left-out`, `state-added`, `state-rewritten`: a signature or an encrypted content was omitted, added or changed.
- `reasoning-*` and `part-*`, each with `rewritten`, `added` or `left-out`: a whole part was changed, added or omitted.
  `parts-reordered`: the parts are in another order.
- `reasoning-renamed`: reasoning was sent back under the alternative name that compatible servers use.
- `shown-returned`: the client sent back a part that the API is not known to accept.

Other changes are allowed; see `turn_comparison`. Clients may leave out all text or all reasoning of one kind, and
replace ids consistently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from harness.apis.jsonvalue import canonical, equal
from harness.apis.view import ResponseView, is_redacted_id
from harness.audit.redrive_pairs import TurnSlice, match_answered_calls, match_issued_calls
from harness.audit.turn_comparison import REASONING_NAMES, TurnItem, assistant_items, following_items
from harness.model.messages import JSON


@dataclass(frozen=True, slots=True)
class UneditedTurn:
    """Items of a turn in the follow-up request, with the client's edits undone, and the number of edits by class."""

    items: tuple[TurnItem, ...]
    edits: Counter[str]


def undo_edits(answer: ResponseView, place: TurnSlice, reissued: frozenset[str] = frozenset()) -> UneditedTurn:
    """Return the turn as it was before the recorded client changed `answer`, with the changes that it made.

    `reissued` contains encrypted reasoning that occurs only in earlier events of the answer's stream. If the client
    sends it back, that is no change.
    """
    working = _EditFinder(answer, place, reissued)
    items = (*working.original_items(), *working.following())
    return UneditedTurn(items, +working.edits)


class _EditFinder:
    """Matches the items of a response with the items that the follow-up sent back. `_origin` maps the index of each
    returned item to the index of the original.
    """

    def __init__(self, answer: ResponseView, place: TurnSlice, reissued: frozenset[str]) -> None:
        self.edits: Counter[str] = Counter()
        self._place = place
        self._calls = answer.calls
        self._reissued = reissued
        self._issued = assistant_items(answer.parts)
        self._carried = assistant_items(entry.part for entry in place.spoken)
        self._origin: dict[int, int] = {}
        self._kept: list[int] = []
        self._match_calls()
        self._match_others()
        self._match_renamed()

    def original_items(self) -> Iterator[TurnItem]:
        """Yield the items of the assistant turn in the order of the answer."""
        self._note_order()
        self._note_added()
        carried = {origin: at for at, origin in self._origin.items()}
        calls = iter(range(len(self._calls)))
        answered = match_answered_calls(self._place, self._calls)
        for at, item in enumerate(self._issued):
            call = next(calls) if item.kind == "call" else None
            if call is not None and at in carried and call not in answered:
                continue  # an adapter leaves out a call without a result
            if at in carried:
                restored = self._restore(item, self._carried[carried[at]])
            else:
                restored = item if self._is_lost(item, answered=call in answered) else None
                restored = restored and replace(restored, pointer=self._near(at, carried))
            if restored is not None:
                if call is not None:
                    self._kept.append(call)
                yield restored
        yield from (item for at, item in enumerate(self._carried) if at not in self._origin and self._is_echo(item))

    def following(self) -> Iterator[TurnItem]:
        """Yield the items after the turn, with results in the order of their calls."""
        items = following_items(self._place)
        results = [item for item in items if item.kind == "result"]
        answers = match_answered_calls(self._place, self._calls)
        origins = [origin for origin in answers if origin is not None]
        self.edits["results-reordered"] += origins != sorted(origins)
        self.edits["result-unpaired"] += len(self._unpaired_results(results))
        carried = {origin for origin in match_issued_calls(self._place.calls, self._calls) if origin is not None}
        self.edits["call-unanswered"] += len(carried - set(origins))
        paired = [
            (origin, self._result(item, origin))
            for item, origin in zip(results, answers, strict=True)
            if origin is not None
        ]
        left = iter([item for _, item in sorted(paired, key=lambda each: each[0])])
        for item in items:
            following = next(left, None) if item.kind == "result" else item
            if following is not None:
                yield following

    def _match_calls(self) -> None:
        ours = [at for at, item in enumerate(self._issued) if item.kind == "call"]
        theirs = [at for at, item in enumerate(self._carried) if item.kind == "call"]
        for at, origin in zip(theirs, match_issued_calls(self._place.calls, self._calls), strict=True):
            if origin is not None:
                self._origin[at] = ours[origin]

    def _match_others(self) -> None:
        """Match parts of the same kind and name in order. Equal parts are matched first, then the parts between them
        one by one."""
        kinds = dict.fromkeys((item.kind, item.name) for item in self._carried if item.kind != "call")
        for kind in kinds:
            ours = [at for at, item in enumerate(self._issued) if (item.kind, item.name) == kind]
            theirs = [at for at, item in enumerate(self._carried) if (item.kind, item.name) == kind]
            issued: list[TurnItem] = [self._issued[at] for at in ours]
            carried: list[TurnItem] = [self._carried[at] for at in theirs]
            if kind[0] == "text" and _is_regrouped(issued, carried):
                self._regroup(ours, theirs)
                continue
            same = SequenceMatcher(None, list(map(_item_key, issued)), list(map(_item_key, carried)), autojunk=False)
            for _, start, stop, other_start, other_stop in same.get_opcodes():
                self._origin |= dict(zip(theirs[other_start:other_stop], ours[start:stop], strict=False))

    def _match_renamed(self) -> None:
        """Match reasoning that was sent back under the alternative name that compatible servers use."""
        for at, item in enumerate(self._carried):
            if at in self._origin or item.name not in REASONING_NAMES:
                continue
            kept = self._origin.values()
            for origin, other in enumerate(self._issued):
                if origin not in kept and other.name in REASONING_NAMES and other.fields == item.fields:
                    self._origin[at] = origin
                    self._carried = (*self._carried[:at], replace(item, name=other.name), *self._carried[at + 1 :])
                    self.edits["reasoning-renamed"] += 1
                    break

    def _regroup(self, ours: list[int], theirs: list[int]) -> None:
        """Restore the original parts of a text that was sent back split into different parts."""
        self.edits["text-regrouped"] += 1
        kept = [replace(self._issued[at], pointer=self._carried[theirs[0]].pointer) for at in ours]
        if any(item.fields.get("state") for item in kept) and not any(
            self._carried[at].fields.get("state") for at in theirs
        ):
            self.edits["state-left-out"] += 1
        first = theirs[0]
        others = [item for at, item in enumerate(self._carried) if at not in theirs]
        shift = len(kept)
        places = [at for at in range(len(self._carried)) if at not in theirs]
        before = sum(at < first for at in places)
        moved = {at: (new if new < before else new + shift) for new, at in enumerate(places)}
        self._origin = {moved[at]: origin for at, origin in self._origin.items()}
        self._origin |= {before + number: at for number, at in enumerate(ours)}
        self._carried = (*others[:before], *kept, *others[before:])

    def _note_order(self) -> None:
        order = [self._origin[at] for at in sorted(self._origin)]
        calls = [at for at in order if self._issued[at].kind == "call"]
        if calls != sorted(calls):
            self.edits["calls-reordered"] += 1
        elif order != sorted(order):
            self.edits["parts-reordered"] += 1

    def _note_added(self) -> None:
        for at, item in enumerate(self._carried):
            if at not in self._origin and not self._is_echo(item):
                self.edits[f"{item.kind}-added"] += 1

    def _is_echo(self, item: TurnItem) -> bool:
        """Return whether an item repeats the answer's reasoning under the alternative name."""
        return item.name in REASONING_NAMES and any(
            item.fields == other.fields for other in self._issued if other.name in REASONING_NAMES
        )

    def _is_lost(self, item: TurnItem, *, answered: bool) -> bool:
        """Return whether an omitted part must be restored, and count the edit. A call that the client did not run needs
        no restoring."""
        if item.kind == "call":  # a malformed call cannot run, and no API accepts it unanswered
            self.edits["call-dropped"] += not _is_malformed(item)
            return answered
        some = any((item.kind, item.name) == (other.kind, other.name) for other in self._carried)
        if item.kind == "reasoning" or (item.kind == "text" and item.fields.get("state") is None):
            self.edits[f"{item.kind}-left-out"] += some
            return some
        self.edits[f"{item.kind}-left-out"] += item.returns
        return item.returns

    def _near(self, at: int, carried: dict[int, int]) -> str:
        """Return the pointer where an omitted part would be, which is that of the next part."""
        later = [carried[other] for other in range(at + 1, len(self._issued)) if other in carried]
        items = self._carried[later[0] :] if later else following_items(self._place)
        return items[0].pointer if items else ""

    def _restore(self, ours: TurnItem, theirs: TurnItem) -> TurnItem | None:
        if theirs.kind == "call":
            return self._call(ours, theirs)
        if not ours.returns and theirs.kind != "reasoning":
            self.edits["shown-returned"] += 1
            return None
        fields = dict(theirs.fields)
        for name in dict.fromkeys((*ours.fields, *theirs.fields)):
            one, other = ours.fields.get(name), theirs.fields.get(name)
            if equal(one, other) or (name == "encrypted_content" and other in self._reissued):
                continue
            self.edits[_edit_of(theirs.kind, name, one, other)] += 1
            fields[name] = one
        return replace(theirs, fields={name: value for name, value in fields.items() if value is not None})

    def _call(self, ours: TurnItem, theirs: TurnItem) -> TurnItem:
        fields = dict(ours.fields)
        self.edits["call-renamed"] += ours.name != theirs.name
        self.edits["arguments-rewritten"] += not equal(ours.fields["arguments"], theirs.fields["arguments"])
        one, other = ours.fields.get("state"), theirs.fields.get("state")
        if not equal(one, other):
            self.edits[_edit_of("call", "state", one, other)] += 1
        return replace(theirs, name=ours.name, fields=fields, id=self._call_id(ours, theirs))

    def _call_id(self, ours: TurnItem, theirs: TurnItem) -> str | None:
        if theirs.id is None:
            self.edits["id-left-out"] += ours.id is not None
            return ours.id
        if theirs.id == ours.id or is_redacted_id(theirs.id):
            return theirs.id
        if any(theirs.id == other.id for other in self._calls):
            self.edits["id-mispaired"] += 1
            return ours.id
        if sum(theirs.id == other.id for other in self._place.calls) > 1:
            self.edits["id-repeated"] += 1
            return ours.id
        return theirs.id

    def _result(self, theirs: TurnItem, origin: int) -> TurnItem:
        call = self._calls[origin]
        fields = dict(theirs.fields)
        carried = theirs.answers is not None
        known = {call.name, self._place.calls[theirs.answers].name if theirs.answers is not None else call.name}
        name = fields.get("name")
        if name is not None:
            self.edits["result-renamed"] += name not in known
            fields["name"] = call.name
        if not carried and any(other == origin for other in match_issued_calls(self._place.calls, self._calls)):
            self.edits["id-mispaired"] += 1
        if theirs.id is None and call.id is not None and theirs.answers is not None:
            self.edits["id-left-out"] += self._place.calls[theirs.answers].id is not None
        at = self._kept.index(origin) if origin in self._kept else None
        return replace(theirs, fields=fields, answers=at, id=theirs.id or call.id)

    def _unpaired_results(self, results: Sequence[TurnItem]) -> list[TurnItem]:
        return [
            item
            for item, origin in zip(results, match_answered_calls(self._place, self._calls), strict=True)
            if origin is None and item.answers is None
        ]


def _edit_of(kind: str, name: str, issued_value: JSON, carried: JSON) -> str:
    if kind == "text" and name == "text":
        return "text-reworded"
    if name in ("state", "signature", "encrypted_content"):
        return "state-left-out" if carried is None else "state-added" if issued_value is None else "state-rewritten"
    return f"{kind}-rewritten"


def _is_regrouped(ours: Sequence[TurnItem], theirs: Sequence[TurnItem]) -> bool:
    return len(ours) != len(theirs) and bool(ours) and _text(ours) == _text(theirs)


def _text(items: Sequence[TurnItem]) -> str:
    return "".join(str(item.fields["text"]) for item in items)


def _is_malformed(item: TurnItem) -> bool:
    arguments = item.fields.get("arguments")
    return not isinstance(arguments, dict) or arguments.keys() == {"malformed"}


def _item_key(item: TurnItem) -> str:
    return canonical(dict(item.fields))
