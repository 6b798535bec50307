"""Traffic through a gateway: scenarios, client, reference server as upstream, and the gateway's process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import IO, Any, TypeVar, cast
from urllib.parse import urlsplit

import httpx2

from harness.apis import registry
from harness.apis.api import Api, ClientForm
from harness.apis.registry import Target
from harness.apis.server import json_response
from harness.cassettes.player import ExchangeLog
from harness.cassettes.transport import NO_KEEPALIVE, LoggingTransport
from harness.checks.gateway_exchange import ApiPair, GatewayExchange, gateway_exchanges
from harness.model.errors import UsageError
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, ChatRequest, File, Message, Part, Tool
from harness.model.protocols import Endpoint
from harness.platform.files import shipped_folder
from harness.results import Chat, Exchange, RejectedRequest, ServedTranscript
from harness.rules.evidence import Evidence
from harness.runner.cells import Cell
from harness.runner.served_session import ServedSession, SessionOptions
from harness.runner.tool_loop import run_scenario
from harness.scenarios.load import load_paths
from harness.scenarios.schema import Scenario

FIRST_SCENARIO = "call-not-needed"
"""Id of the first scenario. It is plain text, so a failure means that the gateway does not reach the upstream."""

_SHIPPED_IDS = """
system-plain system-absent system-changed call-single call-sequential call-parallel-same-tool
call-results-reordered call-identical-twice call-without-parameters call-after-text call-again-next-turn
call-truncated arguments-escapes arguments-floats arguments-large-integers result-error result-object
result-image results-escapes history-two-turns history-long-ids choice-none choice-named choice-required
json-mode json-schema json-with-tools schema-references schema-enums schema-optional image-from-user
thinking-tool-loop thinking-provider-tool prefix-with-thinking prefix-with-media usage-cached-prompt
stop-max-tokens stop-refusal
stream-split-characters stream-cut-in-arguments stream-error-behind-text stream-error-in-arguments error-400
error-503 connection-cut
"""

SHIPPED = (FIRST_SCENARIO, *_SHIPPED_IDS.split())
"""Ids of the built-in scenarios, in the order in which they run."""


def own_folder() -> Path:
    """Return the folder of the scenarios that run only for gateways."""
    return Path(str(resources.files("harness.checks"))) / "gateway_scenarios"


def scenarios() -> Sequence[Scenario]:
    """Return all scenarios in the order in which they run."""
    folder = shipped_folder("scenarios")
    return [*load_paths([folder / f"{name}.yaml" for name in SHIPPED]), *load_paths([own_folder()])]


ChatValue = TypeVar("ChatValue", ChatRequest, Tool)

_PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


@dataclass(frozen=True, slots=True)
class RequestExtras:
    """Additions to each request of a scenario.

    `fields` are added to the body in the client's API, `tool_fields` to each tool, and `parts` to the first user
    message. `form` names the function in `Api.client_forms` that rewrites the body.
    """

    fields: Callable[[Api], Mapping[str, JSON]] = lambda _api: {}
    tool_fields: Callable[[Api], Mapping[str, JSON]] = lambda _api: {}
    parts: tuple[Part, ...] = ()
    form: str = ""


REQUEST_EXTRAS: Mapping[str, RequestExtras] = {
    "gateway-one-call": RequestExtras(lambda api: api.one_call),
    "gateway-strict-tool": RequestExtras(tool_fields=lambda api: api.strict_tool),
    "gateway-file": RequestExtras(parts=(File("application/pdf", _PDF),)),
    "gateway-system-turn": RequestExtras(form="system-turn"),
    "gateway-system-blocks": RequestExtras(form="system-blocks"),
    "gateway-text-before-result": RequestExtras(form="text-before-result"),
}
"""Maps scenario ids to their additions."""


def extras_unsupported(scenario: str, target: Target, *, in_form: bool = True) -> str | None:
    """Return why a target's API cannot express the additions of a scenario, or `None` if it can.

    With `in_form=False`, an unsupported request form does not count, because the same content can be sent in another
    form.
    """
    extra = REQUEST_EXTRAS.get(scenario)
    api = registry.api(target.api)
    if extra is None or extra.parts or extra.fields(api) or extra.tool_fields(api) or extra.form in api.client_forms:
        return None
    if extra.form:
        return None if not in_form else f"clients of {target.api} have no way to express it"
    return f"the API {target.api} has no field for it"


def with_extras(scenario: str, target: Target) -> Target:
    """Return the target with a client that adds the scenario's additions to each request."""
    extra = REQUEST_EXTRAS.get(scenario)
    if extra is None:
        return target

    def connect(endpoint: Endpoint, model: str) -> Any:
        form = registry.api(target.api).client_forms.get(extra.form)
        if form is not None:
            rewriting = httpx2.Client(transport=_RewritingTransport(cast("httpx2.Client", endpoint.http_client), form))
            return target.adapter.connect(replace(endpoint, http_client=rewriting), model)
        return _ClientWithExtras(target.adapter.connect(endpoint, model), registry.api(target.api), extra)

    return replace(target, adapter=replace(target.adapter, connect=connect))


