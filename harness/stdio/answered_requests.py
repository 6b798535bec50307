"""Requests of third-party code that gets chosen answers, or none."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from harness.apis import registry
from harness.apis.server import json_response
from harness.apis.view import ModelStep, RequestView, WireError
from harness.cassettes.client_patches import intercept_requests, is_local
from harness.cassettes.loopback_server import serve
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.stdio.sync_client import run_awaitable

BASE_PATH = "/v1"

REFUSAL = HttpResponse(400, {"content-type": "application/json"}, b'{"error": {"message": "a probe"}}')


def continues_after_call(send: Callable[[str], object], api: str, tool: str) -> bool:
    """Return whether third-party code sends a second request if the answer to its first one calls a tool.

    Code that returns the call to its caller sends none.
    """
    return len(requests_with_call(send, api, tool)) > 1


def requests_with_call(
    send: Callable[[str], object], api: str, tool: str, arguments: Mapping[str, JSON] | None = None
) -> list[RequestView]:
    """Return the requests that third-party code sends if the answer to its first one calls a tool. Its second request
    is rejected.
    """
    return requests_with_steps(send, api, [ModelStep(calls=((tool, {**(arguments or {})}),))])


def requests_with_steps(send: Callable[[str], object], api: str, steps: Sequence[ModelStep]) -> list[RequestView]:
    """Return the requests that third-party code sends if the first ones are answered with these steps, and the next one
    is rejected.
    """
    wire, requests = registry.api(api), list[RequestView]()

    def respond(request: HttpRequest) -> HttpResponse:
        try:
            view = wire.view(request)
        except WireError:  # such as a request that reports the use of a library
            return REFUSAL
        requests.append(view)
        if len(requests) > len(steps):
            return REFUSAL
        model, step = wire.model_of(request) or "", steps[len(requests) - 1]
        if view.stream:
            return wire.build_stream(step, "trial", model, wire.profile_for(model), view)
        return json_response(wire.build(step, "trial", model, wire.profile_for(model)))

    def respond_elsewhere(request: HttpRequest) -> HttpResponse | None:
        return None if is_local(request.url) else respond(request)

    with (
        serve(respond, 0) as server,
        intercept_requests(respond_elsewhere),
        _short_waits(),
        contextlib.suppress(Exception, SystemExit),
    ):
        run_awaitable(send(server.origin + BASE_PATH))
    return requests


@contextlib.contextmanager
def _short_waits() -> Generator[None, None, None]:
    """Let the waits of third-party code end at once, such as those before it repeats a rejected request."""
    sleep, sleep_asynchronously = time.sleep, asyncio.sleep

    async def wait(_delay: float, result: Any = None) -> Any:
        return await sleep_asynchronously(0, result)

    def wait_briefly(_seconds: float) -> None:
        sleep(0)

    time.sleep, asyncio.sleep = wait_briefly, wait
    try:
        yield
    finally:
        time.sleep, asyncio.sleep = sleep, sleep_asynchronously
