"""Recognition of the code that a user wants to try: an adapter, a client, a tool loop or a function, and the API that
it uses.

Third-party code is imported and called in a separate process: `python -m harness.checks.recognition`. It gets the base
URL of a probe server that rejects every request. The path of the first request identifies the API.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any, cast
from urllib.parse import urlsplit

from harness import plugins
from harness.apis import registry
from harness.bridge import client_shapes
from harness.bridge.client_shapes import ClientShape, ShapedClient
from harness.cassettes.loopback_server import serve
from harness.model.errors import HarnessError, PluginError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.loops import Conversation, Loop
from harness.model.messages import ChatRequest, Message, Role, Text
from harness.model.protocols import Adapter, Endpoint
from harness.platform.environment import is_hidden
from harness.platform.exceptions import exception_summary
from harness.runner.serve_router import served_apis
from harness.stdio.protocol import PROTOCOL

_SECONDS = 20.0
"""Time limit for importing the code and for its first request."""

_INPUT_SECONDS = 5.0
"""Maximum time to wait for a program's first line of output before its standard input is closed."""

_BASE_PATH = "/v1"
_LOOP_PARAMETERS = 3


@dataclass(frozen=True, slots=True)
class Recognised:
    """Result of recognising a named object. `spec` is its adapter specification, `sentence` its description.

    `ignored` names rules that a client of this shape cannot satisfy. If the object was not recognised, `question`
    explains why and may ask for more information.
    """

    spec: str = ""
    sentence: str = ""
    question: str = ""
    ignored: tuple[str, ...] = ()


def recognise(name: str) -> Recognised:
    """Recognise `package.module:attribute` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "recognised.json"
        command = [sys.executable, "-m", "harness.checks.recognition", name, str(file)]
        try:
            done = subprocess.run(  # noqa: S603 - the user's own code
                command, env=keyless_environment(), capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return Recognised(question=f"{name}: importing and calling it took longer than {_SECONDS:g} seconds.")
        if file.exists():
            return Recognised(**json.loads(file.read_text(encoding="utf-8")))
    last = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[-1]
    return Recognised(question=f"{name}: its process ended with exit code {done.returncode}: {last}")


def keyless_environment() -> dict[str, str]:
    """Return the environment without the variables that could lead third-party code to a provider."""
    return {name: value for name, value in os.environ.items() if not is_hidden(name)}


def recognise_here(name: str) -> Recognised:
    """Recognise `package.module:attribute` in this process."""
    try:
        value = plugins.import_attribute(name, "subject")
        if isinstance(value, Adapter):
            return Recognised(name, f"an adapter of {value.api}")
        if isinstance(value, Loop):
            return Recognised(name, f"a tool loop of {value.api}")
        if _is_loop(value):
            return _loop(name, value)
        return _client(name, client_shapes.recognise(value, name))
    except PluginError as error:
        return Recognised(question=str(error))
    except HarnessError as error:
        return Recognised(question=f"{name}: {error}")


def _is_loop(value: object) -> bool:
    if not inspect.isfunction(value):
        return False
    given = inspect.signature(value).parameters.values()
    required = [each for each in given if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    return len(required) == _LOOP_PARAMETERS and "messages" not in {each.name for each in required}


def _loop(name: str, value: object) -> Recognised:
    conversation = Conversation(turns=(Message(Role.USER, (Text("Hello"),)),))
    drive = cast("Callable[..., object]", value)
    seen = _probe(lambda url: drive(Endpoint(url, "no-key"), "model", conversation))
    if seen.api is None:
        return Recognised(question=f"{name} looks like a tool loop, but {seen.reason} Name its API by --api.")
    return Recognised(f"drive@{seen.api} {name}", f"a tool loop of {seen.api}: {_signature(name, value)}")


def _client(name: str, shape: ClientShape) -> Recognised:
    request = ChatRequest("model", (Message(Role.USER, (Text("Hello"),)),))

    def send(url: str) -> None:
        ShapedClient(shape, Endpoint(url, "no-key"), "model").chat(request)

    seen = _probe(send)
    if seen.api is None:
        return Recognised(question=f"{name} looks like a client, but {seen.reason} Does it use its base URL?")
    own = registry.api(seen.api).base_path
    path = "" if seen.path == own else seen.path or "/"
    ignored = ("setting-lost",) if shape.lacks_settings else ()
    sentence = f"a client of {seen.api}, called as {shape.sentence}"
    return Recognised(f"client@{seen.api}{path} {name}", sentence, ignored=ignored)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The first request of a client: its API, and the path that the client expects in its base URL."""

    api: str | None
    path: str = ""
    reason: str = ""


