"""Patches for Python's own HTTP client and for urllib3, and thereby for urllib.request, httplib2, requests and
botocore.
"""

from __future__ import annotations

import http.client
import importlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, cast
from weakref import WeakKeyDictionary

from harness.cassettes.client_patches.connection_bytes import (
    PLAIN,
    Patch,
    RequestHook,
    StoreResponse,
    http_client_response,
    received_response,
)
from harness.model.http import Ending, HttpRequest, HttpResponse

_PORTS = {"http": 80, "https": 443}

MAX_READ_BYTES = 1 << 16
"""Maximum number of bytes to read at once."""


def urllib3_patches(module: Any, hook: RequestHook) -> Iterator[Patch]:
    """Yield the patches for `urllib3.connectionpool`. If a pool retries a request, only the final response is kept."""
    sending = module.HTTPConnectionPool.urlopen
    within = _Within()

    def urlopen(self: Any, method: str, url: str, body: Any = None, headers: Any = None, **rest: Any) -> Any:
        if within.set:
            return sending(self, method, url, body, headers, **rest)
        headers = dict(self.headers if headers is None else headers)
        body = whole(body)
        request = HttpRequest(method.upper(), _pool_url(self, url), plain(headers), body or b"")
        found = hook(request)
        if found is None:
            return sending(self, method, url, body, headers, **rest)
        if not isinstance(found, HttpResponse):
            headers = {name: value for name, value in headers.items() if _text(name).lower() != "accept-encoding"}
            raw = {**rest, "preload_content": False, "decode_content": False}
            with within.it():
                response = sending(self, method, url, body, {**headers, "accept-encoding": PLAIN}, **raw)
            answer = _pool_received(response)
            found(answer)
            found = answer
        return _response(found, request.method, rest)

    yield Patch(module.HTTPConnectionPool, "urlopen", urlopen)


class _Within(local):
    """Per-thread flag that is set while a pool sends a request. urllib3 retries by calling itself, and these calls must
    not be intercepted again.
    """

    set = False

    @contextmanager
    def it(self) -> Generator[None, None, None]:
        self.set = True
        try:
            yield
        finally:
            self.set = False


def _pool_url(pool: Any, target: str) -> str:
    if "://" in target:  # for a proxy, the target is the complete URL
        return target
    host = f"[{pool.host}]" if ":" in pool.host and not pool.host.startswith("[") else pool.host
    port = "" if pool.port in (None, _PORTS.get(pool.scheme)) else f":{pool.port}"
    return f"{pool.scheme}://{host}{port}{target}"


def whole(body: Any) -> bytes | None:
    """Return a body as bytes. It may be a string, a file or an iterable of chunks."""
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    if hasattr(body, "read"):
        read: Any = body.read()
        return whole(read)
    if isinstance(body, bytearray | memoryview):
        return bytes(cast("bytearray", body))
    return b"".join(whole(piece) or b"" for piece in cast("Iterator[Any]", body))


def plain(headers: dict[Any, Any]) -> dict[str, str]:
    """Return headers as strings, with lower-case names."""
    return {_text(name).lower(): _text(value) for name, value in headers.items()}


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _pool_received(response: Any) -> HttpResponse:
    exceptions: Any = importlib.import_module("urllib3.exceptions")
    pieces: list[bytes] = []
    ending: Ending = "complete"
    try:
        for piece in response.stream(MAX_READ_BYTES, decode_content=False):
            pieces.append(piece)  # noqa: PERF402 - keeps the pieces before a failure
    except exceptions.ProtocolError as error:
        ending = "reset" if any(isinstance(each, ConnectionError) for each in error.args) else "cut"
    response.release_conn()
    return received_response(response.status, dict(response.headers.items()), pieces, ending)


def _response(answer: HttpResponse, method: str, options: dict[str, Any]) -> Any:
    library: Any = importlib.import_module("urllib3.response")
    read = http_client_response(answer, method)
    return library.HTTPResponse(
        body=read,
        headers=dict(read.headers.items()),
        status=read.status,
        version=read.version,
        reason=read.reason,
        preload_content=options.get("preload_content", True),
        decode_content=options.get("decode_content", True),
        original_response=read,
        request_method=method,
    )


_PATCHED_LIBRARIES = ("botocore", "urllib3", "requests")
"""Libraries that subclass http.client's connections and are patched elsewhere."""


def patches(library: Any, hook: RequestHook) -> Iterator[Patch]:
    """Yield the patches for `http.client`. `request` calls `hook`, which decides whether the exchange is replayed,
    recorded or left alone. `getresponse` then returns the response.
    """
    owner = library.HTTPConnection
    sending, receiving = owner.request, owner.getresponse
    waiting: WeakKeyDictionary[Any, tuple[str, HttpResponse | StoreResponse]] = WeakKeyDictionary()

    def request(self: Any, method: str, url: str, body: Any = None, headers: Any = None, **rest: Any) -> None:
        waiting.pop(self, None)
        headers = dict(headers or {})
        if type(self).__module__.startswith(_PATCHED_LIBRARIES):
            return sending(self, method, url, body, headers, **rest)
        body = whole(body)
        found = hook(HttpRequest(method.upper(), _url(self, url), plain(headers), body or b""))
        if found is None:
            return sending(self, method, url, body, headers, **rest)
        waiting[self] = method.upper(), found
        if isinstance(found, HttpResponse):
            return None
        headers = {name: value for name, value in headers.items() if name.lower() != "accept-encoding"}
        return sending(self, method, url, body, {**headers, "Accept-Encoding": PLAIN}, **rest)

    def getresponse(self: Any) -> Any:
        method, found = waiting.pop(self, ("", None))
        if found is None:
            return receiving(self)
        if isinstance(found, HttpResponse):
            return http_client_response(found, method)
        answer = _receive(receiving(self))
        found(answer)
        return http_client_response(answer, method)

    yield Patch(owner, "request", request)
    yield Patch(owner, "getresponse", getresponse)


def _url(connection: Any, target: str) -> str:
    if "://" in target:  # for a proxy, the target is the complete URL
        return target
    scheme = "https" if connection.default_port == http.client.HTTPS_PORT else "http"
    tunnel_host: str | None = getattr(connection, "_tunnel_host", None)  # a proxy
    host: str = tunnel_host or connection.host
    port: int | None = getattr(connection, "_tunnel_port", None) if tunnel_host else connection.port
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}{'' if port in (None, connection.default_port) else f':{port}'}{target}"


def _receive(response: Any) -> HttpResponse:
    pieces: list[bytes] = []
    ending: Ending = "complete"
    try:
        while piece := response.read1(MAX_READ_BYTES):
            pieces.append(piece)
    except http.client.IncompleteRead as error:
        pieces.append(error.partial)
        ending = "cut"
    except ConnectionError:
        ending = "reset"
    return received_response(response.status, dict(response.headers.items()), pieces, ending)
