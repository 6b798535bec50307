"""What the checks of servers and of gateways share: base URLs, answers that are damaged, `--strict`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import urlsplit

from harness.apis.api import Api
from harness.apis.eventstream import DONE, events, is_event_stream
from harness.contract.http import HttpResponse
from harness.contract.model import JSON
from harness.results import Finding, Severity
from harness.tape.redact.address import shown

_VERSION = r"/v\d+(?:(?:alpha|beta)\d*)?"
_VERSIONS = re.compile(rf"({_VERSION})(?=/)")
_AT_END = re.compile(rf"(?:{_VERSION})+/?$")


def client_base_url(api: Api, base_url: str) -> str:
    """The base URL that the client gets. The version that an SDK would add may be left out, as of a server."""
    root = base_url.rstrip("/")
    is_complete = api.base_path or _AT_END.search(root)
    return root if is_complete else root + api.base_url_ending


def suggestion(api: Api, base_url: str, asked: str) -> str:
    """The base URL that may be meant, as a sentence with a space in front; empty where the address that was `asked`
    has one version."""
    count = len(_VERSIONS.findall(urlsplit(asked).path))
    if count == 1 or (count == 0 and not api.base_url_ending):
        return ""
    root = _AT_END.sub("", base_url.rstrip("/"))
    return f" Did you mean {shown(root + (api.base_path if count else api.base_url_ending))}?"


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


def graded(findings: Iterable[Finding], *, strict: bool) -> tuple[Finding, ...]:
    """The findings, in a strict check each as an error."""
    return tuple(replace(each, severity=Severity.ERROR) if strict else each for each in findings)
