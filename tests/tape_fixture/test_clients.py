"""Every client is recorded from the reference server, and played to when that is gone."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest

from harness.contract.http import Delivery, HttpRequest, HttpResponse
from harness.tape.cassette import Cassette
from harness.tape.deck import Playing, Recording
from harness.tape.deck.recording import redactor
from harness.tape.deck.taken import taken
from harness.tape.interception import intercepted
from harness.tape.read import read
from tests.tape_fixture.agents import AGENTS, HEADERS, STREAMS, first
from tests.tape_fixture.server import SCENARIO, serving

GONE = "http://127.0.0.1:9"
ANSWER = "18 °C and clear in Paris, 31 °C with thunder in Tokyo."
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "sk-of-the-environment-1234567890")


def playing(path: Path) -> Playing:
    return Playing(read(path), taken(()), redactor())


@pytest.mark.parametrize("client", AGENTS)
def test_a_client_is_recorded_and_played_to_when_nobody_is_there(client: str, origin: str, tmp_path: Path) -> None:
    package, ending, agent = AGENTS[client]
    pytest.importorskip(package, reason=f"{package} is not installed, so nobody's agent uses it")
    recording, path = Recording(taken(())), tmp_path / "tape.yaml"
    with intercepted(recording.asked):
        assert agent(f"{origin}/{SCENARIO}/{client}{ending}") == ANSWER
    assert recording.save(path) == 2
    assert "1234567890" not in path.read_text()

    played = playing(path)
    with intercepted(played.asked):
        assert agent(f"{GONE}/{SCENARIO}/{client}{ending}") == ANSWER
    assert not played.unused
    assert [each.differences for each in played.exchanges] == [(), ()]


@pytest.mark.parametrize("client", STREAMS)
def test_a_stream_is_played_in_its_pieces(client: str, origin: str, tmp_path: Path) -> None:
    pytest.importorskip(client, reason=f"{client} is not installed, so nobody's agent uses it")
    recording, path = Recording(taken(())), tmp_path / "tape.yaml"
    with intercepted(recording.asked):
        recorded = STREAMS[client](f"{origin}/{SCENARIO}/stream-{client}/v1")
    recording.save(path)
    (interaction,) = read(path).interactions
    assert interaction.response is not None
    assert interaction.response.delivery.cuts == tuple(accumulate(map(len, recorded)))[:-1]
    assert len(recorded) > 5

    with intercepted(playing(path).asked):
        assert STREAMS[client](f"{GONE}/{SCENARIO}/stream-{client}/v1") == recorded


ENDINGS = {
    ("httpx2", "cut"): "RemoteProtocolError",
    ("httpx2", "reset"): "ReadError",
    ("httpx", "cut"): "RemoteProtocolError",
    ("httpx", "reset"): "ReadError",
    ("requests", "cut"): "ChunkedEncodingError",
    ("requests", "reset"): "ChunkedEncodingError",
    ("aiohttp", "cut"): "ClientPayloadError",
    ("aiohttp", "reset"): "ClientPayloadError",
}


@pytest.mark.parametrize(("client", "ending"), ENDINGS)
def test_what_broke_off_breaks_off_as_on_the_wire(client: str, ending: str) -> None:
    library = pytest.importorskip(client, reason=f"{client} is not installed, so nobody's agent uses it")
    broken = HttpResponse(200, {"content-type": "text/event-stream"}, b"data: {", Delivery(ending=ending))  # type: ignore[arg-type]
    exceptions = getattr(library, "exceptions", library)
    error: type[Exception] = getattr(library, ENDINGS[client, ending], None) or getattr(
        exceptions, ENDINGS[client, ending]
    )
    with intercepted(lambda _request: broken), pytest.raises(error):
        STREAMS[client](GONE)


def test_a_client_that_is_loaded_within_a_test_is_played_to_as_well() -> None:
    program = """
import sys
from harness.contract.http import HttpResponse
from harness.tape.interception import intercepted
with intercepted(lambda request: HttpResponse(200, {}, request.url.encode())):
    assert not {"httpx2", "requests", "urllib3"} & sys.modules.keys() - {"httpx2"}
    import requests
    print(requests.get("http://nowhere.invalid/a", params={"b": "c"}).text)
import urllib3
print(urllib3.HTTPConnectionPool.urlopen.__module__, type(urllib3.connectionpool.__spec__.loader).__name__)
"""
    pytest.importorskip("requests", reason="requests is not installed, so nobody's agent uses it")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["http://nowhere.invalid/a?b=c", "urllib3.connectionpool SourceFileLoader"]


def test_patches_are_gone_behind_a_test() -> None:
    methods = [("httpx2", "HTTPTransport", "handle_request"), ("urllib3", "HTTPConnectionPool", "urlopen")]
    before = [getattr(getattr(importlib.import_module(name), owner), method) for name, owner, method in methods]
    with intercepted(lambda _request: None):
        pass
    after = [getattr(getattr(importlib.import_module(name), owner), method) for name, owner, method in methods]
    assert before == after


def test_a_server_beside_the_test_is_let_through_unless_it_is_asked_for_a_chat() -> None:
    is_taken = taken(("weather.invalid", "127.0.0.1:9999"))
    chat = HttpRequest("POST", "http://localhost:4000/v1/chat/completions", {}, b'{"model": "m", "messages": []}')
    assert is_taken(chat)
    assert not is_taken(HttpRequest("GET", "http://127.0.0.1:5000/health"))
    assert not is_taken(HttpRequest("GET", "http://[::1]:5000/health"))
    assert not is_taken(HttpRequest("POST", "http://127.0.0.1:9999/v1/chat/completions", {}, chat.body))
    assert not is_taken(HttpRequest("GET", "https://api.weather.invalid/paris"))
    assert is_taken(HttpRequest("GET", "https://api.example.invalid/paris"))


def test_what_no_client_accepts_is_not_sent_for_while_it_is_recorded(origin: str) -> None:
    """Pieces of what is packed are no pieces of what is in it."""
    httpx2 = pytest.importorskip("httpx2")
    recording = Recording(taken(()))
    with intercepted(recording.asked):
        answer = httpx2.post(f"{origin}/{SCENARIO}/plain/v1/chat/completions", json=first(), headers=HEADERS)
    assert answer.request.headers["accept-encoding"] == "identity"


def test_a_recording_without_answers_writes_nothing(tmp_path: Path) -> None:
    assert Recording(taken(())).save(tmp_path / "none.yaml") == 0
    assert not (tmp_path / "none.yaml").exists()


def test_nothing_is_left_for_a_request_behind_the_last() -> None:
    played = Playing(Cassette(()), taken(()), redactor())
    answer = played.asked(HttpRequest("GET", "https://api.example.invalid/paris"))
    assert answer is not None
    assert answer.status == 400