def _probe(send: Callable[[str], object]) -> _Seen:
    """Call third-party code with the URL of a server that rejects every request, and return what the first request
    shows.
    """
    failure = ""
    with _probe_server() as (origin, requests):
        try:
            send(origin + _BASE_PATH)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it was refused, or it fails in any way before it sends
            failure = f" ({exception_summary(error)})"
    if not requests:
        return _Seen(None, reason=f"it sent no request to the base URL that it was given{failure}.")
    first = requests[0]
    path = urlsplit(first.url).path
    for wire in served_apis():
        if wire.recognises(replace(first, body=wire.least_body)):
            version = "/v1beta" if wire.name == "gemini" else _BASE_PATH
            return _Seen(wire.name, "" if path.startswith(_BASE_PATH * 2) else version)
    return _Seen(None, reason=f"its first request goes to {path}, which is a path of no known API.")


@contextmanager
def _probe_server() -> Generator[tuple[str, list[HttpRequest]]]:
    requests: list[HttpRequest] = []

    def refuse(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        return HttpResponse(400, {"content-type": "application/json"}, b'{"error": {"message": "a probe"}}')

    with serve(refuse, 0) as server:
        yield server.origin, requests


def _signature(name: str, value: object) -> str:
    return f"{name.partition(':')[2]}{inspect.signature(cast('Callable[..., Any]', value))}"


@dataclass(frozen=True, slots=True)
class EndedProgram:
    """A program that has ended. `note` explains an abnormal end. `is_adapter` is set if the program used the adapter
    protocol.
    """

    is_adapter: bool
    printed: str
    note: str = ""


def run_program(command: str, environment: Mapping[str, str], seconds: float) -> EndedProgram:
    """Run a shell command until it ends, for at most `seconds`.

    Its standard input receives the first message of the adapter protocol. Programs without input ignore it.
    """
    first = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "describe", "params": {"protocol": PROTOCOL}})
    process = subprocess.Popen(  # noqa: S602 - the user's own
        command,
        shell=True,
        env=dict(environment),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    lines: list[str] = []
    printed_once = Event()
    reading = Thread(target=_collect, args=(process, lines, printed_once), daemon=True)
    reading.start()
    note = ""
    with contextlib.suppress(OSError), cast("IO[str]", process.stdin) as given:  # it may have ended already
        given.write(f"{first}\n")
        given.flush()
        printed_once.wait(min(seconds, _INPUT_SECONDS))  # an adapter ends with its input, and must answer before
    try:
        process.wait(seconds)
        note = f", then it ended with exit code {process.returncode}" if process.returncode else ""
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        note = f", then it was stopped after {seconds:g} seconds"
    reading.join(_INPUT_SECONDS)
    return EndedProgram(any(map(_is_description, lines)), "".join(lines), note)


def _collect(process: subprocess.Popen[str], lines: list[str], printed_once: Event) -> None:
    with cast("IO[str]", process.stdout) as printed:
        for line in printed:
            lines.append(line)
            printed_once.set()
    printed_once.set()


def _is_description(line: str) -> bool:
    try:
        message: Any = json.loads(line)
        return "capabilities" in message["result"]
    except (ValueError, LookupError, TypeError):
        return False


if __name__ == "__main__":
    with redirect_stdout(sys.stderr):
        found = recognise_here(sys.argv[1])
    Path(sys.argv[2]).write_text(json.dumps(asdict(found)), encoding="utf-8")
