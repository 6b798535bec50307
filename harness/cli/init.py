"""`harness init`: write settings, a first scenario, templates and a workflow into a repository."""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from harness.checks.recognition import Recognition, recognise
from harness.cli.options import option
from harness.model.errors import UsageError
from harness.platform.project import project
from harness.stdio import adapter_specs

_PROJECT = Path("pyproject.toml")
_TABLE = "[tool.harness]"


@dataclass(frozen=True, slots=True)
class _NewFile:
    """A file to write. If the file already exists, `hint` is added to the message."""

    file: Path
    text: str
    hint: str = ""


class ProjectKind(StrEnum):
    """Kind of code that a user wants to check in a repository."""

    ADAPTER = "adapter"
    LOOP = "loop"
    TESTS = "tests"
    SERVER = "server"


_DESCRIPTIONS = {
    ProjectKind.ADAPTER: "a client of a model",
    ProjectKind.LOOP: "code that runs the tools a model calls",
    ProjectKind.TESTS: "tests that call a model",
    ProjectKind.SERVER: "a server that answers as a model",
}

_NEXT_STEPS = {
    ProjectKind.ADAPTER: (
        "Put your client into the marked place in my_adapter.py. The template already runs.",
        "  harness check my_adapter:ADAPTER                                a scorecard, within a minute",
    ),
    ProjectKind.LOOP: (
        "Put your loop into the marked place in my_loop.py. The template already runs.",
        "  harness check agent my_loop:drive --api openai-chat    the same of a loop",
    ),
    ProjectKind.TESTS: (
        "Mark a test that calls a model with @pytest.mark.tape.",
        "  pytest --harness-record=missing                                 records it once, with your keys",
        "  harness serve call-single --command 'pytest --harness-record=missing'    or without a key",
    ),
    ProjectKind.SERVER: (
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
        list[ProjectKind] | None,
        option(
            "--for KIND",
            "What to check: adapter, loop, tests or server. Default: whichever of these the folder contains.",
        ),
    ] = None,
    adapter: Annotated[bool, option("--with-adapter", "The same as --for adapter.")] = False,
    server: Annotated[
        Literal["github", "gitlab"],
        option("--ci", "CI system to write a workflow for."),
    ] = "github",
) -> int:
    """Write the first files for a repository: settings, a scenario, templates to fill in, and a workflow for CI.

    Unless --for is given, searches the Python files of the folder for a client, a loop and tests. If it finds none
    and runs in a terminal, it asks. Existing files are not overwritten. Settings are added to pyproject.toml unless it
    already has them.
    """
    requested: set[ProjectKind] = {*(kinds or ()), *([ProjectKind.ADAPTER] if adapter else [])}
    places = {} if requested else _detect_kinds()
    chosen = [kind for kind in ProjectKind if kind in requested or kind in places]
    settings = _shipped_text("harness.cli", "settings.toml")
    client = _client_settings(places)
    if client:
        settings += client
        chosen = [kind for kind in chosen if kind is ProjectKind.TESTS]
    files = [_NewFile(Path("scenarios") / "first-call.yaml", _shipped_text("harness.cli", "first-call.yaml"))]
    if ProjectKind.ADAPTER in chosen:
        settings += 'adapters = ["my_adapter:ADAPTER"]\n'
        files.append(_NewFile(Path("my_adapter.py"), _shipped_text("harness.checks", "adapter.py")))
    if ProjectKind.LOOP in chosen:
        settings += 'conversations = ["my_loop:drive@openai-chat"]\n'
        files.append(_NewFile(Path("my_loop.py"), _shipped_text("harness.checks", "loop.py")))
    if ProjectKind.SERVER in chosen:
        settings += _SERVER_TABLE
    has_code = bool(client) or ProjectKind.ADAPTER in chosen or ProjectKind.LOOP in chosen
    if has_code or ProjectKind.TESTS in chosen:
        files += _ci(server, has_code=has_code, tests=ProjectKind.TESTS in chosen)
    try:
        for line in (_add_settings(settings), *_write(files)):
            typer.echo(line)
    except OSError as error:
        raise UsageError(f"{error.filename}: cannot be written: {error.strerror}.") from None
    typer.echo("\nNext:")
    for line in [*([_CHECK] if client else []), *(line for kind in chosen for line in _NEXT_STEPS[kind])]:
        typer.echo(line)
    if has_code:
        typer.echo(f"  {'harness run shipped scenarios --mode reference':64}all of it, as the workflow runs it")
    return 0


_MODEL = re.compile(
    r"^\s*(?:from|import)\s+(?:openai|anthropic|google\.genai|litellm|langchain\w*|pydantic_ai|instructor|httpx2?)\b"
    r"|api\.(?:openai|anthropic)\.com|generativelanguage\.googleapis\.com",
    re.MULTILINE,
)
_TOOLS = re.compile(r"tool_calls|tool_use|function_call|functionCall|ToolCall")
_IGNORED = {"node_modules", "site-packages", "build", "dist", "__pycache__"}
MAX_FILES = 2000


_CHECK = f"  {'harness check':64}a scorecard, within a minute"


