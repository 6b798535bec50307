"""Holds what the adapter sent against what was recorded.

Compared: the assistant turn that came from response i and the results behind it (calls, ids, names, arguments, text,
opaque state, content and error marks of results, order and place), and system text and tools.

Allowed, and counted by class:

- `id-renamed`: the client sent an id of its own for a call, one-to-one on call and result, that response i did not
  issue. `id-of-item`: it sent the id of the carrying item (Responses `fc_…`) for the `call_id`.
- `reasoning-dropped`, `text-dropped`: the client left out all reasoning, or all text, of the response. One part of
  several is no choice but a loss.
- `labels`: ids and states of reasoning items, cache marks.
- `default`: absent against the documented default, as far as the neutral view does not read both alike by itself: a
  schema of a tool that takes no arguments.

Not compared, since the neutral view reads it alike: absent and null, a string and one text part, base64 alphabets.
Ids of message and call items of Responses are no facts either: they name what the server may have stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from harness.model import JSON
from harness.redrive.facts import Fact
from harness.wire.jsonvalue import canonical, equal


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One thing that the adapter sent otherwise. `pointer` leads into the body of request j, or, for what is not there,
    to the part before which it is missing. `aspect` is what is not the same."""

    pointer: str
    recorded: JSON
    produced: JSON
    aspect: str


class Comparison:
    """Collects the disagreements and allowances of one pair. `issued` are the ids that response i has issued."""

    def __init__(self, issued: frozenset[str]) -> None:
        self.disagreements: list[Disagreement] = []
        self.allowances: Counter[str] = Counter()
        self._issued = issued

    def turns(self, recorded: Sequence[Fact], produced: Sequence[Fact]) -> None:
        """Compare the facts of two slices."""
        kept = self._without_dropped(recorded, produced)
        self._answers(recorded)
        matcher = SequenceMatcher(None, list(map(_key, recorded)), list(map(_key, kept)), autojunk=False)
        for word, a, b, c, d in matcher.get_opcodes():
            if word == "equal":
                for one, other in zip(recorded[a:b], kept[c:d], strict=True):
                    self._fact(one, other)
            else:
                self._unmatched(recorded, recorded[a:b], kept[c:d], a)
        self._ids(recorded, kept)

    def value(self, pointer: str, recorded: JSON, produced: JSON, aspect: str) -> None:
        """Compare two JSON values."""
        if not equal(recorded, produced):
            self.disagreements.append(Disagreement(pointer, recorded, produced, aspect))
