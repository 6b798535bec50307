"""The tools that ran, and the calls that they ran for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView
from harness.results import ToolRun
from harness.rules.loops.given import Given
from harness.rules.rule import Flaw


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a tool that the loop was given: the answer and the exchange that it came with."""

    answer: int
    exchange: int
    view: CallView


def _issued(given: Given) -> list[_Call]:
    """Also the whole calls of an answer that was cut off in a later one."""
    names = {tool.name for tool in given.tools}
    readings = ((at, given.evidence.answer(at)) for at in range(given.transcript.played))
    return [
        _Call(at, reading.index, call)
        for at, reading in readings
        for call in (reading.response.calls if reading is not None and reading.response is not None else ())
        if reading is not None and call.malformed is None and call.name in names
    ]


_Pair: TypeAlias = tuple[ToolRun, _Call | None]


def paired(given: Given) -> tuple[list[_Pair], list[_Call]]:
    """The runs, each with the call that it is of, if there is one; and the calls that no tool has run for. A run is of
    a call of its name and arguments that came before it, else of one of its name that is left."""
    left = _issued(given)
    pairs: list[_Pair] = []
    for exact in (True, False):
        again: list[_Pair] = []
        for run, of in pairs or [(run, None) for run in given.transcript.runs]:
            call = of or next((each for each in left if _fits(run, each, exact=exact)), None)
            left = [each for each in left if each is not call]
            again.append((run, call))
        pairs = again
    return pairs, left


def _fits(run: ToolRun, call: _Call, *, exact: bool) -> bool:
    same = run.name == call.view.name and call.answer < run.answers
    return same and (not exact or equal(run.arguments, call.view.arguments))


def run_otherwise(given: Given) -> Iterator[Flaw]:
    """A tool ran with other arguments than those of its call."""
    for run, call in paired(given)[0]:
        if call is not None and not equal(run.arguments, call.view.arguments):
            yield Flaw(
                f"the tool {run.name} was run with other arguments than the model gave it",
                call.exchange,
                call.view.arguments_pointer,
                run.arguments,
                call.view.arguments,
                of_response=True,
            )


def run_uncalled(given: Given) -> Iterator[Flaw]:
    """A tool ran that nobody had called."""
    for run, answered in _uncalled(given):
        if answered is None:
            yield Flaw(f"the tool {run.name} was run, and the model has not called it", actual=run.arguments)


def run_again(given: Given) -> Iterator[Flaw]:
    """A tool ran again for a call that it had answered."""
    for run, answered in _uncalled(given):
        if answered is not None:
            yield Flaw(
                f"the tool {run.name} was run again for a call that it has answered",
                answered.exchange,
                answered.view.pointer,
                run.arguments,
                of_response=True,
            )


def _uncalled(given: Given) -> Iterator[_Pair]:
    """The runs that are of no call, each with the call of the same that was answered before, if there is one."""
    pairs, _ = paired(given)
    for run, call in pairs:
        if call is None and given.cut_call_of(run) is None:
            yield run, next((of for other, of in pairs if of is not None and _is_again(run, other, of)), None)


def _is_again(run: ToolRun, before: ToolRun, call: _Call) -> bool:
    return _fits(run, call, exact=False) and equal(run.arguments, before.arguments)


def run_missing(given: Given) -> Iterator[Flaw]:
    """A call that the loop went on from, or ended with in good order, though no tool had run for it. One that ends its
    turn, or was cut off, or came before one that was, need not run."""
    asked = max((heard.index for heard, _ in given.heard), default=0)
    failed = given.driven is None or given.driven.failure is not None
    ending = accumulate(len(turn.model) for turn in given.scenario.turns)
    left = {end - 1 for end, turn in zip(ending, given.scenario.turns, strict=True) if turn.ends_with_call}
    left |= {each.answer for each in given.cut_calls}
    for call in paired(given)[1]:
        if call.answer not in left and (call.answer < asked or not failed):
            yield Flaw(
                f"the model called {call.view.name}, and the tool was not run",
                call.exchange,
                call.view.pointer,
                None,
                call.view.arguments,
                of_response=True,
            )
