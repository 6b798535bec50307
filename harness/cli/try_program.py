"""The part of `harness try` that runs a program against the reference server."""

from __future__ import annotations

import re
import shlex
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import typer

from harness.apis.api import Api
from harness.apis.jsonvalue import loads_or_none
from harness.cassettes.loopback_server import serve
from harness.checks.program_redirection import redirecting_environment
from harness.checks.programs import (
    DESCRIBE,
    EXAMPLE_FORMAT,
    EXAMPLE_INPUT,
    RETURNED_CALLS,
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
from harness.cli.try_other_runs import (
    Judge,
    OtherRun,
    after_cut_call,
    after_divided_text,
    after_error,
    after_unknown_tool,
    loss_of_spaces,
    of_later_turns,
    without_report_of_cut,
    without_report_of_filter,
    without_report_of_stream_error,
)
from harness.model.errors import UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.platform.exceptions import shorten
from harness.reports import finding_causes
from harness.reports.words import count
from harness.results import (
    Blame,
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
    QUESTIONS,
    FirstAnswer,
    ImprovisedRouter,
)
from harness.runner.served_session import SessionOptions, StreamRewrite
from harness.stdio.adapter_specs import PRIVACY_VARIABLES


def try_program(command: str) -> int | None:
    """Run a program against the reference server, print its worst defects, and return the exit code.

    Return `None` if it uses the adapter protocol.
    """
    began = STARTED.get(time.monotonic())
    first = _run_program(command, seconds=_PROGRAM_SECONDS)
    return None if first[0].is_adapter else _try_again(command, *first, began, "", "a program that calls a model")


def try_code(command: str, name: str, sentence: str, other_providers: Iterable[tuple[str, str]] = ()) -> int:
    """Run a command that calls the Python object `name` once, print its worst defects, and return the exit code.

    `sentence` describes the object. `other_providers` are the other APIs that it can use, with their commands.
    """
    began = STARTED.get(time.monotonic())
    loading = time.monotonic() - began  # recognition loaded the same libraries
    seconds = max(_seconds_left(began), min(loading, _PROGRAM_SECONDS))
    ended, result, router = _run_program(command, is_first=False, seconds=seconds)
    findings = [] if router.first_request is None else [*_changes_of_input(router.first_request)]
    findings += filter(None, [loss_of_spaces(ended.printed)])
    if findings and result.cells:
        first, *others = result.cells
        findings = [*first.findings, *findings]
        changed = replace(first, verdict=verdict_of(findings), findings=tuple(findings), reason=None)
        result = replace(result, cells=[changed, *others])
    return _try_again(command, ended, result, router, began, name, sentence, other_providers)


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
    other_providers: Iterable[tuple[str, str]] = (),
) -> int:
    """Run a command again with other answers, and print the defects of all its runs. The try began at `began`.

    If the program broke off, or the server refused a request, the first defect hides the others. It is then run with a
    server that tolerates the limits that were exceeded, or without parallel calls.
    """
    for line in _lines_to_show(ended.printed):
        print_error(f"  {line}")
    if not result.cells:
        raise UsageError(_without_requests(subject or command, ended, is_code=bool(subject)))
    usual, result = _with_tolerant_run(command, ended, result, began)
    prints_answer = not usual.note and ANSWER in usual.printed and (not subject or RETURNED_TEXT in usual.printed)
    is_redirected = router.has_redirected
    elapsed = time.monotonic() - began
    if not usual.note and elapsed < _LAST_START_SECONDS:
        seconds = min(_PROGRAM_SECONDS - elapsed, max(elapsed, _MAX_ERROR_SECONDS))
        failed = OtherRun(*_run_program(command, "error", is_first=False, seconds=seconds))
        result = replace(result, cells=[*result.cells, *(list(after_error(failed, usual)) or failed.passed)])
    result = _with_other_answers(
        command, usual, result, router, began, is_code=bool(subject), prints_answer=prints_answer
    )
    result, other_apis = _with_other_providers(result, other_providers, began)
    conversations = count(len(result.cells), "conversation")
    sentence += f", {_REDIRECTED}" if is_redirected else ""
    typer.echo(f"{subject or command}: recognised as {sentence}; {conversations} run{ended.note}.")
    typer.echo(f"Otherwise: {_OTHERWISE_CODE if subject else _OTHERWISE_PROGRAM}")
    if other_apis:
        typer.echo(f"The first conversation was also run with {' and '.join(other_apis)}.")
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
    is_code: bool,
    prints_answer: bool,
) -> RunResult:
    """Return the result with those of runs with other answers. `usual` is the program's best run so far."""
    tolerated = _exceeded_limits(result)
    streams = any(cell.variant == "stream" for cell in result.cells)
    is_short = router.first_request is not None and _SHORT_ANSWER.search(router.first_request.body) is not None
    takes_questions = _reads_questions(router) or (is_code and RETURNED_CALLS not in usual.printed)
    kinds: list[tuple[FirstAnswer, bool, Judge]] = [
        ("cut text", prints_answer and not is_short, without_report_of_cut),
        ("many turns", takes_questions, of_later_turns),
        ("stream error", prints_answer and streams, without_report_of_stream_error),
        ("cut call", router.has_tools, after_cut_call),
        ("filtered text", is_code and prints_answer and router.may_filter_texts, without_report_of_filter),
        ("unknown tool", router.has_tools, after_unknown_tool),
        ("divided text", prints_answer and router.can_divide_texts, after_divided_text),
    ]
    for kind, applies, judge in kinds:
        elapsed = time.monotonic() - began
        if applies and elapsed < _LAST_START_SECONDS:
            left = _PROGRAM_SECONDS - elapsed
            run = OtherRun(*_run_program(command, kind, is_first=False, tolerated=tolerated, seconds=left))
            result = replace(result, cells=[*result.cells, *(list(judge(run, usual, result)) or run.passed)])
    return result


