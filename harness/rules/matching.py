"""Which wire call is which expected call, and what it is answered with."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView, RequestView, ResponseView, ResultView
from harness.contract.model import ChatResponse, ToolCall, ToolResult
from harness.meaning.pairing import paired
from harness.meaning.results import carries
from harness.rules.evidence import Evidence, ExpectedCall, Heard


def carried(expected: tuple[ExpectedCall, ...], view: RequestView) -> list[CallView | None]:
    """The wire call that each expected call has become: by its issued id, else by place among calls of its name."""
    issued: defaultdict[tuple[str | None, str], deque[CallView]] = defaultdict(deque)
    for call in view.calls:
        issued[call.id, call.name].append(call)
    by_id = [issued[each.id, each.name] if each.id is not None else None for each in expected]
    found = [calls.popleft() if calls else None for calls in by_id]
    taken = {id(call) for call in found}
    named: defaultdict[str, deque[CallView]] = defaultdict(deque)
    for call in view.calls:
        if id(call) not in taken:
            named[call.name].append(call)
    return [
        call if call is not None or not named[each.name] else named[each.name].popleft()
        for each, call in zip(expected, found, strict=True)
    ]


def matched(evidence: Evidence, asked: Heard) -> Sequence[tuple[ExpectedCall, CallView | None]]:
    """The expected calls of a request, each with the wire call that it has become."""
    return evidence.once(_matched, asked)


def _matched(evidence: Evidence, asked: Heard) -> Sequence[tuple[ExpectedCall, CallView | None]]:
    expected = evidence.expected_calls(asked.index)
    return tuple(zip(expected, carried(expected, asked.view), strict=True))


@dataclass(frozen=True, slots=True)
class Answer:
    """An expected call whose tool has answered: what it gave, and the first result that the call has on the wire.

    `taken_from` is the other call whose answer stands there instead, if there is one.
    """

    expected: ExpectedCall
    given: ToolResult
    view: ResultView
    taken_from: ExpectedCall | None = None


def answers(evidence: Evidence, asked: Heard) -> Sequence[Answer]:
    """The answered calls of a request with their results."""
    return evidence.once(_answers, asked)


def _answers(evidence: Evidence, asked: Heard) -> Sequence[Answer]:
    pairing = paired(asked.view)
    found: list[Answer] = []
    for one, call in matched(evidence, asked):
        results = pairing.of(call) if call is not None else ()
        if one.result is None or not results:
            continue
        taken_from: ExpectedCall | None = None
        if not carries(results[0], one.result, asked.view):
            others = (other for other, _ in matched(evidence, asked) if other is not one)
            taken_from = next((o for o in others if o.result and carries(results[0], o.result, asked.view)), None)
        found.append(Answer(one, one.result, results[0], taken_from))
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
