from __future__ import annotations

import contextlib
import gzip
import http.client
import logging
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import httpx2
import pytest

from harness.cassettes.loopback_server import LoopbackServer, serve
from harness.cassettes.player import ExchangeLog
from harness.cassettes.transport import Proxy
from harness.model.http import Delivery, Ending, HttpRequest, HttpResponse
from tests.cassettes.samples import STREAM, Kept


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with serve() as running:
        yield running


@pytest.fixture
def client() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False) as made:
        yield made


def echo(request: HttpRequest) -> HttpResponse:
    return HttpResponse(418, {"x-method": request.method, "x-url": request.url}, request.body)


def test_a_handler_sees_the_request_and_its_answer_is_sent(server: LoopbackServer, client: httpx2.Client) -> None:
    base = server.mount(echo)
    headers = {"content-encoding": "gzip", "host": "elsewhere.example"}
    answer = client.put(f"{base}/v1/m%2Fx:y?a=b%20c", content=gzip.compress(b"body"), headers=headers)
    assert (answer.status_code, answer.content, answer.headers["x-method"]) == (418, b"body", "PUT")
    assert answer.headers["x-url"] == f"{base}/v1/m%2Fx:y?a=b%20c"


def test_it_listens_on_loopback_only(server: LoopbackServer) -> None:
    assert server.origin.startswith("http://127.0.0.1:")


def test_handlers_have_paths_of_their_own_until_they_are_unmounted(
    server: LoopbackServer, client: httpx2.Client
) -> None:
    one = server.mount(lambda _: HttpResponse(200, {}, b"one"))
    two = server.mount(lambda _: HttpResponse(200, {}, b"two"))
    assert (client.get(one).content, client.get(f"{two}/x").content) == (b"one", b"two")
    server.unmount(one)
    gone = client.get(one)
    assert (gone.status_code, gone.json()["error"]["type"]) == (404, "harness")
    assert client.get(two).content == b"two"


