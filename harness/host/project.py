"""The settings of a project: the table `[tool.harness]` in its `pyproject.toml`."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from harness.contract.errors import UsageError
from harness.host.file import contents
from harness.host.setting import Key, checked, form, is_list, is_switch, is_table, is_tables, is_text
from harness.host.subjects import GATEWAY_KEYS, SERVER_KEYS, NamedGateway, NamedServer, gateway, server

_NAME = "pyproject.toml"
_MARK = b"harness"
_MOST = 4_000_000
"""Bytes of a file."""


@dataclass(frozen=True, slots=True)
class Project:
    """What a project says of itself; what it does not say is empty, or `None`.

    `place` names the table in errors. All files and folders are as they are reached from where was looked, but for
    `scenarios`: one that is none there may be the id of a shipped scenario.
    """

    place: str = ""
    scenarios: tuple[str, ...] = ()
    cassettes: Path | None = None
    adapters: tuple[str, ...] = ()
    adapter_commands: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    models: Mapping[str, str] = field(default_factory=dict[str, str])
    variants: tuple[str, ...] = ()
    facts: tuple[Path, ...] = ()
    strict: bool | None = None
    base_urls: Mapping[str, str] = field(default_factory=dict[str, str])
    expected_failures: Path | None = None
    ignore: tuple[str, ...] = ()
    max_age: str | None = None
    servers: Mapping[str, NamedServer] = field(default_factory=dict[str, NamedServer])
    gateways: Mapping[str, NamedGateway] = field(default_factory=dict[str, NamedGateway])
    rates: Mapping[str, str] = field(default_factory=dict[str, str])
    concurrency: Mapping[str, str] = field(default_factory=dict[str, str])
    conversations: tuple[str, ...] = ()
    agent_commands: tuple[str, ...] = ()
    api: str | None = None

    @property
    def folder(self) -> Path:
        """The folder of the project: that of its `pyproject.toml`, or the working folder."""
        return Path(self.place.partition(" at ")[0]).parent if self.place else Path()

    def at(self, key: str) -> str:
        """What names a key in errors."""
        return f"{self.place}.{key}"


def project(here: Path) -> Project:
    """The settings of the project that a folder is in: those of the nearest `pyproject.toml` that has the table.

    It is looked for in the folder and those around it, not beyond the repository; nothing is set where there is none.

    Raises:
        UsageError: a file on the way cannot be read, or its table has what it may not have: file and key.
    """
    for folder in _around(here.absolute()):
        file = folder / _NAME
        if file.is_file() and (table := _table(file, here)) is not None:
            return _Reader(table, folder, here).project()
    return Project()


def _around(folder: Path) -> Iterator[Path]:
    for each in (folder, *folder.parents):
        yield each
        if (each / ".git").exists():
            return


def _table(file: Path, here: Path) -> Mapping[str, Any] | None:
    shown = _from(here, file)
    try:
        text = contents(file, _MOST)
        if _MARK not in text:  # most have no such table
            return None
        document = _document(text)
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read: {error.strerror}.") from None
    except ValueError as error:  # no UTF-8, or no TOML
        raise UsageError(f"{shown}: this is no TOML: {error}.") from None
    tools = document.get("tool")
    table = cast("dict[str, Any]", tools).get("harness") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{shown} at tool.harness: it has to be a table, [tool.harness].")
    return cast("dict[str, Any] | None", table)


@lru_cache(2)  # a command asks several times, and TOML takes a while to read
def _document(text: bytes) -> Mapping[str, Any]:
    return tomllib.loads(text.decode())


_KEYS = {
    "scenarios": Key(is_list, "a list of scenario files, folders and ids", '["scenarios"]'),
    "cassettes": Key(is_text, "a folder", '"cassettes"'),
    "adapters": Key(is_list, "a list of adapters", '["mypackage.adapter:ADAPTER"]'),
    "adapter-commands": Key(is_list, "a list of commands", '["node adapter.mjs"]'),
    "conversations": Key(is_list, "a list of what owns its tool loop", '["mypackage.loop:drive"]'),
    "agent-commands": Key(is_list, "a list of commands", '["./agent"]'),
    "api": Key(is_text, "the API that conversations and agents speak", '"openai-chat"'),
    "targets": Key(is_list, "a list of targets", '["anthropic", "gemini-3"]'),
    "models": Key(is_table, "a table of models by target", '{gemini-3 = "gemini-3.6-pro"}'),
    "variants": Key(is_list, "a list of variants", '["whole", "stream"]'),
    "facts": Key(is_list, "a list of files", '["ours.yaml"]'),
    "strict": Key(is_switch, "true or false", "true"),
    "base-urls": Key(is_table, "a table of URLs by target", '{openai-chat = "http://127.0.0.1:8000/v1"}'),
    "expected-failures": Key(is_text, "a file", '"known-failures.yaml"'),
    "ignore": Key(is_list, "a list of rules", '["tool-unanswered"]'),
    "max-age": Key(is_text, "a number of days or weeks", '"90d"'),
    "rates": Key(is_table, "a table of rates by target", '{openai-chat = "60/min"}'),
    "concurrency": Key(is_table, "a table of numbers by target, as texts", '{openai-chat = "4"}'),
    "servers": Key(is_tables, "a table of servers", '{local = {url = "…", api = "openai-chat", model = "…"}}'),
    "gateways": Key(is_tables, "a table of gateways", '{mine = {url = "…", api = "openai-chat", upstreams = ["…"]}}'),
}

KEYS = tuple(_KEYS)
"""The keys of the table."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the table."""
    schema = form(_KEYS, {"servers": SERVER_KEYS, "gateways": GATEWAY_KEYS})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "[tool.harness]"}


