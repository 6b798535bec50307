"""The project in the working folder: its name, its commit, and the settings in `[tool.harness]` of `pyproject.toml`."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from harness.model.errors import UnknownName, UsageError
from harness.platform.files import read_file

_MAX_GIT_SECONDS = 5.0


def commit(folder: Path) -> str:
    """Return the short id of the checked-out commit, with `-dirty` if tracked files were changed. Return an empty
    string if there is no commit or no git.
    """
    return _git(folder, "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*")


def project_name(folder: Path) -> str:
    """Return the project's name in `pyproject.toml`. If there is none, return the name of the repository's top folder
    or, outside a repository, of `folder`.
    """
    try:
        document: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return str(document["project"]["name"])
    except (OSError, ValueError, LookupError, TypeError):
        return Path(_git(folder, "rev-parse", "--show-toplevel") or folder.absolute()).name


def _git(folder: Path, *words: str) -> str:
    here = folder.absolute()
    if not any((each / ".git").exists() for each in (here, *here.parents)):
        return ""
    try:
        done = subprocess.run(  # noqa: S603 - no shell
            ["git", *words],  # noqa: S607 - the one of the PATH
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_MAX_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


_NAME = "pyproject.toml"
_MARK = b"harness"
_MAX_BYTES = 4_000_000
_LABEL = re.compile(r"[a-z0-9][a-z0-9._-]*", re.ASCII)

MAX_WAIT_SECONDS = 3600.0
"""The longest time that the user may allow a gateway to start."""


def _folder(value: Path, info: ValidationInfo) -> Path:
    """Convert a path that is relative to the file with the settings to a path relative to the folder passed to
    `project`. Absolute paths are returned unchanged.
    """
    folder, here = info.context or (Path(), Path())
    return value if value.is_absolute() else _relative_path(here, folder / value)


def _file(value: Path, info: ValidationInfo) -> Path:
    path = _folder(value, info)
    if not ((info.context or (Path(), Path()))[1] / path).is_file():
        raise ValueError(f"there is no file {path}.")
    return path


def _scenario(value: str, info: ValidationInfo) -> str:
    path = _folder(Path(value), info)
    return str(path) if ((info.context or (Path(), Path()))[1] / path).exists() else value


def _label(value: str) -> str:
    if not _LABEL.fullmatch(value):
        raise ValueError("its name must consist of lower-case letters, digits, '-', '.' and '_', as in local-llama.")
    return value


_Text = Annotated[str, Field(min_length=1)]
_Texts = tuple[_Text, ...]
_Table = dict[str, _Text]
_Switch = Annotated[bool, Strict()]
_Count = Annotated[int, Strict(), Field(ge=1)]
_Path = Annotated[Path, AfterValidator(_folder)]
_File = Annotated[Path, AfterValidator(_file)]


class _Keys(BaseModel):
    """Base class for tables of settings. The description of each key states the expected value, with an example."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, populate_by_name=False, alias_generator=lambda name: name.replace("_", "-")
    )

    _place: str = ""

    @property
    def place(self) -> str:
        """The file and the name of the table, for error messages."""
        return self._place

    def at(self, key: str) -> str:
        """Return the full name of a key for error messages."""
        return f"{self._place}.{key}"


class _Endpoint(_Keys):
    """The keys that servers and gateways share. Each means the same as the command-line option of that name."""

    url: _Text = Field(description='its base URL, as in url = "http://127.0.0.1:8000/v1"')
    api: _Text = Field(description='the API that it speaks, as in api = "openai-chat"')
    variants: _Texts = Field((), description='a list of variants, as in variants = ["whole", "stream"]')
    expected_failures: _File | None = Field(None, description='a file, as in expected-failures = "known-failures.yaml"')
    strict: _Switch | None = Field(None, description="true or false, as in strict = true")
    headers: _Table = Field(
        {}, description='a table of environment variables by header, as in headers = {x-team-key = "TEAM_KEY"}'
    )


