"""Where a cell's requests go, by mode and by adapter, and what never goes with them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import httpx2
import pytest

from harness.adapters.anthropic import client
from harness.apis import registry
from harness.apis.registry import Target
from harness.apis.response_rules import Subject
from harness.cassettes.cassette import REFERENCE_URL
from harness.cassettes.library import CassetteLibrary
from harness.cassettes.loopback_server import serve
from harness.model.errors import MissingKey
from harness.model.http import HttpRequest, HttpResponse
from harness.model.protocols import Endpoint
from harness.reference_server.script_session import ScriptSession
from harness.results import CellResult, Exchange, Kind, Verdict
from harness.rules.evidence import Evidence
from harness.rules.rule import Rule, RuleViolation, all_rules
from harness.runner import backends
from harness.runner.backends import Backend, ReferenceBackend, ReplayBackend
from harness.runner.cells import Cell
from harness.runner.live import LiveBackend
from harness.runner.recorder import Recorder
from harness.runner.suite_run import Run
from harness.scenarios.schema import Scenario, TurnSpec
from tests.backends import InProcess, shipped_targets
from tests.scenarios.files import WITH_TOOLS, scenario
from tests.wrapped import asynchronous, connecting, without_http_client

KEY = "sk-ambient-7f3a9c"
VARIABLES = {
    **dict.fromkeys(
        (
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "OPENAI_API_KEY",
            "OPENAI_ADMIN_KEY",
            "OPENAI_ORG_ID",
            "OPENAI_PROJECT_ID",
            "GOOGLE_API_KEY",
            "GEMINI_API_KEY",
        ),
        KEY,
    ),
    "ANTHROPIC_CUSTOM_HEADERS": f"x-ambient: {KEY}",
    "OPENAI_CUSTOM_HEADERS": f"x-ambient: {KEY}",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "GOOGLE_CLOUD_PROJECT": KEY,
    "GOOGLE_CLOUD_LOCATION": "europe-west1",
    "NO_PROXY": "",
    "SSL_CERT_FILE": "/nowhere/ca.pem",
}
URLS = (
    "ANTHROPIC_BASE_URL",
    "OPENAI_BASE_URL",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_VERTEX_BASE_URL",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
)

WAYS: list[Callable[[Target], Target]] = [lambda target: target, without_http_client, asynchronous]
ways = pytest.mark.parametrize("way", WAYS, ids=["injected", "loopback", "async"])


@pytest.fixture
def tools(tmp_path: Path) -> Scenario:
    return scenario(tmp_path, WITH_TOOLS)


@pytest.fixture
def target() -> Target:
    return shipped_targets()["anthropic"]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> CassetteLibrary:
    """Recordings of `tools` for all targets."""
    folder = tmp_path_factory.mktemp("recorded")
    library = CassetteLibrary(folder / "cassettes")
    run = Run(InProcess(), [], recorder=Recorder(library))
    run([Cell(scenario(folder, WITH_TOOLS), target, "whole") for target in shipped_targets().values()])
    return library


class Seen:
    """A rule without flaws, which keeps the exchanges."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.rule = Rule("seen", Subject.TOOLS, "All is seen.", "us", self._check, Kind.LOSS, "")

    def _check(self, evidence: Evidence) -> Iterable[RuleViolation]:
        self.exchanges += evidence.transcript.exchanges
        return ()


class Spied:
    """A target whose adapter tells what endpoint it is given."""

    def __init__(self, target: Target) -> None:
        self.endpoints: list[Endpoint] = []

        def connect(endpoint: Endpoint, model: str) -> object:
            self.endpoints.append(endpoint)
            return target.adapter.connect(endpoint, model)

        self.target = connecting(target, connect)  # type: ignore[arg-type]


def run_one(backend: Backend, cell: Cell, *rules: Rule) -> CellResult:
    return Run(backend, rules)([cell]).cells[0]


