"""Base URLs that lack the version of their API, or have it twice."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from harness.apis.api import Api
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
