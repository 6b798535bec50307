"""The tap: notes what goes over the wire while a cell is played."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from time import monotonic
from typing import Protocol
from urllib.parse import urlsplit

from harness.contract.http import HttpRequest, HttpResponse
from harness.results import Exchange
from harness.tape.redact import REQUEST_HEADERS, RESPONSE_HEADERS, masked
from harness.tape.redact.address import bare


class Keep(Protocol):
    """Where the exchanges of a cell are kept, each before its response is handed on: `Recording`."""

    def keep(self, request: HttpRequest, response: HttpResponse) -> None:
        """Keep an exchange. Raises `CassetteError`."""
        ...

    def taken_up(self, request: HttpRequest) -> HttpResponse | None:
        """The answer that was kept by an earlier recording which did not come to its end. Raises `CassetteError`."""
        ...


def _roots(base: str, public: str) -> tuple[str, str]:
    """Both URLs without the path that they share, so that a request beside the base URL has a public URL as well."""
    path = urlsplit(public).path
    return (base.removesuffix(path), public.removesuffix(path)) if path and base.endswith(path) else (base, public)


class Tap:
    """Notes every exchange of a cell in `exchanges`, in order.

    They are what was sent and received, since the adapter's values are compared with them: only what may not be stored
    of headers and URLs is left out. Secrets go where a result leaves the run.

    `chat` is the index of the chat that is under way; the runner sets it. URLs under `base_url`, where the requests
    really go, are noted as URLs under `public_url`, so that they say the same wherever the server listened.
    """

    def __init__(self, base_url: str, public_url: str, keep: Keep | None = None) -> None:
        self.chat: int | None = None
        self.exchanges: list[Exchange] = []
        self.base_url = base_url.rstrip("/")
        self._base, self._public = _roots(self.base_url, public_url.rstrip("/"))
        self._keep = keep
        self._lock = Lock()

    def public(self, request: HttpRequest) -> HttpRequest:
        """The request under its public URL."""
        if self._base == self._public:
            return request
        path = request.url.removeprefix(self._base)
        if path == request.url or path[:1] not in {"", "/", "?"}:
            return request
        return replace(request, url=self._public + path)

    def taken_up(self, request: HttpRequest) -> HttpResponse | None:
        """The answer to a request that need not be sent, since an earlier recording has it; it is noted.

        Raises:
            CassetteError: what that recording has left cannot be put away.
        """
        if self._keep is None:
            return None
        public = self.public(request)
        with self._lock:
            response = self._keep.taken_up(public)
            if response is not None:
                self._add(public, response, None)
        return response

    def note(self, request: HttpRequest, response: HttpResponse | None, recorded: HttpRequest | None = None) -> None:
        """Note an exchange; `response` is `None` if none came, `recorded` the request it was played back for.

        Raises:
            CassetteError: it could not be kept.
        """
        public = self.public(request)
        with self._lock:
            if self._keep is not None and response is not None:
                self._keep.keep(public, response)
            self._add(public, response, recorded)

    def _add(self, request: HttpRequest, response: HttpResponse | None, recorded: HttpRequest | None) -> None:
        sent = replace(request, url=bare(request.url), headers=masked(request.headers, REQUEST_HEADERS))
        received = response and replace(response, headers=masked(response.headers, RESPONSE_HEADERS))
        self.exchanges.append(Exchange(sent, received, recorded, self.chat, monotonic()))
