"""Commands that read saved runs: `harness report`, `merge`, `compare` and `accept`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.checks import gateway_findings, server_checks
from harness.cli.options import AllDifferences, ReportOptions, Verbose, argument, option
from harness.cli.outputs import comparison_outputs, load_run, outputs, presentation_of, with_pipeline
from harness.cli.settings import fact_options
from harness.model.errors import UsageError
from harness.reports.run_changes import compare_runs
from harness.reports.words import count
from harness.results import Presentation, Verdict
from harness.runner import expected_failures
from harness.runner.shards import merge_shards
from harness.runner.verdicts import known_finding_ids

_RUN_FILE = "A file that '--report json:' or '--report archive:' wrote."


@dataclass(frozen=True, kw_only=True)
class SavedReportOptions(ReportOptions):
    """Options of `report`."""

    run: Annotated[Path, argument("RUN.json", _RUN_FILE)]
    against: Annotated[
        list[Path] | None,
        option(
            "--against OLD.json",
            "An earlier run: the html report shows what is new, gone or changed since. Repeatable: with several runs, "
            "the report also shows their history.",
        ),
    ] = None
    all_differences: AllDifferences = False


@dataclass(frozen=True, kw_only=True)
class MergeOptions(ReportOptions):
    """Options of `merge`."""

    shards: Annotated[list[Path], argument("SHARD.json", "Files that 'harness run --shard I/N --report json:' wrote.")]
    all_differences: AllDifferences = False


def report(args: SavedReportOptions) -> int:
    """Write any report of a saved run. Nothing is run again.

    Only an archive contains the conversations of the cells. The html report of a json file shows only the findings.

    Exit codes: those of the run.
    """
    presentation = presentation_of(args, all_differences=args.all_differences)
    wanted = outputs(args.reports or ())
    if args.against and not any(each.report.compares for each in wanted):
        raise UsageError("--against: no chosen report compares runs: add --report html:PATH.")
    saved = load_run(args.run)
    earlier = sorted((load_run(each, "--against") for each in args.against or ()), key=lambda run: run.played_at or "")
    presentation = replace(presentation, against=tuple(earlier))
    for output in wanted:
        output.write(saved, presentation)
    return saved.exit_code


def merge(args: MergeOptions) -> int:
    """Merge all shards of a run, and write any report of it. Except for times, the result is the same as on one
    machine.

    Exit codes: those of the run.
    """
    wanted = with_pipeline(args.reports or ())
    for output in wanted:
        path = output.path
        if path is not None and path.exists() and any(each.exists() and path.samefile(each) for each in args.shards):
            raise UsageError(f"--report: {path} is a shard, and would be overwritten. Name another file.")
    run = merge_shards([(str(shard), load_run(shard)) for shard in args.shards])
    for output in wanted:
        output.write(run, presentation_of(args, all_differences=args.all_differences))
    return run.exit_code


def compare(
    before: Annotated[Path, argument("BEFORE.json", f"The earlier run. {_RUN_FILE}")],
    now: Annotated[Path, argument("NOW.json", "The later run.")],
    *,
    reports: Annotated[
        list[str] | None,
        option(
            "--report FORMAT[:PATH]",
            "terminal, json, or markdown (for a pull-request comment), to a file or the screen. Repeatable. The "
            "terminal report is printed, too, unless another report goes to the screen.",
        ),
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Show what changed between two runs: causes, cells, expected failures, differences and costs.

    If the runs have different scenarios, targets, versions or facts, these are listed first, because they may explain
    a change. 'harness report NOW.json --against BEFORE.json --report html:PATH' writes the comparison as a page.

    Exit codes: 1 if something got worse, 2 for wrong usage, else 0.

    These count as worse: a cell with a worse verdict; a new cell that warns or fails; a cell that passed and is now not
    applicable; a new cause of errors or warnings, or one that affects more cells; an expected failure that no longer
    happens; a later run that did not finish.
    """
    wanted = comparison_outputs(reports or ())
    then, later = load_run(before), load_run(now)
    if (then.audit is None) != (later.audit is None):
        raise UsageError(f"{before} and {now}: one is an audit and the other is not, so they cannot be compared.")
    for output in wanted:
        output.compare(then, later, Presentation(verbose=verbose))
    return int(compare_runs(later, then).worse)


def accept(
    run: Annotated[Path, argument("RUN.json", "A file that 'harness run --report json:' wrote.")],
    *,
    to: Annotated[Path, option("--to FILE", "File of expected failures. Existing entries are kept.")] = Path(
        "expected-failures.yaml"
    ),
    reason: Annotated[
        str, option("--reason TEXT", "Reason to write into each new entry; edit it later.")
    ] = "known failure; say why",
) -> int:
    """Write an entry for each finding that fails a cell, for 'harness run --expected-failures FILE'.

    Failures without a finding, such as a crash of the adapter's process, are listed but cannot be accepted. Exit code 1
    if there are any, else 0.
    """
    if not reason.strip():
        raise UsageError("--reason: it must not be empty, as in --reason 'tracked as #123'.")
    result = load_run(run)
    if not result.finished:
        raise UsageError(f"{run}: this run did not finish ({result.stopped}). Run it again first.")
    ids = (
        known_finding_ids(fact_options(None, [Path(each) for each in result.facts]))
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
