"""The part of `harness try` that runs a program against the reference server."""

from __future__ import annotations

import re
import shlex
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import typer

from harness.apis.jsonvalue import loads_or_none
from harness.cassettes.loopback_server import serve
from harness.checks.program_redirection import redirecting_environment
from harness.checks.programs import (
    DESCRIBE,
    EXAMPLE_FORMAT,
    EXAMPLE_INPUT,
    RETURNED_CALLS,
    RETURNED_ONLY_TEXT,
    RETURNED_TEXT,
    EndedProgram,
    keyless_environment,
    missing_arguments,
    missing_variable,
    program_variables,
    run_program,
    used_another_server,
    variable_question,
)
from harness.cli.main import STARTED, print_error
from harness.cli.outputs import on_screen
from harness.cli.serve import variables_for
from harness.cli.settings import fact_options
from harness.cli.try_endings import without_missing_end
from harness.model.errors import UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.platform.exceptions import shorten
from harness.reports import finding_causes
from harness.reports.words import count
from harness.results import (
    Blame,
    CellResult,
    Finding,
    Kind,
    Presentation,
    RunResult,
    Severity,
    verdict_of,
)
from harness.runner.improvised_router import (
    ANSWER,
    BASE_PATH,
    CUT_ANSWER,
    DIVIDED_ANSWER,
    FIRST_QUESTION,
    SECOND_QUESTION,
    TEXT_BEFORE_CALLS,
    FirstAnswer,
    ImprovisedRouter,
)
from harness.runner.served_session import SessionOptions
from harness.stdio.adapter_specs import PRIVACY_VARIABLES


def try_program(command: str) -> int | None:
    """Run a program against the reference server, print its worst defects, and return the exit code.

    Return `None` if it uses the adapter protocol.
    """
    began = STARTED.get(time.monotonic())
    first = _run_program(command, seconds=_PROGRAM_SECONDS)
    return None if first[0].is_adapter else _try_again(command, *first, began, "", "a program that calls a model")


def try_code(command: str, name: str, sentence: str) -> int:
    """Run a command that calls the Python object `name` once, print its worst defects, and return the exit code.

    `sentence` describes the object.
    """
    began = STARTED.get(time.monotonic())
    loading = time.monotonic() - began  # recognition loaded the same libraries
    seconds = max(_seconds_left(began), min(loading, _PROGRAM_SECONDS))
    ended, result, router = _run_program(command, is_first=False, seconds=seconds)
    findings = [] if router.first_request is None else [*_changes_of_input(router.first_request)]
    if findings:
        first, *others = result.cells
        findings = [*first.findings, *findings]
        changed = replace(first, verdict=verdict_of(findings), findings=tuple(findings), reason=None)
        result = replace(result, cells=[changed, *others])
    return _try_again(command, ended, result, router, began, name, sentence)


def _changes_of_input(request: HttpRequest) -> Iterator[Finding]:
    """Yield findings if characters of the given text, or words of the given schema, are missing in a request.

    The code may send only a part of the text, or other words. So it is compared only if it is there but for some
    characters.
    """
    keys, texts = _keys_and_texts(loads_or_none(request.body))
    whole = " ".join(unicodedata.normalize("NFC", "\n".join(texts)).split())
    without = "".join(re.escape(each) if each.isascii() else r".{0,8}?" for each in EXAMPLE_INPUT)
    if EXAMPLE_INPUT not in whole and (found := re.search(without, whole)) is not None:
        yield _changed_input("text-changed", "the text that it was given was changed", found[0], EXAMPLE_INPUT)
    words = cast("Any", EXAMPLE_FORMAT.schema)["properties"][_ENUMERATED]["enum"]
    if _ENUMERATED in keys and not {*words} <= {*re.findall(r"\w+", whole)}:
        yield _changed_input("json-schema-changed", "the schema that it was given lost its enumeration", None, words)


_ENUMERATED = "course"
"""Property of the given schema that has an enumeration."""


def _keys_and_texts(value: JSON) -> tuple[set[str], list[str]]:
    """Return all keys and all texts in a JSON value."""
    if isinstance(value, str):
        return set(), [value]
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    found = [_keys_and_texts(each) for each in inner]
    keys = {*value} if isinstance(value, Mapping) else set[str]()
    return keys.union(*(each for each, _ in found)), [text for _, each in found for text in each]


