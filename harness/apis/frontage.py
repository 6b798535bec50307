"""What a provider's server does around its chats: response headers, keys, models, counts, and state that it keeps.

A run of cells needs none of it, since an adapter that is played sends chats. Clients that are not ours do: the
reference server has it where it is served to them (`harness.reference.conversation_server`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from harness.apis.jsonvalue import loads
from harness.apis.view import ResponseView, WireError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON

Kept: TypeAlias = Mapping[str, JSON]
"""What a server keeps of conversations: by the id of an answer, all that was said up to it."""


class Forgotten(Exception):
    """A request leans on state that the server does not have. `response` is what the provider says to that."""

    def __init__(self, reason: str, response: HttpResponse) -> None:
        super().__init__(reason)
        self.response = response


def _nothing(_seed: str, _model: str) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontage:
    """What is around the chats of an API.

    `variables`: the environment variables by which SDKs are led to another server.
    `headers(seed, model)`: the headers of every answer, beside those that it has already.
    `has_key(request)`: whether there is a key in a request, which no server of the provider answers without.
    `keyless`: the status that a request without one gets.
    `desk(request, models)`: the answer to a request that is no chat: for the models that there are, or a count of
    tokens. `None` where it is none of these.
    `whole(request, kept)`: the request with what it leans on in its place, as if nothing were kept. Raises `Forgotten`.
    `keep(request, answer)`: the id under which the server keeps a conversation that was whole, and what it keeps of it;
    `None` where it keeps nothing.
    `echo(body, request)`: the body of an answer with what it repeats of its request.
    `several(answers)`: answers to one question as one, where the API can be asked for more than one.
    """

    variables: tuple[str, ...] = ()
    headers: Callable[[str, str], Mapping[str, str]] = _nothing
    has_key: Callable[[HttpRequest], bool] = lambda _request: True
    keyless: int = 401
    desk: Callable[[HttpRequest, Sequence[str]], HttpResponse | None] = lambda _request, _models: None
    whole: Callable[[HttpRequest, Kept], HttpRequest] = lambda request, _kept: request
    keep: Callable[[HttpRequest, ResponseView], tuple[str, JSON] | None] = lambda _request, _answer: None
    echo: Callable[[dict[str, JSON], HttpRequest], dict[str, JSON]] | None = None
    several: Callable[[Sequence[HttpResponse]], HttpResponse] | None = None


def sent(request: HttpRequest) -> dict[str, JSON]:
    """The fields of a request's body; none, if it is no JSON object."""
    try:
        body = loads(request.body)
    except WireError:
        return {}
    return body if isinstance(body, dict) else {}


def json_response(body: Mapping[str, JSON], status: int = 200) -> HttpResponse:
    """An answer that is this JSON."""
    encoded = json.dumps(body, ensure_ascii=False).encode()
    return HttpResponse(status, {"content-type": "application/json"}, encoded)


def tokens(body: bytes) -> int:
    """How many tokens there may be in a body: made up, and only plausible."""
    return max(1, len(body) // 4)
