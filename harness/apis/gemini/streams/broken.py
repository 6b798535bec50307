"""Streams that break off or go wrong, in the API's other form: events as the elements of a JSON array."""

from __future__ import annotations

from dataclasses import replace

from harness.apis.eventstream import events, is_event_stream
from harness.apis.gemini.requests import asks_for_array
from harness.apis.jsonvalue import loads
from harness.apis.view import WireError
from harness.contract.http import Delivery, HttpRequest, HttpResponse

_JSON = "application/json"
_SEPARATOR, _END = "\n,\r\n", "\n]"
_OF_THE_BODY = frozenset({"content-encoding", "content-length", "content-type", "transfer-encoding"})
"""Headers that say something of the bytes."""


def broken_for(response: HttpResponse, request: HttpRequest) -> HttpResponse:
    """An answer that is not whole, as an array where this request gets one.

    Each event is an element, the last one as far as it came. An error ends the array, as the provider's does; what
    breaks off has no end. A page, or nothing at all, is no stream, and stays what it is.
    """
    if not asks_for_array(request) or not response.body:
        return response
    content_type = response.headers.get("content-type", "")
    if is_event_stream(content_type, response.body):
        elements = [event.data for event in events(response.body + b"\n\n")]  # which ends the one that was cut off
        ended = any(map(_is_error, elements[-1:]))
    elif content_type.partition(";")[0].strip().lower() == _JSON and not response.body.startswith(b"["):
        elements = [response.body.decode(errors="replace")]
        ended = _is_whole(elements[0])
    else:
        return response
    body = f"[{_SEPARATOR.join(elements)}{_END if ended else ''}".encode()
    kept = {name: value for name, value in response.headers.items() if name not in _OF_THE_BODY}
    headers = {**kept, "content-type": f"{_JSON}; charset=UTF-8"}
    return replace(response, headers=headers, body=body, delivery=Delivery(ending=response.delivery.ending))


def _is_error(text: str) -> bool:
    return _is_whole(text) and isinstance(value := loads(text), dict) and "error" in value


def _is_whole(text: str) -> bool:
    try:
        loads(text)
    except WireError:
        return False
    return True
