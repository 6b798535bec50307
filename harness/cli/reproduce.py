"""`harness reproduce`: a stand-alone script that shows a finding, and the text of an issue."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import shlex
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from harness import wrappers
from harness.apis import registry
from harness.apis.server import long_fragments
from harness.checks.adapter_check import RECUTS
from harness.checks.generation import cause_key, causes_of, shrink_cause
from harness.checks.issues import curl_command, provider_fact
from harness.checks.node_script import CALL_LOG, NodeProgram
from harness.checks.python_script import python_scripts
from harness.checks.reproduction import Reproduction, worst_findings
from harness.cli import execution
from harness.cli.app import complete_scenarios
from harness.cli.logged_run import log_calls, tool_result
from harness.cli.options import CellOptions, LoopOptions, NoColour, StrictOptions, option
from harness.cli.outputs import load_run
from harness.cli.reproduce_gateway import reproduce_gateway
from harness.cli.reproduce_program import reproduce_program
from harness.cli.reproduce_server import reproduce_server
from harness.cli.script_packages import imported_packages, packages_of, redirects_of, versions_of
from harness.cli.script_runs import ShownScript, first_shown, write_reproduction
from harness.cli.settings import EffectiveOptions, combine_options, complete_options
from harness.cli.show import FinishedCell, run_selected_cell
from harness.model.errors import UsageError
from harness.model.http import HttpResponse
from harness.model.messages import JSON, ChatResponse, ToolCall
from harness.reports.words import what_to_do
from harness.results import CellResult, DrivenTranscript, Finding, ReplayVariant, RunResult
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.rule import all_rules
from harness.runner.cells import Cell
from harness.stdio import adapter_specs


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(StrictOptions, CellOptions, LoopOptions):
    """Options of `reproduce`."""

    cell: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            show_default=False,
            autocompletion=complete_scenarios,
            help="The scenario with the finding: a file, or the id of a shipped scenario or of a server's check.",
        ),
    ]
    rules: Annotated[
        list[str] | None, option("--rule ID", "Reproduce a finding of this rule. Default: the worst finding.")
    ] = None
    saved: Annotated[
        Path | None,
        option("--from RUN.json", "Take target, model, adapter and variant from a cell of this saved run."),
    ] = None
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder to write to; existing files are not overwritten.")
    ] = Path()
    copy_client: Annotated[
        bool,
        typer.Option("--copy-client", help="Copy the client's code into the script, to report a fault of its library."),
    ] = False
    no_colour: NoColour = False


def reproduce(args: ReproduceOptions) -> int:
    """Write a stand-alone script that shows a cell's worst finding, and the text of an issue to report it.

    Runs the cell against the reference server. The script needs only the library. It passes the recorded answers to the
    library, and compares what the library sends or returns. The script is first run here, and written only if it shows
    the finding. If harness cannot see how the adapter calls its library, it writes a `curl` command that sends the
    wrong request to the provider instead. For a program that 'harness try' ran, the script starts the program. For a
    server it writes a `curl` command, and for a gateway a script that answers in place of its provider.

    Exit codes: 0 if a script or a `curl` command is written, 1 if only the issue is written, 2 for wrong usage.
    """
    rules = named = args.rules or []
    streamed = ["stream"] if args.variants == ["stream"] else []
    recuts = RECUTS
    if args.saved is not None:
        saved = load_run(args.saved, "--from")
        if args.cell in saved.invocation.programs:
            return reproduce_program(saved, args.cell, rules, args.output, copied=args.copy_client)
        cell = _selected_cell(args, saved)
        reproduce_endpoint = _ENDPOINTS.get(saved.invocation.rerun[:3])
        if reproduce_endpoint is not None:
            return reproduce_endpoint(saved, cell, rules, _file_name(cell.scenario, streamed, named), args.output)
        args, failed, recuts = _from_run(args, saved, cell)
        rules = rules or failed
    any_variant = not args.variants
    options = complete_options(combine_options(args, paths=[args.cell], jobs="1", rules=None), "reference")
    with execution.environment("reference"), tempfile.TemporaryDirectory() as folder:
        log = os.environ[CALL_LOG] = str(Path(folder) / "calls.jsonl")
        smaller = partial(_smaller, rules, Path(log))
        repeated = recuts if _RECUT in rules else 0
        finished = run_selected_cell(options, "reference", any_variant=any_variant, recuts=repeated, smaller=smaller)
        finding = _finding(finished, rules)
        spec = (options.adapters or [finished.cell.target.adapter.name])[0]
        made = _reproduction(finished, finding, spec, options, copied=args.copy_client)
        program = _node_program(finished, spec, Path(log))
    name = _file_name(finished.cell.scenario.id, streamed, named)
    typer.echo(f"{finding.message} ({finding.rule})")
    kind = ".py" if program is None else ".mjs"
    if not made.calls and program is None:
        reason = f"how {made.subject} calls its library is not known ('harness help try')."
        shown = ShownScript(f"{name}{kind}", reason=reason)
    else:
        scripts = program.scripts(made, f"{name}{kind}") if program is not None else python_scripts(made, f"{name}.py")
        shown = first_shown(scripts, f"{name}{kind}", finding)
    has_other_script = program is not None or (made.calls and not made.is_agent)
    curl = "" if has_other_script else curl_command(made, registry.api(finished.cell.target.api))
    code = write_reproduction(made, shown, curl, args.output)
    if not shown.script and made.finding.rule != _RECUT:
        typer.echo(f"The requests and answers: {_show_command(finished, spec, options)}")
    return code


_ENDPOINTS: Mapping[tuple[str, ...], Callable[[RunResult, CellResult, Sequence[str], str, Path], int]] = {
    ("harness", "check", "server"): reproduce_server,
    ("harness", "check", "gateway"): reproduce_gateway,
}
"""First words of the command of a saved run → function that reproduces its findings."""

_RECUT = "stream-recut"
"""Rule about streams that arrive in other chunks."""


def _file_name(scenario: str, *words: Sequence[str]) -> str:
    """Return the name of a reproduction's files, without a suffix."""
    return re.sub(r"\W+", "_", "_".join(("reproduce", scenario, *chain(*words))))


