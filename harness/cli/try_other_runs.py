"""The defects of a program that only runs with other answers than usual show, such as a truncated one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from harness.apis.jsonvalue import loads_or_none
from harness.apis.view import JsonView, TextView
from harness.checks.programs import RETURNED_ONLY_TEXT, RETURNED_TEXT, RETURNED_WITHOUT_FILTER, EndedProgram
from harness.cli.program_runs import ProgramRun
from harness.model.messages import JSON
from harness.reports.words import count
from harness.results import Blame, CellResult, Finding, Kind, RunResult, Severity, Verdict, verdict_of
from harness.runner.improvised_router import (
    ANSWER,
    CUT_ANSWER,
    DIVIDED_ANSWER,
    TEXT_BEFORE_CALLS,
)


def conversation_without_findings(run: ProgramRun) -> list[CellResult]:
    """Return the first conversation without findings, for a run that has no defect. A run that was stopped has none."""
    cells = () if run.ended.is_stopped else run.result.cells[:1]
    return [replace(each, verdict=Verdict.PASS, findings=(), reason=None) for each in cells]


def _with_findings(cell: CellResult, findings: Sequence[Finding]) -> Iterator[CellResult]:
    """Yield a conversation with these findings in place of its own, if there are any."""
    if findings:
        yield replace(cell, verdict=verdict_of(findings), findings=tuple(findings), reason=None)


Judge = Callable[[ProgramRun, EndedProgram, RunResult], Iterable[CellResult]]
"""Returns the conversations of a run that have a defect, from the run, the usual one and the result so far."""


def after_unknown_tool(run: ProgramRun, _usual: EndedProgram, _result: RunResult) -> Iterator[CellResult]:
    """Yield all conversations but those whose only defect is that the program stopped, which it may do here."""
    cells = run.result.cells
    yield from (each for each in cells if {finding.rule for finding in each.findings} != {"script-unplayed"})


def of_later_turns(run: ProgramRun, _usual: EndedProgram, result: RunResult) -> Iterator[CellResult]:
    """Yield the conversations of many questions with the findings that only they show.

    They are about the system prompt, the first final answer, the limits of the provider, and calls and results that are
    sent back. A client may send only the texts of earlier turns, or leave out the oldest turns, so missing messages are
    no findings.
    """
    known = {finding.rule for cell in result.cells for finding in cell.findings}
    for cell in run.result.cells:
        missing = [each.exchange or 0 for each in cell.findings if each.rule in _MISSING]
        first_missing = min(missing, default=math.inf)
        next_question = run.router.answers_in_first_turn(cell.scenario)
        own: list[Finding] = []
        for each in cell.findings:
            is_whole = (each.exchange or 0) < first_missing  # calls without ids are found by their order
            if each.rule == "loop-history" and each.expected == ANSWER and each.exchange == next_question:
                own.append(replace(each, message=_LOST_FINAL_ANSWER))
            elif each.rule == "loop-system" or each.kind is Kind.LIMIT or (is_whole and each.rule in _SENT_BACK_WRONG):
                own.append(each)
        yield from _with_findings(cell, [replace(each, follows=None) for each in own if each.rule not in known])


_SENT_BACK_WRONG = {"arguments-changed", "call-id-changed", "result-swapped"}
"""Rules about calls and results that a client sends back, which hold in each run. Some show only for some values."""

_MISSING = {"call-missing", "loop-history"}
"""Rules about messages of the model that a client does not send back."""

_LOST_FINAL_ANSWER = "the model's final answer is not in the request with the user's next question"


def after_cut_call(run: ProgramRun, _usual: EndedProgram, result: RunResult) -> Iterator[CellResult]:
    """Yield the conversations that used a call that was cut off, or kept it so that the provider refuses what follows.
    The program may stop, or ask the model to go on.
    """
    known = {finding.rule for cell in result.cells for finding in cell.findings}
    for cell in run.result.cells:
        limits = (each for each in cell.findings if each.kind is Kind.LIMIT and each.fails and each.rule not in known)
        if any(finding.rule in _USES_OF_CUT_CALLS and finding.fails for finding in cell.findings):
            yield cell
        else:
            yield from _with_findings(cell, [replace(each, follows=None) for each in limits])


_USES_OF_CUT_CALLS = {"cut-call-run", "cut-call-answered"}


def after_error(run: ProgramRun, usual: EndedProgram) -> Iterator[CellResult]:
    """Yield the conversation whose first request failed, with findings, if the program repeated that request or did not
    report the failure.

    An exit code counts as a report, and so does output that is missing in `usual`, the run without a failure. A program
    that got an answer to another request has nothing to report.
    """
    for cell in run.result.cells[:1]:
        findings = [_repeated_request(run.router.repeats)] if run.router.repeats else []
        if not _new_lines(run.ended, usual) and any(each.rule == "script-unplayed" for each in cell.findings):
            findings.append(_HIDDEN_ERROR)
        yield from _with_findings(cell, findings)


def without_report_of_cut(run: ProgramRun, usual: EndedProgram, result: RunResult) -> Iterator[CellResult]:
    """Yield the conversation whose final answer was cut off, with findings.

    One says that the program printed nothing but what there is of the answer. The others are about calls before it.
    """
    known = {finding.rule for cell in result.cells for finding in cell.findings}
    shown = _CUT_ANSWER_RETURNED if RETURNED_TEXT in run.ended.printed else _CUT_ANSWER_SHOWN
    for cell in run.result.cells[:1]:
        findings = [each for each in cell.findings if each.rule in _SENT_BACK_WRONG - known]
        findings += [shown] if _hides_cut(run, usual, RETURNED_ONLY_TEXT) else []
        yield from _with_findings(cell, findings)


def without_report_of_filter(run: ProgramRun, usual: EndedProgram, result: RunResult) -> Iterator[CellResult]:
    """Yield the conversation whose final answer was cut off by a filter of the provider, with a finding.

    It says that the program printed nothing but what there is of the answer. A program that never looks at the stop
    reason has that finding already.
    """
    known = {finding.rule for cell in result.cells for finding in cell.findings}
    shown = _CUT_ANSWER_RETURNED if RETURNED_TEXT in run.ended.printed else _CUT_ANSWER_SHOWN
    message = shown.message.replace("max_tokens", "a filter of the provider")
    for cell in run.result.cells[:1]:
        if shown.rule not in known and _hides_cut(run, usual, RETURNED_WITHOUT_FILTER):
            yield from _with_findings(cell, [replace(shown, message=message)])


def _hides_cut(run: ProgramRun, usual: EndedProgram, silence: str) -> bool:
    """Return whether a program printed a part of an answer like a complete one. Code that returns it must have printed
    `silence`. Numbers are not compared: they may be counts.
    """
    printed = run.ended.printed
    expected = replace(usual, printed=usual.printed.replace(ANSWER, CUT_ANSWER))
    cut, whole = (replace(each, printed=re.sub(r"\d+", "0", each.printed)) for each in (run.ended, expected))
    may_report = RETURNED_TEXT in printed and silence not in printed
    return CUT_ANSWER in printed and not may_report and not _new_lines(cut, whole)


_CUT_ANSWER_SHOWN = Finding(
    rule="loop-stop-reason",
    kind=Kind.LOSS,
    severity=Severity.WARNING,
    blame=Blame.CLIENT,
    message="the model's answer was cut off by max_tokens, but the program printed it like a complete one, and ended "
    "with exit code 0",
    of_response=True,
    actual=CUT_ANSWER,
    expected="a message that the answer is incomplete",
    remedy="check the stop reason of each answer, and tell the user if it is incomplete",
)


_CUT_ANSWER_RETURNED = replace(
    _CUT_ANSWER_SHOWN,
    message="the model's answer was cut off by max_tokens, but the call returned it like a complete one",
    expected="an exception, or the stop reason",
    remedy="check the stop reason of each answer, and raise an exception or return it too",
)


def without_report_of_stream_error(run: ProgramRun, usual: EndedProgram, _result: RunResult) -> Iterator[CellResult]:
    """Yield the conversation whose stream ended with an error, with a finding, if the program printed nothing but a
    part of the answer.

    An exit code counts as a report, and so does another request, a word about a failure, and any output that is missing
    in `ended`, the run without a failure. Numbers are not compared: they may be times or token counts.
    """
    failed, ended = (replace(each, printed=_without_answer(each.printed)) for each in (run.ended, usual))
    is_reported = _FAILURE_WORDS.search(failed.printed) is not None or bool(_new_lines(failed, ended))
    for cell in run.result.cells[:1]:
        if not is_reported and any(each.rule == "script-unplayed" for each in cell.findings):
            yield from _with_findings(cell, [_HIDDEN_STREAM_ERROR])


def _without_answer(printed: str) -> str:
    """Return a program's output without colours and without the beginning of the answer, and with zeros for numbers."""
    plain = _COLOURS.sub("", printed).replace(TEXT_BEFORE_CALLS, "")
    beginnings = (ANSWER[:length] for length in range(len(ANSWER), _MIN_BEGINNING_CHARACTERS, -1))
    plain = plain.replace(next((each for each in beginnings if each in plain), ANSWER), "")
    return re.sub(r"\d+", "0", plain)


