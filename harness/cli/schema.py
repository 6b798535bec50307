"""`harness schema`: what files and messages look like, as JSON Schemas for editors and other tools."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from harness.cli import completion
from harness.cli.table import aligned
from harness.contract.errors import UnknownName, UsageError


@dataclass(frozen=True, slots=True)
class _Schema:
    """A schema: what it describes, and the file that ships with it or the module that makes it."""

    about: str
    module: str
    file: str | None = None

    @property
    def path(self) -> Path | None:
        """The installed file."""
        if self.file is None:
            return None
        package = importlib.import_module(self.module).__file__
        return Path(package or "").with_name(self.file).resolve()

    def text(self) -> str:
        """The schema, as JSON."""
        if self.path is not None:
            return self.path.read_text(encoding="utf-8").rstrip("\n")
        made: Mapping[str, object] = importlib.import_module(self.module).json_schema()
        return json.dumps(made, indent=2, ensure_ascii=False)


SCHEMAS = {
    "scenario": _Schema("a scenario file", "harness.scenarios", "scenario.schema.json"),
    "facts": _Schema("a file of facts, for --facts", "harness.apis", "facts.schema.json"),
    "config": _Schema("[tool.harness] in pyproject.toml", "harness.host.project"),
    "results": _Schema("what --report json writes", "harness.results.run"),
    "adapter-command": _Schema("the messages of --adapter-command", "harness.stdio.protocol"),
}


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            autocompletion=completion.schemas,
            help="Which schema to print; without one, all are listed.",
        ),
    ] = None,
    *,
    path: Annotated[bool, typer.Option("--path", help="Print where the installed file is, instead of it.")] = False,
) -> None:
    """Print the JSON Schema of a scenario, of facts, of the settings, of results, or of what an adapter's command says.

    Editors find the installed file by the first line of a scenario: # yaml-language-server: $schema=PATH
    """
    if name is None:
        rows = [(each, known.about, str(known.path or f"harness schema {each}")) for each, known in SCHEMAS.items()]
        for line in aligned([("SCHEMA", "OF", "WHERE"), *rows]):
            typer.echo(line)
        return
    if name not in SCHEMAS:
        raise UnknownName("schema", name, tuple(SCHEMAS))
    known = SCHEMAS[name]
    if path and known.path is None:
        raise UsageError(f"--path: no file has this schema: harness schema {name} >FILE writes one.")
    typer.echo(str(known.path) if path else known.text())
