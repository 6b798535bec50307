"""The same answer in the API's other way: a stream as one body, and one body as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus
from typing import TypeAlias

from harness.apis.api import Api
from harness.apis.eventstream import separators_escaped
from harness.apis.profile import Profile
from harness.apis.view import RequestView, ResponseView, WireError
from harness.contract.http import HttpRequest, HttpResponse

Telling: TypeAlias = Callable[[HttpRequest, HttpRequest | None, HttpResponse], HttpResponse]
"""`told(request, answered, response)`: the response that `answered` got, in the way in which `request` asks for it;
without `answered` it is an error of our own."""


def as_asked(wire: Api, profile: Profile, seed: str) -> Telling:
    """Answers come as a request asks for them, whatever way they came in.

    An adapter may ask for a stream and hand it on whole: what another one recorded of the same question has the answer
    as one body. What was cut off or cannot be read is told as the API says, or as it is.
    """

    def told(request: HttpRequest, answered: HttpRequest | None, response: HttpResponse) -> HttpResponse:
        if answered is None:
            return wire.error_for(response, request)
        if request.body == answered.body and request.url == answered.url:
            return response
        asked, before = _asked(wire, request), _asked(wire, answered)
        if asked is None or before is None or _way(asked) == _way(before):
            return response
        if response.status >= HTTPStatus.BAD_REQUEST:
            return wire.error_for(response, request)
        view = _good(wire, response)
        if view is None or not isinstance(view.body, dict):
            return wire.broken_for(response, request)
        if not asked.stream:
            return one_body(view)
        stream = wire.stream_of(view.body, seed, profile, asked)
        return replace(stream, body=separators_escaped(stream.body))

    return told


def one_body(view: ResponseView) -> HttpResponse:
    """An answer as a whole one."""
    return HttpResponse(200, {"content-type": "application/json"}, json.dumps(view.body).encode())


def asks_for_stream(wire: Api, request: HttpRequest) -> bool:
    """Whether a request asks for a stream; one that cannot be read does not."""
    asked = _asked(wire, request)
    return asked is not None and asked.stream


def _way(request: RequestView) -> tuple[bool, str]:
    return request.stream, request.stream_format


def _asked(wire: Api, request: HttpRequest) -> RequestView | None:
    try:
        return wire.view(request) if wire.recognises(request) else None
    except WireError:
        return None


def _good(wire: Api, response: HttpResponse) -> ResponseView | None:
    """The view of an answer that is there as a whole."""
    try:
        view = wire.read(response)
    except WireError:
        return None
    return view if view.error is None and view.complete and response.delivery.ending == "complete" else None