def _selected_cell(args: ReproduceOptions, run: RunResult) -> CellResult:
    """Return the cell of a saved run that is to be reproduced. It has an error or a warning. Raises `UsageError`."""
    cells = [each for each in run.cells if each.scenario == args.cell and worst_findings(each.findings, args.rules)]
    cells = [each for each in cells if each.variant in (args.variants or [each.variant])]
    cells = [each for each in cells if each.target in (args.targets or [each.target])]
    if not cells:
        raise UsageError(f"--from {args.saved}: it has no cell of {args.cell!r} with an error or a warning.")
    return cells[0]


def _from_run(args: ReproduceOptions, run: RunResult, cell: CellResult) -> tuple[ReproduceOptions, list[str], int]:
    """Return the options that replay a cell of a saved run, and the rules of its worst findings. Also return the number
    of other chunk boundaries with which the run repeated streams.
    """
    words = [*run.invocation.targets.get(cell.target, ("--target", cell.target))]
    given: dict[str, list[str]] = {each: [] for each in _NAMING}
    for name, value in zip(words[::2], words[1::2], strict=False):
        field = "agents" if name == "--agent-command" else f"{name.removeprefix('--').replace('-', '_')}s"
        if field not in given:
            raise UsageError(f"--from {args.saved}: {name} of this run is not an option of reproduce.")
        given[field].append(value)
    provenance = cell.provenance
    if provenance is not None and provenance.model_requested:  # a trial runs some cells with another model
        given["models"] = [f"{(given['targets'] or [cell.target])[0]}={provenance.model_requested}"]
    chosen: dict[str, Any] = {name: values or None for name, values in given.items()}
    scenario = run.invocation.scenarios.get(args.cell, args.cell)
    failed = [each.rule for each in worst_findings(cell.findings, None)]
    recuts = int(next(iter(run.invocation.recut[1:]), RECUTS))
    return replace(args, cell=scenario, variants=[cell.variant], **chosen), failed, recuts


_NAMING = ("adapters", "adapter_commands", "conversations", "agents", "targets", "models")
"""Options of a run that name an adapter, a tool loop, a target or a model."""


