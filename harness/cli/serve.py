"""`harness serve`: the reference server for clients that are not ours, and a verdict on what they did."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Annotated
from urllib.parse import urlsplit

import typer

from harness import catalog
from harness.checking.scripted_server import ScriptedServers
from harness.cli import streams
from harness.cli.options import AsOf, FactFiles, NoColour, Paths, Reports, Verbose, edition, fact_files
from harness.cli.outputs import with_pipeline
from harness.cli.selection import scenarios_of
from harness.cli.settings import settings
from harness.cli.standing import Standing
from harness.contract.http import HttpRequest, HttpResponse
from harness.results import Presentation, RunResult
from harness.running.backends import NO_KEY
from harness.running.serve_router import ABOUT_SEGMENT, ServeRouter
from harness.running.served_session import SessionOptions, stream_rewrites
from harness.scenarios.schema import Scenario
from harness.tape.server import serve as listening


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of `serve`."""

    paths: Paths = None
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, metavar="N", help="Where to listen on 127.0.0.1; 0: a free port.")
    ] = 0
    command: Annotated[
        str | None,
        typer.Option(
            "--command",
            metavar="COMMAND",
            show_default=False,
            help="Run this command, and end with it. HARNESS_URL in its environment names the server; with one "
            "scenario, the variables that the SDKs read lead to it.",
        ),
    ] = None
    models: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="NAME", help="A model that there is, beside those that are known. Repeatable."),
    ] = None
    pace: Annotated[
        float,
        typer.Option("--pace", min=0.0, max=60.0, metavar="SECONDS", help="Time between two events of a stream."),
    ] = 0.0
    recut: Annotated[
        int,
        typer.Option(
            "--recut",
            metavar="N",
            min=0,
            help="Send each stream of a session in another way: in the chunks of some servers and in N other cuts of "
            "its bytes, in turn.",
        ),
    ] = 0
    reports: Reports = None
    verbose: Verbose = False
    as_of: AsOf = None
    facts: FactFiles = None
    no_colour: NoColour = False


_SESSION = "command"
"""The session that the environment of a command leads to."""

_FAILED = 1
_STOPS = ("SIGTERM", "SIGINT", "SIGHUP")


def serve(typed: ServeOptions) -> int:
    """Serve scenarios to any client, in any language, and judge what it sends. 'harness help serve' says how.

    A client's base URL is URL/SCENARIO/SESSION, with what its SDK wants behind it. The first line on standard output is
    JSON with the URL. It ends with its standard input, by SIGTERM or Ctrl-C, or with --command.

    Exit codes: 1 a client broke something, or the command failed; 2 wrong usage, or nobody asked; else 0.
    """
    found, files = scenarios_of(typed.paths or settings().scenarios)
    scenarios = [each for each in found if each.embeddings is None]
    by = edition(typed.as_of, fact_files(typed.facts))
    wanted = with_pipeline(typed.reports or ())
    presentation = Presentation(verbose=typed.verbose)
    facts = tuple(map(str, by.files))
    standing = Standing(wanted, "serve", presentation, None, facts)
    ways = partial(stream_rewrites, typed.recut) if typed.recut else None
    terms = SessionOptions(edition=by, models=tuple(typed.models or ()), pace=typed.pace, ways=ways)
    reception = ServeRouter(scenarios, files, terms, _told)
    try:
        handler = _Beside(reception, tuple(typed.models or ()))
        with _stoppable() as stop, listening(handler, typed.port) as server:
            reception.origin = server.origin
            code = _until_the_end(server.origin, scenarios, typed.command, stop)
    except BaseException as error:
        standing.stop(error)
        raise
    result = reception.run(facts, shown=any(output.report.wants_conversations for output in wanted))
    if handler.is_checked and not result.cells:
        return code
    for output in wanted:
        output.write(result, presentation)
    return code or _verdict(result)


_SERVER = f"/{ABOUT_SEGMENT}/server"
"""The path below which the server is that 'harness check server' finds nothing wrong with."""


class _Beside:
    """The reception, and beside it the server for checks, whose clients nobody judges."""

    def __init__(self, reception: ServeRouter, models: Sequence[str]) -> None:
        self.is_checked = False
        self._reception, self._ensemble = reception, ScriptedServers(*models)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not urlsplit(request.url).path.startswith(f"{_SERVER}/"):
            return self._reception(request)
        self.is_checked = True
        return self._ensemble(request)


def _until_the_end(origin: str, scenarios: Sequence[Scenario], command: str | None, stop: threading.Event) -> int:
    if command is not None:
        return _run(command, {**os.environ, **_environment(origin, scenarios)}, stop)
    sys.stdout.write(json.dumps({"url": origin, "scenarios": f"{origin}/{ABOUT_SEGMENT}/scenarios"}) + "\n")
    sys.stdout.flush()
    _watch_input(stop)
    stop.wait()
    return 0


def _environment(origin: str, scenarios: Sequence[Scenario]) -> dict[str, str]:
    """What a command finds in its environment: where the server is, and, if there is but one scenario, the variables by
    which SDKs are sent to it. They are given a key, since they want one."""
    told = {"HARNESS_URL": origin}
    if len(scenarios) != 1:
        return told
    base = f"{origin}/{scenarios[0].id}/{_SESSION}"
    for api in catalog.apis():
        if api.provider_url.startswith("http"):
            told.update(dict.fromkeys(api.key_variables[:1], NO_KEY))
            told.update(dict.fromkeys(api.server_endpoints.variables, base + api.base_url_ending))
    return {**told, "HARNESS_SCENARIO": scenarios[0].id, "HARNESS_BASE_URL": base}


def _run(command: str, environment: Mapping[str, str], stop: threading.Event) -> int:
    """Run a command in a shell, as a user would type it, until it ends or this process is asked to.

    What it prints goes where our own output goes. A command that fails fails the serving.
    """
    process = subprocess.Popen(command, shell=True, env=dict(environment))  # noqa: S602 - it is the user's own
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
        if stop.is_set():
            process.terminate()
            process.wait()
    if process.returncode:
        streams.tell(f"harness: the command ended with exit code {process.returncode}: {command}")
        return _FAILED
    return 0


def _verdict(result: RunResult) -> int:
    if not result.cells:
        streams.tell("harness: no client has asked for anything. 'harness help serve' shows how to lead one here.")
    return result.exit_code


def _watch_input(stop: threading.Event) -> None:
    """End with the standard input, unless that is the null device, as of what a shell starts in the background."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):  # closed, or none at all
        return
    if stat.S_ISCHR(mode) and not sys.stdin.isatty():
        return

    def watch() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        stop.set()

    threading.Thread(target=watch, name="harness-input", daemon=True).start()


@contextlib.contextmanager
def _stoppable() -> Generator[threading.Event]:
    """An event that signals set which ask this process to end. What it serves is then judged, as at any other end."""
    stop = threading.Event()

    def ask(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    numbers = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, ask) for number in numbers} if in_main else {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(line: str) -> None:
    streams.tell(f"harness: {line}")
