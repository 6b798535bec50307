"""The right request: what the shipped adapter of an API sends where another adapter's request is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import httpx2

from harness import catalog
from harness.apis.entries import parsed
from harness.apis.targets import Target
from harness.apis.view import WireError
from harness.contract.errors import HarnessError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON
from harness.contract.protocols import Adapter, Endpoint, Route
from harness.host.sdk import is_there
from harness.reference.session import Session
from harness.results import Body, EmbeddingTranscript, Finding, Transcript
from harness.running.excerpt import differing
from harness.running.play import play
from harness.running.stages.routes import NO_KEY
from harness.tape.cassette import REFERENCE_URL
from harness.tape.redact import Redactor
from harness.tape.transport import HandlerTransport


@dataclass(frozen=True, slots=True)
class Exemplar:
    """The requests of the shipped adapter in the same conversation, by the index of their chat."""

    adapter: str
    requests: tuple[HttpRequest | None, ...]

    def body(self, finding: Finding, sent: HttpRequest, chat: int, redactor: Redactor) -> Body | None:
        """The request in the place of the one that was sent: of it is shown what differs. `None`: nothing does."""
        right = self.requests[chat] if chat < len(self.requests) else None
        if right is None:
            return None
        try:
            wanted, found = redactor.value(parsed(right.body)), redactor.value(_parsed(sent))
        except WireError:
            return None
        lines = differing(wanted, found)
        if not lines:
            return None
        text = redactor.text(right.body.decode(errors="replace"))
        return Body(self.title, text, finding.pointer or "", ("what differs from the one that was sent:", *lines))

    @property
    def title(self) -> str:
        """The name of the request among the bodies of a finding."""
        return f"the request of the shipped adapter {self.adapter}"


def _parsed(request: HttpRequest) -> JSON:
    try:
        return parsed(request.body)
    except WireError:
        return None


def exemplar(transcript: Transcript) -> Exemplar | None:
    """The requests of the shipped adapter, where another one has played against the reference server or a recording of
    the shipped one. `None`: there is none of this API, its SDK is not installed, or it cannot play the scenario."""
    if transcript.scenario is None or isinstance(transcript, EmbeddingTranscript):
        return None
    adapter = _shipped(transcript.api)
    if adapter is None or adapter.name == transcript.adapter:
        return None
    if transcript.mode == "reference":
        return Exemplar(adapter.name, _played(transcript, adapter))
    recorded: dict[int, HttpRequest] = {}
    for exchange in transcript.exchanges:
        if exchange.recorded is not None and exchange.chat is not None and transcript.recorded_by == adapter.name:
            recorded.setdefault(exchange.chat, exchange.recorded)
    return Exemplar(adapter.name, tuple(recorded.get(chat) for chat in range(max(recorded, default=-1) + 1)))


def _shipped(api: str) -> Adapter | None:
    name = next((each.adapter for each in catalog.shipped_targets() if each.api == api), None)
    adapter = catalog.ADAPTERS.load(name) if name is not None else None
    if adapter is None or adapter.route is not Route.CLIENT:
        return None
    return adapter if adapter.requires is None or is_there(adapter.requires) else None


def _played(transcript: Transcript, adapter: Adapter) -> tuple[HttpRequest | None, ...]:
    """The first request of each chat, if the shipped adapter comes to its end."""
    scenario, api = transcript.scenario, catalog.api(transcript.api)
    if scenario is None:
        return ()
    session = Session(scenario, api, transcript.model, transcript.profile, origin=REFERENCE_URL)
    sent: dict[int, HttpRequest] = {}
    chats: list[int] = []

    def answer(request: HttpRequest) -> HttpResponse:
        if chats:
            sent.setdefault(chats[-1], request)
        return session(request)

    target = Target(adapter.name, adapter, transcript.model, transcript.profile, adapter.name)
    with httpx2.Client(transport=HandlerTransport(answer), trust_env=False) as client:
        endpoint = Endpoint(REFERENCE_URL + api.base_path, NO_KEY, client)
        try:
            play(scenario, target, endpoint, chats.append, transcript.variant)
        except HarnessError:
            return ()
    return tuple(sent.get(chat) for chat in range(max(sent, default=-1) + 1))