class NamedServer(_Endpoint):
    """A server: `[tool.harness.servers.NAME]`."""

    model: _Text = Field(description='a model of the server, as in model = "llama-4-8b"')
    max_tokens: Annotated[int, Strict(), Field(ge=64)] | None = Field(
        None, description="a whole number of at least 64, as in max-tokens = 2048"
    )
    max_requests: _Count | None = Field(None, description="a whole number of at least 1, as in max-requests = 200")
    repeat: _Count | None = Field(None, description="a whole number of at least 1, as in repeat = 3")
    price: _Text | None = Field(
        None, description='US dollars per million input and output tokens, as in price = "0.15,0.60"'
    )
    only: _Texts = Field((), description='a list of checks, as in only = ["server-call"]')


class NamedGateway(_Endpoint):
    """A gateway: `[tool.harness.gateways.NAME]`. `models` and `upstream_models` are keyed by the names of upstreams."""

    upstreams: Annotated[_Texts, Field(min_length=1)] = Field(
        description='a list of the APIs or targets that it forwards to, as in upstreams = ["anthropic", "gemini"]'
    )
    models: _Table = Field(
        {}, description='a table of the gateway\'s model names by upstream, as in models = {anthropic = "claude"}'
    )
    upstream_models: _Table = Field(
        {}, description='a table of models by upstream, as in upstream-models = {anthropic = "claude-opus-5"}'
    )
    upstream_port: Annotated[int, Strict(), Field(ge=0, le=65535)] | None = Field(
        None, description="a port, as in upstream-port = 5555"
    )
    command: _Text | None = Field(
        None, description='a command, as in command = "litellm --config litellm.yaml --port 4000"'
    )
    wait: Annotated[float, Strict(), Field(ge=0, le=MAX_WAIT_SECONDS)] | None = Field(
        None, description=f"seconds, up to {MAX_WAIT_SECONDS:g}, as in wait = 120"
    )


class Project(_Keys):
    """The settings of a project. Settings that are not set are empty or `None`.

    Files and folders are relative to the folder passed to `project`. A scenario that is not an existing file or folder
    may be the id of a shipped one.
    """

    scenarios: tuple[Annotated[_Text, AfterValidator(_scenario)], ...] = Field(
        (), description='a list of scenario files, folders and ids, as in scenarios = ["scenarios"]'
    )
    cassettes: _Path | None = Field(None, description='a folder, as in cassettes = "cassettes"')
    adapters: _Texts = Field((), description='a list of adapters, as in adapters = ["mypackage.adapter:ADAPTER"]')
    adapter_commands: _Texts = Field(
        (), description='a list of commands, as in adapter-commands = ["node adapter.mjs"]'
    )
    conversations: _Texts = Field((), description='a list of loops, as in conversations = ["mypackage.loop:drive"]')
    agent_commands: _Texts = Field((), description='a list of commands, as in agent-commands = ["./agent"]')
    api: _Text | None = Field(
        None, description='the API that conversations and agents speak, as in api = "openai-chat"'
    )
    targets: _Texts = Field((), description='a list of targets, as in targets = ["anthropic", "gemini-3"]')
    models: _Table = Field({}, description='a table of models by target, as in models = {gemini-3 = "gemini-3.6-pro"}')
    variants: _Texts = Field((), description='a list of variants, as in variants = ["whole", "stream"]')
    facts: tuple[_File, ...] = Field((), description='a list of files, as in facts = ["ours.yaml"]')
    strict: _Switch | None = Field(None, description="true or false, as in strict = true")
    base_urls: _Table = Field(
        {}, description='a table of URLs by target, as in base-urls = {openai-chat = "http://127.0.0.1:8000/v1"}'
    )
    expected_failures: _File | None = Field(None, description='a file, as in expected-failures = "known-failures.yaml"')
    ignore: _Texts = Field((), description='a list of rules, as in ignore = ["tool-unanswered"]')
    max_age: _Text | None = Field(None, description='a number of days or weeks, as in max-age = "90d"')
    rates: _Table = Field({}, description='a table of rates by target, as in rates = {openai-chat = "60/min"}')
    concurrency: _Table = Field(
        {}, description='a table of numbers (as strings) by target, as in concurrency = {openai-chat = "4"}'
    )
    servers: dict[Annotated[str, AfterValidator(_label)], NamedServer] = Field(
        {}, description='a table of servers, as in servers = {local = {url = "…", api = "openai-chat", model = "…"}}'
    )
    gateways: dict[Annotated[str, AfterValidator(_label)], NamedGateway] = Field(
        {},
        description="a table of gateways, as in gateways = "
        '{mine = {url = "…", api = "openai-chat", upstreams = ["…"]}}',
    )

    @property
    def folder(self) -> Path:
        """The folder of `pyproject.toml`, or the working folder if there are no settings."""
        return Path(self.place.partition(" at ")[0]).parent if self.place else Path()

    def model_post_init(self, context: object) -> None:
        """Set `place` for this table and its inner tables."""
        if isinstance(context, tuple):
            folder, here = cast("tuple[Path, Path]", context)
            self._place = _place(folder, here)
        for key, tables in (("servers", self.servers), ("gateways", self.gateways)):
            for name, each in tables.items():
                each._place = self.at(f"{key}.{name}")  # noqa: SLF001 - of the same table


