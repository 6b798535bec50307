"""What goes wrong with an answer: the provider fails instead, or what it says does not arrive as it was said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from harness.apis.api import Api
from harness.apis.view import RequestView
from harness.contract.http import Delivery, Ending, HttpResponse
from harness.scenarios.schema import FaultSpec

PIECES = 40
"""In how many pieces a slow body comes, at most."""

PAUSE = 0.002
"""Seconds between two of them."""

_PAGE = b"""<!DOCTYPE html>
<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center><hr><center>gateway</center></body></html>
"""
"""What stands between a client and its provider answers like this, with HTTP 200 at times."""

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_OBJECT_END = re.compile(rb"\}(?=\s*\Z)")
_EVENT_OBJECT_END = re.compile(rb"\}(?=[ \t]*(?:\r\n\r\n|\n\n|\r\r))")
_BETWEEN_ELEMENTS = re.compile(r"[\s,[]*")

_ENDINGS: dict[str, Ending] = {"cut": "cut", "cut-clean": "complete", "reset": "reset"}


def injected(fault: FaultSpec, wire: Api, response: HttpResponse, request: RequestView, seed: str) -> HttpResponse:
    """What arrives in place of `response`, the answer to `request` that would have come without the fault.

    A fault that only a stream can have befalls an answer that is none as what comes nearest: a failure by its status,
    and a body without its last byte.
    """
    if fault.status is not None:
        return wire.fail(fault.status, fault.retry_after, seed)
    if fault.stream_error is not None:
        if not request.stream:
            return wire.fail(fault.stream_error, None, seed)
        error = wire.stream_error(fault.stream_error, seed, request)
        begun = response.body[: _whole_events(response, request, _arrived(fault, wire, response, request))]
        if not begun and request.stream_format == "json-array":  # the error stands behind no other element
            begun, error = b"[", error.lstrip(b"\r\n,")
        return replace(response, body=begun + error)
    if fault.connection == "slow":
        step = max(1, -(-len(response.body) // PIECES))
        return replace(response, delivery=Delivery(tuple(range(step, len(response.body), step)), PAUSE))
    if fault.connection is not None:
        body = response.body[: _arrived(fault, wire, response, request)]
        return replace(response, body=body, delivery=Delivery(ending=_ENDINGS[fault.connection]))
    return _with_another_body(fault, response, request)


def _with_another_body(fault: FaultSpec, response: HttpResponse, request: RequestView) -> HttpResponse:
    match fault.body:
        case "empty":
            return replace(response, body=b"")
        case "invalid-json":
            return replace(response, body=_without_its_last_brace(response.body, request))
        case "html":
            return HttpResponse(200, {"content-type": "text/html; charset=utf-8"}, _PAGE)
        case _:
            return replace(response, headers={**response.headers, "content-type": "text/plain; charset=utf-8"})


def _without_its_last_brace(body: bytes, request: RequestView) -> bytes:
    """JSON that somebody might mend, and must not: of an event stream each event, of all else the whole."""
    if request.stream and request.stream_format == "events":
        return _EVENT_OBJECT_END.sub(b"", body)
    return _OBJECT_END.sub(b"", body.removesuffix(b"]").rstrip())


def _arrived(fault: FaultSpec, wire: Api, response: HttpResponse, request: RequestView) -> int:
    """How many bytes of the answer arrive before the fault."""
    body = response.body
    if fault.at != "end":
        return int(len(body) * fault.at)
    if not request.stream:
        return len(body) - 1
    opened, closing = (1, b"]") if request.stream_format == "json-array" else (0, b"")  # the model says no bracket
    for end in reversed(ends(body, request)):
        if not wire.read(replace(response, body=body[:end] + closing)).complete:
            return end
    return opened


def _whole_events(response: HttpResponse, request: RequestView, count: int) -> int:
    """`count`, down to where an event ends."""
    return max((end for end in ends(response.body, request) if end <= count), default=0)


def ends(body: bytes, request: RequestView) -> list[int]:
    """The offsets behind each event of a stream, or behind each element where it is a JSON array."""
    if request.stream_format == "json-array":
        return [*_element_ends(body.decode())]
    return [end.end() for end in _EVENT_END.finditer(body)]


def _element_ends(array: str) -> Iterator[int]:
    decoder = json.JSONDecoder()
    end = offset = 0
    while between := _BETWEEN_ELEMENTS.match(array, end):
        start = between.end()
        if array[start : start + 1] in ("]", ""):
            return
        try:
            _, behind = decoder.raw_decode(array, start)
        except ValueError:  # the answer is cut inside of this element
            return
        offset += len(array[end:behind].encode())
        end = behind
        yield offset
