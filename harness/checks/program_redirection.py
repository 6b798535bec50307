"""Redirection of the requests of a Python program whose base URL is fixed.

`harness.checks.program_startup` calls it when the program starts.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from harness.cassettes.client_patches import intercept_requests, is_local
from harness.cassettes.player import ExchangeLog
from harness.cassettes.transport import Proxy
from harness.model.http import SERVICE_HEADER, HttpRequest, HttpResponse


def redirecting_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of a program whose requests to providers are to go to `HARNESS_BASE_URL`."""
    folders = [str(Path(__file__).with_name("program_startup")), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def redirect_until_exit(base_url: str) -> None:
    """Send the requests of this process to the API of any provider to `base_url` instead. Other requests are sent as
    they are.
    """
    context = ExitStack()  # it is never closed
    forwards = dict[str, Proxy]()

    def respond(request: HttpRequest) -> HttpResponse | None:
        found = _API_URL.fullmatch(request.url)
        if found is None or is_local(request.url):
            return None
        own = found[1]
        if own not in forwards:
            forwards[own] = context.enter_context(Proxy(own, base_url, ExchangeLog(own, own)))
        if urlsplit(own).hostname not in _OF_PROVIDERS:  # the service may have a header of its own for the key
            headers = {"authorization": "Bearer none", **request.headers, SERVICE_HEADER: own}
            request = replace(request, headers=headers)
        return forwards[own](request)

    context.enter_context(intercept_requests(respond))


_OF_PROVIDERS = ("api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com")
"""Hosts of the APIs' own providers. Other hosts serve other models."""

_API_URL = re.compile(
    r"(https?://.+?)(?:/v\d\w*)?/(?:chat/completions|responses|messages|models/[^/]+:\w*[gG]enerateContent)(?:\?.*)?"
)
"""URL of a request to one of the known APIs. The first group is the part before the version."""
