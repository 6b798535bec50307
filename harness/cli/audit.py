"""`harness audit`: recorded requests of any project, held against the providers' limits and the contract."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.colours import NoColour
from harness.cli.days import AsOf, FactFiles, edition, fact_files
from harness.cli.options import Ignored, Quiet, Reports, Rules


def audit(  # noqa: PLR0913 - a parameter for each option
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Cassettes in vcrpy's format (YAML or JSON), of any project, and folders of them."
        ),
    ],
    *,
    reports: Reports = None,
    redrive: Annotated[
        bool,
        typer.Option(
            "--redrive",
            help="Drive the recorded conversations again: let the adapters decode each response that calls tools, give "
            "them the recorded results, and hold their follow-ups against the recorded ones.",
        ),
    ] = False,
    recut: Annotated[
        int,
        typer.Option(
            "--recut",
            metavar="N",
            min=0,
            help="With --redrive: drive each streamed response in N other cuts of its bytes, too.",
        ),
    ] = 3,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --report json.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Each finding, not one for each rule.")] = False,
    quiet: Quiet = False,
    rules: Rules = None,
    ignored: Ignored = None,
    as_of: AsOf = None,
    facts: FactFiles = None,
    _: NoColour = False,
) -> int:
    """Audit recorded requests: what do the providers refuse, what breaks the contract?

    Exit codes: 1 when a request breaks a limit, whether it was accepted or refused, or a follow-up disagrees with the
    recorded one; 2 for wrong usage, a damaged cassette, or when there was nothing to audit; else 0. Rules of the
    contract only warn.
    """
    # `harness --help` loads no rules and no YAML
    from harness import catalog  # noqa: PLC0415
    from harness.auditing.audit import audit as run  # noqa: PLC0415
    from harness.cli.outputs import presented, with_pipeline  # noqa: PLC0415
    from harness.cli.settings import scope_for, settings  # noqa: PLC0415

    by, presentation = edition(as_of, fact_files(facts)), presented(verbose=verbose, quiet=quiet)
    judged = scope_for(rules or (), ignored or (), settings(), by)
    wanted = with_pipeline([*(reports or ()), *(["json"] if as_json else ())])
    shown = any(output.report.wants_conversations for output in wanted)
    if redrive:
        from harness.auditing.redrive.redrive import Redrive  # noqa: PLC0415
        from harness.host.environment import isolated  # noqa: PLC0415

        with isolated(), Redrive(recut) as driven:
            result = run(paths, catalog.rules(), driven, by, conversations=shown, scope=judged)
    else:
        result = run(paths, catalog.rules(), edition=by, conversations=shown, scope=judged)
    result = replace(result, facts=tuple(map(str, by.files)))
    for output in wanted:
        output.write(result, presentation)
    return result.exit_code
