"""When a request of today is the recorded one: by meaning where it speaks an API, else as it is spelled."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from dataclasses import replace
from typing import TypeAlias
from urllib.parse import urlsplit

from harness.apis.api import Api
from harness.apis.jsonvalue import canonical, join, keys, loads, resolve
from harness.apis.view import WireError
from harness.contract.http import HttpRequest
from harness.tape.compare import RequestDifference, differences, in_bodies
from harness.tape.deck.taken import spoken
from harness.tape.player import normalised
from harness.tape.redact.address import bare
from harness.tape.telling import asks_for_stream

Key: TypeAlias = tuple[str, ...]

_VOLATILE = frozenset(
    {
        "labels",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "user",
    }
)
"""Fields of a request that say who asks, what is kept and how it is paid: they change from run to run, or with the
version of a library, and no answer with them."""

_BOUNDARY = re.compile(r"multipart/.*boundary=\"?([^\";,]+)", re.IGNORECASE)


def key(request: HttpRequest) -> Key:
    """What two requests have in common that are the same without another look: where they go, and their bodies but for
    spaces, the order of keys and the mark between the parts of a form. The server that speaks an API may be another."""
    if spoken(request) is not None:
        method, path, query, body = normalised(request)
        return method, path, query, _text(body)
    try:
        body = canonical(loads(request.body))
    except (WireError, RecursionError):
        body = _without_boundary(request)
    return request.method, bare(request.url), _text(body)


def is_comparable(recorded: HttpRequest, sent: HttpRequest) -> bool:
    """Whether one could stand for the other with differences that can be named."""
    one, other = spoken(recorded), spoken(sent)
    if one is not None or other is not None:
        return one is not None and other is not None and one.name == other.name
    return recorded.method == sent.method and _place(recorded) == _place(sent)


def apart(
    recorded: HttpRequest, sent: HttpRequest, issued: Container[str], ignored: Sequence[str]
) -> tuple[RequestDifference, ...]:
    """What differs between two requests that are comparable; `neutral` ones are those that count. Of what speaks no API
    nobody knows what it means, so all counts but how it is spelled.

    `issued` are the ids of calls that the API has issued, `ignored` JSON pointers into a body, where `*` is any one
    step: what differs there or below is left out.
    """
    wire = spoken(sent)
    if wire is None:
        found = [replace(each, neutral=True) for each in _outside_apis(recorded, sent)]
    else:
        found = [_weighed(each, recorded, sent, wire) for each in differences(recorded, sent, wire, issued=issued)]
        before, now = asks_for_stream(wire, recorded), asks_for_stream(wire, sent)
        if before != now:
            message = f"stream: recorded {str(before).lower()}, sent {str(now).lower()}"
            found = [*found, RequestDifference("/stream", before, now, neutral=True, message=message)]
    return tuple(each for each in found if not any(is_below(each.pointer, pointer) for pointer in ignored))


def _weighed(found: RequestDifference, recorded: HttpRequest, sent: HttpRequest, wire: Api) -> RequestDifference:
    """A difference in spelling counts, too, if it is in a setting that no view reads, such as a seed: a provider does
    read it. What the view reads means the same, and what is volatile changes no answer."""
    steps = keys(found.pointer)
    if found.neutral or not steps or steps[0] in _VOLATILE or any(step.isdigit() for step in steps):
        return found
    is_unread = all(_is_unread(steps, request, wire) for request in (recorded, sent))
    return replace(found, neutral=True) if is_unread else found


def _is_unread(steps: Sequence[str], request: HttpRequest, wire: Api) -> bool:
    """Whether the view of a request is the same without what stands there."""
    try:
        body = loads(request.body)
        holder = resolve(body, join("", *steps[:-1]))
        if not isinstance(holder, dict) or steps[-1] not in holder:
            return True
        before = wire.view(request)
        del holder[steps[-1]]
        return wire.view(replace(request, body=json.dumps(body).encode())) == before
    except (WireError, RecursionError):
        return False


def is_below(pointer: str, pattern: str) -> bool:
    """Whether a pointer leads to what a pattern leads to, or into it."""
    steps, wanted = pointer.split("/"), pattern.split("/")
    pairs = zip(wanted, steps, strict=False)
    return len(wanted) <= len(steps) and all(want in ("*", step) for want, step in pairs)


def _outside_apis(recorded: HttpRequest, sent: HttpRequest) -> list[RequestDifference]:
    found = list(in_bodies(_without_boundary(recorded), _without_boundary(sent)))
    one, other = urlsplit(bare(recorded.url)).query, urlsplit(bare(sent.url)).query
    if one != other:
        message = f"query: recorded {one!r}, sent {other!r}"
        found.insert(0, RequestDifference("", one, other, neutral=True, message=message))
    return found


def _place(request: HttpRequest) -> tuple[str, str]:
    parts = urlsplit(request.url)
    return parts.netloc.rpartition("@")[2], parts.path


def _without_boundary(request: HttpRequest) -> bytes:
    found = _BOUNDARY.search(request.headers.get("content-type", ""))
    return request.body.replace(found[1].encode(), b"boundary") if found else request.body


def _text(body: str | bytes) -> str:
    return body if isinstance(body, str) else body.decode("latin-1")
