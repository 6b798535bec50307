"""`harness init`: what a repository needs to begin with, beside what it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.contract.errors import UsageError
from harness.host.project import project

_PROJECT = Path("pyproject.toml")
_TABLE = "[tool.harness]"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A file to be written, and its text. `otherwise` is said if the file is there already."""

    file: Path
    text: str
    otherwise: str = ""


def init(
    *,
    adapter: Annotated[
        bool,
        typer.Option("--with-adapter", help="Also my_adapter.py, an adapter to begin with, named in the settings."),
    ] = False,
    server: Annotated[
        Literal["github", "gitlab"],
        typer.Option("--ci", help="The CI server whose workflow is written: GitHub Actions or GitLab CI."),
    ] = "github",
) -> int:
    """Write what a repository needs to begin with: settings, a first scenario, a workflow that plays it in CI.

    What is there already stays as it is, and is named.
    """
    settings = _shipped("harness.cli", "settings.toml")
    pieces = [_Piece(Path("scenarios") / "first-call.yaml", _shipped("harness.cli", "first-call.yaml")), *_ci(server)]
    if adapter:
        settings += 'adapters = ["my_adapter:ADAPTER"]\n'
        pieces.append(_Piece(Path("my_adapter.py"), _shipped("harness.checking", "adapter.py")))
    try:
        for line in (_set(settings), *_written(pieces)):
            typer.echo(line)
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written: {error.strerror}.") from None
    typer.echo(
        "\nNext:\n"
        "  harness run --mode reference      plays it against the bundled reference server\n"
        "  harness record                    records it from the providers whose keys are set (or --from reference)\n"
        "  harness run                       plays what was recorded, without key or network"
    )
    return 0


def _ci(server: Literal["github", "gitlab"]) -> Iterator[_Piece]:
    if server == "github":
        yield _Piece(Path(".github") / "workflows" / "harness.yml", _shipped("harness.cli", "workflow.yml"))
        return
    file = Path(".gitlab") / "harness.yml"
    include = f"include: [{{local: {file.as_posix()}}}]"
    yield _Piece(file, _shipped("harness.cli", "gitlab.yml"))
    yield _Piece(Path(".gitlab-ci.yml"), f"{include}\n", f" Add to it: {include}")


def _shipped(package: str, name: str) -> str:
    return (resources.files(package) / "starters" / name).read_text(encoding="utf-8")


def _set(settings: str) -> str:
    """Put the settings behind what the project's file says, and say so."""
    if project(Path()).place.startswith(f"{_PROJECT} "):  # not that of a folder around
        return f"{_PROJECT} has {_TABLE} already, and is left as it is."
    before = _PROJECT.read_bytes() if _PROJECT.exists() else b""
    gap = "\n" if before.endswith(b"\n") else "\n\n"
    with _PROJECT.open("a", encoding="utf-8") as file:
        file.write((gap if before else "") + settings)
    return f"{_PROJECT}: {_TABLE} is {'added' if before else 'written'}."


def _written(pieces: list[_Piece]) -> Iterator[str]:
    for piece in pieces:
        piece.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with piece.file.open("x", encoding="utf-8") as file:
                file.write(piece.text)
            yield f"{piece.file} is written."
        except FileExistsError:
            yield f"{piece.file} is there already, and is left as it is.{piece.otherwise}"
