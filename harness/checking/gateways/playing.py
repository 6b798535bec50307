"""Plays cells through a gateway: what is played, what our client says, and the reference server behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import httpx2

from harness import catalog
from harness.apis.api import Api, ClientForm
from harness.apis.frontage import json_response
from harness.apis.targets import Target
from harness.checking.gateways.passage import Passage, Way, passages
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON, ChatRequest, File, Message, Part, Tool
from harness.contract.protocols import Endpoint
from harness.results import Chat, Exchange, ServedTranscript, TurnedAway
from harness.rules.evidence import Evidence
from harness.running.cells import Cell
from harness.running.served_session import Conversation, Terms
from harness.running.tool_loop import play
from harness.scenarios import suite
from harness.scenarios.load import load_paths
from harness.scenarios.schema import Scenario
from harness.tape.player import Tap
from harness.tape.transport import ALONE, TapTransport

FIRST = "call-not-needed"
"""What is played first: plain words, so that what fails here is the way to the upstream."""

SHIPPED = (
    FIRST,
    "system-plain",
    "system-absent",
    "system-changed",
    "call-single",
    "call-sequential",
    "call-parallel-same-tool",
    "call-results-reordered",
    "call-identical-twice",
    "call-without-parameters",
    "call-after-text",
    "call-again-next-turn",
    "call-truncated",
    "arguments-escapes",
    "arguments-floats",
    "arguments-large-integers",
    "result-error",
    "result-object",
    "result-image",
    "results-escapes",
    "history-two-turns",
    "history-long-ids",
    "choice-none",
    "choice-named",
    "choice-required",
    "json-mode",
    "json-schema",
    "json-with-tools",
    "schema-references",
    "schema-enums",
    "schema-optional",
    "image-from-user",
    "thinking-tool-loop",
    "thinking-provider-tool",
    "usage-cached-prompt",
    "stop-max-tokens",
    "stop-refusal",
    "stream-split-characters",
    "stream-cut-in-arguments",
    "stream-error-behind-text",
    "stream-error-in-arguments",
    "error-400",
    "error-503",
    "connection-cut",
)
"""The ids of shipped scenarios, in the order in which they are played."""


def own() -> Path:
    """The folder of the scenarios that only gateways are played."""
    return Path(str(resources.files("harness.checking.gateways"))) / "scenarios"


def scenarios() -> Sequence[Scenario]:
    """All that are played, in their order."""
    folder = suite.shipped("scenarios")
    return [*load_paths([folder / f"{name}.yaml" for name in SHIPPED]), *load_paths([own()])]


Told = TypeVar("Told", ChatRequest, Tool)

_PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"


@dataclass(frozen=True, slots=True)
class Extra:
    """What is added to each request: `fields` of the client's API, to each tool its `tool_fields`, and `parts` to what
    the user said first; or the `form` that its body gets (`Api.client_forms`)."""

    fields: Callable[[Api], Mapping[str, JSON]] = lambda _api: {}
    tool_fields: Callable[[Api], Mapping[str, JSON]] = lambda _api: {}
    parts: tuple[Part, ...] = ()
    form: str = ""


EXTRAS: Mapping[str, Extra] = {
    "gateway-one-call": Extra(lambda api: api.one_call),
    "gateway-strict-tool": Extra(tool_fields=lambda api: api.strict_tool),
    "gateway-file": Extra(parts=(File("application/pdf", _PDF),)),
    "gateway-system-turn": Extra(form="system-turn"),
    "gateway-system-blocks": Extra(form="system-blocks"),
    "gateway-text-before-result": Extra(form="text-before-result"),
}
"""By the id of the scenario that wants it said."""


def unsayable(scenario: str, target: Target, *, in_form: bool = True) -> str | None:
    """Why a target's API cannot say what is added, if it cannot. A form is the client's own, and not `in_form` what it
    says can be said without it."""
    extra = EXTRAS.get(scenario)
    api = catalog.api(target.api)
    if extra is None or extra.parts or extra.fields(api) or extra.tool_fields(api) or extra.form in api.client_forms:
        return None
    if extra.form:
        return None if not in_form else f"clients of {target.api} have no such form"
    return f"the API {target.api} has no field for it"


def saying(scenario: str, target: Target) -> Target:
    """The target, of which each request says what is added in a scenario."""
    extra = EXTRAS.get(scenario)
    if extra is None:
        return target

    def connect(endpoint: Endpoint, model: str) -> Any:
        form = catalog.api(target.api).client_forms.get(extra.form)
        if form is not None:
            rewriting = httpx2.Client(transport=_Rewriting(cast("httpx2.Client", endpoint.http_client), form))
            return target.adapter.connect(replace(endpoint, http_client=rewriting), model)
        return _Client(target.adapter.connect(endpoint, model), catalog.api(target.api), extra)

    return replace(target, adapter=replace(target.adapter, connect=connect))


class _Rewriting(httpx2.BaseTransport):
    def __init__(self, inner: httpx2.Client, form: ClientForm) -> None:
        self._inner, self._form = inner, form

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.read())
        self._form(body)
        headers = {name: value for name, value in request.headers.items() if name.lower() != "content-length"}
        sent = self._inner.build_request(request.method, request.url, headers=headers, content=json.dumps(body))
        return self._inner.send(sent, stream=True)


class _Client:
    def __init__(self, client: object, api: Api, extra: Extra) -> None:
        self._client = cast("Any", client)
        self._api = api.name
        self._fields, self._tool_fields = dict(extra.fields(api)), dict(extra.tool_fields(api))
        self._parts = extra.parts

    def chat(self, request: ChatRequest) -> Any:
        return self._client.chat(self._said(request))

    def stream(self, request: ChatRequest) -> Any:
        return self._client.stream(self._said(request))

    def close(self) -> Any:
        return self._client.close()

    def _said(self, request: ChatRequest) -> ChatRequest:
        first, *rest = request.messages
        return replace(
            request,
            messages=(Message(first.role, (*self._parts, *first.parts)), *rest),
            tools=tuple(self._with(tool, self._tool_fields) for tool in request.tools),
            provider_metadata=self._with(request, self._fields).provider_metadata,
        )

    def _with(self, value: Told, fields: Mapping[str, JSON]) -> Told:
        if not fields:
            return value
        return replace(value, provider_metadata={**value.provider_metadata, self._api: dict(fields)})


PACE = 0.001
"""Seconds between two events of a stream: enough for each to be sent by itself."""


class Upstream:
    """Answers for the conversation that is under way. `model` is the one that the gateway is to ask for; others are
    answered as well, as themselves."""

    def __init__(self, terms: Terms) -> None:
        self.origin = ""
        """Where it listens; known once it does."""
        self.strays: list[str] = []
        """What came that was for no conversation, in sentences."""
        self._terms = terms
        self._held: Held | None = None
        self._lock = Lock()
        self._numbers = 0

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a request of the gateway."""
        held = self._held
        if held is None:
            return self._stray(request, "it came while nothing was played")
        wire = held.conversation.wire
        if wire.recognises(replace(request, body=wire.least_body)):
            return held.answer(request)
        told = wire.frontage.desk(request, self._terms.models)
        return told if told is not None else self._stray(request, f"{wire.name} has no such path{_whose(request)}")

    @contextmanager
    def holding(self, scenario: Scenario, wire: Api, during: Callable[[], int]) -> Generator[Held]:
        """Hold a conversation, of which `during` says which request of the client is under way."""
        self._numbers += 1
        name = f"gateway-{self._numbers}"
        talk = Conversation(scenario, wire, name, self.origin, lambda _model: True, self._terms)
        held = Held(talk, during)
        self._held = held
        try:
            yield held
        finally:
            self._held = None

    def _stray(self, request: HttpRequest, why: str) -> HttpResponse:
        said = f"{request.method} {urlsplit(request.url).path}: {why}"
        with self._lock:
            self.strays.append(said)
        return json_response({"error": {"type": "harness", "message": f"harness: {said}"}}, HTTPStatus.NOT_FOUND)


