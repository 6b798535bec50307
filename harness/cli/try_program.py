"""The part of `harness try` that runs a program against the reference server."""

from __future__ import annotations

import re
import shlex
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import typer

from harness.apis.jsonvalue import loads_or_none
from harness.checks.programs import (
    EXAMPLE_FORMAT,
    EXAMPLE_INPUT,
    RETURNED_CALLS,
    RETURNED_TEXT,
    EndedProgram,
    missing_arguments,
    missing_variable,
    program_variables,
    used_another_server,
    variable_question,
    without_keys,
)
from harness.cli.main import STARTED, print_error
from harness.cli.outputs import outputs, private_run_file
from harness.cli.program_runs import ProgramRun, run_started, with_run
from harness.cli.try_other_runs import (
    Judge,
    after_cut_call,
    after_divided_text,
    after_error,
    after_unknown_tool,
    conversation_without_findings,
    hidden_failure,
    loss_of_spaces,
    of_later_turns,
    without_report_of_cut,
    without_report_of_filter,
    without_report_of_stream_error,
)
from harness.model.errors import UsageError
from harness.model.http import HttpRequest
from harness.model.messages import JSON
from harness.platform.exceptions import shorten
from harness.reports.words import count
from harness.results import (
    Blame,
    CellResult,
    Finding,
    Kind,
    Presentation,
    ProgramStart,
    RunResult,
    Severity,
    verdict_of,
)
from harness.runner.improvised_router import (
    ANSWER,
    FirstAnswer,
    ImprovisedRouter,
)


def try_program(command: str) -> int | None:
    """Run a program against the reference server, print its worst defects, and return the exit code.

    Return `None` if it uses the adapter protocol.
    """
    trial = _Trial(command, "", "a program that calls a model", STARTED.get(time.monotonic()))
    first = trial.run("two calls", seconds=_PROGRAM_SECONDS, may_be_adapter=True)
    return None if first.ended.is_adapter else _try_again(trial, first)


def try_code(command: str, name: str, sentence: str, other_providers: Iterable[tuple[str, str]] = ()) -> int:
    """Run a command that calls the Python object `name` once, print its worst defects, and return the exit code.

    `sentence` describes the object. `other_providers` are the other APIs that it can use, with their commands.
    """
    trial = _Trial(command, name, sentence, STARTED.get(time.monotonic()))
    loading = time.monotonic() - trial.began  # recognition loaded the same libraries
    first = trial.run("two calls", seconds=max(trial.seconds_left, min(loading, _PROGRAM_SECONDS)))
    request = first.router.first_request
    findings = [] if request is None else [*_changes_of_input(request)]
    findings += filter(None, [loss_of_spaces(first.ended.printed)])
    if findings and first.result.cells:
        cell, *others = first.result.cells
        findings = [*cell.findings, *findings]
        changed = replace(cell, verdict=verdict_of(findings), findings=tuple(findings), reason=None)
        first = replace(first, result=replace(first.result, cells=[changed, *others]))
    return _try_again(trial, _with_hidden_failure(first), other_providers)


def _with_hidden_failure(run: ProgramRun) -> ProgramRun:
    """Return the run with a finding if a tool of the code failed, and its result does not say so."""
    hidden = hidden_failure(run)
    if hidden is None:
        return run
    name, finding = hidden
    cells = [each if each.scenario != name else _with_finding(each, finding) for each in run.result.cells]
    return replace(run, result=replace(run.result, cells=cells))


def _with_finding(cell: CellResult, finding: Finding) -> CellResult:
    found = (*cell.findings, finding)
    return replace(cell, findings=found, verdict=verdict_of(found), reason=None)


