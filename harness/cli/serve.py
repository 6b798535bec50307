"""`harness serve`: the reference server for any client, and a verdict on its requests."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Annotated
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.api import Api
from harness.cassettes.loopback_server import serve as listening
from harness.checks.server_check import ScriptedServers
from harness.cli.main import print_error
from harness.cli.options import AsOf, FactFiles, NoColour, Paths, Reports, Verbose, option
from harness.cli.outputs import with_pipeline
from harness.cli.progress import PartialReports
from harness.cli.selection import scenarios_of
from harness.cli.settings import fact_files, fact_options, settings
from harness.model.http import HttpRequest, HttpResponse
from harness.results import Presentation, RunResult
from harness.runner.backends import NO_KEY
from harness.runner.serve_router import ABOUT_SEGMENT, ServeRouter
from harness.runner.served_session import SessionOptions, stream_rewrites
from harness.scenarios.schema import Scenario


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of `serve`."""

    paths: Paths = None
    port: Annotated[int, option("--port N", "Port on 127.0.0.1; 0 picks a free one.", min=0, max=65535)] = 0
    command: Annotated[
        str | None,
        option(
            "--command COMMAND",
            "Run this command, and stop when it ends. HARNESS_URL in its environment is the server's URL. With one "
            "scenario, the base URL variables of the SDKs are set, too.",
        ),
    ] = None
    models: Annotated[
        list[str] | None, option("--model NAME", "A model to accept in addition to the known ones. Repeatable.")
    ] = None
    pace: Annotated[float, option("--pace SECONDS", "Pause between two events of a stream.", min=0.0, max=60.0)] = 0.0
    recut: Annotated[
        int,
        option(
            "--recut N",
            "Change the form of each stream: in turn, as compatible servers send it, and split in N other ways.",
            min=0,
        ),
    ] = 0
    reports: Reports = None
    verbose: Verbose = False
    as_of: AsOf = None
    facts: FactFiles = None
    no_colour: NoColour = False


_COMMAND_SESSION = "command"

_FAILED = 1
_STOPS = ("SIGTERM", "SIGINT", "SIGHUP")


def serve(args: ServeOptions) -> int:
    """Run the reference server for clients in any language, and judge their requests. See 'harness help serve'.

    A client's base URL is URL/SCENARIO/SESSION, plus the path that its SDK expects, such as /v1. The first line on
    standard output is JSON with the URL. The server stops at the end of its standard input, on SIGTERM or Ctrl-C, or
    when --command has ended.

    Exit codes: 1 a client failed a check, or the command failed; 2 wrong usage, or no request arrived; else 0.
    """
    found, files = scenarios_of(args.paths or settings().scenarios)
    scenarios = [each for each in found if each.embeddings is None]
    by = fact_options(args.as_of, fact_files(args.facts))
    wanted = with_pipeline(args.reports or ())
    presentation = Presentation(verbose=args.verbose)
    facts = tuple(map(str, by.files))
    partial_reports = PartialReports(wanted, "serve", presentation, None, facts)
    splits = partial(stream_rewrites, args.recut) if args.recut else None
    terms = SessionOptions(fact_selection=by, models=tuple(args.models or ()), pace=args.pace, ways=splits)
    router = ServeRouter(scenarios, files, terms, _print)
    try:
        handler = _ServeHandler(router, tuple(args.models or ()))
        with _stoppable() as stop, listening(handler, args.port) as server:
            router.origin = server.origin
            code = _wait_for_end(server.origin, scenarios, args.command, stop)
    except BaseException as error:
        partial_reports.stop(error)
        raise
    result = router.run(facts, shown=any(output.report.wants_conversations for output in wanted))
    if handler.is_checked and not result.cells:
        return code
    for output in wanted:
        output.write(result, presentation)
    return code or _verdict(result)


_CONFORMANT_SERVER = f"/{ABOUT_SEGMENT}/server"
"""Path of a simulated server that passes 'harness check server'."""


class _ServeHandler:
    """Handler of requests to the scenarios and to the conformant server. Clients of the latter are not judged."""

    def __init__(self, router: ServeRouter, models: Sequence[str]) -> None:
        self.is_checked = False
        self._router, self._servers = router, ScriptedServers(*models)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not urlsplit(request.url).path.startswith(f"{_CONFORMANT_SERVER}/"):
            return self._router(request)
        self.is_checked = True
        return self._servers(request)


def _wait_for_end(origin: str, scenarios: Sequence[Scenario], command: str | None, stop: threading.Event) -> int:
    if command is not None:
        return _run(command, {**os.environ, **_environment(origin, scenarios)}, stop)
    sys.stdout.write(json.dumps({"url": origin, "scenarios": f"{origin}/{ABOUT_SEGMENT}/scenarios"}) + "\n")
    sys.stdout.flush()
    _watch_input(stop)
    stop.wait()
    return 0


def _environment(origin: str, scenarios: Sequence[Scenario]) -> dict[str, str]:
    """Return environment variables with the server's URL. For a single scenario, include the base URLs and keys that
    SDKs read.
    """
    variables = {"HARNESS_URL": origin}
    if len(scenarios) != 1:
        return variables
    base = f"{origin}/{scenarios[0].id}/{_COMMAND_SESSION}"
    return {**variables, **variables_for(base), "HARNESS_SCENARIO": scenarios[0].id}


def variables_for(base_url: str) -> dict[str, str]:
    """Return environment variables that point the SDKs of all APIs to a base URL, with a placeholder key."""
    return {"HARNESS_BASE_URL": base_url, **sdk_variables(base_url, registry.apis())}


def sdk_variables(base_url: str, apis: Iterable[Api]) -> dict[str, str]:
    """Return environment variables that point the SDKs of some APIs to a base URL, with a placeholder key."""
    variables: dict[str, str] = {}
    for api in apis:
        if api.provider_url.startswith("http"):
            variables.update(dict.fromkeys(api.key_variables[:1], NO_KEY))
            variables.update(dict.fromkeys(api.server_endpoints.variables, base_url + api.base_url_ending))
    return variables


def _run(command: str, environment: Mapping[str, str], stop: threading.Event) -> int:
    """Run a shell command until it ends or `stop` is set. Return 1 if it fails."""
    process = subprocess.Popen(command, shell=True, env=dict(environment))  # noqa: S602 - it is the user's own
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.1)
        if stop.is_set():
            process.terminate()
            process.wait()
    if process.returncode:
        _print(f"the command ended with exit code {process.returncode}: {command}")
        return _FAILED
    return 0


def _verdict(result: RunResult) -> int:
    if not result.cells:
        _print("no client has sent a request. 'harness help serve' shows how to configure one.")
    return result.exit_code


def _watch_input(stop: threading.Event) -> None:
    """Set `stop` at the end of standard input. The null device of a background process is ignored."""
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
    """Yield an event that is set when a termination signal arrives. The clients are then judged as usual."""
    stop = threading.Event()

    def request_stop(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    numbers = [getattr(signal, name) for name in _STOPS if hasattr(signal, name)]
    in_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.signal(number, request_stop) for number in numbers} if in_main else {}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(line: str) -> None:
    print_error(f"harness: {line}")
