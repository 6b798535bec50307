"""Recorder of a user's test: it selects requests, removes their secrets and writes the cassette."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TypeAlias
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.profiles import address
from harness.cassettes.cassette import Cassette, Interaction
from harness.cassettes.cassette_files import dumps_of_test, write_file
from harness.cassettes.cell_recording import suspected_secrets, suspected_secrets_message
from harness.cassettes.client_patches.connection_bytes import StoreResponse
from harness.cassettes.content_encoding import missing
from harness.cassettes.player import RequestDifference
from harness.cassettes.redact import RESPONSE_HEADERS, Redactor
from harness.cassettes.redact.secret_patterns import (
    FieldFilter,
    asks_for_token,
    has_tokens,
    is_anything_but_form,
    secrets,
    url_credentials,
    values,
)
from harness.model.errors import CassetteError
from harness.model.http import HttpRequest, HttpResponse
from harness.platform import environment
from harness.platform.environment import is_secret_field, is_secret_header

RequestFilter: TypeAlias = Callable[[HttpRequest], bool]


def request_filter(through: Sequence[str]) -> RequestFilter:
    """Return a predicate that selects the requests to record.

    Requests to the hosts in `through` and their subdomains are not recorded; a host may include a port. Nor are
    requests to servers on this machine, since a test has its own servers and databases. Requests to an LLM API on this
    machine are recorded.
    """

    def is_taken(request: HttpRequest) -> bool:
        where = address(request.url)
        if any(where.is_below(host) or f"{where.host}:{where.port}" == host for host in through):
            return False
        return not _is_here(where.host) or api_of(request) is not None

    return is_taken


def api_of(request: HttpRequest) -> Api | None:
    """Return the API of a chat or embedding request, or `None` for other requests."""
    for wire in registry.apis():
        if wire.recognises(request) or (wire.embeddings is not None and wire.embeddings.recognises(request)):
            return wire
    return None


def request_line(request: HttpRequest) -> str:
    """Describe a request: `POST api.openai.com/v1/chat/completions (openai-chat, gpt-5.6)`."""
    parts = urlsplit(request.url)
    wire = api_of(request)
    model = wire.model_of(request) if wire is not None else None
    request_line = f" ({wire.name}{f', {model}' if model else ''})" if wire is not None else ""
    return f"{request.method} {parts.netloc.rpartition('@')[2]}{parts.path}{request_line}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


HEADERS = RESPONSE_HEADERS | {"date", "location"}
"""Response headers to store. In addition to the usual ones: the date, which selects the facts, and the target of a
redirect.
"""


def redactor(requests: Collection[HttpRequest] = (), learned: Iterable[str] = ()) -> Redactor:
    """Return a redactor for the keys in the environment and for all strings that look like a key.

    It also redacts the secrets in `requests` and the `learned` secrets of exchanges.
    """
    in_addresses = (secret for url in environment.secret_addresses() for secret in secrets(url))
    found = {*environment.secret_values(), *in_addresses, *_carried_secrets(requests), *learned}
    return Redactor(found, shaped=True, answered=HEADERS)


def learn_secrets(interactions: Collection[Interaction]) -> Iterator[str]:
    """Yield the secrets in exchanges with services other than LLM APIs. They are found by the names of fields and
    headers, or because the exchange issues tokens.
    """
    for each in interactions:
        chosen = _choice(each.request)
        if each.response is not None:
            headers = each.response.headers.items()
            yield from (value for name, value in headers if is_secret_header(name) and name != "set-cookie")
            yield from (_cookie(value) for name, value in headers if name == "set-cookie")
        if chosen is None:
            continue
        yield from values(each.request.body)
        response = each.response.body if each.response is not None else b""
        yield from values(response)
        if brings_tokens(each):
            yield from (value for value in values(response, is_anything_but_form) if _TOKEN.fullmatch(value))


_TOKEN = re.compile(r"(?=\D*\d)(?=.*[A-Za-z])[^\s<>]{16,}")
"""Matches a token, as opposed to a word or a name, in an exchange that issues tokens."""


def request_as_stored(request: HttpRequest, clean: Redactor) -> HttpRequest:
    """Return a request without secrets, as it is stored and compared."""
    return clean.request(request, fields=_choice(request))


def response_as_stored(request: HttpRequest, response: HttpResponse, clean: Redactor) -> HttpResponse:
    """Return a response without secrets, as it is stored."""
    chosen = _choice(request)
    if chosen is not None and has_tokens(response.body):
        chosen = is_anything_but_form
    return clean.response(response, fields=chosen)


def brings_tokens(interaction: Interaction) -> bool:
    """Return whether an exchange issues tokens. Only the structure of such an exchange is stored."""
    chosen, response = _choice(interaction.request), interaction.response
    return chosen is is_anything_but_form or bool(chosen and response is not None and has_tokens(response.body))


def _choice(request: HttpRequest) -> FieldFilter | None:
    if api_of(request) is not None:
        return None
    parts = urlsplit(request.url)
    asks = asks_for_token(request.method, parts.hostname or "", parts.path, request.body)
    return is_anything_but_form if asks else is_secret_field


def _carried_secrets(requests: Collection[HttpRequest]) -> Iterator[str]:
    for request in requests:
        yield from url_credentials(request.url)
        for name, value in request.headers.items():
            if is_secret_header(name):
                yield value
                yield value.rpartition(" ")[2]  # after `Bearer`
                if name == "cookie":
                    yield from map(_cookie, value.split(";"))


def _cookie(value: str) -> str:
    return value.partition(";")[0].partition("=")[2].strip()


@dataclass(frozen=True, slots=True)
class TapeExchange:
    """A request of a test, and the recorded interaction whose response it received, if any."""

    request: HttpRequest
    index: int | None = None
    recorded: Interaction | None = None
    differences: tuple[RequestDifference, ...] = ()

    @property
    def response(self) -> HttpResponse | None:
        """The response to the request, or `None`."""
        return self.recorded.response if self.recorded is not None else None


class TapeRecorder:
    """Collects the requests and responses of a test, in the order of the requests; thread-safe.

    `allowed` lists places where suspected secrets may be stored.
    """

    def __init__(self, taken: RequestFilter, allowed: Sequence[str] = ()) -> None:
        self._taken = taken
        self._allowed = allowed
        self._lock = Lock()
        self._requests: list[HttpRequest] = []
        self._responses: dict[int, HttpResponse] = {}

    def handle(self, request: HttpRequest) -> StoreResponse | None:
        """Return a callback for the response, or `None` if the request is not recorded."""
        if not self._taken(request):
            return None
        with self._lock:
            self._requests.append(request)
            return partial(self._keep, len(self._requests) - 1)

    @property
    def forms(self) -> list[str]:
        """Descriptions of the exchanges that issue tokens. Only their structure is stored."""
        found = [each.recorded for each in self.exchanges if each.recorded is not None]
        return [request_line(each.request) for each in found if brings_tokens(each)]

    @property
    def exchanges(self) -> list[TapeExchange]:
        """Requests that have received a response."""
        return [
            TapeExchange(request, at, Interaction(request, self._responses[at]))
            for at, request in enumerate(self._requests)
            if at in self._responses
        ]

    def save(self, path: Path) -> int:
        """Write the cassette without secrets and return the number of exchanges. Without exchanges, nothing is written.

        Raises:
            CassetteError: a response cannot be stored, the cassette would contain a secret, or the folder cannot be
                written.
        """
        interactions = [each.recorded for each in self.exchanges if each.recorded is not None]
        if interactions:
            note = f"Recorded by a test, with harness, on {dt.datetime.now(dt.UTC).date()}."
            write_file(path, text(Cassette(tuple(interactions)), note, str(path), self._allowed))
        return len(interactions)

    def _keep(self, at: int, response: HttpResponse) -> None:
        with self._lock:
            self._responses[at] = response


def text(
    cassette: Cassette, note: str, file: str, allowed: Sequence[str] = (), option: str = "--harness-allow-secret"
) -> bytes:
    """Return the contents of a test's cassette, without secrets.

    `file` is the name to use in errors. `allowed` lists places where suspected secrets in a conversation may be stored;
    `option` is the option that sets them.

    Raises:
        CassetteError: a response is missing or cannot be decompressed, the cassette would contain a known or suspected
            secret, or YAML cannot represent it.
    """
    clean = redactor([each.request for each in cassette.interactions], learn_secrets(cassette.interactions))
    kept: list[Interaction] = []
    for at, each in enumerate(cassette.interactions):
        response = each.response
        if response is not None and "content-encoding" in response.headers:
            encoding = response.headers["content-encoding"]
            package = missing().get(encoding.strip().lower())
            way_out = f": pip install {package}." if package else "."
            answered = request_line(each.request)
            reason = f"the answer to {answered} came as {encoding!r}, which cannot be unpacked here{way_out}"
            raise CassetteError(file, reason, f"interaction {at}")
        answer = response and response_as_stored(each.request, response, clean)
        kept.append(Interaction(request_as_stored(each.request, clean), answer))
    found = suspected_secrets(kept, [api_of(each.request) for each in cassette.interactions], Path(file))
    refused = suspected_secrets_message(found, allowed, option)
    if refused is not None:
        raise CassetteError(file, f"{refused}.")
    data = dumps_of_test(Cassette(tuple(kept)), note, file)
    if clean.finds(data):
        raise CassetteError(file, "a key would be in it, so nothing was written. Please report this.")
    return data
