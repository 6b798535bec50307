"""`harness validate`: everything that is wrong with scenario files and files of facts, each with its place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.apis.examples import problems as fact_problems
from harness.cli.options import FactFiles, fact_files
from harness.cli.outputs import refuse
from harness.cli.settings import settings
from harness.contract.errors import FileError, ScenarioError
from harness.scenarios import suite
from harness.scenarios.load import problems, scenario_files


def validate(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH",
            show_default=False,
            help="Scenario files and folders. None: the project's scenarios, or the shipped ones.",
        ),
    ] = None,
    facts: FactFiles = None,
) -> int:
    """Check scenario files, and the examples of files of facts: every problem as file:line:column at key: reason.

    Exit code 2 if there is one, else 0. With --facts and no PATH, only the files of facts are checked.
    """
    if facts and not paths:
        return _of_facts(fact_files(facts))
    own = [path for each in settings().scenarios if (path := Path(each)).exists()]
    files = scenario_files(paths or own or [suite.shipped("scenarios")])
    taken: dict[str, Path] = {}
    found: list[FileError] = []
    for file in files:
        found += problems(file)
        if file.stem in taken:  # a scenario is named after its file
            found.append(ScenarioError(str(file), f"the id {file.stem!r} is taken by {taken[file.stem]}."))
        taken.setdefault(file.stem, file)
    for each in found:
        typer.echo(str(each))
    if found:
        refuse(found)
        typer.echo(f"{len(found)} problem{'s' if len(found) > 1 else ''} in {_scenarios(len(files))}.", err=True)
        return 2
    typer.echo(f"{_scenarios(len(files))} {'is' if len(files) == 1 else 'are'} valid.")
    return 0


def _of_facts(files: Sequence[Path]) -> int:
    found = [each for file in files for each in fact_problems(file)]
    for each in found:
        typer.echo(str(each))
    if found:
        refuse(found)
        return 2
    typer.echo(f"{len(files)} file{'' if len(files) == 1 else 's'} of facts: every example is what it says.")
    return 0


def _scenarios(number: int) -> str:
    return f"{number} scenario{'' if number == 1 else 's'}"