def _show_command(finished: FinishedCell, spec: str, options: EffectiveOptions) -> str:
    """Return the command that shows the requests and answers of a cell."""
    given = {"--target": options.targets, "--model": options.models}
    named = [word for name, values in given.items() for each in values or () for word in (name, each)]
    words = ["--mode", "reference", "--variant", finished.cell.variant, *(options.paths or ())]
    return shlex.join(["harness", "show", *words, *adapter_specs.option_for(spec), *named])


def _finding(finished: FinishedCell, rules: Sequence[str]) -> Finding:
    """Return the worst finding of a cell, which is an error or a warning. With `rules`, consider only findings of these
    rules. Raises `UsageError`.
    """
    wrong = worst_findings(finished.result.findings, rules)
    if not wrong or finished.evidence is None:
        named = f" of the rule {' or '.join(rules)}" if rules else ""
        raise UsageError(
            f"{finished.cell.scenario.id}: this cell has no error and no warning{named}. 'harness show' prints its "
            "findings."
        )
    return wrong[0]


def _smaller(
    rules: Sequence[str], log: Path, finished: FinishedCell, run_cell: Callable[[Cell], FinishedCell]
) -> FinishedCell:
    """Return the cell, replayed with the smallest scenario found that still has the finding. That scenario must not
    cause new failures.

    A cell whose stream lost a call is not reduced: the calls that are left show how the client returns a call.
    """
    finding, cell = _finding(finished, rules), finished.cell
    key = cause_key(finding)
    if cell.variant == "stream" and finding.rule == "response-calls":
        return finished

    def result(tried: Cell) -> CellResult:
        log.unlink(missing_ok=True)  # it has the calls of one run
        return run_cell(tried).result

    with long_fragments():
        is_seen = key in causes_of(result(cell))
    with long_fragments() if is_seen else contextlib.nullcontext():
        found = shrink_cause(cell, key, result, words=False, seconds=_REDUCTION_SECONDS)
        log.unlink(missing_ok=True)
        return run_cell(replace(cell, scenario=found.scenario))


_REDUCTION_SECONDS = 8.0


def _reproduction(
    finished: FinishedCell, finding: Finding, spec: str, options: EffectiveOptions, *, copied: bool
) -> Reproduction:
    cell = finished.cell
    parsed_exchanges, recut = (
        () if finished.evidence is None else finished.evidence.parsed_exchanges,
        _recut(finished, finding),
    )
    if recut is not None:
        parsed_exchanges = _with_responses(parsed_exchanges, recut.responses)
    found = _wrapper(spec)
    logged = log_calls(cell, spec, parsed_exchanges)
    client, is_agent = _client_module(spec), adapter_specs.recognised_loop(spec) is not None
    imported = imported_packages(client, cell.target.api) if client is not None else []
    has_own_url = adapter_specs.client_url(spec) is not None or (is_agent and not logged.takes_url)
    is_alone = copied or (client is not None and "site-packages" in str(client.__file__))
    return Reproduction(
        (_user_code(spec) or adapter_specs.option_for(spec)[1])
        if found is None
        else f"{found[0].library}-{found[1].lower()}",
        client if copied and client is not None else _module(spec),
        packages_of(*found) if found is not None else imported if is_alone else [],
        versions_of(found, cell.target.api, imported, logged.agent),
        logged.origin,
        _base_path(spec, registry.api(cell.target.api).base_path),
        finding,
        parsed_exchanges,
        logged.calls,
        logged.results,
        isinstance(getattr(finished.evidence, "transcript", None), DrivenTranscript),
        provider_fact(finding, cell.target.api, parsed_exchanges),
        what_to_do(finding),
        options.as_of or dt.date.today().isoformat(),  # noqa: DTZ011 - the user's day
        redirects_of(logged.agent) if has_own_url else [],
        registry.api(cell.target.api).key_variables if found is None else (),
        partial(_is_mended, finished, finding),
        _response(finished, finding, recut),
        cell.scenario.model_dump(mode="json", by_alias=True),
        is_agent,
    )


