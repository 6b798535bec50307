"""`harness audit`: recorded requests of any project, held against the providers' limits and the contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from harness import catalog
from harness.auditing.adoption import FoundCassette, adopt_cassettes, marked_tests
from harness.auditing.cassette_audit import audit as run
from harness.auditing.redrive import Redrive
from harness.cli.options import AllowedSecrets, AsOf, FactFiles, Reported, Scoped, edition, fact_files
from harness.cli.outputs import presented, with_pipeline
from harness.cli.settings import scope_for, settings
from harness.host.environment import hidden_variables


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Reported, Scoped):
    """The options of `audit`."""

    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Cassettes in vcrpy's format (YAML or JSON), of any project, and folders of them."
        ),
    ]
    redrive: Annotated[
        bool,
        typer.Option(
            "--redrive",
            help="Drive the recorded conversations again: let the adapters decode each response that calls tools, give "
            "them the recorded results, and hold their follow-ups against the recorded ones.",
        ),
    ] = False
    recut: Annotated[
        int,
        typer.Option(
            "--recut",
            metavar="N",
            min=0,
            help="With --redrive: drive each streamed response in N other cuts of its bytes, too.",
        ),
    ] = 3
    as_json: Annotated[bool, typer.Option("--json", help="The same as --report json.")] = False
    as_of: AsOf = None


def audit(typed: AuditOptions) -> int:
    """Audit recorded requests: what do the providers refuse, what breaks the contract?

    Exit codes: 1 when a request breaks a limit, whether it was accepted or refused, or a follow-up disagrees with the
    recorded one; 2 for wrong usage, a damaged cassette, or when there was nothing to audit; else 0. Rules of the
    contract only warn.
    """
    by, presentation = edition(typed.as_of, fact_files(typed.facts)), presented(typed)
    judged = scope_for(typed.rules, typed.ignored, settings(), by)
    wanted = with_pipeline([*(typed.reports or ()), *(["json"] if typed.as_json else ())])
    shown = any(output.report.wants_conversations for output in wanted)
    if typed.redrive:
        with hidden_variables(), Redrive(typed.recut) as driven:
            result = run(typed.paths, catalog.rules(), driven, by, conversations=shown, scope=judged)
    else:
        result = run(typed.paths, catalog.rules(), edition=by, conversations=shown, scope=judged)
    result = replace(result, facts=tuple(map(str, by.files)))
    for output in wanted:
        output.write(result, presentation)
    return result.exit_code


def adopt(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Cassettes of vcrpy or pytest-recording, and folders of them, such as your tests."
        ),
    ],
    *,
    to: Annotated[
        Path | None,
        typer.Option(
            "--to", metavar="FOLDER", help="Write each without secrets into this folder, where nothing lies yet."
        ),
    ] = None,
    as_of: AsOf = None,
    facts: FactFiles = None,
    allowed: AllowedSecrets = None,
) -> int:
    """Look through the cassettes of an existing suite before its tests are marked with pytest.mark.tape.

    Says what is in each, which cannot be played, which hold secrets, and which break a limit. Originals stay as they
    are. Exit codes: 1 when one cannot be played or written, or holds secrets and --to is not given; 2 for wrong usage,
    or when there is no cassette; else 0.
    """
    every: list[FoundCassette] = []
    for found in adopt_cassettes(paths, to, edition(as_of, fact_files(facts)), tuple(allowed or ())):
        every.append(found)
        for line in _told(found):
            typer.echo(line)
    if not every:
        typer.echo("No cassette was found.", err=True)
        return 2
    for line in _summary(every, to, marked_tests(paths)):
        typer.echo(line)
    bad = [each for each in every if each.unplayable or each.unwritten or (each.secrets and to is None)]
    return 1 if bad else 0


def _told(found: FoundCassette) -> Iterator[str]:
    counts = ", ".join(f"{number} {whose}" for whose, number in found.exchanges.items())
    said = f"{_count(sum(found.exchanges.values()), 'exchange')} ({counts})" if counts else ""
    yield f"{found.file}: {said or f'cannot be played: {found.unplayable}'}"
    if found.unplayable and said:
        yield f"  cannot be played: {found.unplayable}"
    if found.secrets:
        yield f"  secrets: {', '.join(found.secrets)}"
    for rule, index in found.broken:
        yield f"  breaks a limit: {rule}, in interaction {index}; its test will be red: harness explain {rule}"
    if found.kept:
        yield f"  written: {found.kept}"
    if found.unwritten:
        yield f"  not written: {found.unwritten}"


def _summary(every: list[FoundCassette], to: Path | None, marked: list[Path]) -> Iterator[str]:
    playable = [each for each in every if not each.unplayable]
    yield ""
    yield (
        f"{len(playable)} of {_count(len(every), 'cassette')} can be played as they lie; secrets in "
        f"{sum(bool(each.secrets) for each in every)}, limits broken in {sum(bool(each.broken) for each in every)}."
    )
    if any(each.secrets for each in every) and to is None:
        yield "To do: with --to FOLDER each is written without secrets; the originals stay, and are yours to remove."
    if marked:
        files = " ".join(map(str, marked))
        yield f"To do: {_count(len(marked), 'file')} with marks of pytest-recording's, which become ours:"
        yield f"  perl -pi -e 's/\\bmark\\.vcr\\b/mark.tape/' {files}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
