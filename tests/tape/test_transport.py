from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from harness.http import HttpRequest, HttpResponse
from harness.results import Exchange
from harness.tape.player import Player
from harness.tape.redact import Redactor
from harness.tape.tap import Tap
from harness.tape.transport import AsyncTapTransport, HandlerTransport, TapTransport, replaying
from tests.tape.samples import STREAM, cassette, request, response

PUBLIC = "http://reference-server.invalid"
BASE = "http://127.0.0.1:8/cell-1"


def tap(keep: object = None) -> Tap:
    assert keep is None or callable(keep)
    return Tap(BASE, PUBLIC, Redactor(), keep)


def gzipped(request: httpx2.Request) -> httpx2.Response:
    headers = {"content-encoding": "gzip", "content-type": "text/plain", "x-odd": "kept"}
    return httpx2.Response(203, headers=headers, content=gzip.compress(b"plain"), extensions={"reason_phrase": b"Odd"})


def test_a_cassette_is_played_and_noted_beside_its_recorded_requests() -> None:
    noted = tap()
    handler = replaying(Player(cassette("a", "b")), noted)
    with httpx2.Client(transport=HandlerTransport(handler)) as client:
        for chat, question in enumerate("ba"):
            noted.chat = chat
            sent = request(question)
            answer = client.post(f"{BASE}/v1/chat/completions", headers=dict(sent.headers), content=sent.body)
            assert answer.content == response(f"re: {question}").body
    assert [(each.chat, each.recorded) for each in noted.exchanges] == [(0, request("b")), (1, request("a"))]
    assert {each.request.url for each in noted.exchanges} == {f"{PUBLIC}/v1/chat/completions"}


def test_the_same_transport_serves_an_asynchronous_client() -> None:
    async def ask() -> bytes:
        transport = HandlerTransport(replaying(Player(cassette("a")), tap()))
        async with httpx2.AsyncClient(transport=transport) as client:
            return (await client.post(f"{BASE}/v1/chat/completions", content=request("a").body)).content

    assert asyncio.run(ask()) == response("re: a").body


@pytest.mark.parametrize("cut", [1, 7, 1000, None])
def test_a_stream_is_played_in_any_cut(cut: int | None) -> None:
    transport = HandlerTransport(lambda _: HttpResponse(200, {"content-type": "text/event-stream"}, STREAM), cut)
    with httpx2.Client(transport=transport) as client, client.stream("GET", "http://host.example/") as answer:
        pieces = list(answer.iter_raw())
    assert b"".join(pieces) == STREAM
    assert len(pieces) == -(-len(STREAM) // (cut or len(STREAM)))


def check_gzipped(answer: httpx2.Response, noted: Tap) -> None:
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
    noted = tap()
    with httpx2.Client(transport=TapTransport(httpx2.MockTransport(gzipped), noted)) as client:
        check_gzipped(client.post(f"{BASE}/v1"), noted)


def test_the_asynchronous_tap_does_the_same() -> None:
    noted = tap()

    async def ask() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=AsyncTapTransport(httpx2.MockTransport(gzipped), noted)) as client:
            return await client.post(f"{BASE}/v1")

    check_gzipped(asyncio.run(ask()), noted)


class Broken(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield b"half"
        raise httpx2.ReadError("reset")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def broken(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, stream=Broken())


def test_an_answer_that_breaks_off_is_noted_as_none_and_not_kept() -> None:
    kept: list[object] = []
    noted = tap(lambda *exchange: kept.append(exchange))
    with (
        httpx2.Client(transport=TapTransport(httpx2.MockTransport(broken), noted)) as client,
        pytest.raises(httpx2.ReadError),
    ):
        client.post(f"{BASE}/v1")
    assert noted.exchanges == [Exchange(noted.exchanges[0].request, None)]
    assert kept == []


def test_an_answer_that_breaks_off_asynchronously_is_noted_as_none() -> None:
    noted = tap()

    async def ask() -> None:
        async with httpx2.AsyncClient(transport=AsyncTapTransport(httpx2.MockTransport(broken), noted)) as client:
            await client.post(f"{BASE}/v1")

    with pytest.raises(httpx2.ReadError):
        asyncio.run(ask())
    assert [each.response for each in noted.exchanges] == [None]


def test_an_exchange_is_kept_before_its_answer_is_handed_on() -> None:
    def keep(request: HttpRequest, response: HttpResponse) -> None:
        raise OSError("disk")

    with (
        httpx2.Client(transport=TapTransport(httpx2.MockTransport(gzipped), tap(keep))) as client,
        pytest.raises(OSError, match="disk"),
    ):
        client.post(f"{BASE}/v1")


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
    assert tap().public(HttpRequest("GET", url)).url == public
