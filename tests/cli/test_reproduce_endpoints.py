"""`harness reproduce`: curl commands that show the fault of a server, and scripts that show that of a gateway."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.apis import registry
from harness.cassettes.loopback_server import serve
from harness.checks import gateway_traffic
from harness.checks.issues import shell_script
from harness.checks.server_check import ScriptedServer
from harness.checks.server_session import NoResponse, RetryingClient
from harness.cli import try_server
from harness.model.http import HttpRequest, HttpResponse
from harness.platform.files import shipped_folder
from tests.cli.conftest import Command
from tests.cli.test_reproduce import run_apart
from tests.gateways.faults import FAULTS as GATEWAY_FAULTS
from tests.gateways.faults import Fault as GatewayFault
from tests.gateways.toy import Gate, Passing, free_port
from tests.servers.faults import FAULTS as SERVER_FAULTS
from tests.servers.faulty import MODEL, Fault, faulty


class Endpoint:
    """A server that may be exchanged while it listens."""

    def __init__(self) -> None:
        self.handler: Callable[[HttpRequest], HttpResponse] = ScriptedServer(registry.api("openai-chat"), MODEL)
        self.keys: list[str] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.keys.append(request.headers.get("x-team", ""))
        return self.handler(request)


def server_fault(name: str) -> Fault:
    return next(each for each in SERVER_FAULTS if each.name == name)


def both(*names: str) -> Callable[[HttpRequest], HttpResponse]:
    """A server of Chat with several faults."""
    faults = [server_fault(name) for name in names]

    def change(api: str, view: object, response: HttpResponse) -> HttpResponse:
        for each in faults:
            response = each.change(api, view, response)  # type: ignore[arg-type]
        return response

    return faulty("openai-chat", change)


def commands(shown: str) -> Iterator[list[str]]:
    """The words of the commands that write a reproduction."""
    for line in shown.splitlines():
        if line.startswith("   see "):
            yield line.split()[2:]


def test_each_defect_of_a_server_has_a_command_that_writes_its_request(harness: Command, folder: Path) -> None:
    endpoint = Endpoint()
    endpoint.handler = both("the stop sequence is ignored", "calls stop with 'stop'", "every streamed call has index 0")

    with serve(endpoint) as server:
        shown = harness("try", f"{server.origin}/v1", "--model", MODEL)
        written = [harness(*each) for each in commands(shown.out)]
        scripts = sorted(each.name for each in folder.glob("reproduce_*.sh"))
        endpoint.handler = ScriptedServer(registry.api("openai-chat"), MODEL)
        mended = harness("reproduce", "server-index", "--from", ".harness/try.json", "--output", "mended")

    assert [each.code for each in written] == [0, 0, 0], [each.err for each in written]
    assert scripts == [f"reproduce_server_{name}.sh" for name in ("index_stream", "stop_reason", "stop_sequence")]
    issue = (folder / "reproduce_server_stop_reason.md").read_text()
    assert 'Wrong is `/choices/0/finish_reason`: `"stop"`. Right is: `"tool_calls"`.' in issue
    assert "/chat_completion" in issue.partition("What the API's documentation says")[2]
    assert mended.code == 1
    assert "It was not seen again in 3 tries, so nothing is written." in mended.out
    assert not (folder / "mended").exists()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_script_of_a_server_prints_the_wrong_answer(harness: Command, folder: Path) -> None:
    with serve(both("calls stop with 'stop'")) as server:
        only = ("--only", "server-stop-reason", "--report", "json:run.json")
        harness("check", "server", f"{server.origin}/v1", "--api", "openai-chat", "--model", MODEL, *only)
        done = harness("reproduce", "server-stop-reason", "--variant", "whole", "--from", "run.json")
        command = ["sh", "reproduce_server_stop_reason.sh"]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert done.code == 0, done.err
    assert '"finish_reason": "stop"' in printed


def test_a_url_cannot_end_the_quotes_of_a_script() -> None:
    script = shell_script([], "curl", "http://127.0.0.1/'; touch stolen; '", [], "{}")

    assert script.splitlines()[1] == "curl 'http://127.0.0.1/%27; touch stolen; %27' \\"


def test_a_check_without_an_answer_is_reproduced_without_one(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = RetryingClient._over_http

    def closing(client: RetryingClient, request: HttpRequest) -> HttpResponse:
        if b"tool_calls" in request.body:
            raise NoResponse("the connection was closed")
        return sent(client, request)

    monkeypatch.setattr(RetryingClient, "_over_http", closing)
    with serve(ScriptedServer(registry.api("openai-chat"), MODEL)) as server:
        arguments = ("--api", "openai-chat", "--model", MODEL, "--only", "server-call", "--report", "json:run.json")
        harness("check", "server", f"{server.origin}/v1", *arguments)
        done = harness("reproduce", "server-call", "--variant", "whole", "--from", "run.json")

    assert done.code == 0, done.err
    assert "Its request was sent again just now, with the same fault." in done.out
    issue = (folder / "reproduce_server_call.md").read_text()
    assert "no response arrived: the connection was closed" in issue.lower()
    assert "The answer, HTTP" not in issue


def test_the_headers_of_a_server_are_variables_in_its_script(
    harness: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = Endpoint()
    endpoint.handler = both("calls stop with 'stop'")
    monkeypatch.setenv("TEAM", "a-secret-team")
    with serve(endpoint) as server:
        table = f'url = "{server.origin}/v1"\napi = "openai-chat"\nmodel = "{MODEL}"\nheaders = {{ x-team = "TEAM" }}'
        (folder / "pyproject.toml").write_text(f"[tool.harness.servers.own]\n{table}\n")
        harness("check", "server", "own", "--only", "server-stop-reason", "--report", "json:run.json")
        endpoint.keys.clear()
        done = harness("reproduce", "server-stop-reason", "--from", "run.json", "--variant", "whole")

    assert done.code == 0, done.err
    assert {*endpoint.keys} == {"a-secret-team"}
    assert '-H "x-team: $TEAM"' in (folder / "reproduce_server_stop_reason.sh").read_text()
    assert all("a-secret-team" not in each.read_text() for each in folder.glob("reproduce*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--header", "x-team: search"], "this check sent headers, and a saved run does not contain their values"),
        ([], "no answer from"),
    ],
    ids=["headers", "stopped"],
)
def test_what_a_server_needs_for_a_reproduction_is_stated(
    harness: Command, folder: Path, options: list[str], message: str
) -> None:
    with serve(both("calls stop with 'stop'")) as server:
        only = ("--only", "server-stop-reason", "--report", "json:run.json")
        harness("check", "server", f"{server.origin}/v1", "--api", "openai-chat", "--model", MODEL, *only, *options)

    done = harness("reproduce", "server-stop-reason", "--from", "run.json")

    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1


@dataclass
class Listening:
    """A gateway that listens, with the port of its upstream."""

    gate: Gate
    origin: str
    port: int

    def use(self, gateway: Passing) -> None:
        self.gate.gateway.close()
        self.gate.gateway = gateway
        gateway.upstream = f"http://127.0.0.1:{self.port}"


@pytest.fixture
def listening() -> Iterator[Listening]:
    gate = Gate()
    with serve(gate) as server:
        yield Listening(gate, server.origin, free_port())
    gate.gateway.close()


def fault_named(name: str) -> GatewayFault:
    return next(each for each in GATEWAY_FAULTS if each.name == name)


def checked(harness: Command, listening: Listening, found: GatewayFault) -> None:
    """Check a gateway with a fault in the scenario that shows it, and save the run."""
    listening.use(found.gateway())
    api = registry.target_named(found.target).api
    url = f"{listening.origin}{registry.api(api).base_url_ending}"
    options = ("--upstream", found.target, "--upstream-port", str(listening.port), "--variant", found.variant)
    harness("check", "gateway", url, found.scenario, "--api", api, *options, "--report", "json:run.json")


@pytest.mark.parametrize(
    ("fault", "condition"),
    [
        ("system prompt dropped", '"You are a ship\'s cook. End every answer with the word Ahoy." in sent'),
        ("tool choice dropped", "sent != None"),
        ("bound changed", "sent == 1024"),
        ("time in the system prompt", "sent == at(received[-2], 'system')"),
        ("stop reason made up", "got == 'max_tokens'"),
        ("calls dropped", "returned != "),
        ("streams fail", "error is None"),
        ("cut stream ended", "error is not None"),
        ("errors made its own", "got == 429"),
        ("error left out of a stream", "'Overloaded' in returned"),
        ("retry-after dropped", "got,"),
    ],
)
def test_a_script_shows_the_fault_of_a_gateway_and_passes_without_it(
    harness: Command, folder: Path, listening: Listening, fault: str, condition: str
) -> None:
    found = fault_named(fault)
    command = ("reproduce", found.scenario, "--from", "run.json", "--rule", found.rule)
    checked(harness, listening, found)
    done = harness(*command)
    [script] = (each.name for each in folder.glob("reproduce_*.py"))
    wrong = run_apart(folder, script)
    listening.use(Passing())
    right = run_apart(folder, script)
    again = harness(*command, "--output", "mended")

    assert done.code == 0, done.out + done.err
    assert wrong.stderr.splitlines()[-1].startswith("AssertionError: "), wrong.stderr
    assert right.returncode == 0, right.stderr
    text = (folder / script).read_text()
    assert f"assert {condition}" in text
    assert "import harness" not in text
    assert (again.code, "It was not seen again, so nothing is written." in again.out) == (1, True)


def test_a_value_from_an_earlier_answer_of_a_gateway_is_not_claimed_to_be_its_own(
    harness: Command, folder: Path, listening: Listening
) -> None:
    checked(harness, listening, fault_named("reasoning added"))
    done = harness("reproduce", "call-single", "--from", "run.json", "--rule", "anthropic-thinking-signature")

    assert done.code == 0, done.err
    assert "No script: " in done.out
    [script] = folder.glob("reproduce_*.sh")
    assert f"curl -isSN '{listening.origin}/v1/messages'" in script.read_text()
    assert "$ANTHROPIC_API_KEY" in script.read_text()


def test_a_gateway_needs_a_port_for_the_server_of_its_script(
    harness: Command, folder: Path, listening: Listening
) -> None:
    found = fault_named("tool choice dropped")
    checked(harness, listening, found)
    run = json.loads((folder / "run.json").read_text())
    place = run["invocation"]["rerun"].index("--upstream-port")
    run["invocation"]["rerun"][place : place + 2] = ["--command", "true"]
    (folder / "run.json").write_text(json.dumps(run))
    done = harness("reproduce", found.scenario, "--from", "run.json")

    assert (done.code, done.out) == (2, "")
    assert "check it with --upstream-port N instead of --command" in done.err


def test_each_defect_of_a_gateway_has_a_command_that_writes_a_script(
    harness: Command, folder: Path, listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening.use(fault_named("system prompt as the user's").gateway())
    monkeypatch.setattr(try_server, "_UPSTREAM_PORT", listening.port)
    monkeypatch.setattr(gateway_traffic, "SHIPPED", (gateway_traffic.FIRST_SCENARIO, "system-plain"))
    monkeypatch.setattr(gateway_traffic, "own_folder", lambda: shipped_folder("scenarios") / "system-empty.yaml")

    shown = harness("try", f"{listening.origin}/v1", "--model", "mine")
    [command] = commands(shown.out)
    done = harness(*command)

    assert done.code == 0, done.out + done.err
    assert "assert sent != 'user'" in (folder / "reproduce_system_plain.py").read_text()