_COLOURS = re.compile(r"\x1b\[[\d;]*m")

_MIN_BEGINNING_CHARACTERS = 3
"""Number of characters that the beginning of an answer exceeds. A shorter one may be a part of another word."""

_FAILURE_WORDS = re.compile(
    r"error|fail|overload|broke|interrupt|abort|cut off|incomplete|partial|retry|again|unavailable|unexpected|sorry"
    r"|went wrong|could not|couldn.t|unable|warn",
    re.IGNORECASE,
)

_HIDDEN_STREAM_ERROR = Finding(
    rule="chat-failure",
    kind=Kind.LOSS,
    severity=Severity.ERROR,
    blame=Blame.CLIENT,
    message="the stream of the answer ended with an error, but the program ended with exit code 0 and reported nothing",
    exchange=0,
    actual="exit code 0",
    expected="an error",
    of_response=True,
    remedy="check each event of a stream for an error, and report an error with its message",
)


def loss_of_spaces(printed: str) -> Finding | None:
    """Return a finding if code returned the model's answer without some of its spaces, or `None`."""
    is_whole = " ".join(ANSWER.split()) in " ".join(printed.split())
    if is_whole or RETURNED_TEXT not in printed or "".join(ANSWER.split()) not in "".join(printed.split()):
        return None
    parts = r"\s*".join(map(re.escape, "".join(ANSWER.split())))
    found = re.search(parts, printed)
    return Finding(
        rule="loop-answer",
        kind=Kind.LOSS,
        severity=Severity.ERROR,
        blame=Blame.CLIENT,
        message="the answer that the call returned lost spaces of the model's answer",
        of_response=True,
        actual=found[0] if found else "",
        expected=ANSWER,
        remedy="join the pieces of a stream unchanged",
    )


