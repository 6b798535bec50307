"""The reference server in place of the checked one. It plays a model that follows instructions.

It serves to estimate requests and costs before anything is sent. The checks have to pass against it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock

from harness.apis import registry
from harness.apis.api import Api
from harness.apis.server import json_response
from harness.apis.view import RequestView, TextView, WireError
from harness.checks.server_checks import CHECKS
from harness.checks.server_session import ServerCheck
from harness.model.http import HttpRequest, HttpResponse
from harness.reference_server.conversation_server import ConversationServer
from harness.scenarios.schema import Scenario, TurnSpec


@dataclass(slots=True)
class _OpenCheck:
    front: ConversationServer
    turns: int
    """Turns of its first request. A request with no more turns starts a new conversation."""


class ScriptedServer:
    """A request handler that recognises a check by its prompt and answers with the check's script. `models` are the
    known model names."""

    def __init__(self, api: Api, *models: str) -> None:
        self._api = api
        self._models = frozenset(model.removeprefix("models/") for model in models)
        self._begun = 0
        self._open: dict[tuple[str, bool], _OpenCheck] = {}
        self._lock = Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Respond to one request as the provider would."""
        with self._lock:
            return self._answer(request)

    def _answer(self, request: HttpRequest) -> HttpResponse:
        try:
            view = self._api.view(request)
        except WireError:
            return self._front(next(iter(CHECKS.values()))).serve(request).response
        check = _check_for(view)
        key = (check.id, view.stream)
        known = self._open.get(key)
        if known is None or len(view.turns) <= known.turns:
            known = self._open[key] = _OpenCheck(self._front(check), len(view.turns))
        return known.front.serve(request).response

    def _front(self, check: ServerCheck) -> ConversationServer:
        self._begun += 1
        scenario = Scenario(
            version=1,
            id=check.id,
            title=check.promise,
            covers=[check.subject],
            history=[*check.history],
            turns=[TurnSpec(user=check.prompt, model=[*check.script])],
        )
        return ConversationServer(scenario, self._api, str(self._begun), known=self._is_known)

    def _is_known(self, model: str) -> bool:
        return model.removeprefix("models/") in self._models


class ScriptedServers:
    """Scripted servers of all APIs, selected by path."""

    def __init__(self, *models: str) -> None:
        self._players = [
            (api, ScriptedServer(api, *models)) for api in registry.apis() if api.request_builder is not None
        ]

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer one request as the provider would; a path of no API gets HTTP 404."""
        for api, player in self._players:
            if api.recognises(replace(request, body=api.least_body)):
                return player(request)
        return json_response({"error": {"type": "harness", "message": "harness: no API has this path"}}, 404)


def _check_for(view: RequestView) -> ServerCheck:
    """Return the check that a conversation belongs to, by default the first one."""
    said = {
        part.text for turn in view.turns if turn.role == "user" for part in turn.parts if isinstance(part, TextView)
    }
    every = list(CHECKS.values())
    return next((check for check in every if check.prompt in said), every[0])
