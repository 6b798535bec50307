"""`harness check gateway`, through the public command: what it prints first, the table, the reports, its errors."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import shlex
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest

from harness.cassettes.loopback_server import serve
from harness.checks import gateway_traffic
from harness.cli.main import main
from harness.model.http import HttpRequest, HttpResponse
from harness.platform.files import shipped_folder
from harness.results import DetailCounts, RunResult, Verdict
from tests.gateways.faults import FAULTS
from tests.gateways.toy import Gate, Passing, free_port

_PLAYED = (gateway_traffic.FIRST_SCENARIO, "system-plain", "call-single", "choice-named")


@dataclass(frozen=True)
class Front:
    """Where gateways listen, one after the other, and the port of their upstream."""

    gate: Gate
    url: str
    port: int

    def check(self, gateway: Passing, *arguments: str) -> tuple[int, str]:
        """Check a gateway; gives back the exit code, and what was printed beside the reports."""
        gateway.upstream, self.gate.gateway = f"http://127.0.0.1:{self.port}", gateway
        arrived = io.StringIO()
        with contextlib.redirect_stderr(arrived):
            code = main(["check", "gateway", self.url, "--upstream-port", str(self.port), *arguments])
        gateway.close()
        return code, arrived.getvalue()


@pytest.fixture(scope="module")
def front() -> Generator[Front]:
    gate = Gate()
    with serve(gate) as server:
        yield Front(gate, server.origin, free_port())


@dataclass(frozen=True)
class Scorecard:
    code: int
    arrived: str
    text: str
    markdown: str
    junit: str
    run: RunResult

    def outcomes(self, detail: str, upstream: str = "anthropic") -> DetailCounts:
        assert self.run.check is not None
        return next(each for each in self.run.check.gateway if (each.detail, each.upstream) == (detail, upstream))

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


@pytest.fixture(scope="module")
def scorecard(front: Front, tmp_path_factory: pytest.TempPathFactory) -> Scorecard:
    """Of a gateway that drops the system prompt, in front of two models of one API."""
    folder = tmp_path_factory.mktemp("gateway")
    reports = [f"--report={name}:{folder / name}" for name in ("terminal", "json", "markdown", "junit")]
    dropping = next(each for each in FAULTS if each.name == "system prompt dropped").gateway()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gateway_traffic, "SHIPPED", _PLAYED)
        patch.setattr(gateway_traffic, "own_folder", lambda: shipped_folder("scenarios") / "system-empty.yaml")
        code, arrived = front.check(
            dropping, "--api", "anthropic", "--upstream", "anthropic", "--upstream", "anthropic-opus-5", *reports
        )
    texts = {name: (folder / name).read_text() for name in ("terminal", "json", "markdown", "junit")}
    return Scorecard(
        code, arrived, texts["terminal"], texts["markdown"], texts["junit"], RunResult.from_json(texts["json"])
    )


def test_what_the_gateway_has_to_know_comes_first(scorecard: Scorecard, front: Front) -> None:
    assert f"harness: checking the gateway at {front.url} with requests of anthropic." in scorecard.arrived
    assert f"  claude-opus-5: claude-opus-5 of anthropic at http://127.0.0.1:{front.port}" in scorecard.arrived


def test_the_table_has_what_became_of_each_fact_by_upstream(scorecard: Scorecard) -> None:
    assert scorecard.code == 1
    system, tools = scorecard.outcomes("system prompt"), scorecard.outcomes("tools")
    assert (system.preserved, system.lost, system.of_answer) == (0, 2, False)
    assert (tools.preserved, tools.lost) == (4, 0)
    assert scorecard.outcomes("tool choice", "anthropic-opus-5").preserved == 2
    assert scorecard.outcomes("answer's text").of_answer
    assert re.search(r"^ +anthropic>anthropic +anthropic>anthropic-opus-5$", scorecard.text, re.MULTILINE)
    assert re.search(r"^system prompt +2 lost +2 lost$", scorecard.text, re.MULTILINE)
    assert re.search(r"^tool choice +- +2 preserved$", scorecard.text, re.MULTILINE)


def test_every_report_has_the_table(scorecard: Scorecard) -> None:
    assert "| system prompt | 2 lost | 2 lost |" in scorecard.markdown
    suites = ET.fromstring(scorecard.junit).findall("testsuite")  # noqa: S314 - our own
    said = {
        (suite.get("name"), each.get("name"), each.get("value")) for suite in suites for each in suite.iter("property")
    }
    assert ("anthropic>anthropic-opus-5", "gateway.system prompt", "2 lost") in said


def test_a_loss_is_shown_with_both_bodies(scorecard: Scorecard) -> None:
    finding = next(each for cell in scorecard.run.cells for each in cell.findings)

    sent, arrived = finding.bodies
    assert (sent.end, arrived.end) == ("the client's request", "the gateway's request")
    assert json.loads(sent.text)["system"]
    assert "system" not in json.loads(arrived.text)
    assert "at fault: gateway" in scorecard.words
    assert "the client's request" in scorecard.text
    assert "the gateway's request" in scorecard.text
    assert "the client's request:" in scorecard.markdown
    assert "the client's request:" in scorecard.junit


def test_the_command_that_repeats_a_cell_works(
    scorecard: Scorecard, front: Front, capsys: pytest.CaptureFixture[str]
) -> None:
    again = scorecard.words.partition("Run again ")[2].partition(" All answers")[0]
    words = shlex.split(again)

    code, _ = front.check(Passing(), *words[words.index("--api") :])

    assert words[:2] == ["harness", "check"]
    assert code == 0
    assert re.search(r"^system prompt +1 preserved$", capsys.readouterr().out, re.MULTILINE)


def test_known_losses_fail_nothing(front: Front, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "known.yaml"
    known.write_text("- {scenario: 'system-*', target: '*', rule: gateway-system-prompt, reason: it is being mended}\n")
    dropping = next(each for each in FAULTS if each.name == "system prompt dropped").gateway
    arguments = ("system-plain", "--api", "anthropic", "--upstream", "anthropic", "--expected-failures", str(known))

    code, _ = front.check(dropping(), *arguments)
    arrived = capsys.readouterr().out
    ignored, _ = front.check(dropping(), *arguments, "--ignore=gateway-system-prompt", "-q")

    assert (code, ignored) == (0, 0)
    assert "it is being mended" in arrived
    assert "Ignored: gateway-system-prompt; that hides " in capsys.readouterr().out


def test_what_is_lost_can_be_accepted(
    scorecard: Scorecard, front: Front, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, known = tmp_path / "run.json", tmp_path / "known.yaml"
    report.write_text(scorecard.run.to_json())

    assert main(["accept", str(report), "--to", str(known)]) == 0

    dropping = next(each for each in FAULTS if each.name == "system prompt dropped").gateway()
    arguments = ("system-plain", "--api", "anthropic", "--upstream", "anthropic", "--expected-failures", str(known))
    assert front.check(dropping, *arguments)[0] == 0
    assert "expected" in capsys.readouterr().out


class _Declining(Passing):
    """Refuses named tool choices, which its upstream takes."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if b'"tool_choice"' not in request.body:
            return super().__call__(request)
        error = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no tool choice here"}}'
        return HttpResponse(400, {"content-type": "application/json"}, error)


