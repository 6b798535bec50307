"""Servers and gateways that a project's settings name, and the checks of them that an expression chooses."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cassettes.loopback_server import serve
from harness.results import RunResult
from tests.cli.conftest import Command
from tests.gateways.toy import Gate, free_port
from tests.reports.runs import page_data
from tests.servers.faults import FAULTS
from tests.servers.faulty import MODEL, faulty

BEHIND = "gateway to upstream"


@dataclass(frozen=True)
class Ends:
    """A server that gives every streamed call index 0, and a gateway that loses nothing, with the port behind it."""

    server: str
    gateway: str
    port: int


@pytest.fixture(scope="module")
def ends() -> Iterator[Ends]:
    gate, port = Gate(), free_port()
    gate.gateway.upstream = f"http://127.0.0.1:{port}"
    fault = next(each for each in FAULTS if each.name == "every streamed call has index 0")
    with serve(faulty("openai-chat", fault.change)) as server, serve(gate) as gateway:
        yield Ends(f"{server.origin}/v1", gateway.origin, port)
    gate.gateway.close()


@pytest.fixture
def project(folder: Path, ends: Ends) -> Path:
    (folder / "known.yaml").write_text(
        "- {scenario: 'server-index', target: local, rule: server-index, reason: it is being mended}\n"
    )
    (folder / "pyproject.toml").write_text(
        f"""
[tool.harness.servers.local]
url = "{ends.server}"
api = "openai-chat"
model = "{MODEL}"
only = ["server-index", "server-same-calls"]
price = "0.1,0.2"

[tool.harness.servers.known]
url = "{ends.server}"
api = "openai-chat"
model = "{MODEL}"
only = ["server-text"]
variants = ["whole"]

[tool.harness.gateways.passing]
url = "{ends.gateway}"
api = "anthropic"
upstreams = ["anthropic", "anthropic-opus-5"]
models = {{anthropic-opus-5 = "opus"}}
upstream-models = {{anthropic-opus-5 = "opus"}}
upstream-port = {ends.port}
variants = ["whole"]
"""
    )
    return folder


def cells(report: Path) -> dict[tuple[str, str, str], str]:
    every = json.loads(report.read_text())["cells"]
    return {(cell["scenario"], cell["target"], cell["variant"]): cell["verdict"] for cell in every}


def again(out: str) -> list[str]:
    return shlex.split(" ".join(out.split()).partition("Run again ")[2].partition(" Answered by")[0])[1:]


def test_an_expression_selects_checks_of_a_server(harness: Command, folder: Path, ends: Ends) -> None:
    named = ("server", ends.server, "--api", "openai-chat", "--model", MODEL)
    reported = harness("check", *named, "-k", "server-index or server-same-calls", "--report=json:run.json")

    assert reported.code == 1, reported.out + reported.err
    assert "To be sent: about " in reported.err
    assert {key[0] for key in cells(folder / "run.json")} == {"server-index", "server-same-calls"}  # one cause alone
    shown = harness("check", *named, "-k", "server-index or server-same-calls", "--variant=stream")
    assert again(shown.out) == ["check", *named, "--only=server-index,server-same-calls"]


@pytest.mark.usefixtures("project")
def test_a_server_of_the_project_is_checked_by_its_name(harness: Command) -> None:
    short = harness("check", "--report=json:short.json", "local", "--report=terminal")
    long = harness("check", "server", "local", "--report=json:long.json")

    assert (short.code, long.code) == (1, 1), short.out + short.err
    assert "(by --price)" in short.err
    assert cells(Path("short.json")) == cells(Path("long.json"))
    assert cells(Path("long.json"))["server-index", "local", "stream"] == "fail"
    assert again(short.out) == ["check", "server", "local", "--only=server-index,server-same-calls"]
    assert harness(*again(short.out)).code == 1


@pytest.mark.usefixtures("project")
def test_options_override_the_settings_of_a_server(harness: Command) -> None:
    known = harness("check", "local", "--expected-failures=known.yaml")
    only = ("--only=server-text", "--variant=whole", "--repeat=2")
    other = harness("check", "local", *only, "--report=json:run.json", "--report=archive:archive.json")
    whole = harness("check", "known", "--report=json:known.json")

    assert (known.code, other.code, whole.code) == (0, 0, 0), known.out + known.err
    assert "it is being mended" in known.out
    assert set(cells(Path("run.json"))) == {("server-text", "local", "whole")}
    (cell,) = RunResult.from_json(Path("archive.json").read_text()).cells
    assert cell.conversation is not None
    assert [(each.index, each.status) for each in cell.conversation.exchanges] == [(0, 200), (1, 200)]
    assert '"content"' in (cell.conversation.exchanges[0].received or "")
    assert RunResult.from_json(Path("run.json").read_text()).cells[0].conversation is None
    assert set(cells(Path("known.json"))) == {("server-text", "known", "whole")}


@pytest.mark.usefixtures("project")
def test_a_gateway_of_the_project_is_checked_by_its_name(harness: Command) -> None:
    reports = ("--report=json:checked.json", "--report=archive:archive.json", "--report=html:page.html")
    checked = harness("check", "passing", "call-single", *reports)
    words = ("call-single", "system-plain", "-k", "system")
    ran = harness("check", "gateway", "passing", *words, "--report=json:ran.json")

    assert (checked.code, ran.code) == (0, 0)
    targets = ("anthropic>anthropic", "anthropic>anthropic-opus-5")
    assert cells(Path("checked.json")) == {("call-single", each, "whole"): "pass" for each in targets}
    assert cells(Path("ran.json")) == {("system-plain", each, "whole"): "pass" for each in targets}
    assert "  opus: opus of anthropic at http://127.0.0.1:" in ran.err
    (first, second) = (cell.conversation for cell in RunResult.from_json(Path("archive.json").read_text()).cells)
    assert first is not None
    assert second is not None
    assert [each.request.partition(": POST")[0] for each in second.exchanges] == 2 * ["client to gateway", BEHIND]
    assert ("call", "get_weather") in [(each.what, each.name) for each in first.said]
    assert any(BEHIND in each for each in page_data(Path("page.html").read_text())["texts"])
    assert "upstreams=anthropic+anthropic-opus-5" in harness("config").out
    rerun = json.loads(Path("ran.json").read_text())["invocation"]
    assert rerun["rerun"] == ["harness", "check", "gateway", "passing"]
    assert rerun["targets"]["anthropic>anthropic-opus-5"][:2] == ["--upstream", "anthropic-opus-5"]


def test_all_scenarios_of_a_project_pass_through_its_gateway(harness: Command, project: Path) -> None:
    text = (project / "pyproject.toml").read_text()
    (project / "pyproject.toml").write_text(f'[tool.harness]\nscenarios = ["call-single"]\n{text}')

    ran = harness("check", "passing", "--all", "--upstream=anthropic", "--report=json:run.json")

    assert ran.code == 0
    assert cells(Path("run.json")) == {("call-single", "anthropic>anthropic", "whole"): "pass"}
