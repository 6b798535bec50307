"""`harness check server`, through the public command: the scorecard, reports, bounds, keys, what nobody answers."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest

from harness.apis.response_rules import RESPONSE_RULES
from harness.apis.view import ModelStep
from harness.cassettes.loopback_server import serve
from harness.cassettes.transport import Handler
from harness.checks.server_check import ServerCheckRun
from harness.checks.server_checks import CHECKS
from harness.checks.server_session import CHECK_FUNCTIONS
from harness.cli.explain import topics
from harness.cli.main import main
from harness.model.http import HttpRequest, HttpResponse
from harness.results import CheckResult, RunResult, Verdict
from tests.cli.conftest import Command
from tests.servers.faults import FAULTS
from tests.servers.faulty import MODEL, Fault, faulty, instead
from tests.serving.served import serving


def fault(name: str) -> Fault:
    return next(each for each in FAULTS if each.name == name)


def unfaulted(_api: str, _view: object, response: HttpResponse) -> HttpResponse:
    return response


@dataclass(frozen=True)
class Scorecard:
    code: int
    url: str
    text: str
    run: RunResult
    markdown: str
    junit: ET.Element

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    @property
    def said(self) -> CheckResult:
        assert self.run.check is not None
        return self.run.check


@pytest.fixture(scope="module")
def scorecard(tmp_path_factory: pytest.TempPathFactory) -> Scorecard:
    """Of a server that gives every streamed call index 0."""
    folder = tmp_path_factory.mktemp("servers")
    reports = [f"--report={name}:{folder / name}" for name in ("terminal", "json", "markdown", "junit")]
    with serve(faulty("openai-chat", fault("every streamed call has index 0").change)) as server:
        url = f"{server.origin}/v1"
        code = main(["check", "server", url, "--api", "openai-chat", "--model", MODEL, *reports])
    return Scorecard(
        code,
        url,
        (folder / "terminal").read_text(),
        RunResult.from_json((folder / "json").read_text()),
        (folder / "markdown").read_text(),
        ET.fromstring((folder / "junit").read_text()),  # noqa: S314 - ours
    )


def test_a_failure_shows_request_answer_and_command(scorecard: Scorecard) -> None:
    assert scorecard.code == 1
    assert "server-index: data lost or wrong; at fault: provider; 1 cell, which fails only for this" in scorecard.words
    assert f"POST {scorecard.url}/chat/completions" in scorecard.text
    assert "> data: {" in scorecard.text
    assert '> "index": 0' in scorecard.words  # the place in the event
    again = scorecard.words.partition("Run again ")[2].partition(" Answered by")[0]
    command = f"harness check server {scorecard.url} --api openai-chat --model {MODEL}"
    assert again == f"{command} --only=server-index,server-same-calls"
    assert f"Answered by {scorecard.url.removesuffix('/v1')}, not by the provider" in scorecard.words


def test_the_scorecard_lists_features_by_variant(scorecard: Scorecard) -> None:
    assert "feature whole streamed" in scorecard.words
    assert "json-mode 4 pass 4 pass" in scorecard.words
    assert {cell.scenario for cell in scorecard.run.cells} == {*RESPONSE_RULES, *CHECKS}
    assert scorecard.words.count("server (toy-1)") == 1


def test_what_the_model_does_is_a_rate_in_every_report(scorecard: Scorecard) -> None:
    (rate,) = [rate for rate in scorecard.said.rates if rate.name == "follows the system prompt"]

    assert (rate.hits, rate.played, rate.low, rate.high) == (2, 2, 0.3424, 1.0)  # Wilson, 95 %
    assert "follows the system prompt: 2 of 2 (100%; between 34% and 100%)" in scorecard.words
    assert "- follows the system prompt: 2 of 2" in scorecard.markdown
    values = {each.get("name"): each.get("value") for each in scorecard.junit.iter("property")}
    assert values["rate: follows the system prompt"] == "2 of 2, 1.0000 (0.3424 to 1.0000)"


def checked(handle: Handler, *arguments: str, api: str = "openai-chat", path: str = "/v1") -> int:
    with serve(handle) as server:
        return main(["check", "server", f"{server.origin}{path}", "--api", api, "--model", MODEL, *arguments])


def test_how_many_requests_and_what_they_cost_comes_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[HttpRequest] = []
    reference = faulty("anthropic", unfaulted)

    def handle(request: HttpRequest) -> HttpResponse:
        if not sent:
            assert "To be sent: about 4 requests, about $0.00" in capsys.readouterr().err
        sent.append(request)
        return reference(request)

    report = ("--report", f"json:{folder / 'run.json'}")
    code = checked(
        handle, "--only", "server-call", "--variant", "whole", "--price", "3,15", *report, api="anthropic", path=""
    )

    assert (code, len(sent)) == (0, 4)  # a greeting, and three
    (costs,) = json.loads((folder / "run.json").read_text())["costs"].values()
    assert costs["unpriced"] == 0


@pytest.mark.usefixtures("folder")
def test_no_more_than_max_requests_are_sent(capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[HttpRequest] = []
    reference = faulty("openai-chat", unfaulted)

    def handle(request: HttpRequest) -> HttpResponse:
        sent.append(request)
        return reference(request)

    assert checked(handle, "--max-requests", "5") == 2
    assert len(sent) == 5
    out, err = capsys.readouterr()
    assert "UNFINISHED --max-requests is reached: 5 were sent" in " ".join(out.split())
    assert "To be sent: about 5 requests" in err


@pytest.mark.usefixtures("folder")
def test_a_model_that_makes_no_calls_is_inconclusive(capsys: pytest.CaptureFixture[str]) -> None:
    silent = instead(lambda view: bool(view.tools), ModelStep(text="I cannot look that up."))
    code = checked(faulty("openai-chat", silent), "--only", "server-parallel")

    out = " ".join(capsys.readouterr().out.split())
    assert "tools 1 inconclusive 1 inconclusive" in out
    assert "the model made 0 calls instead of 2" in out
    assert "PASS" not in out
    assert code == 2


@pytest.mark.usefixtures("folder")
def test_repeating_asks_as_often_and_widens_what_a_rate_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    deaf = fault("the system prompt is dropped").change
    code = checked(faulty("openai-chat", deaf), "--only", "server-system", "--repeat", "10", "--variant", "whole")

    out = " ".join(capsys.readouterr().out.split())
    assert "follows the system prompt: 0 of 10 (0%; between 0% and 28%)" in out
    assert "it does not seem to reach the model (10 requested)" in out
    assert code == 0  # a warning: no single answer proves it


def test_the_key_is_sent_and_shown_nowhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "sk-proj-" + "kUmQz81n" * 4
    monkeypatch.setenv("OPENAI_API_KEY", key)
    keys: set[str] = set()

    def handle(request: HttpRequest) -> HttpResponse:
        keys.add(request.headers["authorization"])
        body = json.dumps({"error": {"message": f"no {key}"}}).encode()
        return HttpResponse(500, {"content-type": "application/json"}, body)

    report = folder / "run.json"
    assert checked(handle, "--only", "server-text", "--report", f"json:{report}", "--verbose") == 1
    assert keys == {f"Bearer {key}"}
    out, err = capsys.readouterr()
    assert "no " in out
    assert key not in out + err + report.read_text()


SECRET = "team-4711-kQ93mVt2"


@pytest.mark.parametrize("typed", [True, False])
def test_a_header_is_sent_and_shown_nowhere(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: bool
) -> None:
    """Typed, or by the name of a variable in the settings; by a server that repeats it."""
    monkeypatch.setenv("TEAM", SECRET)
    seen: set[tuple[str, ...]] = set()

    def handle(request: HttpRequest) -> HttpResponse:
        seen.add(tuple(request.headers.get(name, "") for name in ("x-team-key", "x-route", "authorization")))
        body = json.dumps({"error": {"message": f"team {request.headers['x-team-key']}"}}).encode()
        return HttpResponse(500, {"content-type": "application/json", "x-team-key": SECRET}, body)

    reports = [f"--report={name}:{folder / name}" for name in ("terminal", "json", "html", "archive")]
    with serve(handle) as server:
        table = f"url = '{server.origin}/v1'\napi = 'openai-chat'\nmodel = '{MODEL}'\n"
        headers = "headers = {X-Team-Key = 'TEAM', x-route = 'TEAM'}\n"
        (folder / "pyproject.toml").write_text(f"[tool.harness.servers.any]\n{table}{'' if typed else headers}")
        words = ("--header", f"X-Team-Key: {SECRET}", "--header", f"x-route:{SECRET}") if typed else ()
        bearer = ("--header", "Authorization: Basic x") if typed else ()
        assert main(["check", "any", "--only", "server-text", *words, *bearer, *reports]) == 1
        assert main(["config"]) == 0

    assert seen == {(SECRET, SECRET, "Basic x" if typed else "Bearer not-a-key")}
    reported = "".join(capsys.readouterr()) + "".join((folder / each.partition(":")[2]).read_text() for each in reports)
    assert SECRET not in reported
    again = " ".join((folder / "terminal").read_text().split())
    assert ("--header 'X-Team-Key: VALUE' --header 'x-route: VALUE'" in again) is typed


def test_a_model_name_is_no_secret(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "kUmQz81n" * 4
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-model: tide-model-2\nx-provider: anthropic")
    monkeypatch.setenv("OPENAI_API_KEY", key)

    def handle(request: HttpRequest) -> HttpResponse:
        said = f"tide-model-2 of anthropic is down for {request.headers['authorization']}"
        body = json.dumps({"error": {"message": said}}).encode()
        return HttpResponse(500, {"content-type": "application/json"}, body)

    with serve(handle) as server:
        words = ("--api", "openai-chat", "--model", "tide-model-2", "--only", "server-text", "--variant", "whole")
        assert main(["check", "server", f"{server.origin}/v1", *words]) == 1

    reported = " ".join(capsys.readouterr().out.split())
    assert "tide-model-2 of anthropic is down for Bearer" in reported
    assert key not in reported


@pytest.mark.parametrize(("written", "code"), [("", 0), ("strict = true", 1)])
def test_a_warning_fails_a_server_that_is_checked_strictly(folder: Path, written: str, code: int) -> None:
    """A server that answers for any model, as one with a single model may."""

    def answering(request: HttpRequest) -> HttpResponse:
        body = request.body.replace(b"harness-no-such-model", MODEL.encode())
        return faulty("openai-chat", unfaulted)(replace(request, body=body))

    with serve(answering) as server:
        table = f"url = '{server.origin}/v1'\napi = 'openai-chat'\nmodel = '{MODEL}'\n{written}\n"
        (folder / "pyproject.toml").write_text(f"[tool.harness.servers.any]\n{table}")
        only = ("--only", "server-error-model", "--variant", "whole")

        assert main(["check", "any", *only]) == code
        assert main(["check", "any", *only, "--no-strict"]) == 0


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, "no answer from http://127.0.0.1:9/v1/chat/completions: [Errno 111] Connection refused. Is the"),
        (404, "was answered with HTTP 404: gone. Give the base URL as for an SDK, which for openai-chat ends in /v1"),
        (401, "the key is refused with HTTP 401: gone. OPENAI_API_KEY holds the key that is sent."),
    ],
)
def test_a_server_that_is_none_stops_the_check(harness: Command, status: int | None, expected: str) -> None:
    body = b'{"error": {"message": "gone"}}'
    with serve(lambda _: HttpResponse(status or 0, {"content-type": "application/json"}, body)) as server:
        url = f"{server.origin if status else 'http://127.0.0.1:9'}/v1"
        outcome = harness("check", "server", url, "--api", "openai-chat", "--model", "m")

    assert outcome.code == 2
    assert expected in outcome.err
    assert outcome.out == ""


@pytest.mark.parametrize(
    ("api", "path", "meant"),
    [
        ("openai-chat", "", "/v1"),
        ("anthropic", "/v1/v1", ""),
        ("anthropic", "/v1", None),
        ("gemini", "/v1beta/v1beta", ""),
        ("gemini", "", None),
    ],
)
def test_missing_or_doubled_version_in_base_url_is_suggested(
    api: str, path: str, meant: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = faulty(api, unfaulted)

    def handle(request: HttpRequest) -> HttpResponse:
        if urlsplit(request.url).path.count("/v1") == 1:
            return reference(request)
        return HttpResponse(404, {"content-type": "application/json"}, b'{"error": {"message": "gone"}}')

    code = checked(handle, "--only", "server-text", "--variant", "whole", "-q", api=api, path=path)

    suggested = re.search(r"Did you mean http://127.0.0.1:\d+(\S*)\?", capsys.readouterr().err)
    assert code == (0 if meant is None else 2)
    assert (suggested and suggested[1]) == meant


def test_a_check_that_is_interrupted_keeps_what_was_done(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = ServerCheckRun._cell

    def interrupted(self: ServerCheckRun, *arguments: object) -> object:
        if arguments[2] is CHECKS["server-call"]:
            raise KeyboardInterrupt
        return cell(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ServerCheckRun, "_cell", interrupted)
    report = folder / "run.json"
    assert checked(faulty("openai-chat", unfaulted), "--report", f"json:{report}") == 130
    run = RunResult.from_json(report.read_text())
    assert run.stopped == "interrupted"
    assert [cell.verdict for cell in run.cells if cell.scenario == "server-text"] == [Verdict.PASS, Verdict.PASS]
    assert "UNFINISHED interrupted" in " ".join(capsys.readouterr().out.split())


def test_the_reference_server_is_there_for_everybody_to_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the topic shows it, in one process: `serve` starts commands in tests/serving."""
    command = re.search(r"--command '\n  harness (check .*)'\n", topics()["servers"])
    assert command
    report = folder / "run.json"
    with serving("--model", "any") as server:
        code = main([*shlex.split(command[1].replace("$HARNESS_URL", server.url)), "--report", f"json:{report}"])

    run = RunResult.from_json(report.read_text())
    assert (code, run.exit_code) == (0, 0)
    assert {cell.verdict for cell in run.cells} == {Verdict.PASS, Verdict.NOT_APPLICABLE}
    reported = capsys.readouterr().out + server.out + server.err
    assert not any(each in reported for each in ("FAIL", "NOTHING RAN", "no client has sent"))


def test_a_check_that_breaks_is_an_error_of_ours_and_not_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_talk: object) -> None:
        raise ZeroDivisionError("by mistake")

    monkeypatch.setitem(CHECK_FUNCTIONS, "server-text", broken)
    report = folder / "run.json"
    assert (
        checked(faulty("openai-chat", unfaulted), "--only", "server-text,server-system", "--report", f"json:{report}")
        == 1
    )

    run = RunResult.from_json(report.read_text())
    verdicts = {cell.scenario: cell.verdict for cell in run.cells}
    assert verdicts == {"server-text": Verdict.ERROR, "server-system": Verdict.PASS}
    assert "ZeroDivisionError: by mistake" in " ".join(capsys.readouterr().out.split())