@ways
@pytest.mark.parametrize("mode", ["replay", "reference"])
def test_an_adapter_runs_with_a_client_or_through_the_loopback_server(
    tools: Scenario, target: Target, library: CassetteLibrary, way: Callable[[Target], Target], mode: str
) -> None:
    spied, seen = Spied(way(target)), Seen()
    result = run_one(
        ReplayBackend([library]) if mode == "replay" else ReferenceBackend(),
        Cell(tools, spied.target, "whole"),
        seen.rule,
        *all_rules(),
    )
    assert (result.verdict, result.findings) == (Verdict.PASS, ())
    (endpoint,) = spied.endpoints
    assert endpoint.api_key == "not-a-key"
    if way is WAYS[0]:
        assert isinstance(endpoint.http_client, httpx2.Client)
        assert endpoint.base_url.startswith(REFERENCE_URL if mode == "replay" else "http://127.0.0.1:")
    else:
        assert endpoint.http_client is None
        assert endpoint.base_url.startswith("http://127.0.0.1:")
    assert [exchange.request.url for exchange in seen.exchanges] == [f"{REFERENCE_URL}/v1/messages"] * 2
    assert [exchange.chat for exchange in seen.exchanges] == [0, 1]
    assert [exchange.recorded is not None for exchange in seen.exchanges] == [mode == "replay"] * 2


class Trap:
    """A server that nothing may reach."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        return HttpResponse(500)


@pytest.fixture
def trap(monkeypatch: pytest.MonkeyPatch) -> Iterator[Trap]:
    trap = Trap()
    with serve() as server:
        base = server.mount(trap)
        for name, value in VARIABLES.items():
            monkeypatch.setenv(name, value)
        for name in URLS:
            monkeypatch.setenv(name, base)
        yield trap


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> list[HttpRequest]:
    """What the reference server is sent, headers and all, before anything is masked."""
    requests: list[HttpRequest] = []

    class Spy(ScriptSession):
        def __call__(self, request: HttpRequest) -> HttpResponse:
            requests.append(request)
            return super().__call__(request)

    monkeypatch.setattr(backends, "ScriptSession", Spy)
    return requests


@pytest.mark.parametrize("way", WAYS[:2], ids=["injected", "loopback"])
@pytest.mark.parametrize("name", shipped_targets())
def test_the_environment_reaches_no_offline_run(
    *,
    tools: Scenario,
    library: CassetteLibrary,
    trap: Trap,
    raw: list[HttpRequest],
    way: Callable[[Target], Target],
    name: str,
) -> None:
    cell = Cell(tools, way(shipped_targets()[name]), "whole")
    for backend in (ReferenceBackend(), ReplayBackend([library])):
        finished = Run(backend, all_rules())([cell])
        (result,) = finished.cells
        assert (result.verdict, result.findings) == (Verdict.PASS, ())
        assert KEY not in finished.to_json()
    assert trap.requests == []
    assert len(raw) == 2
    for request in raw:
        assert KEY not in repr(request)
        assert "x-ambient" not in request.headers


def test_an_environment_has_its_provenance(tools: Scenario, target: Target, library: CassetteLibrary) -> None:
    cell = Cell(tools, target, "whole")
    with ReferenceBackend() as reference, reference.open_cell(cell) as environment:
        assert (environment.scripted, environment.stale, environment.player) == (True, False, None)
        assert (environment.provenance.origin, environment.provenance.model_requested) == ("reference", target.model)
    with ReplayBackend([library]) as replay:
        with replay.open_cell(cell) as environment:
            assert (environment.scripted, environment.stale) == (True, False)
            assert environment.player is not None
            assert environment.player.unplayed == 2
        for change, scripted, stale in (("title", True, False), ("system", True, True), ("turns", False, False)):
            changed = tools.model_copy(update={change: said_otherwise(tools) if change == "turns" else "Another"})
            with replay.open_cell(replace(cell, scenario=changed)) as environment:
                assert (environment.scripted, environment.stale) == (scripted, stale), change


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/messages/count_tokens", {"messages": [], "model": "claude-fable-5"}),
        ("/responses/input_tokens", {"input": "Hello."}),
        ("/models/no-such:generateContents", {"contents": []}),
    ],
)
def test_a_request_for_a_token_count_is_no_part_of_a_conversation(
    tools: Scenario, target: Target, path: str, body: dict[str, object]
) -> None:
    with ReferenceBackend() as reference, reference.open_cell(Cell(tools, target, "whole")) as environment:
        client = cast("httpx2.Client", environment.endpoint.http_client)
        answer = client.post(f"{environment.endpoint.base_url}/v1{path}", json=body)
        is_counted = path.endswith("tokens")
        assert (answer.status_code, len(environment.log.exchanges)) == ((200, 0) if is_counted else (404, 1))
        assert ("input_tokens" in answer.json()) is is_counted


def said_otherwise(scenario: Scenario) -> list[TurnSpec]:
    """The turns, with other words in the model's last answer."""
    (turn,) = scenario.turns
    last = turn.model[-1].model_copy(update={"text": "In other words."})
    return [turn.model_copy(update={"model": [*turn.model[:-1], last]})]


