"""Runs of a program against the reference server, which makes up answers that fit the program's requests."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from harness.apis.api import Api
from harness.cassettes.loopback_server import serve
from harness.checks.own_failures import FAILURES_FILE, OwnFailure, failures_in
from harness.checks.program_redirection import redirecting_environment
from harness.checks.programs import DESCRIBE, EndedProgram, keyless_environment, program_variables, run_program
from harness.cli.main import print_error
from harness.cli.serve import variables_for
from harness.cli.settings import fact_options
from harness.cli.try_endings import without_missing_end
from harness.model.http import HttpResponse
from harness.results import CellResult, ProgramStart, RunResult
from harness.runner.improvised_router import BASE_PATH, QUESTIONS, FirstAnswer, ImprovisedRouter
from harness.runner.served_session import SessionOptions, StreamRewrite
from harness.stdio.adapter_specs import PRIVACY_VARIABLES


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """A run of a program. `failures` are the exceptions that code which is called raised itself."""

    ended: EndedProgram
    result: RunResult
    router: ImprovisedRouter
    failures: Sequence[OwnFailure] = ()


def run_started(
    start: ProgramStart, seconds: float, lines: Sequence[str] = (DESCRIBE,), *, may_be_adapter: bool = False
) -> ProgramRun:
    """Run a program for at most `seconds`. Its standard input has `lines`, unless the user has several questions."""
    answers = cast("FirstAnswer", start.answers)
    ways = None if answers == "many turns" else _piece_rewrites  # the pauses would add up
    terms = SessionOptions(fact_selection=fact_options(None, ()), ways=ways, tolerated=frozenset(start.tolerated))
    router = ImprovisedRouter(terms, print_error, answers, start.name)
    with serve(router) as server, tempfile.NamedTemporaryFile() as raised:
        router.origin = server.origin
        own, base_url = {**keyless_environment(), FAILURES_FILE: raised.name}, server.origin + BASE_PATH
        variables = program_variables(start.command, base_url, own)
        environment = {**own, **PRIVACY_VARIABLES, **variables, **variables_for(base_url)}
        given = questions_for(answers) or lines
        sent_to = redirecting_environment(environment)
        ended = run_program(start.command, sent_to, seconds, may_be_adapter=may_be_adapter, lines=given)
        failures = failures_in(Path(raised.name))
    result = without_missing_end(ended, router.run(), router, seconds)
    started = {cell.scenario: start for cell in result.cells}
    return ProgramRun(ended, replace(result, invocation=replace(result.invocation, programs=started)), router, failures)


def questions_for(answers: str) -> Sequence[str]:
    """Return the questions of the user, if this kind of answers has several."""
    return QUESTIONS[: _QUESTION_COUNTS.get(answers, 0)]


_QUESTION_COUNTS = {"many turns": len(QUESTIONS), "cut call": 2}
"""Kinds of answers after which the user asks further questions, with the number of all questions."""


def with_run(result: RunResult, run: ProgramRun, cells: Sequence[CellResult] | None = None) -> RunResult:
    """Return the result with the conversations of another run, or only these `cells` of it."""
    programs = {**result.invocation.programs, **run.result.invocation.programs}
    return replace(
        result,
        cells=[*result.cells, *(run.result.cells if cells is None else cells)],
        invocation=replace(result.invocation, programs=programs),
    )


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
