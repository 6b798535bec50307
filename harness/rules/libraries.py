"""Libraries: what a wrapped library said of an answer is what the wire says, whatever its wrapper made of it.

`harness.bridge` has to choose a value where a library's own cannot be translated. It keeps what the library said in
`ChatResponse.reported`, so that the choice hides no fault.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import resolve
from harness.apis.view import CallView, ResponseView
from harness.contract.model import JSON, ChatResponse, StopReason
from harness.results import Kind, Severity
from harness.rules.evidence import Evidence
from harness.rules.reading import Reading
from harness.rules.rule import Flaw, Rule
from harness.scenarios.schema import Subject

_ENDS = frozenset({"stop", "end_turn"})
"""Words of libraries and APIs for the end of a turn."""
_CALLS = frozenset({"tool_calls", "tool_use", "function_call"})
"""Words of the APIs that have one for an answer with calls."""


def _answers(evidence: Evidence) -> Iterator[tuple[Reading, ResponseView, ChatResponse]]:
    for index, chat in enumerate(evidence.transcript.chats):
        reading = evidence.answer(index)
        if reading is not None and reading.response is not None and chat.response is not None:
            yield reading, reading.response, chat.response


def _stop_reason(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        said, word = (given.raw_stop_reason or "").lower(), (wire.raw_stop_reason or "").lower()
        if said in _ENDS and word in _CALLS and given.stop_reason is StopReason.TOOL_USE:
            yield Flaw(
                f"the provider said {wire.raw_stop_reason!r} of an answer with calls, and the library hands on "
                f"{given.raw_stop_reason!r}",
                reading.index,
                "",
                given.raw_stop_reason,
                wire.raw_stop_reason,
                of_response=True,
            )


def _empty_arguments(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        places = given.reported.get("empty-arguments")
        for place in places if isinstance(places, list) else ():
            call = wire.calls[place] if isinstance(place, int) and place < len(wire.calls) else None
            sent = None if call is None or call.malformed is not None else resolve(wire.body, call.arguments_pointer)
            if call is not None and sent not in (None, ""):
                yield Flaw(
                    f"the library hands on no text for the arguments of {call.name}, which is no JSON",
                    reading.index,
                    call.arguments_pointer,
                    "",
                    sent,
                    of_response=True,
                )


def _cut_call(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        calls = given.reported.get("unreadable-calls")
        for said in calls if isinstance(calls, list) else ():
            name = said.get("name") if isinstance(said, dict) else None
            cut = next((call for call in wire.calls if call.malformed is not None and call.name == name), None)
            if cut is not None:
                yield Flaw(
                    f"the library hands on a call of {cut.name} {_how_cut(wire)}",
                    reading.index,
                    cut.arguments_pointer,
                    said,
                    "no call",
                    of_response=True,
                )


def _how_cut(wire: ResponseView) -> str:
    return "cut by max_tokens" if wire.stop_reason is StopReason.MAX_TOKENS else "whose arguments are no JSON"


def _indices(evidence: Evidence) -> Iterator[Flaw]:
    for reading, wire, given in _answers(evidence):
        said = given.reported.get("indices")
        indices: list[JSON] = [index for index in said if index is not None] if isinstance(said, list) else []
        if len(set(map(str, indices))) < len(indices):
            yield Flaw(
                "the library gives calls of one stream the same index, so that their arguments are joined",
                reading.index,
                _first(wire.calls),
                said,
                "an index for each call",
                of_response=True,
            )


def _first(calls: tuple[CallView, ...]) -> str:
    return calls[0].pointer if calls else ""


_BRIDGE = "harness.bridge"

RULES = (
    Rule(
        "library-stop-reason",
        Subject.RESPONSES,
        "A library says that an answer ends in calls where the provider says so.",
        _BRIDGE + "; anthropic-stop-reasons, openai-chat-stop-reasons",
        _stop_reason,
        kind=Kind.LOSS,
        because="a loop that follows the stop reason runs none of the calls",
        remedy="have the library report that an answer with calls ends in calls, as {stop} says",
    ),
    Rule(
        "library-empty-arguments",
        Subject.RESPONSES,
        "A library hands on the arguments of a call without arguments as an empty object.",
        _BRIDGE + "; openai-chat-call-form",
        _empty_arguments,
        kind=Kind.LOSS,
        because="who parses them gets an error, and runs nothing",
        remedy="have the library hand on empty arguments as `{{}}`",
    ),
    Rule(
        "library-cut-call",
        Subject.RESPONSES,
        "A library hands on no call that is cut short or malformed.",
        _BRIDGE,
        _cut_call,
        kind=Kind.LOSS,
        because="its users have to find out by themselves that the call is not whole",
        severity=Severity.WARNING,
        remedy="drop calls whose arguments are cut or malformed, in the library",
    ),
    Rule(
        "library-call-indices",
        Subject.STREAMING,
        "A library gives each call of a stream an index of its own.",
        _BRIDGE + "; openai-chat-call-deltas",
        _indices,
        kind=Kind.LOSS,
        because="who joins the pieces by their index gets one call with the arguments of two",
        remedy="have the library keep the index that each call of the stream has",
    ),
)
