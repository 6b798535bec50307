"""Which wire call is which expected call, and what it is answered with."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView, RequestView, ResponseView, ResultView
from harness.contract.model import ChatResponse, ToolCall, ToolResult
from harness.meaning.result_meaning import carries
from harness.rules.evidence import Evidence, ExpectedCall, Heard


def carried(expected: tuple[ExpectedCall, ...], view: RequestView) -> list[CallView | None]:
    """Return the wire call that each expected call has become: by its issued id, else the call of its name with its
    arguments, else by place among calls of its name. The order alone does not say which call is which."""
    if len(expected) == len(view.calls) and all(map(_is_named, expected, view.calls)):
        return [*view.calls]  # what the rest of this comes to where nothing is amiss
    issued: defaultdict[tuple[str | None, str], deque[CallView]] = defaultdict(deque)
    for call in view.calls:
        issued[call.id, call.name].append(call)
    found = [None if each.id is None else _taken(issued[each.id, each.name], each) for each in expected]
    taken = {id(call) for call in found}
    named: defaultdict[str, deque[CallView]] = defaultdict(deque)
    for call in view.calls:
        if id(call) not in taken:
            named[call.name].append(call)
    for place, each in enumerate(expected):
        if found[place] is None:
            same = next((call for call in named[each.name] if equal(call.arguments, each.arguments)), None)
            if same is not None:
                found[place] = same
                named[each.name].remove(same)
    return [
        call if call is not None or not named[each.name] else named[each.name].popleft()
        for each, call in zip(expected, found, strict=True)
    ]


def _taken(calls: deque[CallView], expected: ExpectedCall) -> CallView | None:
    """The first of several calls of one id that has the arguments, or else the first one."""
    if not calls:
        return None
    same = next((call for call in calls if equal(call.arguments, expected.arguments)), calls[0])
    calls.remove(same)
    return same


def _is_named(expected: ExpectedCall, call: CallView) -> bool:
    return expected.id is not None and expected.id == call.id and expected.name == call.name


def matched(evidence: Evidence, asked: Heard) -> Sequence[tuple[ExpectedCall, CallView | None]]:
    """The expected calls of a request, each with the wire call that it has become."""
    return evidence.once(_matched, asked)


def _matched(evidence: Evidence, asked: Heard) -> Sequence[tuple[ExpectedCall, CallView | None]]:
    expected = evidence.expected_calls(asked.index)
    return tuple(zip(expected, carried(expected, asked.view), strict=True))


@dataclass(frozen=True, slots=True)
class Answer:
    """An expected call whose tool has answered: what it gave, and the first result that the call has on the wire.

    `is_own`: it says what the tool gave. `taken_from` is the other call whose answer stands there instead, if there is
    one.
    """

    expected: ExpectedCall
    given: ToolResult
    view: ResultView
    is_own: bool
    taken_from: ExpectedCall | None = None


def answers(evidence: Evidence, asked: Heard) -> Sequence[Answer]:
    """The answered calls of a request with their results."""
    return evidence.once(_answers, asked)


def _answers(evidence: Evidence, asked: Heard) -> Sequence[Answer]:
    pairing = evidence.pairing(asked.view)
    found: list[Answer] = []
    for one, call in matched(evidence, asked):
        results = pairing.of(call) if call is not None else ()
        if one.result is None or not results:
            continue
        taken_from: ExpectedCall | None = None
        is_own = carries(results[0], one.result, asked.view)
        if not is_own:
            others = ((other, other.result) for other, _ in matched(evidence, asked) if other is not one)
            given = ((other, result) for other, result in others if result is not None)
            taken_from = next((o for o, r in given if carries(results[0], r, asked.view)), None)
        found.append(Answer(one, one.result, results[0], is_own, taken_from))
    return found


def cut_calls(wire: ResponseView, given: ChatResponse) -> list[tuple[CallView, ToolCall]]:
    """The calls that are cut short or malformed on the wire and that the adapter hands on all the same."""
    left = list(given.tool_calls)
    for call in wire.calls:
        if call.malformed is None:
            whole = next((c for c in left if _is_handed_on(call, c) and equal(dict(c.arguments), call.arguments)), None)
            left = [c for c in left if c is not whole]
    found: list[tuple[CallView, ToolCall]] = []
    for call in wire.calls:
        handed = next((c for c in left if _is_handed_on(call, c)), None) if call.malformed is not None else None
        if handed is not None:
            found.append((call, handed))
            left = [c for c in left if c is not handed]
    return found


def _is_handed_on(call: CallView, given: ToolCall) -> bool:
    return given.id == call.id if call.id else given.name == call.name
