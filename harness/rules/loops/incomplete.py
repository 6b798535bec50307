"""Calls that were cut off, since their answer reached its bound or its stream broke off: nobody has them whole.

A loop that runs or answers one does something that the model did not ask for, and hides from it that it was cut off.
What else a loop does about such an answer is its own affair: it may raise, end, or ask again without the call.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.rules.loops.given import CutCall, Given
from harness.rules.loops.runs import paired
from harness.rules.matching import carried
from harness.rules.reading import Reading
from harness.rules.rule import Flaw


def cut_call_run(given: Given) -> Iterator[Flaw]:
    """A tool ran for a call that was cut off."""
    for run, call in paired(given)[0]:
        cut = given.cut_call_of(run) if call is None else None
        if cut is not None:
            yield Flaw(
                f"the tool {run.name} was run for a call that was cut off {cut.when}",
                cut.exchange,
                cut.view.arguments_pointer,
                run.arguments,
                of_response=True,
            )


def cut_call_answered(given: Given) -> Iterator[Flaw]:
    """A later request has a call that was cut off, or a result of it."""
    for cut in given.cut_calls:
        later = given.evidence.readings[cut.exchange + 1 :]
        yield from [flaw for reading in later for flaw in _sent_back(given, cut, reading)][:1]


def _sent_back(given: Given, cut: CutCall, reading: Reading) -> Iterator[Flaw]:
    view, chat = reading.request, reading.exchange.chat
    if view is None:
        return
    expected = given.evidence.expected_calls(given.transcript.played if chat is None else chat)
    known = {id(call) for call in carried(expected, view)}
    calls = [call for call in view.calls if id(call) not in known and call.name == cut.view.name]
    results = [result for result in view.results if cut.view.id and result.call_id == cut.view.id]
    results += [result for call in calls for result in given.evidence.pairing(view).of(call)]
    if calls or results:
        how = "is answered with a result" if results else "is sent back"
        message = f"the call of {cut.view.name} {how}, and it was cut off {cut.when}"
        yield Flaw(message, reading.index, (*results, *calls)[0].pointer)
