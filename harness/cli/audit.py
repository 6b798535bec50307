"""`harness audit`, `adopt` and `validate`: checks of recorded requests, cassettes, scenarios and facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, cast

import typer

from harness.apis.examples import problems as fact_problems
from harness.apis.fact_files import FactSelection
from harness.audit.adoption import FoundCassette, adopt_cassettes, marked_tests
from harness.audit.cassette_audit import Audit
from harness.audit.cassette_audit import audit as run
from harness.audit.redrive import Redrive
from harness.cassettes.cassette import Cassette
from harness.cassettes.cassette_files import write_file
from harness.cassettes.tape_player import load
from harness.cassettes.tape_recorder import text
from harness.checks.generation import shrink_value
from harness.cli.options import AllowedSecrets, AsOf, FactFiles, FindingOptions, ReportOptions, argument, option
from harness.cli.outputs import annotate_errors, current_checkout, presentation_of, with_pipeline
from harness.cli.settings import fact_files, fact_options, scope_for, settings
from harness.model.errors import CassetteError, FileError, ScenarioError
from harness.model.messages import JSON
from harness.platform.environment import hidden_variables
from harness.platform.files import shipped_folder
from harness.reports.words import count
from harness.results import CellResult, Severity
from harness.rules.rule import all_rules
from harness.scenarios.load import problems, scenario_files


@dataclass(frozen=True, kw_only=True)
class AuditOptions(FindingOptions, ReportOptions):
    """Options of `audit`."""

    paths: Annotated[list[Path], argument("PATH", "Cassettes in vcrpy's format (YAML or JSON), or folders of them.")]
    redrive: Annotated[
        bool,
        option(
            "--redrive",
            "Repeat the recorded conversations with the adapters, and compare their follow-up requests with the "
            "recorded ones.",
        ),
    ] = False
    recut: Annotated[
        int, option("--recut N", "With --redrive: also split each streamed response in N other ways.", min=0)
    ] = 3
    save: Annotated[
        Path | None,
        option("--save DIR", "Folder for reduced cassettes: for each error, the fewest exchanges that still show it."),
    ] = None
    as_json: Annotated[bool, option("--json", "The same as --report json.")] = False
    as_of: AsOf = None


def audit(args: AuditOptions) -> int:
    """Check recorded requests for what providers refuse, and for lost or changed data.

    Exit codes: 1 if a request breaks a limit, or if --redrive finds a different follow-up request; 2 for wrong usage, a
    damaged cassette, or nothing to audit; else 0. Lost or changed data is only a warning.
    """
    by, presentation = fact_options(args.as_of, fact_files(args.facts)), presentation_of(args)
    judged = scope_for(args.rules, args.ignored, settings(), by)
    wanted = with_pipeline([*(args.reports or ()), *(["json"] if args.as_json else ())])
    conversations = any(output.report.wants_conversations for output in wanted)
    if args.redrive:
        with hidden_variables(), Redrive(args.recut) as driven:
            result = run(args.paths, all_rules(), driven, by, conversations=conversations, scope=judged)
    else:
        result = run(args.paths, all_rules(), fact_selection=by, conversations=conversations, scope=judged)
    result = replace(result, facts=tuple(map(str, by.files)), checkout=current_checkout())
    for output in wanted:
        output.write(result, presentation)
    for cell in result.cells if args.save else ():
        for line in _save(cell, cast("Path", args.save), by):
            typer.echo(line, err=True)
    return result.exit_code


def _save(cell: CellResult, folder: Path, by: FactSelection) -> Iterator[str]:
    """For each error in a cassette, write the smallest set of exchanges that shows it. Yield a line of output for each
    file.
    """
    file = Path(cell.scenario)
    rules = dict.fromkeys(each.rule for each in cell.findings if each.severity is Severity.ERROR)
    whole = load(file) if rules else Cassette(())

    def cut(indices: list[JSON]) -> Cassette:
        return replace(whole, interactions=tuple(whole.interactions[cast("int", each)] for each in indices))

    def shows(indices: list[JSON], rule: str) -> bool:
        if not indices or indices != sorted({cast("int", each) for each in indices}):
            return False
        working = Audit(all_rules(), by)
        working.add(str(file), cut(indices))
        found = (each for part in working.result().cells for each in part.findings)
        return any(each.rule == rule and each.severity is Severity.ERROR for each in found)

    for rule in rules:
        every: list[JSON] = [*range(len(whole.interactions))]
        if not shows(every, rule):
            continue  # only replaying the conversation shows it
        few = shrink_value(every, partial(shows, rule=rule))
        path = folder / f"{file.stem}-{rule}.yaml"
        note = f"Exchanges {', '.join(map(str, few))} of {file.name}, which are enough for {rule}; cut by harness."
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text(cut(few), note, str(path), (), "--save"))
        except (CassetteError, OSError) as error:
            yield f"{path} is not written: {error}"
        else:
            yield f"{path}: {len(few)} of {count(len(every), 'exchange')}, for {rule}"


def adopt(
    paths: Annotated[
        list[Path],
        argument(
            "PATH", "vcrpy or pytest-recording cassettes, or folders that contain them, such as your tests folder."
        ),
    ],
    *,
    to: Annotated[
        Path | None, option("--to FOLDER", "Write copies without secrets into this folder, which must be new or empty.")
    ] = None,
    as_of: AsOf = None,
    facts: FactFiles = None,
    allowed: AllowedSecrets = None,
) -> int:
    """Check the cassettes of an existing suite before its tests are marked with pytest.mark.tape.

    Lists the exchanges of each cassette, and reports cassettes that cannot be replayed, contain secrets, or break a
    limit. The originals are not changed. Exit codes: 1 when a cassette cannot be replayed or written, or contains
    secrets and --to is not given; 2 for wrong usage, or when there is no cassette; else 0.
    """
    every: list[FoundCassette] = []
    for found in adopt_cassettes(paths, to, fact_options(as_of, fact_files(facts)), tuple(allowed or ())):
        every.append(found)
        for line in _lines(found):
            typer.echo(line)
    if not every:
        typer.echo("No cassette was found.", err=True)
        return 2
    for line in _summary(every, to, marked_tests(paths)):
        typer.echo(line)
    bad = [each for each in every if each.unplayable or each.unwritten or (each.secrets and to is None)]
    return 1 if bad else 0


def _lines(found: FoundCassette) -> Iterator[str]:
    counts = ", ".join(f"{number} {whose}" for whose, number in found.exchanges.items())
    exchanges = f"{count(sum(found.exchanges.values()), 'exchange')} ({counts})" if counts else ""
    yield f"{found.file}: {exchanges or f'cannot be replayed: {found.unplayable}'}"
    if found.unplayable and exchanges:
        yield f"  cannot be replayed: {found.unplayable}"
    if found.secrets:
        yield f"  secrets: {', '.join(found.secrets)}"
    for rule, index in found.broken:
        yield f"  breaks a limit: {rule}, in interaction {index}; its test will be red: harness explain {rule}"
    if found.changed_prefix is not None:
        change = found.changed_prefix
        yield f"  changes its prefix in interaction {change.index}: {change.message}; harness explain {change.rule}"
    if found.kept:
        yield f"  written: {found.kept}"
    if found.unwritten:
        yield f"  not written: {found.unwritten}"


def _summary(every: list[FoundCassette], to: Path | None, marked: list[Path]) -> Iterator[str]:
    playable = [each for each in every if not each.unplayable]
    yield ""
    yield (
        f"{len(playable)} of {count(len(every), 'cassette')} can be replayed unchanged; secrets in "
        f"{sum(bool(each.secrets) for each in every)}, limits broken in {sum(bool(each.broken) for each in every)}."
    )
    if any(each.secrets for each in every) and to is None:
        yield "To do: --to FOLDER writes copies without secrets; remove the originals yourself."
    if marked:
        files = " ".join(map(str, marked))
        yield f"To do: {count(len(marked), 'file')} with pytest-recording marks; to replace them:"
        yield f"  perl -pi -e 's/\\bmark\\.vcr\\b/mark.tape/' {files}"


def validate(
    paths: Annotated[
        list[Path] | None,
        argument("PATH", "Scenario files and folders. Default: the project's scenarios, or the shipped ones."),
    ] = None,
    facts: FactFiles = None,
) -> int:
    """Check scenario files, or with --facts the examples in fact files. Each problem is printed as
    'FILE:LINE:COLUMN at KEY: REASON'.

    Exit code 2 if there is a problem, else 0. With --facts and no PATH, only fact files are checked.
    """
    if facts and not paths:
        return _validate_facts(fact_files(facts))
    own = [path for each in settings().scenarios if (path := Path(each)).exists()]
    files = scenario_files(paths or own or [shipped_folder("scenarios")])
    by_id: dict[str, Path] = {}
    found: list[FileError] = []
    for file in files:
        found += problems(file)
        if file.stem in by_id:  # a scenario is named after its file
            found.append(ScenarioError(str(file), f"the id {file.stem!r} is already used by {by_id[file.stem]}."))
        by_id.setdefault(file.stem, file)
    for each in found:
        typer.echo(str(each))
    if found:
        annotate_errors(found)
        typer.echo(f"{count(len(found), 'problem')} in {count(len(files), 'scenario')}.", err=True)
        return 2
    typer.echo(f"{count(len(files), 'scenario')} {'is' if len(files) == 1 else 'are'} valid.")
    return 0


def _validate_facts(files: Sequence[Path]) -> int:
    found = [each for file in files for each in fact_problems(file)]
    for each in found:
        typer.echo(str(each))
    if found:
        annotate_errors(found)
        return 2
    typer.echo(f"{len(files)} file{'' if len(files) == 1 else 's'} of facts: every example holds.")
    return 0
