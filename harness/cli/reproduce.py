"""`harness reproduce`: a stand-alone script that shows a finding, and the text of an issue."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import wrappers
from harness.apis import registry
from harness.apis.fact import Fact
from harness.bridge import client_shapes
from harness.bridge.call_log import logged_calls
from harness.cassettes.loopback_server import serve
from harness.checks.reproduction import LibraryCall, Reproduction, call_of
from harness.cli import execution
from harness.cli.app import complete_scenarios
from harness.cli.options import AdapterOptions, NoColour, StrictOptions, VariantOfCell
from harness.cli.settings import EffectiveOptions, combined, completed
from harness.cli.show import PlayedCell, play_cell
from harness.model.errors import UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.protocols import Endpoint
from harness.reports.words import what_to_do
from harness.results import Exchange, Finding
from harness.runner.backends import NO_KEY
from harness.runner.cells import Cell
from harness.runner.excerpts import SUBJECTS_OF_ANSWERS
from harness.runner.tool_loop import run_scenario
from harness.stdio import adapter_specs


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(StrictOptions, AdapterOptions):
    """Options of `reproduce`."""

    cell: Annotated[
        str,
        typer.Argument(
            metavar="SCENARIO",
            show_default=False,
            autocompletion=complete_scenarios,
            help="A scenario file, or the id of a shipped scenario, that has the finding.",
        ),
    ]
    variants: VariantOfCell = None
    output: Annotated[
        Path, typer.Option("--output", metavar="DIR", help="Folder to write to; existing files are not overwritten.")
    ] = Path()
    no_colour: NoColour = False


def reproduce(typed: ReproduceOptions) -> int:
    """Write a stand-alone Python script that shows a cell's worst finding, and the text of an issue to report it.

    Runs the cell against the reference server. The script needs only the library: it sends the recorded answers to the
    library and compares the library's requests. If harness does not know how an adapter calls its library, only the
    issue is written.
    """
    any_variant = not typed.variants
    options = completed(combined(typed, paths=[typed.cell], jobs="1"), "reference")
    with execution.environment("reference"):
        played = play_cell(options, "reference", any_variant=any_variant)
        finding = _finding(played)
        spec = (options.adapters or [played.cell.target.adapter.name])[0]
        call = _library_call(spec, played.cell.target.api)
        made = _reproduction(played, finding, spec, call, options)
    name = f"reproduce_{played.cell.scenario.id.replace('-', '_')}"
    written: list[Path] = []
    if call is not None and len(made.arguments) > (finding.exchange or 0):
        written.append(_write(typed.output / f"{name}.py", made.script(f"{name}.py", call)))
    written.append(_write(typed.output / f"{name}.md", made.issue()))
    typer.echo(f"{finding.message} ({finding.rule})")
    typer.echo(f"Written: {', '.join(map(str, written))}")
    if len(written) == 1:
        typer.echo(
            f"No Python file: how {spec} calls its library is not known. 'harness help try' tells for what it is."
        )
    else:
        typer.echo(f"Run where the library is installed: {shlex.join([Path(sys.executable).name, str(written[0])])}")
        typer.echo(f"It was run here: {_tried(written[0])}")
    return 0


def _finding(played: PlayedCell) -> Finding:
    """Return the worst finding about a request."""
    found = [each for each in played.result.findings if _is_about_a_request(each)]
    wrong = [each for each in found if each.fails and each.follows is None] or [each for each in found if each.fails]
    if not wrong or played.evidence is None:
        raise UsageError(
            f"{played.cell.scenario.id}: no failed finding of this cell is about a request, and only a request can be "
            "compared without harness. 'harness show' prints its findings."
        )
    return wrong[0]


def _is_about_a_request(finding: Finding) -> bool:
    is_about_answer = finding.of_response or (finding.subject in SUBJECTS_OF_ANSWERS and not finding.pointer)
    return finding.exchange is not None and not is_about_answer


def _reproduction(
    played: PlayedCell, finding: Finding, spec: str, call: LibraryCall | None, options: EffectiveOptions
) -> Reproduction:
    cell, evidence = played.cell, played.evidence
    exchanges: Sequence[Exchange] = [each.exchange for each in evidence.readings] if evidence is not None else []
    packages = [] if call is None else [each.partition("[")[0] for each in call.packages]
    wire = registry.api(cell.target.api)
    return Reproduction(
        spec,
        {name: number for name in packages if (number := _version(name))} | {"Python": sys.version.split()[0]},
        cell.variant == "stream",
        cell.target.model,
        _base_path(spec, wire.base_path),
        finding,
        exchanges,
        _logged_arguments(cell, spec, exchanges) if call is not None else (),
        _fact(finding, cell.target.api),
        what_to_do(finding),
        options.as_of or dt.date.today().isoformat(),  # noqa: DTZ011 - the user's day
    )


def _library_call(spec: str, api: str) -> LibraryCall | None:
    client = adapter_specs.client_of(spec)
    if client is not None:
        value, method = client_shapes.load(client)
        module, _, attribute = client.partition(":")
        code = client_shapes.call_code(client_shapes.recognise(value, client, method), value)
        if code is None:
            return None
        setup = f"import asyncio\nimport inspect\n\nfrom {module} import {attribute.partition('.')[0]}"
        return LibraryCall((), setup, code)
    found = wrappers.find(spec)
    return None if found is None else call_of(found[0].library, api)


def _base_path(spec: str, own: str) -> str:
    path = adapter_specs.client_path(spec)
    return own if path is None else path.rstrip("/")


def _logged_arguments(cell: Cell, spec: str, exchanges: Sequence[Exchange]) -> Sequence[dict[str, Any]]:
    """Run the adapter once more in this process, with the same answers, and return the arguments of its calls."""
    answers = [each.response for each in exchanges if each.response is not None]
    given = iter(answers)

    def respond(_: HttpRequest) -> HttpResponse:
        return next(given, answers[-1])

    adapter = adapter_specs.adapter(spec)
    with serve(respond) as server, logged_calls() as calls, contextlib.suppress(Exception):
        endpoint = Endpoint(server.origin + registry.api(cell.target.api).base_path, NO_KEY)
        run_scenario(cell.scenario, replace(cell.target, adapter=adapter), endpoint, lambda _: None, cell.variant)
    return calls


def _fact(finding: Finding, api: str) -> Fact | None:
    """Return the fact on which a finding is based: the fact with the same id, or the first fact of the limit."""
    facts = registry.api(api).facts
    ids = [
        finding.rule,
        *(name for limit in registry.known_limits() if limit.id == finding.rule for name in limit.facts),
    ]
    return next(iter(facts.named(ids)), None)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _tried(script: Path) -> str:
    """Run a script and return the last line of its output."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, script.name]
    try:
        done = subprocess.run(  # noqa: S603 - a file that was just written
            command, cwd=script.parent, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_SECONDS:g} seconds."
    return (done.stdout.strip() or done.stderr.strip() or "it printed nothing").splitlines()[-1]


_SECONDS = 60.0


def _write(file: Path, text: str) -> Path:
    if file.exists():
        raise UsageError(f"{file}: it exists. Remove it, or name another folder by --output.")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file
