"""How calls and their results name each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.apis.view import CallView, JsonView, ResultView
from harness.rules.evidence import Evidence
from harness.running.differences.fact import Fact, parts_of, place, results_of
from harness.scenarios.schema import Subject


def _issuer(evidence: Evidence) -> Iterator[str]:
    for reading in evidence.readings:
        for call in reading.response.calls if reading.response else ():
            yield "the API" if call.id is not None else "nobody: no id on the wire"


def _id_format(evidence: Evidence) -> Iterator[str]:
    for reading in evidence.readings:
        for call in reading.response.calls if reading.response else ():
            if call.id is not None:
                prefix = re.match(r"[a-z]+_", call.id)
                yield f"{prefix.group() if prefix else ''}… ({len(call.id)} characters)"


def _has_foreign_ids(evidence: Evidence) -> bool:
    """The history has ids of another API, which say nothing about where this API's own go."""
    scenario = evidence.transcript.scenario
    return scenario is not None and bool(scenario.history)


def _call_id_field(evidence: Evidence) -> Iterator[str]:
    for _, _, call in () if _has_foreign_ids(evidence) else parts_of(evidence):
        if isinstance(call, CallView):
            yield place(call.id_pointer) if call.id is not None else "none"


def _result_id_field(evidence: Evidence) -> Iterator[str]:
    for result in () if _has_foreign_ids(evidence) else results_of(evidence):
        yield place(result.id_pointer) if result.call_id is not None else "none: by name and order"


def _result_place(evidence: Evidence) -> Iterator[str]:
    for _, turn, part in parts_of(evidence):
        if isinstance(part, ResultView):
            yield f"{place(part.pointer)}, {turn.wire_role}"


def _parallel_results(evidence: Evidence) -> Iterator[str]:
    for asked in evidence.asked:
        new = evidence.new_turns(asked)
        for position, turn in enumerate(new, len(asked.view.turns) - len(new)):
            results = sum(isinstance(part, ResultView) for part in turn.parts)
            if results > 1:
                yield "together in one entry"
            elif results == 1:
                before = asked.view.turns[position - 1].parts if position else ()
                if any(isinstance(part, ResultView) for part in before):
                    yield "an entry each"


def _error(evidence: Evidence) -> Iterator[str]:
    failed = [execution.chat for execution in evidence.transcript.executions if execution.result.is_error]
    if not failed:
        return
    marks = [_mark(result) for result in results_of(evidence) if result.error_mark is not None]
    yield from marks
    if not marks and any(asked.index > min(failed) and asked.view.results for asked in evidence.asked):
        yield "not at all"


def _mark(result: ResultView) -> str:
    if result.error_mark == "error-key":
        inside = any(isinstance(part, JsonView) for part in result.payload)
        return "an error key in the object" if inside else "an error key in the JSON text"
    return "a field of its own" if result.error_mark == "flag" else "words in the text"


FACTS = (
    Fact(Subject.ID_MATCHING, "who issues a call's id", _issuer),
    Fact(Subject.ID_MATCHING, "format of issued ids", _id_format),
    Fact(Subject.ID_MATCHING, "field of the call's id", _call_id_field),
    Fact(Subject.ID_MATCHING, "field of the result's id", _result_id_field),
    Fact(Subject.ID_MATCHING, "where results go", _result_place),
    Fact(Subject.ID_MATCHING, "results of parallel calls", _parallel_results),
    Fact(Subject.ID_MATCHING, "how an error is marked", _error),
)