def project(here: Path) -> Project:
    """Return the settings of the project that contains a folder. They come from the nearest `pyproject.toml` with a
    table `[tool.harness]`.

    The search ends at the top of the repository. If no file has the table, all settings are unset.

    Raises:
        UsageError: A file cannot be read, or its table is invalid. The message names the file and, if known, the key.
    """
    for folder in _parents_in_repository(here.absolute()):
        file = folder / _NAME
        if file.is_file() and (table := _table(file, here)) is not None:
            try:
                found = Project.model_validate(table, context=(folder, here))
            except ValidationError as error:
                raise _explain(error.errors()[0], _place(folder, here)) from None
            _check(found, here)
            return found
    return Project.model_validate({})


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of the table."""
    return {**Project.model_json_schema(), "title": "[tool.harness]"}


def _place(folder: Path, here: Path) -> str:
    return f"{_relative_path(here, folder / _NAME)} at tool.harness"


def _explain(details: ErrorDetails, place: str) -> UsageError:
    """Convert a pydantic error to a `UsageError` that states the location, the expected value and an example."""
    steps = [str(step) for step in details["loc"] if step != "[key]"]
    table: type[_Keys] | None = Project
    description = None
    while steps and table is not None:
        name = steps.pop(0)
        keys = {field.alias or "": field for field in table.model_fields.values()}
        if name not in keys:
            return UnknownName("key", name, tuple(keys), place)
        description = keys[name].description
        if details["type"] == "missing" and not steps:
            return UsageError(f"{place}: it needs {name}, {description}.")
        table = {"servers": NamedServer, "gateways": NamedGateway}.get(name)
        place = ".".join([place, name, *([steps.pop(0)] if table and steps else [])])
    own = details["type"] == "value_error"
    return UsageError(f"{place}: {details['ctx']['error'] if own else f'it must be {description}.'}")  # type: ignore[typeddict-item]


def _check(found: Project, here: Path) -> None:
    for name in found.gateways:
        if name in found.servers:
            raise UsageError(f"{found.at('gateways')}.{name}: a server has this name. Name one of them differently.")
    for each in found.scenarios if found.cassettes else ():
        inner, outer = (Path(os.path.normpath(here.absolute() / path)) for path in (str(found.cassettes), each))
        if inner.is_relative_to(outer):
            raise UsageError(
                f"{found.at('cassettes')}: {found.cassettes} is inside {each}, where every YAML file is a scenario. "
                "Name a folder outside it."
            )


def _parents_in_repository(folder: Path) -> Iterator[Path]:
    for each in (folder, *folder.parents):
        yield each
        if (each / ".git").exists():
            return


def _table(file: Path, here: Path) -> Mapping[str, Any] | None:
    shown = _relative_path(here, file)
    try:
        text = read_file(file, _MAX_BYTES)
        if _MARK not in text:  # most have no such table
            return None
        document = _document(text)
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read: {error.strerror}.") from None
    except ValueError as error:  # not UTF-8 or not TOML
        raise UsageError(f"{shown}: not valid TOML: {error}.") from None
    tools = document.get("tool")
    table = cast("dict[str, Any]", tools).get("harness") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{shown} at tool.harness: it must be a table, [tool.harness].")
    return cast("dict[str, Any] | None", table)


@lru_cache(2)  # a command asks several times, and TOML takes a while to read
def _document(text: bytes) -> Mapping[str, Any]:
    return tomllib.loads(text.decode())


def _relative_path(here: Path, path: Path) -> Path:
    return Path(os.path.relpath(path, here.absolute()))