def test_a_handler_that_fails_is_a_500_and_the_server_goes_on(
    server: LoopbackServer, client: httpx2.Client, caplog: pytest.LogCaptureFixture
) -> None:
    base = server.mount(lambda request: HttpResponse(1 // len(request.body)))
    with caplog.at_level(logging.CRITICAL):
        failed = client.get(base)
    assert (failed.status_code, failed.json()["error"]["message"]) == (
        500,
        "harness: ZeroDivisionError: integer division or modulo by zero",
    )
    assert client.post(server.mount(echo), content=b"x").status_code == 418


def test_clients_that_hang_up_do_no_harm(
    server: LoopbackServer, client: httpx2.Client, capfd: pytest.CaptureFixture[str]
) -> None:
    base = server.mount(echo)
    host, port = server.origin.removeprefix("http://").split(":")
    path = base.removeprefix(server.origin)
    for words in (
        b"POS",
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf".encode(),
        b"\0\0\r\n\r\n",
    ):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(words)
    with socket.create_connection((host, int(port))) as connection:  # does not wait for the answer
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    assert client.post(base, content=b"x").content == b"x"
    assert capfd.readouterr() == ("", "")


def stream(client: httpx2.Client, url: str) -> tuple[httpx2.Response, list[bytes], Exception | None]:
    """A response, the pieces that came of its body, and the error that ended them."""
    pieces: list[bytes] = []
    with client.stream("GET", url) as answer:
        try:
            pieces.extend(answer.iter_raw())
        except httpx2.TransportError as error:
            return answer, pieces, error
    return answer, pieces, None


def test_what_http_has_besides_is_answered(server: LoopbackServer) -> None:
    """A body that waits for a word, a request that comes early, a HEAD, and one without a body to give."""
    slow = server.mount(lambda _: HttpResponse(200, {}, b"ab", Delivery((1,), pause=0.05))).removeprefix(server.origin)
    none = server.mount(lambda _: HttpResponse(204)).removeprefix(server.origin)
    said = server.mount(echo).removeprefix(server.origin)
    address = ("127.0.0.1", int(server.origin.rpartition(":")[2]))
    with socket.create_connection(address) as connection, connection.makefile("rb") as received:
        connection.sendall(
            f"PUT {said} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n".encode()
        )
        assert received.readline().startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"x" + f"GET {slow} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        connection.sendall(f"HEAD {said} HTTP/1.1\r\nhost: x\r\n\r\nGET {none} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        connection.sendall(b"no HTTP\r\n\r\n")
        text = received.read()
    assert re.findall(rb"HTTP/1.1 (\d+)", text) == [b"418", b"200", b"418", b"204", b"400"]
    assert b"\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\nHTTP/1.1 418" in text


@pytest.mark.parametrize("delivery", [Delivery((1,), pause=600), Delivery((1,)), Delivery((1,), ending="reset")])
def test_it_does_not_wait_for_a_client_that_has_gone(delivery: Delivery) -> None:
    with serve(lambda _: HttpResponse(200, {}, b"a" * 200_000, delivery)) as running:
        for _ in range(5):  # with room for little, so that something is not yet acknowledged
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                client.connect(("127.0.0.1", int(running.origin.rpartition(":")[2])))
                client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
                assert client.recv(1)
                time.sleep(0.01)
        until = time.monotonic() + 30
        while any(each.name == "harness-connection" for each in threading.enumerate()):
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_client_that_leaves_a_stream_early_is_not_complained_of(
    server: LoopbackServer, client: httpx2.Client, capfd: pytest.CaptureFixture[str]
) -> None:
    body = b"x" * 20_000
    answer = HttpResponse(200, {}, body, Delivery(tuple(range(1, len(body)))))
    path = server.mount(lambda _: answer).removeprefix(server.origin)
    host, _, port = server.origin.removeprefix("http://").partition(":")
    logger, handlers = logging.getLogger("asyncio"), [*logging.root.handlers]
    logging.root.handlers.clear()  # pytest's: without any, warnings go to standard error
    try:
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            assert connection.recv(100)  # and leaves the rest, which resets the connection
        assert client.post(server.mount(echo), content=b"x").content == b"x"
    finally:
        logging.root.handlers.extend(handlers)
    assert capfd.readouterr() == ("", "")
    assert (logger.level, logger.handlers, logger.filters) == (logging.NOTSET, [], [])  # the host application's


ERRORS: dict[Ending, type[httpx2.TransportError]] = {"cut": httpx2.RemoteProtocolError, "reset": httpx2.ReadError}

MESSAGES: dict[Ending, str] = {"cut": "without sending complete message body", "reset": "reset by peer"}


@pytest.mark.parametrize("ending", ERRORS)
@pytest.mark.parametrize("body", [b"", STREAM, STREAM * 100_000], ids=["empty", "short", "long"])
def test_a_connection_breaks_off_behind_the_bytes_and_the_server_goes_on(
    server: LoopbackServer, capfd: pytest.CaptureFixture[str], ending: Ending, body: bytes
) -> None:
    base = server.mount(lambda _: HttpResponse(200, {}, body, Delivery((7, 8), ending=ending)))
    with httpx2.Client(trust_env=False) as client:
        for _ in range(3):
            _, pieces, error = stream(client, base)
            assert b"".join(pieces) == body
            assert type(error) is ERRORS[ending]
            assert MESSAGES[ending] in str(error)
        assert client.post(server.mount(echo), content=b"x").content == b"x"
    assert capfd.readouterr() == ("", "")


def test_it_stops_over_an_idle_connection_and_leaves_no_thread(capfd: pytest.CaptureFixture[str]) -> None:
    before = {thread for thread in threading.enumerate() if thread.name == "harness-server"}
    for _ in range(3):
        with serve() as running:
            host = running.origin.removeprefix("http://")
            idle = http.client.HTTPConnection(host, timeout=5)
            idle.request("GET", "/")
            assert idle.getresponse().read()  # the connection is kept open over the server's end
        idle.close()
    assert {thread for thread in threading.enumerate() if thread.name == "harness-server"} == before
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("seconds", [6, 3600, 10**6])
def test_an_idle_connection_is_not_closed_under_its_client(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    base = server.mount(echo)
    now = time.monotonic
    patient = httpx2.Limits(keepalive_expiry=None)
    with httpx2.Client(trust_env=False, limits=patient) as client, httpx2.Client(trust_env=False) as other:
        before = client.post(base, content=b"x")
        port = before.extensions["network_stream"].get_extra_info("client_addr")
        monkeypatch.setattr(time, "monotonic", lambda: now() + seconds)
        for _ in range(2):  # the first wakes the server, which looks at its clock then
            other.post(base, content=b"x")
        idle: socket.socket = before.extensions["network_stream"].get_extra_info("socket")
        assert select.select([idle], [], [], 0.05)[0] == []  # neither bytes nor an end
        after = client.post(base, content=b"y")
        assert after.extensions["network_stream"].get_extra_info("client_addr") == port
    assert after.content == b"y"


def test_of_too_many_connections_the_one_that_was_idle_for_longest_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.cassettes.loopback_server._MAX_IDLE", 3)
    with serve(echo) as running, contextlib.ExitStack() as opened:
        clients = [opened.enter_context(httpx2.Client(trust_env=False)) for _ in range(4)]
        idle: list[socket.socket] = []
        for number in (0, 1, 2, 0, 3):  # the first is used again
            answer = clients[number].post(running.origin, content=b"x")
            idle.append(answer.extensions["network_stream"].get_extra_info("socket"))
        assert idle[0] is idle[3]
        assert select.select(idle[:3], [], [], 2)[0] == [idle[1]]
        assert clients[1].post(running.origin, content=b"x").content == b"x"


@pytest.mark.parametrize("sent", [b"", b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc"])
def test_clients_that_send_nothing_do_not_keep_others_out(
    monkeypatch: pytest.MonkeyPatch, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.cassettes.loopback_server._max_connections", lambda: 8)
    with serve(echo) as running, contextlib.ExitStack() as opened:
        port = int(running.origin.rpartition(":")[2])
        silent = [opened.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(30)]
        for each in silent:
            each.sendall(sent)
        assert httpx2.post(running.origin, content=b"x", trust_env=False).content == b"x"
        assert select.select(silent[:1], [], [], 2)[0] == silent[:1]
        assert select.select(silent[-1:], [], [], 0.05)[0] == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("target", ["*", "//", "//[/x", "?", "http://[/x", "http://a/b"])
def test_a_target_that_is_no_path_is_refused(target: str, capfd: pytest.CaptureFixture[str]) -> None:
    with serve(echo) as running, socket.create_connection(("127.0.0.1", int(running.origin[17:]))) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nhost: [\r\nconnection: close\r\n\r\n".encode())
        assert client.makefile("rb").read().startswith(b"HTTP/1.1 400 ")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_long_is_refused(
    server: LoopbackServer, client: httpx2.Client, monkeypatch: pytest.MonkeyPatch, announced: bool
) -> None:
    monkeypatch.setattr("harness.cassettes.loopback_server.MAX_BYTES", 2**20)
    base = server.mount(echo)
    longest = b"x" * 2**20

    def body(content: bytes) -> Iterator[bytes] | bytes:
        return content if announced else iter([content[:100], content[100:]])

    assert client.post(base, content=body(longest)).content == longest
    refused = client.post(base, content=body(longest + b"x"))
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        413,
        "harness: the body of a request may have 1 MiB at most",
    )
    assert client.post(base, content=b"x").content == b"x"


def test_the_proxy_forwards_and_notes(server: LoopbackServer, client: httpx2.Client) -> None:
    seen: list[HttpRequest] = []

    def upstream(request: HttpRequest) -> HttpResponse:
        seen.append(request)
        return HttpResponse(201, {"content-type": "text/plain", "x-request-id": "1"}, b"made")

    kept = Kept()
    provider = server.mount(upstream)
    log = ExchangeLog(provider, "https://api.example", kept)
    base = f"{server.origin}/cell"
    with Proxy(base, provider, log) as proxy:
        path = server.mount(lambda sent: proxy(replace(sent, url=base + sent.url.removeprefix(path))))
        answer = client.post(f"{path}/v1/x?a=b", content=b"ask", headers={"x-api-key": "secret-key-1"})
    assert (answer.status_code, answer.content, answer.headers["x-request-id"]) == (201, b"made", "1")
    assert (seen[0].url, seen[0].body, seen[0].headers["x-api-key"]) == (f"{provider}/v1/x?a=b", b"ask", "secret-key-1")
    assert [sent.url for sent, _ in kept.exchanges] == ["https://api.example/v1/x?a=b"]
    assert log.exchanges[0].request.headers["x-api-key"] == "REDACTED"


@pytest.mark.parametrize("ending", ERRORS)
def test_the_proxy_passes_on_an_answer_that_breaks_off(
    server: LoopbackServer, client: httpx2.Client, ending: Ending
) -> None:
    provider = server.mount(lambda _: HttpResponse(200, {}, STREAM, Delivery((7,), ending=ending)))
    kept = Kept()
    log = ExchangeLog(provider, "https://api.example", kept)
    with Proxy(provider, provider, log) as proxy:
        _, pieces, error = stream(client, server.mount(lambda sent: proxy(replace(sent, url=provider))))
    assert b"".join(pieces) == STREAM
    assert type(error) is ERRORS[ending]
    assert [(each.body, each.delivery) for _, each in kept.exchanges] == [(STREAM, Delivery(ending=ending))]


def test_the_proxy_follows_no_redirect_and_no_environment(
    server: LoopbackServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    visited: list[str] = []

    def elsewhere(request: HttpRequest) -> HttpResponse:
        visited.append(request.url)
        return HttpResponse(200)

    target = server.mount(elsewhere)
    provider = server.mount(lambda _: HttpResponse(307, {"location": target}))
    log = ExchangeLog(provider, "https://api.example")
    with Proxy("http://cell", provider, log) as proxy:
        answer = proxy(HttpRequest("POST", "http://cell/v1", {}, b"prompt"))
    assert (answer.status, visited) == (307, [])


def test_an_upstream_that_is_not_there_is_a_502_and_noted_without_an_answer() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        upstream = f"http://127.0.0.1:{taken.getsockname()[1]}"
        log = ExchangeLog(upstream, "https://api.example")
        with Proxy("http://cell", upstream, log) as proxy:
            answer = proxy(HttpRequest("POST", "http://cell/v1", {}, b"prompt"))
    assert (answer.status, answer.body) == (502, b"harness: the upstream did not answer: ConnectError")
    assert [each.response for each in log.exchanges] == [None]
