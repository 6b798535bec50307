"""Reference server for third-party clients. It responds to the chats of one conversation, and to a client's chats
outside of it.

Cells run adapters, which send only the chats of their scenario. Real clients also request titles from small models,
repeat requests and rely on server state. Titles and repeated requests do not consume the script's responses. Model
lists and token counts are not handled here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from threading import Lock
from typing import TypeAlias

from harness.apis.api import Api, endpoint_violation
from harness.apis.fact_files import SHIPPED, FactSelection
from harness.apis.limits import Limit
from harness.apis.profiles import Profile
from harness.apis.server import StateNotFound, json_response
from harness.apis.view import CallView, ModelStep, RequestView, SystemView, TextView, WireError
from harness.model.http import AT_ONCE, EXHAUSTED, Delivery, HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.reference_server.script_session import ScriptSession, event_ends
from harness.scenarios.schema import Scenario, SideSpec

IsKnownModel: TypeAlias = Callable[[str], bool]
"""Function that returns whether a model with this name exists."""

_SCRIPT_EXHAUSTED = Limit(
    "script-used-up", "Every request of the script has been answered.", "harness.reference_server.script_session"
)
"""Not a limit of a provider. It is a `Limit` so that the error for an exhausted script has the format of the provider's
rejections.
"""

_Key: TypeAlias = tuple[str, str, bytes]


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """The server's response to a client.

    `request` is the chat with all server-side state resolved, so that it can be parsed alone. `index` is the position
    of the response in the script, or `None` if it is not from the script. `beside` is set if the request is outside the
    conversation. `reason` explains a rejection that is unrelated to the chat, such as a missing key. `again` is set for
    a repeated request. `is_damaged` is set if an injected fault damaged the response, so that the client must send the
    request again.
    """

    response: HttpResponse
    request: HttpRequest
    index: int | None = None
    beside: bool = False
    reason: str | None = None
    again: bool = False
    is_damaged: bool = False


class ConversationServer:
    """A server for one conversation with a client. Concurrent requests are handled one after another.

    `name` distinguishes conversations of one scenario and seeds their ids. `known` returns whether a model exists.
    `pace` is the delay between stream events in seconds. `origin` and `tolerated` are as in `ScriptSession`.
    """

    def __init__(  # noqa: PLR0913 - the settings of a conversation
        self,
        scenario: Scenario,
        wire: Api,
        name: str,
        *,
        known: IsKnownModel,
        fact_selection: FactSelection = SHIPPED,
        pace: float = 0.0,
        origin: str | None = None,
        tolerated: frozenset[str] = frozenset(),
    ) -> None:
        self.model: str | None = None
        """Model of the first request that received a response from the script."""
        self.profiles: dict[str, Profile] = {}
        self._scenario = scenario
        self._wire = wire
        self._name = name
        self._known = known
        self._fact_selection = fact_selection
        self._pace = pace
        self._origin = origin
        self._session = ScriptSession(
            scenario, wire, "", wire.profile_for("", fact_selection), name=name, origin=origin, tolerated=tolerated
        )
        self._kept: dict[str, JSON] = {}
        self._answers: dict[_Key, ServedAnswer] = {}
        self._call_ids: set[str] = set()
        self._ids: set[str] = set()
        self._requests = 0
        self._lock = Lock()

    @property
    def script(self) -> int:
        """Number of responses in the script."""
        return self._session.script

    @property
    def played(self) -> int:
        """Number of script responses sent."""
        return self._session.played

    def has_stored(self, answer_id: str) -> bool:
        """Return whether the server stores the answer with this id, so that a request may continue it."""
        return answer_id in self._kept

    def has_issued(self, call_ids: Collection[str | None]) -> bool:
        """Return whether one of these ids is that of a call in an answer that was sent."""
        return not self._call_ids.isdisjoint(call_ids)

    def serve(self, request: HttpRequest) -> ServedAnswer:
        """Respond to a chat request as the provider would."""
        with self._lock:
            self._requests += 1
            served = self._serve(request)
            model = self._wire.model_of(request) or ""
            headers = self._wire.server_endpoints.headers(f"{self._scenario.id}/{self._name}/{self._requests}", model)
        response = replace(served.response, headers={**headers, **served.response.headers})
        return replace(served, response=self._pace_events(response, served.request))

    def _serve(self, request: HttpRequest) -> ServedAnswer:
        wire = self._wire
        if not wire.server_endpoints.has_key(request):
            return self._fail(request, wire.server_endpoints.status_without_key, "the request has no key")
        if endpoint_violation(wire, request, origin=self._origin) is not None:
            return ServedAnswer(self._session(request), request)
        model = wire.model_of(request)
        if model is not None and not self._known(model):
            return self._fail(request, HTTPStatus.NOT_FOUND, f"there is no model {model!r}")
        key = (request.method, request.url, request.body)
        if key in self._answers:
            return replace(self._answers[key], again=True)
        try:
            whole = wire.server_endpoints.restore(request, self._kept)
        except StateNotFound as forgotten:
            response = wire.error_for(forgotten.response, request)
            return ServedAnswer(
                response, request, reason=f"the request refers to ids or signatures that no answer had: {forgotten}"
            )
        served = self._chat(whole, model or "")
        is_whole = served.response.delivery == AT_ONCE and not served.is_damaged
        if served.response.status < HTTPStatus.BAD_REQUEST and is_whole:
            self._answers[key] = served
        return served

    def _chat(self, request: HttpRequest, model: str) -> ServedAnswer:
        profile = self.profiles.setdefault(model, self._wire.profile_for(model, self._fact_selection))
        view = self._view(request)
        side = None if view is None else self._outside_response(view)
        if view is not None and side is not None:
            served = ServedAnswer(self._respond_outside(request, view, side, model, profile), request, beside=True)
        else:
            self._session.switch_model(model, profile)
            answer = self._session.answer(request)
            served = ServedAnswer(
                self._final(answer.response, request), request, answer.index, is_damaged=answer.is_damaged
            )
            if answer.is_damaged:
                return served
        self._note(request, served)
        if served.index is not None and self.model is None:
            self.model = model
        return served

    def _note(self, request: HttpRequest, served: ServedAnswer) -> None:
        """Store the state that the provider would store, and the ids of the calls it issued."""
        if served.response.status >= HTTPStatus.BAD_REQUEST:
            return
        try:
            answer = self._wire.read(served.response)
        except WireError:  # the scenario's fault damaged the response
            return
        self._call_ids.update(call.id for call in answer.calls if call.id)
        self._ids.update(call.id or call.name for call in answer.calls)
        kept = self._wire.server_endpoints.store(request, answer)
        if kept is not None:
            self._kept[kept[0]] = kept[1]

    def _view(self, request: HttpRequest) -> RequestView | None:
        try:
            return self._wire.view(request)
        except WireError:
            return None

    def _outside_response(self, view: RequestView) -> SideSpec | None:
        """Return the response to a request outside the conversation, or `None` if the request belongs to the
        conversation.

        A request is outside if it contains the `when` text of a `side` entry. If the scenario has tools, a request that
        neither declares one of them nor contains an issued call is outside, too.
        """
        text = "\n".join(_texts(view))
        for side in self._scenario.side:
            if side.when is not None and side.when in text:
                return side
        tools = {tool.name for tool in self._scenario.tools}
        is_of_it = any(tool.name in tools for tool in view.tools) or any(self._is_issued(call) for call in view.calls)
        if not tools or is_of_it:
            return None
        plain = SideSpec(text="{}" if view.response_format else "OK.")
        return next((side for side in self._scenario.side if side.when is None), plain)

    def _is_issued(self, call: CallView) -> bool:
        return bool(self._scenario.history) or (call.id or call.name) in self._ids or call.name in self._ids

    def _respond_outside(
        self, request: HttpRequest, view: RequestView, side: SideSpec, model: str, profile: Profile
    ) -> HttpResponse:
        wire = self._wire
        rule_set = wire.services.provider_rules(profile, model)
        refused = [each for each in wire.judge(request, rule_set) if each.severity == "error"]
        if refused:
            return wire.error_for(wire.refuse(refused[0]), request)
        seed = f"{self._scenario.id}/{self._name}/beside {self._requests}"
        body = wire.build(ModelStep(side.text), seed, model, profile)
        if wire.server_endpoints.echo is not None:
            body = wire.server_endpoints.echo(body, request)
        if view.stream:
            return wire.stream_of(body, seed, profile, view)
        return json_response(body)

    def _fail(self, request: HttpRequest, status: int, reason: str) -> ServedAnswer:
        seed = f"{self._scenario.id}/{self._name}/{self._requests}"
        response = self._wire.error_for(self._wire.fail(status, None, seed), request)
        return ServedAnswer(response, request, reason=reason)

    def _final(self, response: HttpResponse, request: HttpRequest) -> HttpResponse:
        """Replace the HTTP 500 for an exhausted script with an error that SDKs do not retry."""
        if EXHAUSTED not in response.headers:
            return response
        message = json.loads(response.body.strip().removeprefix(b"[").removesuffix(b"]"))["error"]["message"]
        refusal = self._wire.error_for(self._wire.refuse(_SCRIPT_EXHAUSTED.make_violation(message, "")), request)
        return replace(refusal, headers={**refusal.headers, EXHAUSTED: "1", "x-should-retry": "false"})

    def _pace_events(self, response: HttpResponse, request: HttpRequest) -> HttpResponse:
        """Split a streamed response into one chunk per event.

        The response has no content length, so the client cannot tell in advance where it ends.
        """
        view = self._view(request)
        if response.delivery != AT_ONCE or view is None or not view.stream or response.status != HTTPStatus.OK:
            return response
        cuts = tuple(end for end in event_ends(response.body, view) if end < len(response.body))
        return replace(response, delivery=Delivery(cuts or (len(response.body),), self._pace))


def _texts(view: RequestView) -> Sequence[str]:
    systems: tuple[SystemView, ...] = view.system
    texts = [
        part.text for turn in view.turns if turn.role == "user" for part in turn.parts if isinstance(part, TextView)
    ]
    return [*(system.text for system in systems), *texts]
