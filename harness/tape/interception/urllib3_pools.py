"""urllib3, and what sends through it: requests, botocore. A pool is where a request is whole and has an address."""

from __future__ import annotations

import importlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, cast

from harness.contract.http import Ending, HttpRequest, HttpResponse
from harness.tape.interception.seam import PLAIN, Asked, Patch, kept, read_off

_PORTS = {"http": 80, "https": 443}

MOST = 1 << 16
"""Bytes that are read at once of an answer that comes in no chunks."""


def patches(module: Any, asked: Asked) -> Iterator[Patch]:
    """The patches of `urllib3.connectionpool`. Retries of a pool are its own affair: what is kept is how they end."""
    sending = module.HTTPConnectionPool.urlopen
    within = _Within()

    def urlopen(self: Any, method: str, url: str, body: Any = None, headers: Any = None, **rest: Any) -> Any:
        if within.set:
            return sending(self, method, url, body, headers, **rest)
        headers = dict(self.headers if headers is None else headers)
        body = whole(body)
        request = HttpRequest(method.upper(), _url(self, url), plain(headers), body or b"")
        found = asked(request)
        if found is None:
            return sending(self, method, url, body, headers, **rest)
        if not isinstance(found, HttpResponse):
            headers = {name: value for name, value in headers.items() if _text(name).lower() != "accept-encoding"}
            raw = {**rest, "preload_content": False, "decode_content": False}
            with within.it():
                response = sending(self, method, url, body, {**headers, "accept-encoding": PLAIN}, **raw)
            answer = _received(response)
            found(answer)
            found = answer
        return _response(found, request.method, rest)

    yield Patch(module.HTTPConnectionPool, "urlopen", urlopen)


class _Within(local):
    """Whether this thread is inside a pool already, which retries by asking itself."""

    set = False

    @contextmanager
    def it(self) -> Generator[None, None, None]:
        self.set = True
        try:
            yield
        finally:
            self.set = False


def _url(pool: Any, target: str) -> str:
    if "://" in target:  # for a proxy the target is the whole
        return target
    host = f"[{pool.host}]" if ":" in pool.host and not pool.host.startswith("[") else pool.host
    port = "" if pool.port in (None, _PORTS.get(pool.scheme)) else f":{pool.port}"
    return f"{pool.scheme}://{host}{port}{target}"


def whole(body: Any) -> bytes | None:
    """A body, be it a file or pieces that come one by one."""
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
    """Headers as texts, their names in lower case."""
    return {_text(name).lower(): _text(value) for name, value in headers.items()}


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _received(response: Any) -> HttpResponse:
    exceptions: Any = importlib.import_module("urllib3.exceptions")
    pieces: list[bytes] = []
    ending: Ending = "complete"
    try:
        for piece in response.stream(MOST, decode_content=False):
            pieces.append(piece)  # noqa: PERF402 - those that came before it broke off are kept
    except exceptions.ProtocolError as error:
        ending = "reset" if any(isinstance(each, ConnectionError) for each in error.args) else "cut"
    response.release_conn()
    return kept(response.status, dict(response.headers.items()), pieces, ending)


def _response(answer: HttpResponse, method: str, options: dict[str, Any]) -> Any:
    library: Any = importlib.import_module("urllib3.response")
    read = read_off(answer, method)
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
