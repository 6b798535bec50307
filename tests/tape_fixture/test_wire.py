"""What goes over the wire besides a plain question and a plain answer, by each client, recorded and replayed."""

from __future__ import annotations

import asyncio
import gzip
import io
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.cassettes import content_encoding
from harness.cassettes.cassette_files import read
from harness.cassettes.client_patches import intercept_requests
from harness.cassettes.loopback_server import serve
from harness.cassettes.tape_player import TapePlayer
from harness.cassettes.tape_recorder import TapeRecorder, redactor
from harness.model.errors import CassetteError
from harness.model.http import HttpRequest, HttpResponse
from harness.pytest_plugin import pytest_report_header

TEXT = "Ça va? " * 50


def handle(request: HttpRequest) -> HttpResponse:
    match request.url.rpartition("/")[2]:
        case "packed":  # though nobody said that it may be
            return HttpResponse(200, {"content-encoding": "gzip"}, gzip.compress(TEXT.encode()))
        case "unknown":
            return HttpResponse(200, {"content-encoding": "br"}, b"\x8b\x01\x80hi\x03")
        case "moved":
            return HttpResponse(302, {"location": "/there"})
        case "empty":
            return HttpResponse(204)
        case _:
            return HttpResponse(200, {"content-type": "text/plain"}, request.method.encode() + request.body)


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serve(handle) as server:
        yield server.origin


def by_httpx2(method: str, url: str, data: Any = None) -> tuple[int, str]:
    answer = httpx2.request(method, url, content=data, follow_redirects=True)
    return answer.status_code, answer.text


def by_requests(method: str, url: str, data: Any = None) -> tuple[int, str]:
    requests = pytest.importorskip("requests", reason="requests is not installed, so nobody's agent uses it")
    answer = requests.request(method, url, data=data, timeout=5)
    answer.encoding = "utf-8"
    return answer.status_code, answer.text


def by_aiohttp(method: str, url: str, data: Any = None) -> tuple[int, str]:
    aiohttp = pytest.importorskip("aiohttp", reason="aiohttp is not installed, so nobody's agent uses it")

    async def run() -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.request(method, url, data=data) as answer:
            return answer.status, await answer.text("utf-8")

    return asyncio.run(run())


def by_urllib(method: str, url: str, data: Any = None) -> tuple[int, str]:
    asked = urllib.request.Request(url, data, method=method)  # noqa: S310 - the URL is ours
    with urllib.request.urlopen(asked, timeout=5) as answer:  # noqa: S310
        return answer.status, answer.read().decode()


CLIENTS = {"urllib": by_urllib, "httpx2": by_httpx2, "requests": by_requests, "aiohttp": by_aiohttp}


def everything(_request: HttpRequest) -> bool:
    return True


def both(path: Path, send: Callable[[], object]) -> tuple[object, object, list[HttpRequest]]:
    """What a client got while it was recorded, what it got from the recording, and the recorded requests."""
    recording = TapeRecorder(everything)
    with intercept_requests(recording.handle):
        live = send()
    recording.save(path)
    cassette = read(path)
    player = TapePlayer(cassette, everything, redactor)
    with intercept_requests(player.handle):
        again = send()
    assert not player.unused
    return live, again, [each.request for each in cassette.interactions]


ANSWERS = {
    ("GET", "packed"): (200, TEXT),
    ("GET", "moved"): (200, "GET"),
    ("DELETE", "empty"): (204, ""),
    ("HEAD", "head"): (200, ""),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("asked", ANSWERS, ids="-".join)
def test_an_answer_is_the_same(origin: str, tmp_path: Path, client: str, asked: tuple[str, str]) -> None:
    method, path = asked
    live, again, _ = both(tmp_path / "tape.yaml", lambda: CLIENTS[client](method, f"{origin}/{path}"))
    assert live == again == ANSWERS[asked]


def pieces() -> Iterator[bytes]:
    yield b"one "
    yield b"two"


async def pieces_async() -> AsyncIterator[bytes]:
    yield b"one "
    yield b"two"


def file() -> io.BytesIO:
    return io.BytesIO(b"one two")


def text() -> str:
    return "one two"


@pytest.mark.parametrize(
    ("client", "data"),
    [
        ("urllib", pieces),
        ("urllib", file),
        ("httpx2", pieces),
        ("requests", pieces),
        ("requests", file),
        ("requests", text),
        ("aiohttp", pieces_async),
        ("aiohttp", file),
    ],
)
def test_a_body_that_comes_in_pieces_is_sent_and_recorded(
    origin: str, tmp_path: Path, client: str, data: Callable[[], Any]
) -> None:
    live, again, requests = both(tmp_path / "tape.yaml", lambda: CLIENTS[client]("POST", f"{origin}/a", data()))
    assert live == again == (200, "POSTone two")
    assert [each.body for each in requests] == [b"one two"]


def test_an_answer_that_cannot_be_unpacked_is_not_written(
    origin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content_encoding, "_module", lambda _: None)
    recording, path = TapeRecorder(everything), tmp_path / "tape.yaml"
    with intercept_requests(recording.handle):
        by_httpx2("GET", f"{origin}/unknown")
    with pytest.raises(CassetteError) as raised:
        recording.save(path)
    assert str(raised.value).replace(str(path), "TAPE").replace(origin.removeprefix("http://"), "HERE") == (
        "TAPE (interaction 0): the answer to GET HERE/unknown came as 'br', which cannot be unpacked here: "
        "pip install brotli."
    )
    assert not path.exists()


def test_an_obstacle_to_recording_is_reported_before_anything_is_sent(
    pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pytestconfig.option, "harness_record", "all")
    monkeypatch.setattr(content_encoding, "_module", lambda name: None if name == "zstd" else name)
    assert pytest_report_header(pytestconfig) == [
        "harness: zstd responses cannot be recorded: pip install backports.zstd"
    ]
    monkeypatch.setattr(content_encoding, "_module", lambda name: name)
    assert pytest_report_header(pytestconfig) == []


@pytest.mark.parametrize(("name", "module"), [("br", "brotli"), ("zstd", "backports.zstd")])
def test_what_other_packages_unpack_is_unpacked_within_bounds(
    name: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packer = pytest.importorskip(module)
    monkeypatch.setattr(content_encoding, "MAX_BYTES", 100_000)
    packed = packer.compress(TEXT.encode())
    assert content_encoding.decode(packed, name) == TEXT.encode()
    assert TEXT.encode().startswith(content_encoding.decode(packed[:-3], name, whole=False))
    with pytest.raises(ValueError, match="cut short"):
        content_encoding.decode(packed[:-3], name)
    with pytest.raises(ValueError, match="more than"):
        content_encoding.decode(packer.compress(bytes(content_encoding.MAX_BYTES + 1)), name)


def test_a_folder_that_cannot_be_written_is_named(origin: str, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("no folder")
    recording = TapeRecorder(everything)
    with intercept_requests(recording.handle):
        by_httpx2("GET", f"{origin}/a")
    with pytest.raises(CassetteError, match=r"cannot be written: .*\. What was there is unchanged\."):
        recording.save(tmp_path / "taken" / "tape.yaml")