class Held:
    """A conversation while it is held, and what was exchanged in it."""

    def __init__(self, conversation: Conversation, during: Callable[[], int]) -> None:
        self.conversation = conversation
        self._during = during
        self._numbers: list[int] = []
        self._lock = Lock()

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer a chat."""
        with self._lock:
            number = self._during()
            response = self.conversation(request)
            noted = len(self.conversation.exchanges) - len(self._numbers)
            self._numbers += [number] * noted
            return response

    @property
    def exchanges(self) -> tuple[tuple[int, Exchange], ...]:
        """Each exchange, with the number of the client's request during which it came."""
        return tuple(zip(self._numbers, self.conversation.exchanges, strict=True))

    @property
    def evidence(self) -> Evidence:
        """What has happened, as the rules look at it."""
        return self.conversation.evidence(ended=True)


def _whose(request: HttpRequest) -> str:
    for api in catalog.apis():
        if api.provider_url.startswith("http") and api.recognises(replace(request, body=api.least_body)):
            return f"; it is one of {api.name}"
    return ""


@dataclass(frozen=True, slots=True)
class Door:
    """The address of the gateway: its base URL in the form that the client's SDK takes, the key, the seconds that an
    answer may take, and further headers."""

    url: str
    key: str
    seconds: float = 60.0
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class _Heading(httpx2.BaseTransport):
    """Sends requests on with more headers, which nothing in front of it sees."""

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
class Played:
    """What came of a cell at both ends. `upstream` is what the upstream got, as the rules look at it."""

    passages: tuple[Passage, ...]
    chats: tuple[Chat, ...]
    upstream: Evidence

    @property
    def turned_away(self) -> tuple[TurnedAway, ...]:
        """The requests that the upstream refused for what is around their chat."""
        transcript = self.upstream.transcript
        return transcript.turned_away if isinstance(transcript, ServedTranscript) else ()


def played(cell: Cell, way: Way, door: Door, upstream: Upstream) -> Played:
    """Play a cell.

    Raises:
        harness.contract.errors.UsageError: the adapter cannot be connected.
    """
    tap = Tap(door.url, door.url)
    secured = door.url.startswith("https:")  # certificates take long to load
    line = httpx2.HTTPTransport(verify=secured, trust_env=False, limits=ALONE)
    with (
        upstream.holding(cell.scenario, way.upstream, lambda: len(tap.exchanges)) as held,
        httpx2.Client(
            transport=TapTransport(_Heading(line, door.headers), tap), trust_env=False, timeout=door.seconds
        ) as client,
    ):
        endpoint = Endpoint(door.url, door.key, client)
        playing = play(cell.scenario, saying(cell.scenario.id, cell.target), endpoint, lambda _chat: None, cell.variant)
        found = passages(way, cell.scenario, tap.exchanges, held.exchanges)
        return Played(found, playing.chats, held.evidence)