@pytest.fixture
def provider(
    tools: Scenario, target: Target, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, list[HttpRequest]]]:
    """Somebody's server that speaks Anthropic's API, and what it is sent."""
    for name in registry.api("anthropic").key_variables:
        monkeypatch.delenv(name, raising=False)
    requests: list[HttpRequest] = []
    session = ScriptSession(tools, registry.api("anthropic"), target.model, target.profile)

    def answer(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        return session(request)

    with serve() as server:
        yield server.mount(answer), requests


@ways
def test_live_sends_the_key_to_the_provider_stores_it_nowhere_and_can_be_replayed(
    *,
    tools: Scenario,
    target: Target,
    provider: tuple[str, list[HttpRequest]],
    way: Callable[[Target], Target],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base, requests = provider
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    live, seen, paid, cell = (
        LiveBackend({"anthropic": base}),
        Seen(),
        CassetteLibrary(tmp_path),
        Cell(tools, way(target), "whole"),
    )
    result = Run(live, [seen.rule], recorder=Recorder(paid))([cell]).cells[0]
    assert (result.verdict, result.exchanges) == (Verdict.PASS, 2)
    assert result.provenance is not None
    assert (result.provenance.origin, result.provenance.recorded_from) == ("server", base.rpartition("/")[0])
    assert [request.headers["authorization"] for request in requests] == [f"Bearer {KEY}"] * 2
    assert live.redactor().text(f"It is {KEY}.") == "It is REDACTED."
    assert [exchange.request.url for exchange in seen.exchanges] == [f"{base}/v1/messages"] * 2
    assert KEY not in repr(seen.exchanges)
    (path,) = paid.paths()
    assert KEY.encode() not in path.read_bytes()
    replayed = run_one(ReplayBackend([paid]), cell, *all_rules())
    assert [finding for finding in replayed.findings if finding.severity == "error"] == []
    assert replayed.provenance is not None
    assert replayed.provenance.recorded_from == base.rpartition("/")[0]


def test_live_without_a_key(tools: Scenario, target: Target, provider: tuple[str, list[HttpRequest]]) -> None:
    base, requests = provider
    with pytest.raises(MissingKey) as raised:
        run_one(LiveBackend({}), Cell(tools, target, "whole"))
    assert raised.value.target == "anthropic"
    assert tuple(raised.value.variables) == registry.api("anthropic").key_variables
    own = LiveBackend({"anthropic": base})  # a server of one's own may need none
    assert run_one(own, Cell(tools, target, "whole")).verdict is Verdict.PASS
    assert [request.headers["authorization"] for request in requests] == ["Bearer not-a-key"] * 2


def test_an_answer_that_is_late_since_the_run_was_stopped_is_awaited(
    tools: Scenario, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = ScriptSession.__call__

    def late(session: ScriptSession, request: HttpRequest) -> HttpResponse:
        time.sleep(0.2)
        return answered(session, request)

    monkeypatch.setattr(ScriptSession, "__call__", late)
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 0.05)
    result = run_one(ReferenceBackend(), Cell(tools, target, "whole"), *all_rules())
    assert result.verdict is Verdict.PASS