@pytest.mark.parametrize(("words", "code"), [((), 0), (("--strict",), 1)])
def test_a_warning_fails_a_strict_check(
    front: Front, capsys: pytest.CaptureFixture[str], words: Sequence[str], code: int
) -> None:
    ends = ("--api", "anthropic", "--upstream", "anthropic-opus-5", "--variant", "whole")

    assert front.check(_Declining(), "choice-named", *ends, *words)[0] == code
    assert front.check(Passing(), "choice-named", *ends, *words)[0] == 0
    assert "gateway-refused" in capsys.readouterr().out


class _Astray(Passing):
    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method == "POST":
            self.asked(HttpRequest("POST", "http://a/v1/responses", request.headers, b"{}"))
        said = b'{"type": "error", "error": {"type": "not_found_error", "message": "no such model"}}'
        return HttpResponse(404, {"content-type": "application/json"}, said)


@pytest.mark.parametrize("scenario", [gateway_traffic.FIRST_SCENARIO, "call-single"])
def test_unreached_upstream_error_quotes_both_ends(front: Front, scenario: str) -> None:
    code, arrived = front.check(_Astray(), scenario, "--api", "anthropic", "--upstream", "anthropic")

    assert code == 2
    assert arrived.splitlines()[-1] == (
        f"harness: check gateway {front.url}: the gateway answers HTTP 404 and has sent no chat to the reference "
        "server: no such model. What arrived at the reference server: POST /v1/responses: anthropic has no such path; "
        "openai-responses has this path. It must route the model name 'claude-opus-5-5' to 'claude-opus-5-5' of "
        f"anthropic, at http://127.0.0.1:{front.port}. 'harness help gateways' shows how."
    )


