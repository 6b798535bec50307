"""Redirection of the requests of a Python program whose base URL is fixed.

`harness.checks.program_startup` calls it when the program starts. Only a program that needs it loads the proxy, which
takes 0.4 s.
"""

from __future__ import annotations

import os
import re
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cassettes.client_patches import intercept_requests, is_local
from harness.model.http import SERVICE_HEADER, HttpRequest, HttpResponse

if TYPE_CHECKING:
    from harness.cassettes.transport import Proxy


def redirecting_environment(environment: dict[str, str]) -> dict[str, str]:
    """Return the environment of a program whose requests to providers are to go to `HARNESS_BASE_URL`. It has an effect
    only on Python programs, and only where harness is installed.
    """
    folders = [str(Path(__file__).with_name("program_startup")), environment.get("PYTHONPATH", "")]
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def redirect_until_exit(base_url: str) -> None:
    """Send the requests of this process to the API of any provider to `base_url` instead. Other requests, and those to
    this machine, are sent as they are.
    """
    context = ExitStack()  # it is never closed
    forwards: dict[str, Proxy] = {}

    def respond(request: HttpRequest) -> HttpResponse | None:
        service = service_of(request.url)
        if service is None:
            return None
        if service not in forwards:
            forwards[service] = context.enter_context(_proxy(service, base_url))
        return forwards[service](replace(request, headers={**request.headers, SERVICE_HEADER: service}))

    context.enter_context(intercept_requests(respond))


def service_of(url: str) -> str | None:
    """Return the base URL of the provider that a request is for, without the version. Return `None` for another request
    or one to this machine.
    """
    found = _API_URL.fullmatch(url)
    return None if found is None or is_local(url) else found[1]


def _proxy(service: str, base_url: str) -> Proxy:
    from harness.cassettes.player import ExchangeLog  # noqa: PLC0415 - takes time
    from harness.cassettes.transport import Proxy  # noqa: PLC0415 - takes time

    return Proxy(service, base_url, ExchangeLog(service, service))


_API_URL = re.compile(
    r"(https?://.+?)(?:/v\d\w*)?/(?:chat/completions|responses|messages|models/[^/]+:\w*[gG]enerateContent)(?:\?.*)?"
)
"""URL of a request to one of the known APIs. The first group is the part before the version."""
