"""`harness reproduce` for a program that `harness try` ran, and for code that it called once."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import typer

from harness.apis import registry
from harness.bridge.clients.sources import source_of
from harness.checks.issues import curl_command, provider_fact
from harness.checks.programs import keyless_environment, program_variables, sources_of, variables_read
from harness.checks.python_script import python_scripts
from harness.checks.reproduction import Reproduction, ScriptClaim, ScriptProgram, is_about_request, worst_findings
from harness.checks.single_call import called_object
from harness.cli.execution import environment
from harness.cli.logged_run import log_single_call
from harness.cli.program_runs import ProgramRun, questions_for, run_started
from harness.cli.script_packages import redirects_of, versions_of
from harness.cli.script_runs import ShownScript, first_shown, write_reproduction
from harness.cli.serve import sdk_variables, variables_for
from harness.model.errors import UsageError
from harness.reports.words import what_to_do
from harness.results import CellResult, Exchange, Finding, ProgramStart, RunResult
from harness.rules.evidence import ParsedExchange
from harness.runner.improvised_router import DIVIDED_ANSWER, QUESTIONS


def reproduce_program(run: RunResult, conversation: str, rules: Sequence[str], folder: Path, *, copied: bool) -> int:
    """Write a script that starts a program, or calls code, and shows the worst finding of a conversation in a saved
    run. Return the exit code.

    The program is run once more, with the same kind of answers, to get the requests and the answers. If `copied` is
    set, the script contains the module of the code.
    """
    cell = next(each for each in run.cells if each.scenario == conversation)
    saved = next(iter(worst_findings(cell.findings, rules)), None)
    if saved is None:
        raise UsageError(f"{conversation}: this conversation has no error and no warning{_of(rules)}.")
    start = run.invocation.programs[conversation]
    code = called_object(start.command)
    with environment("reference"):
        again = run_started(start, _SECONDS, () if code else QUESTIONS[:1])
        exchanges, finding = _exchanges_and_finding(again, cell, saved)
        made = _of_program(start, again, cell, finding, exchanges)
        if code is not None:
            made = _of_code(made, *code, start, copied=copied)
        shown = _shown_script(made, again, re.sub(r"\W+", "_", "_".join(("reproduce", conversation, *rules))))
    typer.echo(f"{finding.message} ({finding.rule})")
    return write_reproduction(made, shown, curl_command(made, registry.api(cell.api)), folder)


_SECONDS = 20.0


def _of(rules: Sequence[str]) -> str:
    return f" of the rule {' or '.join(rules)}" if rules else ""


def _exchanges_and_finding(run: ProgramRun, cell: CellResult, saved: Finding) -> tuple[list[ParsedExchange], Finding]:
    """Return all exchanges of a run in their order, and the finding with its place in them.

    The finding is that of this run, which may have other values than the `saved` one. Some findings compare several
    runs, so that this one lacks them.
    """
    found = next((each for each in run.result.cells if each.scenario == cell.scenario), cell)
    finding = next((each for each in found.findings if each.rule == saved.rule), saved)
    parsed = {each.scenario.id: [*each.evidence(ended=True).parsed_exchanges] for each in run.router.conversations()}
    exchanges, place = list[ParsedExchange](), None
    for request, response in run.router.sent:
        at, own = _take_exchange(parsed, request.body)
        if own is None:
            own = ParsedExchange(0, Exchange(request, response), None, None)
        elif at == cell.scenario and own.index == finding.exchange:
            place = len(exchanges)
        exchanges.append(replace(own, index=len(exchanges), exchange=replace(own.exchange, response=response)))
    return exchanges, finding if place is None else replace(finding, exchange=place)


def _take_exchange(left: Mapping[str, list[ParsedExchange]], body: bytes) -> tuple[str, ParsedExchange | None]:
    """Take the exchange with this request from the conversations, and return it with its conversation."""
    for name, exchanges in left.items():
        for each in exchanges:
            if each.exchange.request.body == body:
                exchanges.remove(each)
                return name, each
    return "", None


def _of_program(
    start: ProgramStart, run: ProgramRun, cell: CellResult, finding: Finding, exchanges: Sequence[ParsedExchange]
) -> Reproduction:
    agent = next((value for name, value in _headers(exchanges).items() if name.lower() == "user-agent"), "")
    lines = questions_for(start.answers) or QUESTIONS[:1]
    return Reproduction(
        subject=start.command,
        module=None,
        packages=[],
        versions=versions_of(None, cell.api, [], agent),
        origin=run.router.origin,
        base_path=registry.api(cell.api).base_path,
        finding=finding,
        parsed_exchanges=exchanges,
        calls=[],
        results={},
        owns_loop=True,
        fact=provider_fact(finding, cell.api, exchanges),
        remedy=what_to_do(finding),
        today=dt.date.today().isoformat(),  # noqa: DTZ011 - the user's day
        redirects=redirects_of(agent, is_program=True) if run.router.has_redirected else [],
        program=ScriptProgram(start.command, lines, _variables(start.command, cell.api)),
    )


def _headers(exchanges: Sequence[ParsedExchange]) -> Mapping[str, str]:
    return exchanges[0].exchange.request.headers if exchanges else {}


def _variables(command: str, api: str) -> dict[str, str]:
    """Return the environment variables of a script's program: those that its source mentions, and those that the API's
    SDK reads.
    """
    known = program_variables(command, "{url}", keyless_environment())
    of_sdk = sdk_variables("{url}", [registry.api(api)])
    return {name: known[name] for name in variables_read(sources_of(command), known)} | of_sdk


def _of_code(made: Reproduction, spec: str, model: str, start: ProgramStart, *, copied: bool) -> Reproduction:
    """Return the reproduction of code that is called once, with the calls of a run in this process."""
    place = spec.rpartition(" ")[2]
    module = import_module(place.partition(":")[0])
    responses = [each.exchange.response for each in made.parsed_exchanges if each.exchange.response is not None]

    def variables(origin: str) -> dict[str, str]:
        return {**program_variables(start.command, origin, {}), **variables_for(origin)}

    logged = log_single_call(spec, model, questions_for(start.answers), variables, responses)
    return replace(
        made,
        subject=place,
        module=module if copied else None,
        origin=logged.origin,
        calls=logged.calls,
        program=None,
        is_agent=True,
        keys=variables_read(source_of(module), [each for each in variables("") if each.endswith("KEY")]),
        redirects=[] if logged.takes_url else redirects_of(logged.agent),
    )


def _shown_script(made: Reproduction, run: ProgramRun, name: str) -> ShownScript:
    file = f"{name}.py"
    made = replace(made, own_claims=[*_claims(made, run)])
    if made.program is None and not made.calls:
        return ShownScript(file, reason=f"how {made.subject} is called is not known.")
    return first_shown(_scripts(made, file), file, made.finding)


def _scripts(made: Reproduction, file: str) -> Iterator[str]:
    """Yield scripts whose answers arrive at once, then some whose answers arrive in pieces."""
    whole = [replace(each, exchange=_at_once(each.exchange)) for each in made.parsed_exchanges]
    yield from python_scripts(replace(made, parsed_exchanges=whole), file)
    if whole != made.parsed_exchanges:
        yield from python_scripts(made, file)


def _at_once(exchange: Exchange) -> Exchange:
    response = exchange.response
    if response is None:
        return exchange
    return replace(exchange, response=replace(response, delivery=replace(response.delivery, cuts=(), pause=0.0)))


def _claims(made: Reproduction, run: ProgramRun) -> Iterator[ScriptClaim]:
    """Yield what a script may check, the best first."""
    finding = made.finding
    if finding.rule == "loop-retry":
        yield ScriptClaim("once")
    elif finding.rule == "script-unplayed":
        yield ScriptClaim("requests", len(made.parsed_exchanges))
    elif is_about_request(finding):
        yield from made.claims()
    elif finding.rule == "loop-answer":
        yield from (ScriptClaim("shown", each.strip()) for each in DIVIDED_ANSWER)
        yield ScriptClaim("shown", str(finding.expected))
    elif made.program is None:
        yield ScriptClaim("other", _without_numbers(str(made.calls[-1].value)) if made.calls else "")
    else:
        yield ScriptClaim("other", _without_numbers(run.ended.printed))


def _without_numbers(text: str) -> str:
    return re.sub(r"\d+", "0", text)
