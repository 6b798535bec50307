"""Holds what the adapter sent against what was recorded.

Compared: the assistant turn that came from response i and the results behind it (calls, ids, names, arguments, text,
opaque state, content and error marks of results, order and place), and system text and tools. What the recorded client
changed of response i is undone first (`harness.auditing.redrive.edits`), and counted apart.

Allowed, and counted by class:

- `id-invented`, `id-renamed`: the id of a call is one that response i did not issue, one-to-one on call and result; it
  had issued none, or another. `id-of-item`: it is the id of the carrying item (Responses `fc_…`).
- `reasoning-dropped`, `text-dropped`: the client left out all reasoning of one kind, or all text, of the response. One
  part of several is no choice but a loss, and so is text that state sits on.
- `reasoning-repeated`: it sent the same reasoning a second time, under the other name that compatible servers have for
  it (`reasoning`, `reasoning_content`).
- `state-reissued`: the encrypted content of a reasoning item is one that response i gave in another event of its
  stream; Responses encrypts the item anew for the last event.
- `id-scrubbed`: the recording has something written over the id of a call.
- `stand-in`: a call without a signature, since the client left out the one in front that had it, goes back with what
  Gemini takes in its place (gemini-thought-signature).
- `labels`: ids and states of reasoning items, cache marks.
- `default`: absent against the documented default, as far as the neutral view does not read both alike by itself: a
  schema of a tool that takes no arguments.

Not compared, since the neutral view reads it alike: absent and null, a string and one text part, base64 alphabets.
Ids of message and call items of Responses are no facts either: they name what the server may have stored.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from harness.apis.jsonvalue import equal
from harness.apis.scrubbed import is_scrubbed
from harness.auditing.redrive.edits import REASONING_NAMES
from harness.auditing.redrive.facts import Fact
from harness.contract.model import JSON


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One thing that the adapter sent otherwise than it was recorded.

    `pointer` leads into the body of request j: to the part, or to the one before which something was added. `kind`
    says what is not the same: `call-id`, `result-content`, `reasoning-missing` (recorded, and not produced),
    `part-added` (produced, and not recorded), …
    """

    pointer: str
    recorded: JSON
    produced: JSON
    kind: str


