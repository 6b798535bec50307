"""Other ways to send a stream: its bytes cut elsewhere, or its calls in the chunks of some servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, zip_longest
from typing import TypeAlias

from harness.apis.api import Api, StreamShape
from harness.contract.http import Delivery, HttpResponse
from harness.rules.retelling import is_unread
from harness.tape.recut import recut

Way: TypeAlias = Callable[[HttpResponse, str], tuple[HttpResponse, str]]
"""Returns a stream sent in another way, and in words which; the same for the same stream and seed."""

Ways: TypeAlias = Callable[[Api], Sequence[Way]]
"""The ways for the streams of one conversation in an API, one after the other, and then again from the first."""


def cut(number: int) -> Way:
    """The way of `harness.tape.recut` with this number."""
    return lambda response, seed: recut(response, number, seed)


def _readable(wire: Api, number: int, response: HttpResponse, seed: str) -> tuple[HttpResponse, str]:
    """The cut with this number, or the first after it in a framing that the API's official SDK can read."""
    cuts = (recut(response, each, seed) for each in count(number))
    return next((told, way) for told, way in cuts if not is_unread(wire, way))


def shaped(name: str, shape: StreamShape) -> Way:
    """The way that sends calls in the chunks of some servers; a stream that it does not change is cut elsewhere."""
    return partial(_shaped, name, shape)


def _shaped(name: str, shape: StreamShape, response: HttpResponse, seed: str) -> tuple[HttpResponse, str]:
    body = shape.respell(response.body, seed)
    if body == response.body or response.delivery.ending != "complete":
        return recut(response, 0, seed)
    told = HttpResponse(response.status, response.headers, body, Delivery((len(body),)))
    return told, f"in the chunks of some servers, {name}"


def shapes_and_cuts(cuts: int, wire: Api) -> Sequence[Way]:
    """Return the documented shapes of an API's streams, in turn with so many other cuts of the bytes."""
    shapes = [shaped(name, shape) for name, shape in wire.stream_shapes.items() if not shape.departs]
    pairs = zip_longest(shapes, [partial(_readable, wire, number) for number in range(cuts)])
    return [way for pair in pairs for way in pair if way is not None]
