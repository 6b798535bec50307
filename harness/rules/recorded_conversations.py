"""The conversations in a recording: each request with the earlier request that it continues."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from harness.apis.jsonvalue import canonical, parse_body, resolve
from harness.apis.view import CallView, OpaqueView, PartView, ResultView, TextView
from harness.model.messages import JSON
from harness.rules.evidence import ClientRequest, Evidence, ParsedExchange

_START = 16
"""Number of characters by which texts of two requests are taken as versions of one text."""

_LONG = 80
"""Number of characters from which a text of the model identifies its answer."""


@dataclass(frozen=True, slots=True)
class _Contents:
    """The contents of a request or an answer. Values that occur twice are counted twice.

    - `marks`: ids and opaque state, which no other conversation has.
    - `calls` and `texts`: what the model said, without ids.
    - `turns`: the parts of the conversation, with the beginnings of their texts.
    - `fixed`: the names of the tools, and the beginning of the system prompt.
    - `last`: the position of the last part with a mark, call or text.
    """

    marks: Counter[str]
    calls: Counter[str]
    texts: Counter[str]
    turns: Counter[str]
    fixed: Counter[str]
    last: dict[str, int]

    def identifies(self, before: _Contents, answer: _Contents) -> bool:
        """Return whether these contents repeat ids, state or a long text of the answer to an earlier request."""
        long = (text for text in answer.texts if len(text) >= _LONG and self.texts[text] > before.texts[text])
        return any(self.marks[mark] > before.marks[mark] for mark in answer.marks) or any(long)

    def resembles(self, before: _Contents, answer: _Contents) -> bool:
        """Return whether these contents repeat an answer's calls or else its text, and half of its request.
        If the conversation was trimmed, they repeat half of the rest.
        """
        if answer.calls:
            repeated = any(self.calls[call] > before.calls[call] for call in answer.calls)
        else:
            repeated = any(self.texts[text] > before.texts[text] for text in answer.texts)
        comparable = min(before.turns.total(), self.turns.total() - answer.turns.total())
        return repeated and 2 * (self.turns & before.turns).total() >= comparable

    def common(self, before: _Contents) -> int:
        """Return the number of parts that two requests have in common."""
        return (self.turns & before.turns).total() + (self.fixed & before.fixed).total()

    def reach(self, answer: _Contents) -> int:
        """Return the position of the last part that repeats an answer."""
        return max((at for each, at in self.last.items() if each in answer.last), default=-1)


def continued_in_recording(evidence: Evidence) -> Iterator[tuple[ClientRequest, ClientRequest]]:
    """Yield each request that repeats an answer, after the request that got this answer."""
    earlier: list[tuple[ClientRequest, _Contents, _Contents]] = []
    for reading in evidence.readings:
        if reading.request is None:
            continue
        req = ClientRequest(reading.index, reading, reading.request)
        sent = _sent_contents(req)
        found = [
            (sent.reach(answer), sent.common(its), is_identified, -its.turns.total(), before.index, before)
            for before, its, answer in earlier
            if (is_identified := sent.identifies(its, answer)) or sent.resembles(its, answer)
        ]
        if found:
            yield max(found)[-1], req
        earlier.append((req, sent, _answer_contents(reading)))


def _sent_contents(req: ClientRequest) -> _Contents:
    view = req.view
    state = resolve(parse_body(req.reading.exchange.request.body), f"/{view.stateful}") if view.stateful else None
    told = [(turn.role, part) for turn in view.turns for part in turn.parts]
    fixed = chain(
        (canonical([tool.name]) for tool in view.tools), (f"system {each.text[:_START]}" for each in view.system)
    )
    return _contents(told, [state] if isinstance(state, str) else [], fixed)


def _answer_contents(reading: ParsedExchange) -> _Contents:
    answer = reading.answer
    issued = resolve(answer.body, "/id") if answer else None
    parts = answer.parts if answer else ()
    return _contents([("assistant", part) for part in parts], [issued] if isinstance(issued, str) else [])


def _contents(told: Iterable[tuple[str, PartView]], state: Sequence[str], fixed: Iterable[str] = ()) -> _Contents:
    found = _Contents(
        Counter(state), Counter(), Counter(), Counter(), Counter(fixed), dict.fromkeys(state, sys.maxsize)
    )
    for at, (role, part) in enumerate(told):
        said = [mark for mark in _marks(part) if isinstance(mark, str) and mark]
        found.marks.update(said)
        start = ""
        if isinstance(part, TextView):
            text = part.text.strip()
            start = text[:_START]
            if text and role == "assistant":
                found.texts[text] += 1
                said.append(text)
        elif isinstance(part, CallView):
            start = canonical([part.name, part.malformed or part.arguments])
            found.calls[start] += 1
            said.append(start)
        found.turns[f"{role} {type(part).__name__} {start}"] += 1
        found.last.update(dict.fromkeys(said, at))
    return found


_STATE = ("id", "signature", "data", "encrypted_content")


def _marks(part: PartView) -> Iterator[JSON]:
    match part:
        case CallView():
            yield from (part.id, part.item_id, part.opaque)
        case ResultView():
            yield part.call_id
        case TextView():
            yield part.opaque
        case OpaqueView(raw={**fields}) if any(fields.get(key) for key in _STATE):
            yield from (part.signature, *(fields.get(key) for key in _STATE))
        case OpaqueView():
            yield canonical(part.raw)
        case _:
            pass
