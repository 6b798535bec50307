"""Every client is recorded from the reference server, and played to when that is gone."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import httpx2
import pytest

from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.cassette_files import read
from harness.cassettes.client_patches import intercept_requests
from harness.cassettes.loopback_server import serve
from harness.cassettes.tape_player import TapePlayer
from harness.cassettes.tape_recorder import TapeRecorder, redactor, request_filter
from harness.model.http import Delivery, HttpRequest, HttpResponse
from tests.tape_fixture.agents import AGENTS, HEADERS, STREAMS, first
from tests.tape_fixture.project import SCENARIO, serving

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


def player_for(path: Path) -> TapePlayer:
    return TapePlayer(read(path), request_filter(()), redactor)


@pytest.mark.parametrize("client", AGENTS)
def test_a_client_is_recorded_and_replayed_without_a_server(client: str, origin: str, tmp_path: Path) -> None:
    package, ending, agent = AGENTS[client]
    pytest.importorskip(package, reason=f"{package} is not installed, so nobody's agent uses it")
    recording, path = TapeRecorder(request_filter(())), tmp_path / "tape.yaml"
    with intercept_requests(recording.handle):
        assert agent(f"{origin}/{SCENARIO}/{client}{ending}") == ANSWER
    assert recording.save(path) == 2
    assert "1234567890" not in path.read_text()

    player = player_for(path)
    with intercept_requests(player.handle):
        assert agent(f"{GONE}/{SCENARIO}/{client}{ending}") == ANSWER
    assert not player.unused
    assert [each.differences for each in player.exchanges] == [(), ()]


@pytest.mark.parametrize("client", STREAMS)
def test_a_stream_is_replayed_in_its_pieces(client: str, origin: str, tmp_path: Path) -> None:
    pytest.importorskip(client, reason=f"{client} is not installed, so nobody's agent uses it")
    recording, path = TapeRecorder(request_filter(())), tmp_path / "tape.yaml"
    with intercept_requests(recording.handle):
        recorded = STREAMS[client](f"{origin}/{SCENARIO}/stream-{client}/v1")
    recording.save(path)
    (interaction,) = read(path).interactions
    assert interaction.response is not None
    assert interaction.response.delivery.cuts == tuple(accumulate(map(len, recorded)))[:-1]
    assert len(recorded) > 5

    with intercept_requests(player_for(path).handle):
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
    with intercept_requests(lambda _request: broken), pytest.raises(error):
        STREAMS[client](GONE)


def test_requests_at_once_get_their_own_answers_in_whatever_order(tmp_path: Path) -> None:
    def echo(request: HttpRequest) -> HttpResponse:
        said = json.loads(request.body)["messages"][0]["content"]
        return HttpResponse(200, {"content-type": "application/json"}, json.dumps({"said": said}).encode())

    async def ask(url: str, texts: str) -> list[str]:
        async with httpx2.AsyncClient() as client:
            bodies = ({"model": "m", "messages": [{"role": "user", "content": text}]} for text in texts)
            answers = await asyncio.gather(*(client.post(f"{url}/chat/completions", json=body) for body in bodies))
        return [answer.json()["said"] for answer in answers]

    recording, path = TapeRecorder(request_filter(())), tmp_path / "tape.yaml"
    with serve(echo) as server, intercept_requests(recording.handle):
        assert asyncio.run(ask(f"{server.origin}/v1", "abc")) == ["a", "b", "c"]
    recording.save(path)
    assert [json.loads(each.response.body)["said"] for each in read(path).interactions if each.response] == [*"abc"]
    with intercept_requests(player_for(path).handle):
        assert asyncio.run(ask(f"{GONE}/v1", "cab")) == ["c", "a", "b"]


def test_what_speaks_no_api_is_compared_as_it_is_spelled() -> None:
    sent = HttpRequest("POST", "https://api.weather.invalid/paris?key=mine&day=1", {}, b'{"a": 1, "b": 2}')
    recorded = Interaction(replace(sent, url=sent.url.replace("mine", "yours")), HttpResponse(200))
    for body, differs in ((b'{"b":2,"a":1}', []), (b'{"a": 1, "b": 3}', ["body /b: recorded 2, sent 3"])):
        player = TapePlayer(Cassette((recorded,)), request_filter(()), redactor)
        player.handle(replace(sent, body=body))
        assert [each.message for each in player.exchanges[0].differences] == differs
    player = TapePlayer(Cassette((recorded,)), request_filter(()), redactor)
    player.handle(replace(sent, url=sent.url.replace("day=1", "day=2")))
    assert [each.message for each in player.exchanges[0].differences] == ["query: recorded 'day=1', sent 'day=2'"]
    player = TapePlayer(Cassette((recorded,)), request_filter(()), redactor)
    player.handle(replace(sent, url=sent.url.replace("paris", "rome")))
    assert player.exchanges[0].recorded is None
    assert len(player.unused) == 1


def test_a_form_whose_parts_are_marked_anew_is_the_same() -> None:
    form = HttpRequest(
        "POST",
        "https://api.files.invalid/",
        {"content-type": "multipart/form-data; boundary=abc"},
        b"--abc\r\nx\r\n--abc--",
    )
    other = replace(
        form, headers={"content-type": 'multipart/form-data; boundary="xyz1"'}, body=form.body.replace(b"abc", b"xyz1")
    )
    player = TapePlayer(Cassette((Interaction(form, HttpResponse(200)),)), request_filter(()), redactor)
    player.handle(other)
    assert player.exchanges[0].index == 0
    assert not player.exchanges[0].differences


ANTHROPIC = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi."}]}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}], "generationConfig": {"topK": 3}}
CHAT_URL = "https://api.openai.com/v1/chat/completions"
ANTHROPIC_URL = "https://api.anthropic.com/v1/messages"
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:generateContent"
CHANGES = {
    "a seed": (CHAT_URL, first(seed=1), first(seed=2), ["body /seed: recorded 1, sent 2"]),
    "a bias that is gone": (CHAT_URL, first(logit_bias={}), first(), ["body /logit_bias: recorded {}, sent nothing"]),
    "top_k": (ANTHROPIC_URL, {**ANTHROPIC, "top_k": 1}, ANTHROPIC, ["body /top_k: recorded 1, sent nothing"]),
    "topK": (
        GEMINI_URL,
        GEMINI,
        {**GEMINI, "generationConfig": {"topK": 4}},
        ["body /generationConfig/topK: recorded 3, sent 4"],
    ),
    "who asks": (CHAT_URL, first(user="me", metadata={"run": "1"}), first(user="you", store=True), []),
    "another name": (CHAT_URL, first(max_tokens=9), first(max_completion_tokens=9), []),
    "a text as a part": (
        ANTHROPIC_URL,
        ANTHROPIC,
        {**ANTHROPIC, "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}]}]},
        [],
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_setting_counts_even_if_no_view_reads_it(change: str) -> None:
    url, before, now, expected = CHANGES[change]
    recorded = HttpRequest("POST", url, {}, json.dumps(before).encode())
    player = TapePlayer(Cassette((Interaction(recorded, HttpResponse(200)),)), request_filter(()), redactor)
    player.handle(replace(recorded, body=json.dumps(now).encode()))
    assert [each.message for each in player.exchanges[0].differences if each.changes_meaning] == expected


def test_a_question_that_is_asked_as_a_stream_now_is_another() -> None:
    whole = HttpRequest("POST", "https://api.openai.com/v1/chat/completions", {}, json.dumps(first()).encode())
    player = TapePlayer(Cassette((Interaction(whole, HttpResponse(200)),)), request_filter(()), redactor)
    player.handle(replace(whole, body=json.dumps(first(stream=True)).encode()))
    (found,) = [each for each in player.exchanges[0].differences if each.changes_meaning]
    assert (found.pointer, found.message) == ("/stream", "stream: recorded false, sent true")


def test_a_client_that_a_test_imports_is_replayed_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("requests", reason="requests is not installed, so nobody's agent uses it")
    for name in [each for each in sys.modules if each.partition(".")[0] in ("requests", "urllib3")]:
        monkeypatch.delitem(sys.modules, name)
    with intercept_requests(lambda request: HttpResponse(200, {}, request.url.encode())):
        assert "urllib3" not in sys.modules
        requests = importlib.import_module("requests")
        assert requests.get("http://nowhere.invalid/a", params={"b": "c"}).text == "http://nowhere.invalid/a?b=c"
    urllib3 = importlib.import_module("urllib3")
    assert urllib3.HTTPConnectionPool.urlopen.__module__ == "urllib3.connectionpool"
    assert type(urllib3.connectionpool.__spec__.loader).__name__ == "SourceFileLoader"


def test_patches_are_gone_behind_a_test() -> None:
    methods = [("httpx2", "HTTPTransport", "handle_request"), ("urllib3", "HTTPConnectionPool", "urlopen")]
    before = [getattr(getattr(importlib.import_module(name), owner), method) for name, owner, method in methods]
    with intercept_requests(lambda _request: None):
        pass
    after = [getattr(getattr(importlib.import_module(name), owner), method) for name, owner, method in methods]
    assert before == after


def test_a_server_beside_the_test_is_let_through_unless_it_is_asked_for_a_chat() -> None:
    is_taken = request_filter(("weather.invalid", "127.0.0.1:9999"))
    chat = HttpRequest("POST", "http://localhost:4000/v1/chat/completions", {}, b'{"model": "m", "messages": []}')
    assert is_taken(chat)
    assert not is_taken(HttpRequest("GET", "http://127.0.0.1:5000/health"))
    assert not is_taken(HttpRequest("GET", "http://[::1]:5000/health"))
    assert not is_taken(HttpRequest("POST", "http://127.0.0.1:9999/v1/chat/completions", {}, chat.body))
    assert not is_taken(HttpRequest("GET", "https://api.weather.invalid/paris"))
    assert is_taken(HttpRequest("GET", "https://api.example.invalid/paris"))


def test_what_no_client_accepts_is_not_sent_for_while_it_is_recorded(origin: str) -> None:
    """Pieces of what is packed are no pieces of what is in it."""
    recording = TapeRecorder(request_filter(()))
    with intercept_requests(recording.handle):
        answer = httpx2.post(f"{origin}/{SCENARIO}/plain/v1/chat/completions", json=first(), headers=HEADERS)
    assert answer.request.headers["accept-encoding"] == "identity"


def test_a_recording_without_answers_writes_nothing(tmp_path: Path) -> None:
    assert TapeRecorder(request_filter(())).save(tmp_path / "none.yaml") == 0
    assert not (tmp_path / "none.yaml").exists()
