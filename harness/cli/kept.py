"""`harness report`, `merge`, `compare` and `accept`: the commands about runs that were kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.checking import gateway_findings, server_checks
from harness.cli.options import AllDifferences, Reported, Verbose, edition
from harness.cli.outputs import comparing, outputs, presented, read, with_pipeline
from harness.contract.errors import UsageError
from harness.reports.run_changes import compare_runs
from harness.reports.words import count
from harness.results import Presentation, Verdict
from harness.running import expected_failures
from harness.running.shards import merge_shards
from harness.running.verdicts import known_finding_ids

_WRITTEN = "What '--report json:' or '--report archive:' wrote."


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Reported):
    """The options of `report`."""

    run: Annotated[Path, typer.Argument(metavar="RUN.json", show_default=False, help=_WRITTEN)]
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="OLD.json",
            show_default=False,
            help="An earlier run: the html report says what is new, gone or changed since.",
        ),
    ] = None
    all_differences: AllDifferences = False


@dataclass(frozen=True, kw_only=True)
class MergeOptions(Reported):
    """The options of `merge`."""

    shards: Annotated[
        list[Path],
        typer.Argument(
            metavar="SHARD.json...", show_default=False, help="What 'harness run --shard I/N --report json:' wrote."
        ),
    ]
    all_differences: AllDifferences = False


def report(typed: ReportOptions) -> int:
    """Make any report of a run that was kept. Nothing is played.

    What each cell has said and sent is in an archive only: the html report of a json file shows findings without it.

    Exit codes: those of the run.
    """
    presentation = presented(typed, all_differences=typed.all_differences)
    wanted = outputs(typed.reports or ())
    if typed.against is not None and not any(each.report.compares for each in wanted):
        raise UsageError("--against: none of these reports compares runs: add --report html:PATH.")
    kept = read(typed.run)
    presentation = replace(presentation, against=None if typed.against is None else read(typed.against, "--against"))
    for output in wanted:
        output.write(kept, presentation)
    return kept.exit_code


def merge(typed: MergeOptions) -> int:
    """Make one run of all its shards, and any report of it: the same as if one machine had played it, but for times.

    Exit codes: those of the run.
    """
    wanted = with_pipeline(typed.reports or ())
    for output in wanted:
        path = output.path
        if path is not None and path.exists() and any(each.exists() and path.samefile(each) for each in typed.shards):
            raise UsageError(f"--report: {path} is a shard, and would be overwritten. Name another file.")
    run = merge_shards([(str(shard), read(shard)) for shard in typed.shards])
    for output in wanted:
        output.write(run, presented(typed, all_differences=typed.all_differences))
    return run.exit_code


def compare(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE.json", show_default=False, help=f"The earlier run. {_WRITTEN}")
    ],
    now: Annotated[Path, typer.Argument(metavar="NOW.json", show_default=False, help="The later one.")],
    *,
    reports: Annotated[
        list[str] | None,
        typer.Option(
            "--report",
            metavar="FORMAT[:PATH]",
            help="terminal, json, or markdown (for a comment on a pull request), to a file or the screen. Repeatable. "
            "If none goes to the screen, the terminal report does.",
        ),
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Say what has changed from one run to another: causes, cells, expected failures, differences and costs.

    Where the two are not runs of the same scenarios, targets, versions or facts, that is said first: what changed may
    have changed for that. 'harness report NOW.json --against BEFORE.json --report html:PATH' has it in a page.

    Exit codes: 1 when something got worse: a cell ended worse, is new and bad, or has passed and is not applicable any
    more; an error or a warning has a new cause, or one shows in more cells; an expected failure does not happen any
    more; the later run was not played to its end. 2 for wrong usage; else 0.
    """
    wanted = comparing(reports or ())
    then, later = read(before), read(now)
    if (then.audit is None) != (later.audit is None):
        raise UsageError(f"{before} and {now}: one is an audit and the other is not: they have nothing in common.")
    for output in wanted:
        output.compare(then, later, Presentation(verbose=verbose))
    return int(compare_runs(later, then).worse)


def accept(
    run: Annotated[
        Path, typer.Argument(metavar="RUN.json", show_default=False, help="What 'harness run --report json:' wrote.")
    ],
    *,
    to: Annotated[
        Path, typer.Option("--to", metavar="FILE", help="File of expected failures. What it has already is kept.")
    ] = Path("expected-failures.yaml"),
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why they are expected, until each entry says it better.")
    ] = "accepted as it was; say why",
) -> int:
    """Write an entry for each finding that fails a cell of the run, for 'harness run --expected-failures FILE'.

    What no rule has found, such as an adapter that ended the process, is named and cannot be accepted: then 1, else 0.
    """
    if not reason.strip():
        raise UsageError("--reason: it has to say something, as in --reason 'tracked as #123'.")
    result = read(run)
    if not result.finished:
        raise UsageError(f"{run}: this run was not played to its end ({result.stopped}). Play it again first.")
    ids = (
        known_finding_ids(edition(None, [Path(each) for each in result.facts]))
        | server_checks.RULES
        | gateway_findings.RULES
    )
    known = expected_failures.load(to, ids) if to.exists() else []
    entries = expected_failures.entries_for(result.cells, reason.strip(), known)
    for entry in entries:
        if wrong := expected_failures.why_unmatchable(entry, ids):
            raise UsageError(f"{run}: {wrong}")
    try:
        with to.open("a", encoding="utf-8") as file:
            file.write(expected_failures.to_yaml(entries))
    except OSError as error:
        raise UsageError(f"--to {to}: cannot be written: {error.strerror}.") from None
    added = f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"
    typer.echo(f"{added} added to {to}: harness run --expected-failures {to}")
    left = [
        cell
        for cell in result.cells
        if cell.verdict is Verdict.ERROR and not any(finding.fails for finding in cell.findings)
    ]
    for cell in left:
        typer.echo(f"not accepted: {cell.scenario} [{cell.variant}], {cell.target}: {cell.reason}", err=True)
    if left:
        typer.echo(f"{count(len(left), 'cell')} ended without a finding that an entry could name.", err=True)
    return 1 if left else 0