class Comparison:
    """Collects the disagreements and allowances of one pair. `issued` are the call ids of response i, `reissued` the
    encrypted contents that only earlier events of its stream have. `edits` are what the recorded client changed."""

    def __init__(self, issued: frozenset[str], reissued: frozenset[str] = frozenset()) -> None:
        self.disagreements: list[Disagreement] = []
        self.allowances: Counter[str] = Counter()
        self.edits: Counter[str] = Counter()
        self._issued = issued
        self._reissued = reissued

    @staticmethod
    def failed(pointer: str, reason: str) -> Comparison:
        """The adapter sent nothing."""
        found = Comparison(frozenset())
        found.disagreements.append(Disagreement(pointer, None, reason, "adapter-failed"))
        return found

    def turn(self, recorded: Sequence[Fact], produced: Sequence[Fact]) -> None:
        """Compare an assistant turn and its results."""
        self.sequence(self._without_repeated(recorded, produced), self._without_dropped(recorded, produced))

    def sequence(self, recorded: Sequence[Fact], produced: Sequence[Fact]) -> None:
        """Compare facts in their order."""
        matcher = SequenceMatcher(None, list(map(_key, recorded)), list(map(_key, produced)), autojunk=False)
        for word, start, stop, other_start, other_stop in matcher.get_opcodes():
            if word == "equal":
                for one, other in zip(recorded[start:stop], produced[other_start:other_stop], strict=True):
                    self._fact(one, other)
                continue
            for fact in recorded[start:stop]:
                self._disagree(fact.pointer, fact.shown, None, f"{fact.kind}-missing")
            place = recorded[min(start, len(recorded) - 1)].pointer if recorded else ""
            for fact in produced[other_start:other_stop]:
                self._disagree(place, None, fact.shown, f"{fact.kind}-added")

    def _without_repeated(self, recorded: Sequence[Fact], produced: Sequence[Fact]) -> list[Fact]:
        """What was recorded, without reasoning that says under another name what stands there under its own."""
        own = {fact.name for fact in produced} & REASONING_NAMES
        said = [fact.fields for fact in recorded if fact.name in own]
        kept = [fact for fact in recorded if fact.name not in REASONING_NAMES - own or fact.fields not in said]
        self.allowances["reasoning-repeated"] += len(recorded) - len(kept)
        return kept

    def _without_dropped(self, recorded: Sequence[Fact], produced: Sequence[Fact]) -> list[Fact]:
        """What was produced, without the kinds of reasoning, and the text, of which nothing was recorded."""
        there = {(fact.kind, fact.name) for fact in recorded if fact.role == "assistant"}
        kept: list[Fact] = []
        for fact in produced:
            droppable = fact.role == "assistant" and (
                fact.kind == "reasoning" or (fact.kind == "text" and fact.fields.get("state") is None)
            )
            if droppable and (fact.kind, fact.name) not in there:
                self.allowances[f"{fact.kind}-dropped"] += 1
            else:
                kept.append(fact)
        return kept

    def _fact(self, recorded: Fact, produced: Fact) -> None:
        if recorded.answers != produced.answers:  # what they say belongs to two calls
            self._disagree(recorded.pointer, recorded.answers, produced.answers, "result-order")
            return
        for name in (*recorded.fields, *(name for name in produced.fields if name not in recorded.fields)):
            one, other = recorded.fields.get(name), produced.fields.get(name)
            if not equal(one, other) and not self._allowed(name, one, other):
                self._disagree(recorded.pointer, one, other, f"{recorded.kind}-{name.replace('_', '-')}")
        if recorded.labels != produced.labels:
            self.allowances["labels"] += 1
        if recorded.kind == "call" and recorded.id != produced.id:
            self._renamed(recorded, produced)
        if recorded.kind == "result" and recorded.id is None and produced.id is not None:
            self._disagree(recorded.pointer, None, produced.id, "result-id")

    def _allowed(self, name: str, recorded: JSON, produced: JSON) -> bool:
        if name == "parameters" and _takes_nothing(recorded) and _takes_nothing(produced):
            self.allowances["default"] += 1
            return True
        if name == "state" and recorded is None and produced in _STAND_INS:
            self.allowances["stand-in"] += 1
            return True
        if name == "encrypted_content" and isinstance(recorded, str) and recorded in self._reissued:
            self.allowances["state-reissued"] += 1
            return True
        return False

    def _renamed(self, recorded: Fact, produced: Fact) -> None:
        if recorded.id is not None and is_scrubbed(recorded.id):
            self.allowances["id-scrubbed"] += 1
        elif recorded.id is None or recorded.id in self._issued:
            self._disagree(recorded.pointer, recorded.id, produced.id, "call-id")
        elif recorded.id == produced.item_id:
            self.allowances["id-of-item"] += 1
        else:
            self.allowances["id-renamed" if produced.id in self._issued else "id-invented"] += 1

    def _disagree(self, pointer: str, recorded: JSON, produced: JSON, kind: str) -> None:
        self.disagreements.append(Disagreement(pointer, recorded, produced, kind))


_STAND_IN = b"skip_thought_signature_validator"
_STAND_INS = (_STAND_IN.decode(), base64.b64encode(_STAND_IN).decode())


def _key(fact: Fact) -> tuple[str, str, str]:
    return fact.role, fact.kind, fact.name


def _takes_nothing(schema: JSON) -> bool:
    """The schema is absent, or one of an object without properties. `{"type": "object"}` alone takes any."""
    return isinstance(schema, dict) and (
        not schema or (schema.get("properties") == {} and not schema.get("additionalProperties"))
    )
