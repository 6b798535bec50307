"""`harness reproduce` for a server that a saved run checked."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from harness.cassettes.redact.secret_patterns import display_url
from harness.checks.reproduction import worst_findings
from harness.checks.server_checks import CHECKS
from harness.checks.server_reproduction import ServerFault
from harness.checks.server_results import ResponseMonitor, ServerCellBuilder, first_check, run_check
from harness.checks.server_session import Reply, ServerCheck
from harness.cli.check import ServerOptions, saved_options
from harness.cli.check_server import ServerConnection, server_connection
from harness.cli.script_runs import write_files
from harness.results import CellResult, Finding, Provenance, RunResult


def reproduce_server(run: RunResult, cell: CellResult, rules: Sequence[str], name: str, folder: Path) -> int:
    """Write a `curl` command that shows the worst finding of a saved server check, and the text of an issue. Return the
    exit code.

    The check runs again, because its requests may contain earlier answers.

    Raises:
        UsageError: the server does not answer, or the check sent headers, whose values are not saved.
    """
    saved = worst_findings(cell.findings, rules)[0]
    options = saved_options(ServerOptions, run.invocation.rerun)
    check = CHECKS[first_check(saved.message)[1] or cell.scenario]
    with server_connection(options) as connection:
        for _ in range(_TRIES):
            found = _run_again(check, connection, cell, saved.rule)
            if found is not None:
                break
        else:
            typer.echo(f"{saved.message} ({saved.rule})")
            repeat = shlex.join([*run.invocation.rerun, run.invocation.scenarios[cell.scenario], "--repeat=10"])
            typer.echo(f"It was not seen again in {_TRIES} tries, so nothing is written. To see how often: {repeat}")
            return 1
    finding, reply = found
    server = connection.server
    fault = ServerFault(
        subject=f"{display_url(server.base_url)} ({server.model})",
        finding=finding,
        facts=server.api.facts.with_ids(finding.source.split(", ")),
        request=connection.redactor.request(reply.request),
        response=connection.redactor.response(reply.response),
        api=server.api,
        headers=connection.variables,
        today=dt.date.today().isoformat(),  # noqa: DTZ011 - the user's day
    )
    typer.echo(f"{finding.message} ({finding.rule})")
    files = write_files(folder, name, {".sh": fault.script(), ".md": fault.issue()})
    typer.echo(f"Run it while the server runs: {shlex.join(['sh', str(files[0])])}")
    typer.echo("Its request was sent again just now, with the same fault.")
    return 0


_TRIES = 3


def _run_again(
    check: ServerCheck, connection: ServerConnection, cell: CellResult, rule: str
) -> tuple[Finding, Reply] | None:
    """Run a check once. Return the first finding of the rule with the response that shows it, or `None`."""
    server, redactor = connection.server, connection.redactor
    monitor = ResponseMonitor(redactor)
    attempt = run_check(check, server, connection.line, monitor, cell.variant)
    provenance = Provenance("server", model_requested=server.model)
    own = ServerCellBuilder(server, provenance, redactor, price=None).cell(check, cell.variant, [attempt])
    replies = attempt.session.replies
    failed = {each.message: each.reply for each in attempt.session.failures}
    for each in [own, *monitor.cells(server, provenance, [])]:
        for finding in each.findings if each.variant == cell.variant else ():
            violating = (reply for reply in replies if rule in {one.rule.id for one in reply.violations})
            reply = failed.get(finding.message) or next(violating, replies[0] if replies else None)
            if finding.rule == rule and reply is not None:
                return finding, reply
    return None
