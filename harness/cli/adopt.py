"""`harness adopt`: cassettes of other recorders, taken over for tests with a tape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.days import AsOf, FactFiles, edition, fact_files
from harness.cli.options import AllowedSecrets

if TYPE_CHECKING:
    from harness.auditing.adoption import Found


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
    from harness.auditing.adoption import adopted, marks  # noqa: PLC0415 - `harness --help` loads no YAML

    every: list[Found] = []
    for found in adopted(paths, to, edition(as_of, fact_files(facts)), tuple(allowed or ())):
        every.append(found)
        for line in _told(found):
            typer.echo(line)
    if not every:
        typer.echo("No cassette was found.", err=True)
        return 2
    for line in _summary(every, to, marks(paths)):
        typer.echo(line)
    bad = [each for each in every if each.unplayable or each.unwritten or (each.secrets and to is None)]
    return 1 if bad else 0


def _told(found: Found) -> Iterator[str]:
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


def _summary(every: list[Found], to: Path | None, marked: list[Path]) -> Iterator[str]:
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