def _recut(finished: FinishedCell, finding: Finding) -> ReplayVariant | None:
    """Return the variant of the streams whose result differs, as a finding of `stream-recut` reports, or `None`."""
    variants = () if finished.evidence is None else finished.evidence.transcript.replay_variants
    found = (each for each in variants if each.responses and f"({each.way})" in finding.message)
    return next(found, None) if finding.rule == _RECUT else None


def _with_responses(
    parsed_exchanges: Sequence[ParsedExchange], responses: Sequence[HttpResponse]
) -> list[ParsedExchange]:
    """Return the exchanges with other streams, which mean the same."""
    left = iter(responses)
    return [
        replace(each, exchange=replace(each.exchange, response=each.exchange.response and next(left, None)))
        for each in parsed_exchanges
    ]


def _response(finished: FinishedCell, finding: Finding, recut: ReplayVariant | None) -> ChatResponse | None:
    """Return the adapter's response for the exchange of a finding, or `None`."""
    if finished.evidence is None or finding.exchange is None:
        return None
    transcript = finished.evidence.transcript
    chat, chats = transcript.exchanges[finding.exchange].chat, transcript.chats if recut is None else recut.chats
    return chats[chat].response if chat is not None and chat < len(chats) else None


def _is_mended(finished: FinishedCell, finding: Finding, body: JSON) -> bool:
    """Return whether the finding disappears if the wrong request has this body instead."""
    transcript, at = getattr(finished.evidence, "transcript", None), finding.exchange
    if transcript is None or at is None:
        return False
    exchange = transcript.exchanges[at]
    changed = replace(exchange, request=replace(exchange.request, body=json.dumps(body).encode()))
    exchanges = (*transcript.exchanges[:at], changed, *transcript.exchanges[at + 1 :])
    evidence = Evidence(replace(transcript, exchanges=exchanges))
    found = ((flaw.rule or rule.id, flaw.exchange) for rule in all_rules() for flaw in rule.check(evidence))
    return (finding.rule, at) not in found


def _wrapper(spec: str) -> tuple[wrappers.Wrapper, str] | None:
    """Return the wrapper that a specification names, and its attribute."""
    programs = [each for each in wrappers.WRAPPERS if isinstance(each, wrappers.NodeWrapper)]
    commands = {each.spec(attribute): (each, attribute) for each in programs for attribute in each.imports}
    return commands.get(spec) or wrappers.find(spec)


def _node_program(finished: FinishedCell, spec: str, log: Path) -> NodeProgram | None:
    """Return the program of a wrapper for Node, with the calls that it made."""
    found = _wrapper(spec)
    if found is None or not isinstance(found[0], wrappers.NodeWrapper) or not log.exists():
        return None
    calls = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    results: defaultdict[str, list[JSON]] = defaultdict(list)
    transcript = None if finished.evidence is None else finished.evidence.transcript
    for each in transcript.runs if isinstance(transcript, DrivenTranscript) else ():
        result = tool_result(finished.cell.scenario, ToolCall("", each.name, each.arguments), each.answers)
        results[each.name].append(f"Error: {result.text}" if result.is_error else result.text)
    return NodeProgram(Path(found[0].module), found[1].lower(), calls, results)


def _module(spec: str) -> ModuleType | None:
    """Return the module of a wrapper or a third-party adapter, or `None` for anything else."""
    found = _wrapper(spec)
    name = spec.rsplit(maxsplit=1)[-1].partition(":")[0] if found is None else found[0].module
    is_own = found is not None or (":" in spec and _user_code(spec) is None)
    return import_module(name) if is_own and not spec.startswith("$") else None


def _user_code(spec: str) -> str | None:
    """Return the client or the agent that harness recognises, as `module:attribute`, or `None` for anything else."""
    return adapter_specs.client_of(spec) or adapter_specs.recognised_loop(spec)


def _client_module(spec: str) -> ModuleType | None:
    """Return the module of a client or an agent in Python that harness recognises."""
    client = _user_code(spec)
    return import_module(client.partition(":")[0]) if client is not None else None


def _base_path(spec: str, own: str) -> str:
    path, url = adapter_specs.client_path(spec), adapter_specs.client_url(spec)
    if url is not None:
        return own if urlsplit(url).path else ""
    return own if path is None else path.rstrip("/")
