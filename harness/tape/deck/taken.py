"""Which requests of a test are recorded and played: what is between the test and the network, but not a server that
runs beside it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import TypeAlias
from urllib.parse import urlsplit

from harness import catalog
from harness.apis.api import Api
from harness.apis.servers import address
from harness.contract.http import HttpRequest

Taken: TypeAlias = Callable[[HttpRequest], bool]


def taken(through: Sequence[str]) -> Taken:
    """Whether a request is taken, by hosts that are let `through`, with a port or without, and all hosts below them.

    A server on this machine is let through as well, unless it is asked in the words of an API of models: a test has its
    own servers and databases, and a model may run here.
    """

    def is_taken(request: HttpRequest) -> bool:
        where = address(request.url)
        if any(where.is_below(host) or f"{where.host}:{where.port}" == host for host in through):
            return False
        return not _is_here(where.host) or spoken(request) is not None

    return is_taken


def spoken(request: HttpRequest) -> Api | None:
    """The API that a request speaks, be it a chat or embeddings; `None` if it speaks none."""
    for wire in catalog.apis():
        if wire.recognises(request) or (wire.embeddings is not None and wire.embeddings.recognises(request)):
            return wire
    return None


def told(request: HttpRequest) -> str:
    """A request in words: `POST api.openai.com/v1/chat/completions (openai-chat, gpt-5.6)`."""
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
