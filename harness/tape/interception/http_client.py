"""Python's own HTTP client, and what sends through it: urllib.request, httplib2."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any
from weakref import WeakKeyDictionary

from harness.contract.http import Ending, HttpRequest, HttpResponse
from harness.tape.interception.seam import PLAIN, Asked, Keep, Patch, kept, read_off
from harness.tape.interception.urllib3_pools import MOST, plain, whole

_OTHERS = ("botocore", "urllib3", "requests")
"""Whose connections build on it in a way of their own, and are taken hold of elsewhere."""


def patches(library: Any, asked: Asked) -> Iterator[Patch]:
    """The patches of `http.client`: a request is asked about when it is sent, and answered when its answer is asked
    for."""
    owner = library.HTTPConnection
    sending, receiving = owner.request, owner.getresponse
    waiting: WeakKeyDictionary[Any, tuple[str, HttpResponse | Keep]] = WeakKeyDictionary()

    def request(self: Any, method: str, url: str, body: Any = None, headers: Any = None, **rest: Any) -> None:
        waiting.pop(self, None)
        headers = dict(headers or {})
        if type(self).__module__.startswith(_OTHERS):
            return sending(self, method, url, body, headers, **rest)
        body = whole(body)
        found = asked(HttpRequest(method.upper(), _url(self, url), plain(headers), body or b""))
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
            return read_off(found, method)
        answer = _received(receiving(self))
        found(answer)
        return read_off(answer, method)

    yield Patch(owner, "request", request)
    yield Patch(owner, "getresponse", getresponse)


def _url(connection: Any, target: str) -> str:
    if "://" in target:  # for a proxy the target is the whole
        return target
    scheme = "https" if connection.default_port == http.client.HTTPS_PORT else "http"
    behind: str | None = getattr(connection, "_tunnel_host", None)  # a proxy
    host: str = behind or connection.host
    port: int | None = getattr(connection, "_tunnel_port", None) if behind else connection.port
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}{'' if port in (None, connection.default_port) else f':{port}'}{target}"


def _received(response: Any) -> HttpResponse:
    pieces: list[bytes] = []
    ending: Ending = "complete"
    try:
        while piece := response.read1(MOST):
            pieces.append(piece)
    except http.client.IncompleteRead as error:
        pieces.append(error.partial)
        ending = "cut"
    except ConnectionError:
        ending = "reset"
    return kept(response.status, dict(response.headers.items()), pieces, ending)
