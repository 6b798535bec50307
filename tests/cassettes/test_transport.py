from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

import httpx2
import pytest

from harness.apis import registry
from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.player import ExchangeLog, ExchangeStore, Player, stream_converter
from harness.cassettes.transport import HandlerTransport, LoggingTransport, replaying
from harness.model.http import Delivery, Ending, HttpRequest, HttpResponse
from harness.results import Exchange
from tests.cassettes.samples import STREAM, Kept, cassette, request

Upstream: TypeAlias = httpx2.MockTransport

PUBLIC = "http://reference-server.invalid"
BASE = "http://127.0.0.1:8/cell-1"


def log(keep: ExchangeStore | None = None) -> ExchangeLog:
    return ExchangeLog(BASE, PUBLIC, keep)


def gzipped(request: httpx2.Request) -> httpx2.Response:
    headers = {"content-encoding": "gzip", "content-type": "text/plain", "x-odd": "kept"}
    return httpx2.Response(203, headers=headers, content=gzip.compress(b"plain"), extensions={"reason_phrase": b"Odd"})


def test_what_no_exchange_is_left_for_is_refused_in_the_form_that_is_asked_for() -> None:
    """Gemini's streams that are asked for without `alt=sse` are arrays, be they errors."""
    wire = registry.api("gemini")
    reported = stream_converter(wire, wire.profile_for("gemini-3.6-flash"), "seed")
    handler = replaying(Player(cassette()), log(), reported)
    asked = HttpRequest("POST", f"{BASE}/v1beta/models/gemini-3.6-flash:streamGenerateContent", {}, b"{}")

    plain, array = (json.loads(handler(each).body) for each in (replace(asked, url=f"{asked.url}?alt=sse"), asked))

    assert plain["error"]["type"] == "harness_exhausted"
    assert array == [plain]


def receive(transport: httpx2.BaseTransport) -> tuple[list[bytes], BaseException | None]:
    """The pieces that a client receives, and the error that ends them."""
    pieces: list[bytes] = []
    with httpx2.Client(transport=transport) as client, client.stream("GET", "http://host.example/") as answer:
        try:
            pieces.extend(answer.iter_raw())
        except httpx2.TransportError as error:
            return pieces, error
    return pieces, None


def test_what_a_cassette_says_of_time_makes_nothing_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(seconds: float) -> None:
        pytest.fail(f"waits for {seconds} s")

    monkeypatch.setattr("time.sleep", wait)
    slow = HttpResponse(429, {"retry-after": "3600"}, STREAM, Delivery((1, 2), 3600.0, "cut"))
    player = Player(Cassette((Interaction(request("a"), slow),)))
    noted = log()
    pieces, error = receive(HandlerTransport(replaying(player, noted)))
    assert (pieces, type(error)) == ([STREAM[:1], STREAM[1:2], STREAM[2:]], httpx2.RemoteProtocolError)
    [exchange] = noted.exchanges
    assert exchange.response == replace(slow, delivery=Delivery((1, 2), 0.0, "cut"))


def check_gzipped(answer: httpx2.Response, noted: ExchangeLog) -> None:
    assert (answer.status_code, answer.reason_phrase, answer.headers["x-odd"], answer.text) == (
        203,
        "Odd",
        "kept",
        "plain",
    )
    [exchange] = noted.exchanges
    assert exchange.response is not None
    assert exchange.response.body == b"plain"
    assert exchange.request.url == f"{PUBLIC}/v1"


def test_the_tap_hands_on_what_came_and_notes_it_decoded() -> None:
    noted = log()
    with httpx2.Client(transport=LoggingTransport(httpx2.MockTransport(gzipped), noted)) as client:
        check_gzipped(client.post(f"{BASE}/v1"), noted)


class Failing(httpx2.SyncByteStream):
    """A body whose second piece is an error."""

    def __init__(self, failure: Exception, piece: bytes = b"half") -> None:
        self._failure = failure
        self._piece = piece

    def __iter__(self) -> Iterator[bytes]:
        yield self._piece
        raise self._failure


