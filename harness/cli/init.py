"""`harness init`: what a repository needs to begin with, beside what it has."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer
from click import Choice

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


class Kind(StrEnum):
    """What a repository can have checked."""

    ADAPTER = "adapter"
    LOOP = "loop"
    TESTS = "tests"
    SERVER = "server"


_WHAT = {
    Kind.ADAPTER: "a client that asks a model",
    Kind.LOOP: "code that runs the tools a model calls",
    Kind.TESTS: "tests that ask a model",
    Kind.SERVER: "a server that answers as a model",
}

_NEXT = {
    Kind.ADAPTER: (
        "Put your client into my_adapter.py, where it says so. Until then it plays as it stands.",
        "  harness check my_adapter:ADAPTER                                a scorecard, within a minute",
    ),
    Kind.LOOP: (
        "Put your loop into my_loop.py, where it says so. Until then it plays as it stands.",
        "  harness check agent my_loop:drive --api openai-chat    the same of a loop",
    ),
    Kind.TESTS: (
        "Mark a test that asks a model with @pytest.mark.tape.",
        "  pytest --harness-record=missing                                 records it once, with your keys",
        "  harness serve call-single --command 'pytest --harness-record=missing'    or without a key",
    ),
    Kind.SERVER: (
        "Put the address and a model of your server into pyproject.toml.",
        "  harness check local                                             judges its answers",
    ),
}

_SERVER_TABLE = """
[tool.harness.servers.local]
url = "http://127.0.0.1:8000/v1"
api = "openai-chat"
model = "your-model"
"""


def init(
    *,
    kinds: Annotated[
        list[Kind] | None,
        typer.Option(
            "--for", show_default=False, help="What is to be checked, instead of what is found here. Repeatable."
        ),
    ] = None,
    adapter: Annotated[bool, typer.Option("--with-adapter", help="The same as --for adapter.")] = False,
    server: Annotated[
        Literal["github", "gitlab"],
        typer.Option("--ci", help="The CI server whose workflow is written: GitHub Actions or GitLab CI."),
    ] = "github",
) -> int:
    """Write what a repository needs to begin with: settings, a first scenario, code to fill in, a workflow for CI.

    It looks at the Python files of the folder for a client, a loop and tests, or asks on a terminal, or is told by
    --for. What is there already stays as it is, and is named.
    """
    typed: set[Kind] = {*(kinds or ()), *([Kind.ADAPTER] if adapter else [])}
    chosen = [kind for kind in Kind if kind in typed] or _found()
    settings = _shipped("harness.cli", "settings.toml")
    pieces = [_Piece(Path("scenarios") / "first-call.yaml", _shipped("harness.cli", "first-call.yaml"))]
    if Kind.ADAPTER in chosen:
        settings += 'adapters = ["my_adapter:ADAPTER"]\n'
        pieces.append(_Piece(Path("my_adapter.py"), _shipped("harness.checking", "adapter.py")))
    if Kind.LOOP in chosen:
        settings += 'conversations = ["my_loop:drive@openai-chat"]\n'
        pieces.append(_Piece(Path("my_loop.py"), _shipped("harness.checking", "loop.py")))
    if Kind.SERVER in chosen:
        settings += _SERVER_TABLE
    plays = Kind.ADAPTER in chosen or Kind.LOOP in chosen
    if plays or Kind.TESTS in chosen:
        pieces += _ci(server, plays=plays, tests=Kind.TESTS in chosen)
    try:
        for line in (_set(settings), *_written(pieces)):
            typer.echo(line)
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written: {error.strerror}.") from None
    typer.echo("\nNext:")
    for kind in chosen:
        for line in _NEXT[kind]:
            typer.echo(line)
    if plays:
        typer.echo(f"  {'harness run shipped scenarios --mode reference':64}all of it, as the workflow plays it")
    return 0


_MODEL = re.compile(
    r"^\s*(?:from|import)\s+(?:openai|anthropic|google\.genai|litellm|langchain\w*|pydantic_ai|instructor|httpx2?)\b"
    r"|api\.(?:openai|anthropic)\.com|generativelanguage\.googleapis\.com",
    re.MULTILINE,
)
_TOOLS = re.compile(r"tool_calls|tool_use|function_call|functionCall|ToolCall")
_IGNORED = {"node_modules", "site-packages", "build", "dist", "__pycache__"}
MAX_FILES = 2000


def _found() -> list[Kind]:
    """Return what the folder has to be checked, and say why; ask where it cannot be seen and somebody is there."""
    places: dict[Kind, Path] = {}
    for file in islice(_sources(Path()), MAX_FILES):
        text = file.read_text(encoding="utf-8", errors="replace")
        if not _MODEL.search(text) or text.startswith(_OURS):
            continue
        if file.name.startswith("test_") or "tests" in file.parts:
            places.setdefault(Kind.TESTS, file)
            continue
        places.setdefault(Kind.ADAPTER, file)
        if _TOOLS.search(text):
            places.setdefault(Kind.LOOP, file)
    for kind, file in places.items():
        typer.echo(f"Found {_WHAT[kind]}: {file}")
    if places:
        typer.echo("Say otherwise by --for: adapter, loop, tests or server.\n")
        return list(places)
    if sys.stdin.isatty():
        typer.echo("\n".join(f"  {kind.value:8} {what}" for kind, what in _WHAT.items()))
        names = Choice([kind.value for kind in Kind])
        answer: str = typer.prompt("What is to be checked?", type=names, default=Kind.ADAPTER.value)
        return [Kind(answer)]
    typer.echo("Nothing here asks a model: an adapter to begin with. Say otherwise by --for loop, tests or server.\n")
    return [Kind.ADAPTER]


_OURS = ('"""An adapter to begin with', '"""A loop to begin with')
"""How the files begin that this command writes."""


def _sources(folder: Path) -> Iterator[Path]:
    """The Python files below a folder, without those of environments and of packages that were installed."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir() and path.name not in _IGNORED and not (path / "pyvenv.cfg").exists():
            yield from _sources(path)
        elif path.suffix == ".py":
            yield path


def _ci(server: Literal["github", "gitlab"], *, plays: bool, tests: bool) -> Iterator[_Piece]:
    name = "workflow.yml" if server == "github" else "gitlab.yml"
    text = _shipped("harness.cli", name)
    if not plays:
        text = re.sub(r" *# PLAY.*# END\n", "", text, flags=re.DOTALL)
    if not tests:
        text = re.sub(r" *# TESTS.*# DONE\n", "", text, flags=re.DOTALL)
    text = re.sub(r" *# (?:PLAY|END|TESTS|DONE)\n", "", text)
    if server == "github":
        yield _Piece(Path(".github") / "workflows" / "harness.yml", text)
        return
    file = Path(".gitlab") / "harness.yml"
    include = f"include: [{{local: {file.as_posix()}}}]"
    yield _Piece(file, text)
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