class _Reader:
    """Reads a table that stands in a folder, for who looks from `here`."""

    def __init__(self, table: Mapping[str, Any], folder: Path, here: Path) -> None:
        self._table = table
        self._folder = folder
        self._here = here
        self._place = f"{_from(here, folder / _NAME)} at tool.harness"

    def project(self) -> Project:
        """The settings. Raises `UsageError`."""
        checked(self._table, _KEYS, self._place)
        scenarios = tuple(map(self._scenario, self._table.get("scenarios", ())))
        return Project(
            self._place,
            scenarios,
            self._cassettes(scenarios),
            tuple(self._table.get("adapters", ())),
            tuple(self._table.get("adapter-commands", ())),
            tuple(self._table.get("targets", ())),
            self._table.get("models", {}),
            tuple(self._table.get("variants", ())),
            tuple(self._file(f"{self._place}.facts", each) for each in self._table.get("facts", ())),
            self._table.get("strict"),
            self._table.get("base-urls", {}),
            self._expected_failures(),
            tuple(self._table.get("ignore", ())),
            self._table.get("max-age"),
            {name: server(name, table, at, self._file) for name, table, at in self._tables("servers")},
            {name: gateway(name, table, at, self._file) for name, table, at in self._tables("gateways")},
            self._table.get("rates", {}),
            self._table.get("concurrency", {}),
            tuple(self._table.get("conversations", ())),
            tuple(self._table.get("agent-commands", ())),
            self._table.get("api"),
        )

    def _expected_failures(self) -> Path | None:
        given = self._table.get("expected-failures")
        return None if given is None else self._file(f"{self._place}.expected-failures", given)

    def _tables(self, key: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
        for name, table in self._table.get(key, {}).items():
            if key == "gateways" and name in self._table.get("servers", {}):
                raise UsageError(f"{self._place}.{key}.{name}: a server has this name. Name one of them otherwise.")
            yield name, table, f"{self._place}.{key}.{name}"

    def _cassettes(self, scenarios: Sequence[str]) -> Path | None:
        given = self._table.get("cassettes")
        if given is None:
            return None
        path = self._path(given)
        for each in map(Path, scenarios):
            if self._absolute(path).is_relative_to(self._absolute(each)):
                raise UsageError(
                    f"{self._place}.cassettes: {path} lies in {each}, where every YAML file is a scenario. "
                    "Name a folder beside it."
                )
        return path

    def _absolute(self, path: Path) -> Path:
        return Path(os.path.normpath(self._here.absolute() / path))

    def _path(self, given: str) -> Path:
        path = Path(given)
        return path if path.is_absolute() else _from(self._here, self._folder / path)

    def _file(self, place: str, given: str) -> Path:
        path = self._path(given)
        if not (self._here / path).is_file():
            raise UsageError(f"{place}: there is no file {path}.")
        return path

    def _scenario(self, given: str) -> str:
        path = self._path(given)
        return str(path) if (self._here / path).exists() else given


def _from(here: Path, path: Path) -> Path:
    return Path(os.path.relpath(path, here.absolute()))