def failing(failure: Exception, piece: bytes = b"half", headers: Mapping[str, str] | None = None) -> Upstream:
    return httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, stream=Failing(failure, piece)))


def receive_tapped(upstream: Upstream, log: ExchangeLog) -> tuple[list[bytes], BaseException | None]:
    return receive(LoggingTransport(upstream, log))


@pytest.mark.parametrize(
    ("failure", "ending"), [(httpx2.RemoteProtocolError("closed"), "cut"), (httpx2.ReadError("reset"), "reset")]
)
def test_an_answer_that_breaks_off_is_noted_kept_and_breaks_off_for_the_adapter(
    failure: Exception, ending: Ending
) -> None:
    kept = Kept()
    noted = log(kept)
    assert receive_tapped(failing(failure), noted) == ([b"half"], failure)
    half = HttpResponse(200, {}, b"half", Delivery(ending=ending))
    assert [response for _, response in kept.exchanges] == [each.response for each in noted.exchanges] == [half]


def test_of_a_compressed_answer_that_breaks_off_what_came_is_noted_unpacked() -> None:
    packed = gzip.compress(bytes(range(256)) * 8)[:-9]
    noted = log()
    pieces, _ = receive_tapped(failing(httpx2.ReadError("reset"), packed, {"content-encoding": "gzip"}), noted)
    assert pieces == [packed]
    [exchange] = noted.exchanges
    assert exchange.response is not None
    assert exchange.response.body.startswith(bytes(range(256)))


@pytest.mark.parametrize("failure", [httpx2.ReadTimeout("slow"), httpx2.ConnectError("refused")])
def test_an_answer_that_is_awaited_for_too_long_is_noted_as_none_and_not_kept(failure: Exception) -> None:
    kept = Kept()
    noted = log(kept)
    with pytest.raises(type(failure)):
        receive_tapped(failing(failure), noted)
    assert noted.exchanges == [Exchange(noted.exchanges[0].request, None)]
    assert kept.exchanges == []


@pytest.mark.parametrize("failure", [httpx2.RemoteProtocolError("no head"), httpx2.ReadError("reset")])
def test_a_connection_that_breaks_off_before_the_head_is_no_answer(failure: Exception) -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise failure

    noted = log()
    with pytest.raises(type(failure)):
        receive_tapped(httpx2.MockTransport(refuse), noted)
    assert [each.response for each in noted.exchanges] == [None]


def test_an_exchange_is_kept_before_its_answer_is_handed_on() -> None:
    class Full(Kept):
        def keep(self, request: HttpRequest, response: HttpResponse) -> None:
            raise OSError("disk")

    with (
        httpx2.Client(transport=LoggingTransport(httpx2.MockTransport(gzipped), log(Full()))) as client,
        pytest.raises(OSError, match="disk"),
    ):
        client.post(f"{BASE}/v1")


def test_what_an_earlier_recording_has_the_answer_to_is_not_sent() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise AssertionError("sent")

    kept = Kept({b"": HttpResponse(203, {"content-type": "text/plain"}, b"known")})
    noted = log(kept)
    assert receive_tapped(httpx2.MockTransport(refuse), noted) == ([b"known"], None)
    assert [each.response and each.response.body for each in noted.exchanges] == [b"known"]
    assert kept.exchanges == []


@pytest.mark.parametrize(
    ("url", "public"),
    [
        (f"{BASE}/v1?a=b", f"{PUBLIC}/v1?a=b"),
        (BASE, PUBLIC),
        (f"{BASE}0/v1", f"{BASE}0/v1"),
        ("http://elsewhere.example/v1", "http://elsewhere.example/v1"),
    ],
)
def test_only_urls_under_the_base_become_public(url: str, public: str) -> None:
    assert log().public(HttpRequest("GET", url)).url == public