class _RewritingTransport(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client, form: ClientForm) -> None:
        self._inner, self._form = inner, form

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        self._form(body)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        sent = self._inner.build_request(request.method, request.url, headers=headers, content=json.dumps(body))
        return self._inner.send(sent, stream=True)


class _ClientWithExtras:
    def __init__(self, client: object, api: Api, extra: RequestExtras) -> None:
        self._client = cast("Any", client)
        self._api = api.name
        self._fields, self._tool_fields = dict(extra.fields(api)), dict(extra.tool_fields(api))
        self._parts = extra.parts

    def chat(self, request: ChatRequest) -> Any:
        return self._client.chat(self._with_extras(request))

    def stream(self, request: ChatRequest) -> Any:
        return self._client.stream(self._with_extras(request))

    def close(self) -> Any:
        return self._client.close()

    def _with_extras(self, request: ChatRequest) -> ChatRequest:
        first, *rest = request.messages
        return replace(
            request,
            messages=(Message(first.role, (*self._parts, *first.parts)), *rest),
            tools=tuple(self._with_metadata(tool, self._tool_fields) for tool in request.tools),
            provider_metadata=self._with_metadata(request, self._fields).provider_metadata,
        )

    def _with_metadata(self, value: ChatValue, fields: Mapping[str, JSON]) -> ChatValue:
        if not fields:
            return value
        return replace(value, provider_metadata={**value.provider_metadata, self._api: dict(fields)})


PACE_SECONDS = 0.001
"""Delay in seconds between two stream events, so that each is sent separately."""


class Upstream:
    """The reference server as the gateway's upstream, for the current conversation.

    It responds for any known model, not only for the one that the gateway should request.
    """

    def __init__(self, terms: SessionOptions) -> None:
        self.origin = ""
        self.unexpected: list[str] = []
        """Descriptions of requests that belong to no conversation."""
        self._terms = terms
        self._current: UpstreamConversation | None = None
        self._lock = Lock()
        self._numbers = 0

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Respond to a request from the gateway."""
        current = self._current
        if current is None:
            return self._reject_unexpected(request, "it arrived while no cell was running")
        wire = current.conversation.wire
        if wire.recognises(replace(request, body=wire.least_body)):
            return current.answer(request)
        response = wire.server_endpoints.respond(request, self._terms.models)
        return response or self._reject_unexpected(request, f"{wire.name} has no such path{_owner_of_path(request)}")

    @contextmanager
    def open_conversation(
        self, scenario: Scenario, wire: Api, during: Callable[[], int]
    ) -> Generator[UpstreamConversation]:
        """Open a conversation. `during` returns the number of the client request in progress."""
        self._numbers += 1
        name = f"gateway-{self._numbers}"
        conversation = ServedSession(scenario, wire, name, self.origin, lambda _model: True, self._terms)
        current = UpstreamConversation(conversation, during)
        self._current = current
        try:
            yield current
        finally:
            self._current = None

    def _reject_unexpected(self, request: HttpRequest, why: str) -> HttpResponse:
        reason = f"{request.method} {urlsplit(request.url).path}: {why}"
        with self._lock:
            self.unexpected.append(reason)
        return json_response({"error": {"type": "harness", "message": f"harness: {reason}"}}, HTTPStatus.NOT_FOUND)


class UpstreamConversation:
    """An open conversation with its exchanges."""

    def __init__(self, conversation: ServedSession, during: Callable[[], int]) -> None:
        self.conversation = conversation
        self._during = during
        self._numbers: list[int] = []
        self._lock = Lock()

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Respond to a request, and record which client request was in progress."""
        with self._lock:
            number = self._during()
            response = self.conversation(request)
            noted = len(self.conversation.exchanges) - len(self._numbers)
            self._numbers += [number] * noted
            return response

    @property
    def exchanges(self) -> tuple[tuple[int, Exchange], ...]:
        """The exchanges, each with the number of the client request that was in progress."""
        return tuple(zip(self._numbers, self.conversation.exchanges, strict=True))

    @property
    def evidence(self) -> Evidence:
        """The finished conversation as evidence for the rules."""
        return self.conversation.evidence(ended=True)


def _owner_of_path(request: HttpRequest) -> str:
    for api in registry.apis():
        if api.provider_url.startswith("http") and api.recognises(replace(request, body=api.least_body)):
            return f"; {api.name} has this path"
    return ""


@dataclass(frozen=True, slots=True)
class GatewayEndpoint:
    """The gateway's address in the form that the client's SDK expects, with the key and additional headers."""

    url: str
    key: str
    seconds: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class _HeaderTransport(httpx2.BaseTransport):
    """Transport that adds the user's headers after the exchange has been recorded, so they are not recorded."""

    def __init__(self, inner: httpx2.BaseTransport, headers: Mapping[str, str]) -> None:
        self._inner, self._headers = inner, headers

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = httpx2.Request(
            request.method,
            request.url,
            headers={**request.headers, **self._headers},
            content=request.read(),
            extensions=request.extensions,
        )
        return self._inner.handle_request(sent)


