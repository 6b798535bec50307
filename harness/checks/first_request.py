"""The first request of third-party code, which shows the API that it uses.

The code is called with the base URL of a server that rejects every request. Requests to other servers do not leave this
process.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.view import RequestView, WireError
from harness.bridge.clients.forms import ANTHROPIC, OPENAI, RESPONSES
from harness.bridge.clients.names import KNOWN_PARAMETERS, SYNONYMS
from harness.bridge.clients.own_keys import UnknownKeyError
from harness.cassettes.client_patches import intercept_requests, is_local
from harness.cassettes.loopback_server import serve
from harness.model.errors import ChatError, MalformedResponse, PluginError
from harness.model.http import HttpRequest, HttpResponse
from harness.platform.exceptions import ExceptionOrigin, exception_summary, origin, shorten
from harness.runner.serve_router import served_apis
from harness.stdio.answered_requests import BASE_PATH, REFUSAL
from harness.stdio.sync_client import run_awaitable


@dataclass(frozen=True, slots=True)
class FirstRequest:
    """The first request of a client: its API, and the path that the client expects in its base URL.

    If the client takes no base URL, `path` is its own base URL. `failure` describes the exception of a library that
    sent no request. `is_intercepted` is set if its HTTP client is known, so that no request leaves this process.
    """

    api: str | None
    path: str = ""
    reason: str = ""
    body: bytes = b""
    model: str | None = None
    failure: str = ""
    is_intercepted: bool = False

    @property
    def view(self) -> RequestView | None:
        """The request, or `None` if there is none or it is malformed."""
        if self.api is None:
            return None
        with contextlib.suppress(WireError):
            return registry.api(self.api).view(HttpRequest("POST", "http://127.0.0.1/", {}, self.body))
        return None


def first_request_of(send: Callable[[str], object], base: str = BASE_PATH) -> FirstRequest:
    """Call third-party code with the URL of a server that rejects every request, and return what the first request
    shows. Requests to other servers do not leave this process.
    """
    failure, of_library = "", ""
    requests, intercepted, local = list[HttpRequest](), list[str](), list[str]()

    def refuse(request: HttpRequest) -> HttpResponse:
        requests.append(request)
        return REFUSAL

    def refuse_elsewhere(request: HttpRequest) -> HttpResponse | None:
        intercepted.append(request.url)
        if is_local(request.url) and _api_at(request) is None:
            local.append(request.url)
            return None
        return None if request.url.startswith(f"{server.origin}/") else refuse(request)

    with serve(refuse, 0) as server, intercept_requests(refuse_elsewhere):
        try:
            run_awaitable(send(server.origin + base))
        except PluginError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - it was refused, or it fails in any way before it sends
            is_of_key = isinstance(error.__cause__, UnknownKeyError)
            is_translated = is_of_key or type(error) in (ChatError, MalformedResponse)
            raised = error.__cause__ if is_translated and error.__cause__ else error
            failure = f" ({shorten(' '.join(exception_summary(raised).split()), _MAX_FAILURE_CHARACTERS)})"
            place = origin(error)
            if place.raiser.startswith("the library") and is_mismatch(place):
                of_library = f"{place.raiser} raises {place.error}{place.line}: {place.text}"
    if not requests:
        return FirstRequest(None, reason=_reason_without_request(failure, local), failure=of_library)
    first = min(requests, key=lambda each: (not each.url.startswith(server.origin), _api_at(each) is None))
    path = urlsplit(first.url).path
    if path == base and first.url.startswith(server.origin) and re.search(rb'"(messages|input)":', first.body):
        wire = _api_of_body(first)
        return FirstRequest(wire.name, f"{base}{_ENDPOINTS[wire.name]}", body=first.body, model=wire.model_of(first))
    if (wire := _api_at(first)) is not None:
        path, is_known = _expected_path(wire, first.url, server.origin, base), bool(intercepted)
        return FirstRequest(wire.name, path, body=first.body, model=wire.model_of(first), is_intercepted=is_known)
    shown = path if first.url.startswith(server.origin) else first.url
    return FirstRequest(None, reason=f"its first request goes to {shown}, which is a path of no known API. {_NAME_API}")


def _reason_without_request(failure: str, local: Sequence[str]) -> str:
    """Return the reason why code sent no request, or none but those to the URLs of other servers on this computer."""
    if local:
        return f"its first request goes to {local[0]}, which is a path of no known API. {_NAME_API}"
    hint = f" {_NAME_CALL}" if failure else f" Its HTTP client must be one of {_HTTP_CLIENTS}."
    hint = f" {_INSTALL}" if _NAMES_PACKAGE.search(failure) else hint
    return f"it sent no request{failure}.{hint}"


def _api_at(request: HttpRequest) -> Api | None:
    """Return the API that has the path of a request. A library may also ask for models, or report its use."""
    found = (wire for wire in served_apis() if wire.recognises(replace(request, body=wire.least_body)))
    return next(found, None)


def is_mismatch(place: ExceptionOrigin) -> bool:
    """Return whether an exception shows that installed libraries are incompatible, rather than that an argument was
    wrong.
    """
    if place.error in ("ImportError", "ModuleNotFoundError"):
        return _NAMES_PACKAGE.search(f"ImportError: {place.text}") is None
    refused = re.search(r"unexpected keyword argument '(\w+)'", place.text)
    given = {*KNOWN_PARAMETERS, *SYNONYMS["messages"], "tool_choice"}
    return (refused is not None and refused[1] not in given) or place.text.startswith("module '")


_ENDPOINTS = {ANTHROPIC.name: "/messages", RESPONSES.name: "/responses", OPENAI.name: "/chat/completions"}
"""Paths of APIs for clients that take the URL of the endpoint in place of a base URL."""


def _api_of_body(request: HttpRequest) -> Api:
    """Return the API of a request whose path is unknown, by its headers and its body."""
    has_version = any(name.lower() == "anthropic-version" for name in request.headers)
    other = RESPONSES if b'"input":' in request.body else OPENAI
    return registry.api(ANTHROPIC.name if has_version else other.name)


_MAX_FAILURE_CHARACTERS = 400

_NAMES_PACKAGE = re.compile(
    r"(ImportError|ModuleNotFoundError): .*\b(pip|uv|poetry|conda) (pip )?(install|add)\b", re.DOTALL
)
"""Start of an error by which a library asks for an optional package."""

_INSTALL = "Install that package where harness is installed, and try again."

_NAME_CALL = (
    "How is it called? Write a function 'def chat(messages, tools=None)' that calls it and returns its answer, and "
    "name that function."
)

_HTTP_CLIENTS = "httpx, requests, urllib3, aiohttp, http.client and urllib"
_NAME_API = (
    "If it is the path of one of these APIs, name it: --api openai-chat, openai-responses, anthropic or gemini. Other "
    "APIs are not supported."
)


def _expected_path(wire: Api, url: str, origin: str, base: str) -> str:
    """Return the path that a client expects in its base URL, or its own base URL if the request went elsewhere."""
    path = urlsplit(url).path
    if url.startswith(f"{origin}/"):
        if not base:  # it takes no base URL with a path, so it gets the provider's
            return "://".join(urlsplit(wire.provider_url)[:2])
        version = "/v1beta" if wire.name == "gemini" else BASE_PATH
        return "" if path.startswith(BASE_PATH * 2) else version
    cuts = [place for place, letter in enumerate(path) if letter == "/"]
    tails = (each for each in reversed(cuts) if wire.paths and wire.paths.fullmatch(wire.base_path + path[each:]))
    at = next(tails, 0)
    return url[: url.index(path)] + path[:at]