@dataclass(frozen=True, slots=True)
class _Trial:
    """A trial that runs a command several times. It began at `began`.

    `subject` is the Python object that the command calls, or empty for a program. `sentence` describes it.
    """

    command: str
    subject: str
    sentence: str
    began: float

    @property
    def elapsed(self) -> float:
        """The seconds since the trial began."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float:
        """The time limit of the next run in seconds. It is long enough to start a program."""
        return max(_PROGRAM_SECONDS - self.elapsed, _MIN_PROGRAM_SECONDS)

    def run(
        self,
        answers: FirstAnswer,
        *,
        tolerated: frozenset[str] = frozenset(),
        seconds: float | None = None,
        suffix: str = "",
        may_be_adapter: bool = False,
    ) -> ProgramRun:
        """Run the command with this kind of answers. `suffix` tells the run from another one with the same kind."""
        start = ProgramStart(answers.replace(" ", "-") + suffix, self.command, answers, tuple(sorted(tolerated)))
        limit = self.seconds_left if seconds is None else seconds
        return run_started(start, limit, may_be_adapter=may_be_adapter)


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


def _try_again(trial: _Trial, first: ProgramRun, other_providers: Iterable[tuple[str, str]] = ()) -> int:
    """Run a command again with other answers, and print the defects of all its runs.

    If the program broke off, or the server refused a request, the first defect hides the others. It is then run with a
    server that tolerates the limits that were exceeded, or without parallel calls.
    """
    for line in _lines_to_show(first.ended.printed):
        print_error(f"  {line}")
    if not first.result.cells:
        raise UsageError(_without_requests(trial.subject or trial.command, first.ended, is_code=bool(trial.subject)))
    usual, result = _with_tolerant_run(trial, first)
    if not usual.note and trial.elapsed < _LAST_START_SECONDS:
        seconds = min(_PROGRAM_SECONDS - trial.elapsed, max(trial.elapsed, _MAX_ERROR_SECONDS))
        failed = trial.run("error", seconds=seconds)
        result = with_run(result, failed, list(after_error(failed, usual)) or conversation_without_findings(failed))
    result = _with_other_answers(trial, usual, result, first.router)
    result, other_apis = _with_other_providers(trial, result, other_providers)
    conversations = count(len(result.cells), "conversation")
    is_redirected = first.router.has_redirected
    sentence = f"{trial.sentence}, {_REDIRECTED}" if is_redirected else trial.sentence
    typer.echo(f"{trial.subject or trial.command}: recognised as {sentence}; {conversations} run{first.ended.note}.")
    typer.echo(f"Otherwise: {_OTHERWISE_CODE if trial.subject else _OTHERWISE_PROGRAM}")
    if other_apis:
        typer.echo(f"The first conversation was also run with {' and '.join(other_apis)}.")
    file, invocation = private_run_file(), result.invocation
    started = {name: replace(each, command=without_keys(each.command)) for name, each in invocation.programs.items()}
    shows = ("harness", "reproduce", "--from", file)
    result = replace(result, invocation=replace(invocation, programs=started, show=shows))
    for output in outputs(["worst", f"json:{file}"]):
        output.write(result, Presentation())
    if not trial.subject and not is_redirected:
        typer.echo(f"More: harness serve call-single --command {shlex.quote(trial.command)}; harness help serve")
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


def _with_other_answers(trial: _Trial, usual: EndedProgram, result: RunResult, router: ImprovisedRouter) -> RunResult:
    """Return the result with those of runs with other answers. `usual` is the program's best run so far, and `router`
    answered the first one.
    """
    tolerated, is_code = _exceeded_limits(result), bool(trial.subject)
    prints_answer = not usual.note and ANSWER in usual.printed and (not is_code or RETURNED_TEXT in usual.printed)
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
        if applies and trial.elapsed < _LAST_START_SECONDS:
            run = trial.run(kind, tolerated=tolerated, seconds=_PROGRAM_SECONDS - trial.elapsed)
            result = with_run(result, run, list(judge(run, usual, result)) or conversation_without_findings(run))
    return result


_SHORT_ANSWER = re.compile(rb'"max_(?:completion_|output_)?tokens"\s*:\s*[1-9]\b', re.IGNORECASE)
"""Limit in a request for an answer of a few words, which always ends there."""


def _with_tolerant_run(trial: _Trial, first: ProgramRun, suffix: str = "") -> tuple[EndedProgram, RunResult]:
    """Return the run in which a program gets furthest, and its result with that of the first one."""
    result = first.result
    if not result.exit_code or not (first.ended.note or _has_refusal(result)):
        return first.ended, result
    again = _run_again(trial, result, suffix)
    explained = {
        finding.rule for cell in again.result.cells for finding in cell.findings if finding.follows is not None
    }
    limits = _exceeded_limits(result)
    is_explained = bool(limits) and limits <= explained
    return again.ended, again.result if is_explained else with_run(result, again)


def _with_other_providers(
    trial: _Trial, result: RunResult, providers: Iterable[tuple[str, str]]
) -> tuple[RunResult, list[str]]:
    """Return the result with conversations of the same code with its other providers, in the time that is left. Also
    return the options for their APIs.
    """
    options: list[str] = []
    for api, command in providers:
        if trial.elapsed > _LAST_START_SECONDS:
            break
        other, suffix = replace(trial, command=command), f"-{api}"
        run = other.run("two calls", suffix=suffix)
        _, more = _with_tolerant_run(other, run, suffix)
        result = with_run(result, replace(run, result=more))
        options.append(f"--api {api}")
    return result, options


def _run_again(trial: _Trial, result: RunResult, suffix: str) -> ProgramRun:
    """Return a run in which the program gets further than in the one with `result`."""
    tolerated = frozenset[str]()
    for _ in range(_MAX_TOLERANT_RUNS):
        limits = _exceeded_limits(result) - tolerated
        if not limits:
            break
        tolerated |= limits
        run = trial.run("two calls", tolerated=tolerated, suffix=f"{suffix}-again")
        result = run.result
        if not run.ended.note and _exceeded_limits(result) <= tolerated:
            return run
    return trial.run("one call", tolerated=tolerated, suffix=suffix)


def _reads_questions(router: ImprovisedRouter) -> bool:
    """Return whether a program sent the line on its standard input as the question of its user."""
    return router.first_request is not None and b"jsonrpc" in router.first_request.body


_MAX_TOLERANT_RUNS = 2

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
