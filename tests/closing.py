"""A server whose idle connections always end too early: each is closed in the moment in which it is used again."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from harness.model.http import HttpRequest, HttpResponse

HUNG_UP = HttpResponse(0)
"""No answer: the connection is closed."""


@contextmanager
def closing(handler: Callable[[HttpRequest], HttpResponse]) -> Generator[str]:
    """The URL of a server on loopback that answers so."""

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            self.handle_one_request()
            if not self.close_connection:
                self.rfile.read(1)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = handler(HttpRequest("POST", f"{url}{self.path}", headers, body))
            self.close_connection = answer is HUNG_UP
            if self.close_connection:
                return
            self.send_response(answer.status)
            for name, value in {**answer.headers, "content-length": str(len(answer.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Door) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield url
        finally:
            server.shutdown()
            thread.join()
