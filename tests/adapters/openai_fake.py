"""Fakes of OpenAI's service, for the tests of both adapters."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2

from harness.contract.protocols import Adapter, ChatClient, Endpoint

BASE = "http://127.0.0.1:9/cell-7/v1"
KEY = "sk-test"


class Provider:
    """Answers every request with the same response and keeps the requests."""

    def __init__(self, body: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.requests: list[httpx2.Request] = []
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.respond: Callable[[], httpx2.Response] = lambda: httpx2.Response(status, headers=headers, content=content)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return self.respond()

    def client(self, adapter: Adapter, model: str) -> ChatClient:
        http_client = httpx2.Client(transport=httpx2.MockTransport(self))
        client = adapter.connect(Endpoint(BASE, KEY, http_client), model)
        assert isinstance(client, ChatClient)
        return client

    def body(self) -> dict[str, Any]:
        (request,) = self.requests
        return json.loads(request.content)


@contextmanager
def server(status: int, headers: dict[str, str], body: bytes) -> Iterator[tuple[str, list[tuple[str, str, bytes]]]]:
    """A loopback server: its base URL, and the (path, headers, body) that reached it."""
    seen: list[tuple[str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["content-length"]))
            seen.append((self.path, str(self.headers), content))
            self.send_response(status)
            for name, value in {"content-length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}/cell-7/v1", seen
        finally:
            running.shutdown()
            thread.join()
