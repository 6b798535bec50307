"""The part of an answer that can be read although some of its JSON cannot."""

from __future__ import annotations

import json
from dataclasses import replace

from harness.apis.eventstream import DONE, events, is_event_stream
from harness.contract.http import HttpResponse
from harness.contract.model import JSON


def legible(response: HttpResponse, *, done: bool = True) -> HttpResponse:
    """The answer without what is no JSON: the events of a stream that are none (but `[DONE]`, if it may be `done`), and
    of a value numbers that JSON does not have, raw control characters, and text after its end."""
    if not is_event_stream(response.headers.get("content-type", ""), response.body):
        value = _value(response.body.decode("utf-8", "replace"))
        headers = {**response.headers, "content-type": "application/json"}
        return response if value is None else replace(response, headers=headers, body=json.dumps(value).encode())
    kept = b""
    for event in events(response.body):
        value = _value(event.data)
        text = json.dumps(value) if value is not None else event.data if done and event.data == DONE else ""
        name = f"event: {event.name}\n" if event.name else ""
        kept += f"{name}data: {text}\n\n".encode() if text else b""
    return replace(response, body=kept)


def _value(text: str) -> JSON:
    """The JSON object that a text begins with; `None`: it begins with none."""
    decoder = json.JSONDecoder(strict=False, parse_constant=lambda _name: None)
    value: JSON
    try:
        value, _ = decoder.raw_decode(text.lstrip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