def hidden_failure(run: ProgramRun) -> tuple[str, Finding] | None:
    """Return the first conversation in which a tool of the code failed and its result is empty, with a finding. Return
    `None` if there is none.

    The tool raised an exception between an answer with calls and the request with the results. The request does not
    contain the text of the exception, so the model cannot know what went wrong.
    """
    for conversation in run.router.conversations():
        parsed = conversation.evidence(ended=True).parsed_exchanges
        for before, each in pairwise(parsed):
            start, end, body = before.exchange.at, each.exchange.at, each.exchange.request.body.decode(errors="replace")
            raised = [one.text for one in run.failures if start and end and start < one.at < end]
            hidden = [text for text in raised if text not in body and json.dumps(text)[1:-1] not in body]
            known = 0 if before.request is None else len(before.request.results)
            for result in () if each.request is None else each.request.results[known:]:
                parts = [part for part in result.payload if isinstance(part, TextView | JsonView)]
                values = [part.text if isinstance(part, TextView) else part.value for part in parts]
                if hidden and all(map(_is_empty, values)) and result.error_mark is None:
                    place = parts[0].pointer if parts else result.pointer
                    return conversation.scenario.id, _empty_result(hidden[0], each.index, place, values)
    return None


def _is_empty(value: JSON) -> bool:
    """Return whether the content of a result says nothing."""
    if isinstance(value, str):
        text, parsed = value.strip(), loads_or_none(value)
        return text in ("", "null", "None") or (isinstance(parsed, dict | list) and _is_empty(parsed))
    if isinstance(value, dict):
        return len(value) <= 1 and all(map(_is_empty, value.values()))
    return value is None or value == []