def _client_settings(places: Mapping[ProjectKind, Path]) -> str:
    """Return the settings for the client of the last `harness try`, or for the one that was found.

    The text is empty if it cannot be run without an adapter.
    """
    tried = next(iter(_tried_adapters()), None)
    file = places.get(ProjectKind.ADAPTER, Path())
    found = tried or (recognise(str(file)) if file.is_file() else Recognition())
    if not found.spec.startswith((adapter_specs.CLIENT, adapter_specs.NATIVE)):
        return ""
    typer.echo(f"Recognised as {found.sentence}.\n")
    model = found.model or found.default_model
    models = {found.spec.partition(" ")[2]: model} if model else {}
    own = "".join(f"models = {{{json.dumps(name)} = {json.dumps(each)}}}\n" for name, each in models.items())
    ignored = f"ignore = {json.dumps(found.ignored)}\n" if found.ignored else ""
    return f"adapters = {json.dumps([found.spec])}\n{own}{ignored}"


def _tried_adapters() -> Iterator[Recognition]:
    """Yield the adapters of the last `harness try` in the folder, with their models."""
    with contextlib.suppress(OSError, ValueError, LookupError, AttributeError):
        run = json.loads(Path(".harness", "try.json").read_text(encoding="utf-8"))
        for options in run["invocation"]["targets"].values():
            named = dict(zip(options[::2], options[1::2], strict=True))
            model, spec = named["--model"].partition("=")[2], named["--adapter"]
            yield Recognition(
                spec, f"the client of the last 'harness try': {spec}", "", (*run.get("ignored", ()),), model
            )


def _detect_kinds() -> dict[ProjectKind, Path]:
    """Return the kinds of code in the folder, each with a file, and print them. If none is found, ask on a terminal."""
    places: dict[ProjectKind, Path] = {}
    for file in islice(_sources(Path()), MAX_FILES):
        text = file.read_text(encoding="utf-8", errors="replace")
        if not _MODEL.search(text) or text.startswith(_TEMPLATE_START):
            continue
        if file.name.startswith("test_") or "tests" in file.parts:
            places.setdefault(ProjectKind.TESTS, file)
            continue
        places.setdefault(ProjectKind.ADAPTER, file)
        if _TOOLS.search(text):
            places.setdefault(ProjectKind.LOOP, file)
    for kind, file in places.items():
        typer.echo(f"Found {_DESCRIPTIONS[kind]}: {file}")
    if places:
        typer.echo("To choose something else: --for adapter, loop, tests or server.\n")
        return places
    if sys.stdin.isatty():
        typer.echo("\n".join(f"  {kind.value:8} {what}" for kind, what in _DESCRIPTIONS.items()))
        answer: ProjectKind = typer.prompt("What do you want to check?", type=ProjectKind, default=ProjectKind.ADAPTER)
        return {answer: Path()}
    typer.echo("No code here calls a model: an adapter is written. Otherwise: --for loop, tests or server.\n")
    return {ProjectKind.ADAPTER: Path()}


_TEMPLATE_START = '"""Template for '


def _sources(folder: Path) -> Iterator[Path]:
    """Yield the Python files below a folder, except those in virtual environments and installed packages."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.is_symlink():
            continue
        if path.is_dir() and path.name not in _IGNORED and not (path / "pyvenv.cfg").exists():
            yield from _sources(path)
        elif path.suffix == ".py":
            yield path


def _ci(server: Literal["github", "gitlab"], *, has_code: bool, tests: bool) -> Iterator[_NewFile]:
    name = "workflow.yml" if server == "github" else "gitlab.yml"
    text = _shipped_text("harness.cli", name)
    if not has_code:
        text = re.sub(r" *# PLAY.*# END\n", "", text, flags=re.DOTALL)
    if not tests:
        text = re.sub(r" *# TESTS.*# DONE\n", "", text, flags=re.DOTALL)
    text = re.sub(r" *# (?:PLAY|END|TESTS|DONE)\n", "", text)
    if server == "github":
        yield _NewFile(Path(".github") / "workflows" / "harness.yml", text)
        return
    file = Path(".gitlab") / "harness.yml"
    include = f"include: [{{local: {file.as_posix()}}}]"
    yield _NewFile(file, text)
    yield _NewFile(Path(".gitlab-ci.yml"), f"{include}\n", f" Add to it: {include}")


def _shipped_text(package: str, name: str) -> str:
    return (resources.files(package) / "starters" / name).read_text(encoding="utf-8")


def _add_settings(settings: str) -> str:
    if project(Path()).place.startswith(f"{_PROJECT} "):  # a parent folder's file does not count
        return f"{_PROJECT} has {_TABLE} already, and is not changed."
    before = _PROJECT.read_bytes() if _PROJECT.exists() else b""
    gap = "\n" if before.endswith(b"\n") else "\n\n"
    with _PROJECT.open("a", encoding="utf-8") as file:
        file.write((gap if before else "") + settings)
    return f"{_PROJECT}: {_TABLE} is {'added' if before else 'written'}."


def _write(files: list[_NewFile]) -> Iterator[str]:
    for new in files:
        new.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with new.file.open("x", encoding="utf-8") as file:
                file.write(new.text)
            yield f"{new.file} is written."
        except FileExistsError:
            yield f"{new.file} exists already, and is not changed.{new.hint}"