def _changed_input(rule: str, message: str, actual: JSON, expected: JSON) -> Finding:
    return Finding(
        rule=rule,
        kind=Kind.LOSS,
        severity=Severity.ERROR,
        blame=Blame.CLIENT,
        message=message,
        exchange=0,
        actual=actual,
        expected=expected,
        remedy="send what the function is given unchanged",
    )


def _try_again(  # noqa: PLR0913, PLR0917 - the first run, and what is known about its subject
    command: str,
    ended: EndedProgram,
    result: RunResult,
    router: ImprovisedRouter,
    began: float,
    subject: str,
    sentence: str,
) -> int:
    """Run a command again with other answers, and print the defects of all its runs. The try began at `began`.

    If the program broke off, or the server refused a request, the first defect hides the others. It is then run with a
    server that tolerates the limits that were exceeded, or without parallel calls.
    """
    for line in _lines_to_show(ended.printed):
        print_error(f"  {line}")
    if not result.cells:
        raise UsageError(_without_requests(subject or command, ended, is_code=bool(subject)))
    usual = ended
    if result.exit_code and (ended.note or _has_refusal(result)):
        usual, again = _run_again(command, result, began)
        result = replace(result, cells=[*result.cells, *again.cells])
    prints_answer = not usual.note and ANSWER in usual.printed and (not subject or RETURNED_TEXT in usual.printed)
    is_redirected = router.has_redirected
    elapsed = time.monotonic() - began
    if not usual.note and elapsed < _LAST_START_SECONDS:
        seconds = min(_PROGRAM_SECONDS - elapsed, max(elapsed, _MAX_ERROR_SECONDS))
        failed, other, failing = _run_program(command, "error", is_first=False, seconds=seconds)
        result = replace(result, cells=[*result.cells, *_after_error(other.cells, failed, usual, failing.repeats)])
    result = _with_other_answers(command, usual, result, router, began, prints_answer=prints_answer)
    conversations = count(len(result.cells), "conversation")
    sentence += f", {_REDIRECTED}" if is_redirected else ""
    typer.echo(f"{subject or command}: recognised as {sentence}; {conversations} run{ended.note}.")
    typer.echo(f"Otherwise: {_OTHERWISE_CODE if subject else _OTHERWISE_PROGRAM}")
    typer.echo(finding_causes.render(result, on_screen(Presentation())), nl=False)
    if not subject and not is_redirected:
        typer.echo(f"More: harness serve call-single --command {shlex.quote(command)}; harness help serve")
    return result.exit_code


_REDIRECTED = "whose requests to a fixed base URL are redirected"


_OTHERWISE_PROGRAM = "for an adapter, it must respond to 'describe' ('harness help stdio')."
_OTHERWISE_CODE = "name the MODULE:CLASS.METHOD that sends messages, or a program: harness try --command COMMAND."


def _lines_to_show(printed: str) -> list[str]:
    """Return the last lines of a program's output, without the lines that Node.js prints below an error's message, and
    without those about a returned text.
    """
    lines = [each for each in printed.splitlines() if each.strip() and not _NOT_SHOWN.match(each)]
    return [shorten(each, _MAX_LINE_CHARACTERS) for each in lines[-_MAX_PRINTED_LINES:]]


_NOT_SHOWN = re.compile(rf"\s+at .*\d\)?$|Node\.js v\d|{RETURNED_TEXT}|{RETURNED_CALLS}")


def _with_other_answers(  # noqa: PLR0913 - the first run, and what is known about it
    command: str,
    usual: EndedProgram,
    result: RunResult,
    router: ImprovisedRouter,
    began: float,
    *,
    prints_answer: bool,
) -> RunResult:
    """Return the result with the defects of runs with other answers. `usual` is the program's best run so far."""
    tolerated = _exceeded_limits(result)
    streams = any(cell.variant == "stream" for cell in result.cells)
    is_short = router.first_request is not None and _SHORT_ANSWER.search(router.first_request.body) is not None
    asks_twice = _reads_questions(router) or RETURNED_TEXT in usual.printed
    kinds: list[tuple[FirstAnswer, bool, _Judge]] = [
        ("unknown tool", router.has_tools, _after_unknown_tool),
        ("two turns", asks_twice, _of_second_turn),
        ("cut text", prints_answer and not is_short, _without_report_of_cut),
        ("cut call", router.has_tools, _after_cut_call),
        ("stream error", prints_answer and streams, _without_report_of_stream_error),
        ("divided text", prints_answer and router.can_divide_texts, _after_divided_text),
    ]
    for kind, applies, judge in kinds:
        elapsed = time.monotonic() - began
        if applies and elapsed < _LAST_START_SECONDS:
            left = _PROGRAM_SECONDS - elapsed
            run, other, _ = _run_program(command, kind, is_first=False, tolerated=tolerated, seconds=left)
            result = replace(result, cells=[*result.cells, *judge(other.cells, run, usual, result)])
    return result