def _empty_result(text: str, exchange: int, pointer: str, values: Sequence[JSON]) -> Finding:
    return Finding(
        rule="result-changed",
        kind=Kind.LOSS,
        severity=Severity.WARNING,
        blame=Blame.CLIENT,
        message="a tool failed, but its result is empty and does not say so",
        pointer=pointer,
        exchange=exchange,
        actual=values[0] if values else None,
        expected=text,
        remedy="send the text of the failure as the result, so that the model can react to it",
    )


def after_divided_text(run: ProgramRun, _usual: EndedProgram, result: RunResult) -> Iterator[CellResult]:
    """Yield the conversations whose texts had two parts, with the findings that `result` lacks.

    A program need not print the final answer. If it prints one part of it, it must print the other too.
    """
    known = {finding.rule for cell in result.cells for finding in cell.findings}
    printed = re.sub(r"\W", "", _WHITE_SPACE_IN_JSON.sub("", run.ended.printed))
    missing = [each for each in DIVIDED_ANSWER if re.sub(r"\W", "", each) not in printed]
    for number, cell in enumerate(run.result.cells):
        findings = [each for each in cell.findings if each.rule not in known]
        if number == 0 and len(missing) == 1 and not run.ended.note:
            findings.append(_lost_part(missing[0]))
        yield from _with_findings(cell, findings)


_WHITE_SPACE_IN_JSON = re.compile(r"\\[nrt]")


def _lost_part(missing: str) -> Finding:
    which, other = ("first", "second") if missing == DIVIDED_ANSWER[0] else ("second", "first")
    return Finding(
        rule="loop-answer",
        kind=Kind.LOSS,
        severity=Severity.ERROR,
        blame=Blame.CLIENT,
        message=f"the model's answer has two text parts, but the program printed only the {other} one",
        of_response=True,
        actual=f"no {missing.strip()!r} in the output",
        expected="".join(DIVIDED_ANSWER),
        remedy=f"join the texts of all parts of an answer: here the {which} one is lost",
    )


def _new_lines(other: EndedProgram, ended: EndedProgram) -> set[str]:
    """Return the lines that only the other run printed, and how it ended if it failed."""
    printed, usual = ({*map(str.strip, each.printed.splitlines())} for each in (other, ended))
    return (printed | {other.note}) - usual - {"", "undefined", "null", "None"}


_HIDDEN_ERROR = Finding(
    rule="chat-failure",
    kind=Kind.LOSS,
    severity=Severity.ERROR,
    blame=Blame.CLIENT,
    message="the provider answered with an error (status 400), but the program ended with exit code 0 and reported "
    "nothing",
    exchange=0,
    actual="exit code 0",
    expected="an error",
    of_response=True,
    remedy="check the status of each answer, and report an error with its message",
)


def _repeated_request(repeats: int) -> Finding:
    return Finding(
        rule="loop-retry",
        kind=Kind.LOSS,
        severity=Severity.ERROR if repeats > _MAX_REPEATS else Severity.WARNING,
        blame=Blame.CLIENT,
        message=f"the same request is sent {count(repeats, 'more time')} after status 400",
        exchange=0,
        remedy="retry only after 408, 409, 429 and 5xx"
        + (", and at most a few times" if repeats > _MAX_REPEATS else ""),
    )


_MAX_REPEATS = 9
"""Number of repeated requests above which a program seems to have no limit for them."""
