"""Helpers of the checks of servers and gateways: base URLs and damaged responses."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from urllib.parse import urlsplit

from harness.apis.api import Api
from harness.apis.eventstream import DONE, events, is_event_stream
from harness.cassettes.redact.secret_patterns import display_url
from harness.model.http import HttpResponse
from harness.model.messages import JSON

_VERSION = r"/v\d+(?:(?:alpha|beta)\d*)?"
_VERSIONS = re.compile(rf"({_VERSION})(?=/)")
_AT_END = re.compile(rf"(?:{_VERSION})+/?$")


def client_base_url(api: Api, base_url: str) -> str:
    """Return the base URL in the form that the client's SDK expects. The user may omit the version
    that the SDK adds.
    """
    root = base_url.rstrip("/")
    is_complete = api.base_path or _AT_END.search(root)
    return root if is_complete else root + api.base_url_ending


def suggestion(api: Api, base_url: str, requested: str) -> str:
    """Return a suggested base URL as a sentence that begins with a space. Return an empty string if the requested path
    already has exactly one version.
    """
    count = len(_VERSIONS.findall(urlsplit(requested).path))
    if count == 1 or (count == 0 and not api.base_url_ending):
        return ""
    root = _AT_END.sub("", base_url.rstrip("/"))
    return f" Did you mean {display_url(root + (api.base_path if count else api.base_url_ending))}?"


def without_invalid_json(response: HttpResponse, *, done: bool = True) -> HttpResponse:
    """Return the response without invalid JSON.

    Stream events that are not JSON objects are dropped, except `[DONE]` if `done` is set. Non-JSON numbers, raw control
    characters and trailing text are removed from values.
    """
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
    """Parse the JSON object at the beginning of a text."""
    decoder = json.JSONDecoder(strict=False, parse_constant=lambda _name: None)
    value: JSON
    try:
        value, _ = decoder.raw_decode(text.lstrip("\ufeff \t\r\n"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