@dataclass(frozen=True, slots=True)
class GatewayRun:
    """A finished cell, with the exchanges at the client and at the upstream. `upstream` is the upstream conversation as
    evidence for the rules.
    """

    exchanges: tuple[GatewayExchange, ...]
    chats: tuple[Chat, ...]
    upstream: Evidence

    @property
    def rejected_requests(self) -> tuple[RejectedRequest, ...]:
        """Requests that the upstream rejected because of their headers or path."""
        transcript = self.upstream.transcript
        return transcript.rejected_requests if isinstance(transcript, ServedTranscript) else ()


def run_through_gateway(cell: Cell, way: ApiPair, endpoint: GatewayEndpoint, upstream: Upstream) -> GatewayRun:
    """Run a cell.

    Raises:
        harness.model.errors.UsageError: the adapter cannot be connected.
    """
    log = ExchangeLog(endpoint.url, endpoint.url)
    secured = endpoint.url.startswith("https:")  # certificates take long to load
    line = httpx2.HTTPTransport(verify=secured, trust_env=False, limits=NO_KEEPALIVE)
    with (
        upstream.open_conversation(cell.scenario, way.upstream, lambda: len(log.exchanges)) as current,
        httpx2.Client(
            transport=LoggingTransport(_HeaderTransport(line, endpoint.headers), log),
            trust_env=False,
            timeout=endpoint.seconds,
        ) as client,
    ):
        target = with_extras(cell.scenario.id, cell.target)
        direct = Endpoint(endpoint.url, endpoint.key, client)
        outcome = run_scenario(cell.scenario, target, direct, lambda _chat: None, cell.variant)
        found = gateway_exchanges(way, cell.scenario, log.exchanges, current.exchanges)
        return GatewayRun(found, outcome.chats, current.evidence)


def changed_run(run: GatewayRun, scenario: Scenario, change: Callable[[Exchange], Exchange]) -> GatewayRun:
    """Return a run in which each exchange at both ends is changed."""
    transcript = run.upstream.transcript
    changed = {id(each): change(each) for each in transcript.exchanges}
    client = [change(each.client.exchange) for each in run.exchanges]
    upstream = [(each.number, changed[id(side.exchange)]) for each in run.exchanges for side in each.upstream]
    found = gateway_exchanges(run.exchanges[0].way, scenario, client, upstream) if run.exchanges else ()
    return replace(run, exchanges=found, upstream=Evidence(replace(transcript, exchanges=tuple(changed.values()))))


_SHOWN_OUTPUT_BYTES = 2000
_POLL_SECONDS = 0.1


class GatewayProcess:
    """A running gateway command. Its output is written to a file, and error messages quote the end of it."""

    def __init__(self, command: str, process: subprocess.Popen[bytes], printed: IO[bytes]) -> None:
        self.command = command
        self._process = process
        self._printed = printed

    def check(self) -> None:
        """Raise `UsageError` with the output if the command has ended."""
        code = self._process.poll()
        if code is not None:
            raise UsageError(f"--command {self.command!r}: it ended with exit code {code}.{self.output_tail}")

    @property
    def output_tail(self) -> str:
        """The end of the output as a sentence, or an empty string if there is no output."""
        self._printed.flush()
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _SHOWN_OUTPUT_BYTES))
        text = " ".join(self._printed.read().decode(errors="replace").split())
        return f" It printed: {text}" if text else ""


@contextmanager
def run_command(command: str, environment: Mapping[str, str]) -> Generator[GatewayProcess]:
    """Run a command in a shell with additional environment variables. On exit, end it and its child processes."""
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(  # noqa: S602 - it is the user's own
            command,
            shell=True,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield GatewayProcess(command, process, printed)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # the process and its children have ended
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
            return


def await_listening(url: str, seconds: float, alive: Callable[[], None] = lambda: None) -> None:
    """Wait until a server accepts connections at a URL. `alive` is called before each attempt and raises an exception
    if the server can no longer start.

    Raises:
        UsageError: no server accepts connections within `seconds`.
    """
    parts = urlsplit(url)
    port = parts.port or {"https": 443}.get(parts.scheme, 80)
    until = time.monotonic() + seconds
    while True:
        alive()
        try:
            socket.create_connection((parts.hostname or "", port), timeout=5).close()
        except OSError as error:
            if time.monotonic() >= until:
                raise UsageError(
                    f"check gateway {url}: no server listens there after {seconds:g} s: {error.strerror or error}. "
                    "Start the gateway, or let --command start it."
                ) from None
            time.sleep(_POLL_SECONDS)
        else:
            return
