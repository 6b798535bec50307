"""Selection of the requests of a test that are recorded, and removal of their secrets."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

from harness import catalog
from harness.apis.api import Api
from harness.apis.services import address
from harness.contract.http import HttpRequest, HttpResponse
from harness.host import credentials
from harness.host.credentials import is_secret_field, is_secret_header
from harness.tape.cassette import Interaction
from harness.tape.redact import RESPONSE_HEADERS, Redactor
from harness.tape.redact.address import carried, secrets
from harness.tape.redact.shapes import Chosen, asks_for_token, has_tokens, is_anything_but_form, values

Taken: TypeAlias = Callable[[HttpRequest], bool]


def taken(through: Sequence[str]) -> Taken:
    """Return a function that selects the requests to record.

    Hosts in `through`, with or without port, and their subdomains are let through. Servers on this machine are let
    through, too, except for requests to an LLM API: a test has its own servers and databases, and a local model is
    recorded.
    """

    def is_taken(request: HttpRequest) -> bool:
        where = address(request.url)
        if any(where.is_below(host) or f"{where.host}:{where.port}" == host for host in through):
            return False
        return not _is_here(where.host) or spoken(request) is not None

    return is_taken


def spoken(request: HttpRequest) -> Api | None:
    """Return the API of a request, chat or embeddings; `None` for other requests."""
    for wire in catalog.apis():
        if wire.recognises(request) or (wire.embeddings is not None and wire.embeddings.recognises(request)):
            return wire
    return None


def told(request: HttpRequest) -> str:
    """Describe a request: `POST api.openai.com/v1/chat/completions (openai-chat, gpt-5.6)`."""
    parts = urlsplit(request.url)
    wire = spoken(request)
    model = wire.model_of(request) if wire is not None else None
    told = f" ({wire.name}{f', {model}' if model else ''})" if wire is not None else ""
    return f"{request.method} {parts.netloc.rpartition('@')[2]}{parts.path}{told}"


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


HEADERS = RESPONSE_HEADERS | {"date", "location"}
"""Stored response headers: also the date, which selects the facts, and the target of a redirect."""


def redactor(requests: Collection[HttpRequest] = (), learned: Iterable[str] = ()) -> Redactor:
    """Return a redactor for the keys of the environment, the secrets of `requests`, those `learned` from exchanges, and
    all texts that look like a key."""
    in_addresses = (secret for url in credentials.secret_addresses() for secret in secrets(url))
    found = {*credentials.secret_values(), *in_addresses, *_carried(requests), *learned}
    return Redactor(found, shaped=True, answered=HEADERS)


def learned(interactions: Collection[Interaction]) -> Iterator[str]:
    """Yield the secrets in exchanges with services other than LLM APIs, found by the names of fields and headers."""
    for each in interactions:
        chosen = _chosen(each.request)
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
"""A token, as opposed to a word or a name, in an exchange that issues tokens."""


def request_as_stored(request: HttpRequest, clean: Redactor) -> HttpRequest:
    """Return the request without secrets, for storage and comparison."""
    return clean.request(request, fields=_chosen(request))


def response_as_stored(request: HttpRequest, response: HttpResponse, clean: Redactor) -> HttpResponse:
    """Return the response without secrets."""
    chosen = _chosen(request)
    if chosen is not None and has_tokens(response.body):
        chosen = is_anything_but_form
    return clean.response(response, fields=chosen)


def brings_tokens(interaction: Interaction) -> bool:
    """Return whether an exchange issues tokens, so that only its structure is stored."""
    chosen, response = _chosen(interaction.request), interaction.response
    return chosen is is_anything_but_form or bool(chosen and response is not None and has_tokens(response.body))


def _chosen(request: HttpRequest) -> Chosen | None:
    if spoken(request) is not None:
        return None
    parts = urlsplit(request.url)
    asks = asks_for_token(request.method, parts.hostname or "", parts.path, request.body)
    return is_anything_but_form if asks else is_secret_field


def _carried(requests: Collection[HttpRequest]) -> Iterator[str]:
    for request in requests:
        yield from carried(request.url)
        for name, value in request.headers.items():
            if is_secret_header(name):
                yield value
                yield value.rpartition(" ")[2]  # behind `Bearer`
                if name == "cookie":
                    yield from map(_cookie, value.split(";"))


def _cookie(value: str) -> str:
    return value.partition(";")[0].partition("=")[2].strip()