_SHORT_ANSWER = re.compile(rb'"max_(?:completion_|output_)?tokens"\s*:\s*[1-9]\b', re.IGNORECASE)
"""Limit in a request for an answer of a few words, which always ends there."""


def _run_again(command: str, result: RunResult, began: float) -> tuple[EndedProgram, RunResult]:
    """Return a run in which the program gets further than in the one with `result`, and its result."""
    tolerated = frozenset[str]()
    for _ in range(_MAX_TOLERANT_RUNS):
        limits = _exceeded_limits(result) - tolerated
        if not limits:
            break
        tolerated |= limits
        seconds = _seconds_left(began)
        ended, result, _ = _run_program(command, is_first=False, tolerated=tolerated, seconds=seconds)
        if not ended.note and _exceeded_limits(result) <= tolerated:
            return ended, result
    seconds = _seconds_left(began)
    return _run_program(command, "one call", is_first=False, tolerated=tolerated, seconds=seconds)[:2]


def _seconds_left(began: float) -> float:
    """Return the time limit of the next run in seconds. It is long enough to start a program."""
    return max(_PROGRAM_SECONDS - (time.monotonic() - began), _MIN_PROGRAM_SECONDS)


_Judge = Callable[[Sequence[CellResult], EndedProgram, EndedProgram, RunResult], Iterable[CellResult]]
"""Returns the conversations of a run that have a defect, from them, the run, the usual run and the result so far."""


def _after_unknown_tool(
    cells: Sequence[CellResult], _run: EndedProgram, _usual: EndedProgram, _result: RunResult
) -> Iterator[CellResult]:
    """Yield all conversations but those whose only defect is that the program stopped, which it may do here."""
    yield from (each for each in cells if {finding.rule for finding in each.findings} != {"script-unplayed"})


def _reads_questions(router: ImprovisedRouter) -> bool:
    """Return whether a program sent the line on its standard input as the question of its user."""
    return router.first_request is not None and b"jsonrpc" in router.first_request.body


def _of_second_turn(
    cells: Sequence[CellResult], _run: EndedProgram, _usual: EndedProgram, result: RunResult
) -> Iterator[CellResult]:
    """Yield the conversation of two questions with the findings that only its second turn shows.

    They are about its system prompt, its first final answer and the limits of the provider. A client may send only the
    texts of earlier turns, so other missing messages are no findings.
    """
    known = {finding.rule for cell in result.cells for finding in cell.findings}
    for cell in cells[:1]:
        lost = (each for each in cell.findings if each.rule == "loop-history" and each.expected == ANSWER)
        own = [
            each for each in cell.findings if each.rule in _SENT_BACK_WRONG | {"loop-system"} or each.kind is Kind.LIMIT
        ]
        own += [replace(each, message=_LOST_FINAL_ANSWER) for each in lost]
        if findings := tuple(replace(each, follows=None) for each in own if each.rule not in known):
            yield replace(cell, verdict=verdict_of(findings), findings=findings, reason=None)


_SENT_BACK_WRONG = {"arguments-changed", "call-id-changed", "result-swapped"}
"""Rules about calls and results that a client sends back, which hold in each run. Some show only for some values."""

_LOST_FINAL_ANSWER = "the model's final answer is not in the request with the user's next question"


def _after_cut_call(
    cells: Sequence[CellResult], _run: EndedProgram, _usual: EndedProgram, _result: RunResult
) -> Iterator[CellResult]:
    """Yield the conversations that used a call that was cut off. The program may stop, or ask the model to go on."""
    used = {"cut-call-run", "cut-call-answered"}
    yield from (each for each in cells if any(finding.rule in used and finding.fails for finding in each.findings))


def _after_error(
    cells: Sequence[CellResult], failed: EndedProgram, ended: EndedProgram, repeats: int
) -> Iterator[CellResult]:
    """Yield the conversation whose first request failed, with findings, if the program repeated that request or did not
    report the failure.

    An exit code in `failed` counts as a report, and so does output that is missing in `ended`, the run without a
    failure. A program that got an answer to another request has nothing to report.
    """
    for cell in cells[:1]:
        findings = [_repeated_request(repeats)] if repeats else []
        if not _new_lines(failed, ended) and any(each.rule == "script-unplayed" for each in cell.findings):
            findings.append(_HIDDEN_ERROR)
        if findings:
            yield replace(cell, verdict=verdict_of(findings), findings=tuple(findings), reason=None)