def test_a_gateway_that_requests_another_model_is_reported(front: Front) -> None:
    class Another(Passing):
        def request(self, request: HttpRequest) -> HttpRequest:
            body = request.body.replace(b"claude-opus-5-5", b"claude-opus-5")
            return HttpRequest(request.method, request.url, request.headers, body)

    code, arrived = front.check(
        Another(), gateway_traffic.FIRST_SCENARIO, "--api", "anthropic", "--upstream", "anthropic"
    )

    assert code == 2
    assert arrived.splitlines()[-1] == (
        f"harness: check gateway {front.url}: the gateway requests the model 'claude-opus-5' of anthropic instead of "
        "'claude-opus-5-5'. Correct its configuration, or pass --upstream-model anthropic=claude-opus-5."
    )


def test_a_header_reaches_the_gateway_and_no_report(
    front: Front, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, seen = "team-4711-kQ93mVt2", set[str]()

    class Routed(Passing):
        def request(self, request: HttpRequest) -> HttpRequest:
            seen.add(request.headers.get("x-team-key", ""))
            return request

        def response(self, response: HttpResponse) -> HttpResponse:
            return HttpResponse(500, {"content-type": "text/plain"}, f"no team {secret}".encode())

    reports = [f"--report={name}:{tmp_path / name}" for name in ("terminal", "archive")]
    header = ("--header", f"X-Team-Key: {secret}")
    code, arrived = front.check(
        Routed(), "call-single", "--api", "anthropic", "--upstream", "anthropic", *header, *reports
    )

    assert (code, seen) == (1, {secret})
    said = (
        arrived
        + "".join(capsys.readouterr())
        + "".join((tmp_path / each.partition(":")[2]).read_text() for each in reports)
    )
    assert secret not in said
    assert "--header 'X-Team-Key: VALUE'" in " ".join((tmp_path / "terminal").read_text().split())


class _Unauthorized(Passing):
    """Has a wrong key of its own for one model, or sends that model's upstream none."""

    def __init__(self, *, by_upstream: bool) -> None:
        super().__init__()
        self._by_upstream = by_upstream

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if b'"claude-opus-5-5"' not in request.body:
            return super().__call__(request)
        if self._by_upstream:
            headers = {name: value for name, value in request.headers.items() if name != "authorization"}
            return super().__call__(HttpRequest(request.method, request.url, headers, request.body))
        error = b'{"type": "error", "error": {"type": "authentication_error", "message": "no such virtual key"}}'
        return HttpResponse(401, {"content-type": "application/json"}, error)


@pytest.mark.parametrize(
    ("by_upstream", "said"),
    [
        (False, "the gateway answers HTTP 401 and has sent no chat to the reference server: no such virtual key."),
        (
            True,
            (
                "the gateway answers HTTP 401: The API key is invalid. The upstream rejects its POST /v1/messages "
                "with HTTP 401: The API key is invalid. The reason: the request has no key."
            ),
        ),
    ],
)
def test_unreached_upstream_does_not_stop_the_others(
    front: Front, tmp_path: Path, by_upstream: bool, said: str
) -> None:
    options = ("--api", "anthropic", "--upstream", "anthropic", "--upstream", "anthropic-opus-5", "--variant", "whole")
    report = f"--report=json:{tmp_path / 'run.json'}"

    code, _ = front.check(_Unauthorized(by_upstream=by_upstream), *options, report)

    run = RunResult.from_json((tmp_path / "run.json").read_text())
    (finding,) = (each for cell in run.cells for each in cell.findings)
    others = {cell.verdict for cell in run.cells if cell.target == "anthropic>anthropic-opus-5"}
    assert code == 1
    assert (finding.rule, finding.message[: len(said)]) == ("gateway-unreached", said)
    assert others == {Verdict.PASS, Verdict.NOT_APPLICABLE}
    unplayed = [cell for cell in run.cells if cell.target == "anthropic>anthropic" and not cell.findings]
    assert {cell.verdict for cell in unplayed} == {Verdict.INCONCLUSIVE, Verdict.NOT_APPLICABLE}


class _Versioned(Passing):
    """Has its paths below one version, as most servers do."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        path = urlsplit(request.url).path
        version = "/v1beta/" if "models/" in path else "/v1/"
        if path.startswith(version) and path.count("/v1") == 1:
            return super().__call__(request)
        return HttpResponse(404, {"content-type": "application/json"}, b'{"error": {"message": "Not Found"}}')


@pytest.mark.parametrize(
    ("api", "path", "meant"),
    [
        ("openai-chat", "", "/v1"),
        ("openai-chat", "/v1/", None),
        ("anthropic", "/v1", ""),
        ("gemini", "/v1beta/v1beta", ""),
        ("gemini", "", None),
    ],
)
def test_missing_or_doubled_version_in_base_url_is_suggested(
    front: Front, api: str, path: str, meant: str | None
) -> None:
    at = Front(front.gate, front.url + path, front.port)

    code, arrived = at.check(
        _Versioned(), "call-not-needed", "--api", api, "--upstream", api, "--variant", "whole", "-q"
    )

    assert code == (0 if meant is None else 2)
    suggested = re.search(r"Did you mean (\S+)\?", arrived)
    assert (suggested and suggested[1]) == (None if meant is None else front.url + meant)


def test_waiting_for_the_gateway_ends_after_the_given_seconds() -> None:
    url, arrived = f"http://127.0.0.1:{free_port()}", io.StringIO()

    with contextlib.redirect_stderr(arrived):
        code = main(["check", "gateway", url, "--api", "anthropic", "--upstream", "anthropic", "--wait", "0"])

    assert code == 2
    assert arrived.getvalue().splitlines()[-1] == (
        f"harness: check gateway {url}: no server listens there after 0 s: Connection refused. "
        "Start the gateway, or let --command start it."
    )


def test_the_output_of_a_command_that_ends_is_in_the_error() -> None:
    url, arrived = f"http://127.0.0.1:{free_port()}", io.StringIO()
    command = f"{sys.executable} -c 'raise SystemExit(\"no configuration\")'"

    with contextlib.redirect_stderr(arrived):
        code = main(["check", "gateway", url, "--api", "anthropic", "--upstream", "anthropic", "--command", command])

    assert code == 2
    assert arrived.getvalue().splitlines()[-1] == (
        f"harness: --command {command!r}: it ended with exit code 1. It printed: no configuration"
    )


_GATEWAY = """
import http.client, http.server, os, sys
from urllib.parse import urlsplit

upstream = urlsplit(os.environ["HARNESS_UPSTREAM_URL"])

class Passing(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        line = http.client.HTTPConnection(upstream.hostname, upstream.port)
        kept = {n: v for n, v in self.headers.items() if n.lower() not in ("host", "accept-encoding", "connection")}
        line.request("POST", self.path, body, kept)
        answer = line.getresponse()
        said = answer.read()
        self.send_response(answer.status)
        self.send_header("content-type", answer.getheader("content-type"))
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Passing).serve_forever()
"""


def test_a_command_runs_while_the_check_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = tmp_path / "held"  # open as long as the gateway runs; its port may be another test's right after
    os.mkfifo(held)
    parsed = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    begin = f"held = open({str(held)!r}, 'w')\n"
    (tmp_path / "gateway.py").write_text(begin + _GATEWAY)
    port = free_port()
    command = f"{sys.executable} {tmp_path / 'gateway.py'} {port}"

    ends = (f"http://127.0.0.1:{port}", "--api", "anthropic", "--upstream", "anthropic")
    code = main(["check", "gateway", *ends, "call-single", "--variant", "whole", "--command", command])

    assert (code, capsys.readouterr().out.split()[0]) == (0, "PASS")
    assert select.select([parsed], [], [], 5)[0], "the gateway still runs"
    os.close(parsed)
