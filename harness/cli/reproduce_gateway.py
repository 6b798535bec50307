"""`harness reproduce` for a gateway that a saved run checked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import typer

from harness.cassettes.redact.secret_patterns import display_url
from harness.checks.gateway_check import run_directly
from harness.checks.gateway_findings import judge_run
from harness.checks.gateway_reproduction import GatewayFault
from harness.checks.gateway_traffic import changed_run, run_through_gateway
from harness.checks.python_script import python_scripts
from harness.checks.reproduction import worst_findings
from harness.cli.check import GatewayOptions, saved_options
from harness.cli.check_gateway import gateway_connection
from harness.cli.script_runs import first_shown, write_reproduction
from harness.model.errors import UsageError
from harness.results import CellResult, RunResult
from harness.runner.cells import Cell


def reproduce_gateway(run: RunResult, cell: CellResult, rules: Sequence[str], name: str, folder: Path) -> int:
    """Write a script that shows the worst finding of a cell of a saved gateway check, and the text of an issue. Return
    the exit code.

    The cell runs again. Then the script is run, with a server of its own in place of the provider.

    Raises:
        UsageError: the gateway does not listen, or its check did not name the port of the upstream.
    """
    saved = worst_findings(cell.findings, rules)[0]
    options = saved_options(GatewayOptions, [*run.invocation.rerun, *run.invocation.targets[cell.target]])
    if options.command is not None or not options.upstream_port:
        raise UsageError(_NO_PORT)
    scenario = run.invocation.scenarios.get(cell.scenario, cell.scenario)
    with gateway_connection(replace(options, paths=[scenario], variants=[cell.variant])) as found:
        what = run_through_gateway(found.cell, found.route.way, found.endpoint, found.upstream)
        what = changed_run(what, found.cell.scenario, found.redactor.result)
    direct = cache(partial(run_directly, Cell(found.cell.scenario, found.route.upstream, cell.variant)))
    findings = judge_run(what, direct).findings
    finding = next((each for each in findings if each.rule == saved.rule), None)
    typer.echo(f"{(finding or saved).message} ({saved.rule})")
    if finding is None or not what.exchanges:
        typer.echo("It was not seen again, so nothing is written.")
        return 1
    fault = GatewayFault(
        subject=display_url(found.endpoint.url),
        cell=found.cell,
        run=what,
        direct=direct,
        finding=finding,
        headers=dict(found.variables),
        port=options.upstream_port,
        today=dt.date.today().isoformat(),  # noqa: DTZ011 - the user's day
    )
    made, file = fault.reproduction(), f"{name}.py"
    shown = first_shown(python_scripts(made, file), file, made.finding)
    return write_reproduction(made, shown, fault.curl_command(made.title), folder)


_NO_PORT = (
    "--from: its script needs a gateway that runs, and answers at the port of the upstream. Start the gateway, check "
    "it with --upstream-port N instead of --command, and reproduce that run."
)