_SHORT_ANSWER = re.compile(rb'"max_(?:completion_|output_)?tokens"\s*:\s*[1-9]\b', re.IGNORECASE)
"""Limit in a request for an answer of a few words, which always ends there."""


def _with_tolerant_run(
    command: str, ended: EndedProgram, result: RunResult, began: float
) -> tuple[EndedProgram, RunResult]:
    """Return the run in which a program gets furthest, and its result with that of the first one."""
    if not result.exit_code or not (ended.note or _has_refusal(result)):
        return ended, result
    usual, again = _run_again(command, result, began)
    explained = {finding.rule for cell in again.cells for finding in cell.findings if finding.follows is not None}
    limits = _exceeded_limits(result)
    cells = again.cells if limits and limits <= explained else [*result.cells, *again.cells]
    return usual, replace(result, cells=cells)


def _with_other_providers(
    result: RunResult, providers: Iterable[tuple[str, str]], began: float
) -> tuple[RunResult, list[str]]:
    """Return the result with conversations of the same code with its other providers, in the time that is left. Also
    return the options for their APIs.
    """
    options: list[str] = []
    for api, command in providers:
        if time.monotonic() - began > _LAST_START_SECONDS:
            break
        ended, other, _ = _run_program(command, is_first=False, seconds=_seconds_left(began))
        result = replace(result, cells=[*result.cells, *_with_tolerant_run(command, ended, other, began)[1].cells])
        options.append(f"--api {api}")
    return result, options


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


def _reads_questions(router: ImprovisedRouter) -> bool:
    """Return whether a program sent the line on its standard input as the question of its user."""
    return router.first_request is not None and b"jsonrpc" in router.first_request.body


_MAX_TOLERANT_RUNS = 2

_QUESTION_COUNTS: dict[FirstAnswer, int] = {"many turns": len(QUESTIONS), "cut call": 2}
"""Kinds of first answers after which the user asks further questions, with the number of all questions."""

_PROGRAM_SECONDS = 20.0
"""Time limit for all runs of a program together."""

_MIN_PROGRAM_SECONDS = 5.0
"""Time that a run may take even if the limit for all runs is reached."""

_LAST_START_SECONDS = 16.0
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
    ways = None if answer == "many turns" else _piece_rewrites  # the pauses would add up
    terms = SessionOptions(fact_selection=fact_options(None, ()), ways=ways, tolerated=tolerated)
    router = ImprovisedRouter(terms, print_error, answer)
    with serve(router) as server:
        router.origin = server.origin
        own, base_url = keyless_environment(), server.origin + BASE_PATH
        variables = program_variables(command, base_url, own)
        environment = {**own, **PRIVACY_VARIABLES, **variables, **variables_for(base_url)}
        lines = QUESTIONS[: _QUESTION_COUNTS[answer]] if answer in _QUESTION_COUNTS else (DESCRIBE,)
        sent_to = redirecting_environment(environment)
        ended = run_program(command, sent_to, seconds, may_be_adapter=is_first, lines=lines)
    result = router.run()
    return ended, without_missing_end(ended, result, router, seconds), router


def _piece_rewrites(_wire: Api) -> Sequence[StreamRewrite]:
    return [_in_pieces]


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