def _without_report_of_cut(
    cells: Sequence[CellResult], cut: EndedProgram, ended: EndedProgram, result: RunResult
) -> Iterator[CellResult]:
    """Yield the conversation whose final answer was cut off, with findings.

    One says that the program printed nothing but what there is of the answer. The others are about calls before it.
    """
    known = {finding.rule for cell in result.cells for finding in cell.findings}
    usual = replace(ended, printed=ended.printed.replace(ANSWER, CUT_ANSWER))
    run, other = (replace(each, printed=re.sub(r"\d+", "0", each.printed)) for each in (cut, usual))  # counts differ
    may_report = RETURNED_TEXT in cut.printed and RETURNED_ONLY_TEXT not in cut.printed
    is_hidden = CUT_ANSWER in cut.printed and not may_report and not _new_lines(run, other)
    for cell in cells[:1]:
        findings = [each for each in cell.findings if each.rule in _SENT_BACK_WRONG - known]
        if is_hidden:
            findings.append(_CUT_ANSWER_RETURNED if RETURNED_TEXT in cut.printed else _CUT_ANSWER_SHOWN)
        if findings:
            yield replace(cell, verdict=verdict_of(findings), findings=tuple(findings), reason=None)


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


def _without_report_of_stream_error(
    cells: Sequence[CellResult], failed: EndedProgram, ended: EndedProgram, _result: RunResult
) -> Iterator[CellResult]:
    """Yield the conversation whose stream ended with an error, with a finding, if the program printed nothing but a
    part of the answer.

    An exit code counts as a report, and so does another request, a word about a failure, and any output that is missing
    in `ended`, the run without a failure. Numbers are not compared: they may be times or token counts.
    """
    run, usual = (replace(each, printed=_without_answer(each.printed)) for each in (failed, ended))
    is_reported = _FAILURE_WORDS.search(run.printed) is not None or bool(_new_lines(run, usual))
    for cell in cells[:1]:
        if not is_reported and any(each.rule == "script-unplayed" for each in cell.findings):
            yield replace(
                cell, verdict=verdict_of([_HIDDEN_STREAM_ERROR]), findings=(_HIDDEN_STREAM_ERROR,), reason=None
            )


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


def _after_divided_text(
    cells: Sequence[CellResult], divided: EndedProgram, _usual: EndedProgram, result: RunResult
) -> Iterator[CellResult]:
    """Yield the conversations whose texts had two parts, with the findings that `result` lacks.

    A program need not print the final answer. If it prints one part of it, it must print the other too.
    """
    known = {finding.rule for cell in result.cells for finding in cell.findings}
    printed = re.sub(r"\W", "", _WHITE_SPACE_IN_JSON.sub("", divided.printed))
    missing = [each for each in DIVIDED_ANSWER if re.sub(r"\W", "", each) not in printed]
    for number, cell in enumerate(cells):
        findings = [each for each in cell.findings if each.rule not in known]
        if number == 0 and len(missing) == 1 and not divided.note:
            findings.append(_lost_part(missing[0]))
        if findings:
            yield replace(cell, verdict=verdict_of(findings), findings=tuple(findings), reason=None)


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


_MAX_TOLERANT_RUNS = 2

_PROGRAM_SECONDS = 20.0
"""Time limit for all runs of a program together."""

_MIN_PROGRAM_SECONDS = 5.0
"""Time that a run may take even if the limit for all runs is reached."""

_LAST_START_SECONDS = 14.0
"""Time after which a program is not run again with another kind of answer."""

_MAX_ERROR_SECONDS = 6.0
"""Time limit of the run with an error, unless the runs before took longer. An endless retry leaves time for others."""


def _has_refusal(result: RunResult) -> bool:
    """Return whether the server refused a request. Limits that are warnings are only documented."""
    findings = (finding for cell in result.cells for finding in cell.findings)
    return any(each.kind is Kind.LIMIT and each.severity is Severity.ERROR for each in findings)


def _exceeded_limits(result: RunResult) -> frozenset[str]:
    findings = (finding for cell in result.cells for finding in cell.findings)
    return frozenset(each.rule for each in findings if each.kind is Kind.LIMIT)


