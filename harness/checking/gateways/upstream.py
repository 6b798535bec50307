"""The upstream: the reference server, which answers whatever the gateway sends during one conversation at a time.

A gateway knows one address of its upstream, whatever is played, so that the paths of `harness serve`, which name the
conversation, are not for it. Cells are played one after the other instead.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from threading import Lock
from urllib.parse import urlsplit

from harness import catalog
from harness.apis.api import Api
from harness.apis.frontage import json_response
from harness.contract.http import HttpRequest, HttpResponse
from harness.results import Exchange
from harness.rules.evidence import Evidence
from harness.running.serving.conversation import Conversation, Terms
from harness.scenarios.schema import Scenario

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
    """The API whose path it is, as the end of a sentence."""
    for api in catalog.apis():
        if api.provider_url.startswith("http") and api.recognises(replace(request, body=api.least_body)):
            return f"; it is one of {api.name}"
    return ""
