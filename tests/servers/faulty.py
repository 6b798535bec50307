"""Servers that are wrong in one thing: the reference server, and a fault planted in what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from harness.apis import registry
from harness.apis.eventstream import events
from harness.apis.view import ModelStep, RequestView, TextView, WireError
from harness.cassettes.redact import Redactor
from harness.checks.server_check import CheckSelection, ScriptedServer, ServerCheckRun
from harness.checks.server_session import RetryingClient, ServerUnderTest
from harness.model.http import AT_ONCE, HttpRequest, HttpResponse
from harness.results import RunResult

MODEL = "toy-1"
APIS = ("anthropic", "openai-chat", "openai-responses", "gemini")

Json = dict[str, Any]
Change = Callable[[str, RequestView | None, HttpResponse], HttpResponse]
"""What a fault makes of an answer: the API's name, the request as the witness reads it, what the server says."""


@dataclass(frozen=True)
class Fault:
    """A fault, the APIs that can have it, and the rules of which one at least has to find it. `seen_in` are checks that
    have to be run for it, where it is not to be seen in the plainest."""

    name: str
    change: Change
    found_by: frozenset[str]
    apis: tuple[str, ...] = APIS
    seen_in: tuple[str, ...] = ()

    @property
    def played_on(self) -> tuple[str, ...]:
        """All APIs for a fault of a wire; one, by its name, for a fault that any API can have."""
        return self.apis if len(self.apis) < 3 else (self.apis[crc32(self.name.encode()) % len(self.apis)],)

    @property
    def asked(self) -> CheckSelection:
        return CheckSelection(frozenset((*self.found_by, *self.seen_in)))


def faulty(api: str, change: Change) -> Callable[[HttpRequest], HttpResponse]:
    """A handler that is the reference server of an API with a fault."""
    wire = registry.api(api)
    understudy = ScriptedServer(wire, MODEL)

    def handle(request: HttpRequest) -> HttpResponse:
        try:
            view = wire.view(request)
        except WireError:
            view = None
        return change(api, view, replace(understudy(request), delivery=AT_ONCE))

    return handle


def checked(api: str, handle: Callable[[HttpRequest], HttpResponse], asked: CheckSelection | None = None) -> RunResult:
    """The check of a server inside this process."""
    wire = registry.api(api)
    server = ServerUnderTest.of(wire, MODEL, f"http://127.0.0.1:1{wire.base_path}")
    with RetryingClient(wire, "no-key", send=handle, wait=lambda _seconds: None) as line:
        return ServerCheckRun(server, line, asked or CheckSelection(), Redactor())()


# --- how answers are changed ---


def spelled(api: str, sent: Iterable[Json], *, end: bool = True) -> bytes:
    """Events as the API writes them."""
    written = b""
    for data in sent:
        name = f"event: {data['type']}\n" if api in ("anthropic", "openai-responses") else ""
        written += f"{name}data: {json.dumps(data)}\n\n".encode()
    return written + (b"data: [DONE]\n\n" if api == "openai-chat" and end else b"")


def payloads(response: HttpResponse) -> list[Json]:
    return [json.loads(event.data) for event in events(response.body) if event.data != "[DONE]"]


def in_stream(change: Callable[[list[Json]], list[Json]], *, end: bool = True) -> Change:
    """A fault of streams."""

    def changed(api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        if view is None or not view.stream or response.status != 200:
            return response
        return replace(response, body=spelled(api, change(payloads(response)), end=end))

    return changed


def in_each(change: Callable[[Json], object]) -> Change:
    """A fault of each event of a stream, which is changed in place."""

    def changed(sent: list[Json]) -> list[Json]:
        for data in sent:
            change(data)
        return sent

    return in_stream(changed)


def in_body(change: Callable[[Json], object], *, failed: bool = False) -> Change:
    """A fault of whole answers, or of errors: the body is changed in place."""

    def changed(_api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        if (response.status >= 400) is not failed or (view is not None and view.stream and not failed):
            return response
        body = json.loads(response.body)
        change(body)
        return replace(response, body=json.dumps(body).encode())

    return changed


def in_bytes(change: Callable[[bytes], bytes], *, stream: bool = True) -> Change:
    def changed(_api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        if view is None or view.stream is not stream or response.status != 200:
            return response
        return replace(response, body=change(response.body))

    return changed


def instead(when: Callable[[RequestView], bool], step: ModelStep | Callable[[RequestView], ModelStep]) -> Change:
    """A fault of the server's ears: where a request has something, the model answers as if it had not."""

    def changed(api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        if view is None or response.status != 200 or not when(view):
            return response
        wire = registry.api(api)
        made = step(view) if callable(step) else step
        profile = wire.profile_for(MODEL)
        seed = f"{made}{len(view.turns)}"
        if view.stream:
            return wire.build_stream(made, seed, MODEL, profile, view)
        body = json.dumps(wire.build(made, seed, MODEL, profile)).encode()
        return HttpResponse(200, {"content-type": "application/json"}, body)

    return changed


def refusing(when: Callable[[RequestView], bool], status: int = 400) -> Change:
    """A fault by which something right is refused."""

    def changed(api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        if view is None or not when(view):
            return response
        return registry.api(api).fail(status, None, "refused")

    return changed


def headed(name: str, value: str, *, stream: bool) -> Change:
    def changed(_api: str, view: RequestView | None, response: HttpResponse) -> HttpResponse:
        if view is None or view.stream is not stream or response.status != 200:
            return response
        return replace(response, headers={**response.headers, name: value})

    return changed


def failing(change: Callable[[HttpResponse], HttpResponse]) -> Change:
    """A fault of what the server refuses."""
    return lambda _api, _view, response: change(response) if response.status >= 400 else response


def said(view: RequestView) -> str:
    texts = [part.text for turn in view.turns for part in turn.parts if isinstance(part, TextView)]
    return texts[-1] if texts else ""


def mode(view: RequestView) -> str | None:
    return view.tool_choice.mode if view.tool_choice is not None else None
