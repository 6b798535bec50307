"""A live run stops where there is no API, before the second request, with the URL that was asked and the way out."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.cassettes.loopback_server import serve
from harness.model.http import HttpRequest, HttpResponse
from tests.cli.conftest import Command

KEYS = {"openai-chat": "OPENAI_API_KEY", "gemini-3": "GEMINI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def unknowing() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that knows no path, and the URLs that it was asked for."""
    asked: list[str] = []

    def handle(request: HttpRequest) -> HttpResponse:
        asked.append(request.url)
        return HttpResponse(404, {}, b"no")

    with serve() as server:
        yield server.mount(handle), asked


def live(harness: Command, monkeypatch: pytest.MonkeyPatch, target: str, url: str, *more: str) -> str:
    monkeypatch.setenv(KEYS[target], "a-key")
    words = ("-k", "call-", "--mode", "live", "--target", target, "--base-url", f"{target}={url}", "--report", "json:r")
    done = harness("run", *words, *more)
    assert (done.code, done.out) == (2, "")
    return done.err.removeprefix(f"harness: the target '{target}' does not reach its API, so the run was stopped: ")


def test_a_refused_connection_ends_the_run(
    harness: Command, monkeypatch: pytest.MonkeyPatch, refusing: str, folder: Path
) -> None:
    said = live(harness, monkeypatch, "openai-chat", f"{refusing}/v1")

    assert said == (
        f"POST {refusing}/v1/chat/completions was not answered: [Errno 111] Connection refused. Is the server up? "
        "--base-url openai-chat=URL and --model openai-chat=NAME name others.\n"
    )
    assert "Connection refused" in json.loads((folder / "r").read_text())["stopped"]


@pytest.mark.parametrize(
    ("target", "path", "asked", "way_out"),
    [
        (
            "gemini-3",
            "",
            "/v1/models/gemini-3.8-flash:generateContent",
            "Its base URL has to end in /v1beta, as in --base-url gemini-3=http://127.0.0.1:4000/v1beta.",
        ),
        (
            "openai-chat",
            "",
            "/chat/completions",
            "Its base URL has to end in /v1, as in --base-url openai-chat=http://127.0.0.1:4000/v1.",
        ),
        ("anthropic", "/v1", "/v1/v1/messages", "Its base URL must not end in /v1, which is added to it."),
        ("openai-chat", "/v1", "/v1/chat/completions", "Does the server have this path, and the model?"),
    ],
)
def test_an_unknown_path_ends_the_run_after_one_request(  # noqa: PLR0917 - its fixtures
    harness: Command,
    monkeypatch: pytest.MonkeyPatch,
    unknowing: tuple[str, list[str]],
    target: str,
    path: str,
    asked: str,
    way_out: str,
) -> None:
    url, urls = unknowing

    said = live(harness, monkeypatch, target, f"{url}{path}")

    others = f"--base-url {target}=URL and --model {target}=NAME name others.\n"
    assert said == f"POST {url}{asked} was answered with HTTP 404. {way_out} {others}"
    assert urls == [f"{url}{asked}"]