def _run_program(
    command: str,
    answer: FirstAnswer = "two calls",
    *,
    is_first: bool = True,
    tolerated: frozenset[str] = frozenset(),
    seconds: float,
) -> tuple[EndedProgram, RunResult, ImprovisedRouter]:
    """Run a program against the reference server, for at most `seconds`."""
    terms = SessionOptions(fact_selection=fact_options(None, ()), ways=lambda _: [_in_pieces], tolerated=tolerated)
    router = ImprovisedRouter(terms, print_error, answer)
    with serve(router) as server:
        router.origin = server.origin
        own, base_url = keyless_environment(), server.origin + BASE_PATH
        variables = program_variables(command, base_url, own)
        environment = {**own, **PRIVACY_VARIABLES, **variables, **variables_for(base_url)}
        lines = (FIRST_QUESTION, SECOND_QUESTION) if answer == "two turns" else (DESCRIBE,)
        sent_to = redirecting_environment(environment)
        ended = run_program(command, sent_to, seconds, may_be_adapter=is_first, lines=lines)
    result = router.run()
    return ended, without_missing_end(ended, result, router, seconds), router


def _in_pieces(response: HttpResponse, _seed: str) -> tuple[HttpResponse, str]:
    """Return the response in small chunks that end inside lines and characters. Pauses between them keep the client
    from receiving several chunks at once.
    """
    body = response.body
    characters = {place + 1 for place, byte in enumerate(body) if byte >= _FIRST_BYTE_OF_SEVERAL}
    cuts = {*characters, *range(_PIECE_BYTES, len(body), _PIECE_BYTES), len(body)}
    delivery = replace(response.delivery, cuts=tuple(sorted(cuts)), pause=_PIECE_SECONDS)
    return replace(response, delivery=delivery), "in pieces"


_FIRST_BYTE_OF_SEVERAL = 0xC0
_PIECE_BYTES = 400
_PIECE_SECONDS = 0.05


def _without_requests(name: str, ended: EndedProgram, *, is_code: bool) -> str:
    """Return the error about a program, or about Python code, that sent no request."""
    if ended.note.endswith(_NOT_FOUND):
        return f"{name}: the shell did not find this command, or one that it runs (exit code 127)."
    how = ended.note.removeprefix(", then it ")
    arguments = None if is_code or how.startswith("was stopped") else missing_arguments(name, ended.printed)
    variable = missing_variable(ended.printed) if ended.note else None
    if arguments is not None and variable in (None, *program_variables(name, "", {})):
        return (
            f"{name}: it needs arguments, and {how or 'ended'} before it sent a request. What it printed is above. "
            f"Give it some: harness try --command {shlex.quote(arguments)}"
        )
    if variable is not None:
        return f"{name}: it {variable_question(variable, name if is_code else f'--command {shlex.quote(name)}')}"
    is_elsewhere = not is_code and used_another_server(ended.printed)
    if ended.note and not is_elsewhere and _BROKE_OFF.search(ended.printed):
        return f"{name}: it failed before it sent a request{ended.note}. Its last lines are above."
    if is_code:
        return f"{name}: it sent no request{ended.note}. Write a program that uses it: harness try --command COMMAND."
    if how.startswith("ended") and ended.printed.strip() and not is_elsewhere:
        return (
            f"{name}: it {how} before it sent a request. Its last lines are above. If it needs arguments, give it "
            f"some: harness try --command {shlex.quote(f'{name} ARGUMENTS')}"
        )
    way_out = CALL_FROM_NODE if _RUNS_JAVASCRIPT.search(name) else "name the function: harness try my_file:chat"
    return (
        f"{name}: it sent no request to OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GEMINI_BASE_URL, LLM_BASE_URL or a "
        f"similar variable, which pointed to the reference server{ended.note}. If another "
        f"variable holds its base URL, set it to $OPENAI_BASE_URL in the command. If it only defines code that calls "
        f"the model, {way_out}"
    )


CALL_FROM_NODE = (
    "write a program that calls it, such as my_program.mjs, and name that: harness try my_program.mjs. Or write an "
    "adapter: 'harness check --init command' writes my_adapter.mjs, where you put the call."
)
"""Advice for JavaScript code, which cannot be called from Python."""

_RUNS_JAVASCRIPT = re.compile(r"\.[mc]?[jt]s\b")


_NOT_FOUND = "exit code 127"
_MAX_PRINTED_LINES = 5
_MAX_LINE_CHARACTERS = 200
_BROKE_OFF = re.compile(r"^(Traceback \(most recent|\s+at \S.*:\d+\)?$)", re.MULTILINE)
"""Output of a program that ended with an exception, in Python or in Node.js."""
