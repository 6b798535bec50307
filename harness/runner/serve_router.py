"""Routes the HTTP requests of `harness serve`.

Paths below `/{scenario}/{session}/` belong to a session. Paths below `/_harness/` return information about scenarios
and sessions. The first request creates a session. The path after the base URL identifies the API. A session that uses
several APIs has one conversation per API.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from threading import Lock
from urllib.parse import unquote, urlsplit

from harness.apis import registry
from harness.apis.api import Api, missing_version
from harness.apis.jsonvalue import loads_or_none
from harness.apis.server import json_response
from harness.apis.view import CallView
from harness.kit.thread import failure
from harness.model.http import HttpRequest, HttpResponse
from harness.model.messages import JSON, File, Image, Message, Text, ToolCall, ToolResult
from harness.results import CellResult, Finding, Invocation, RunResult
from harness.runner.costs import models
from harness.runner.served_session import CallPositions, ReverseOrder, ServedSession, SessionOptions
from harness.scenarios.canonical import (
    MissingResult,
    ToolFailure,
    UnknownTool,
    answer,
    called_before,
    settings_of,
    system_of,
    user_message,
)
from harness.scenarios.schema import Scenario


def scenario_json(scenario: Scenario) -> dict[str, JSON]:
    """Return the JSON that a client needs to run a scenario: system prompt, tools and user messages."""
    return {
        "id": scenario.id,
        "title": scenario.title,
        "covers": [subject.value for subject in scenario.covers],
        "system": scenario.system,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.arguments_schema,
                **({"from_turn": tool.from_turn} if tool.from_turn else {}),
            }
            for tool in scenario.tools
        ],
        "turns": [_turn_json(scenario, index) for index in range(len(scenario.turns))],
    }


def _turn_json(scenario: Scenario, index: int) -> dict[str, JSON]:
    turn = scenario.turns[index]
    settings = settings_of(scenario, index).model_dump(mode="json", exclude_unset=True, by_alias=True)
    last = turn.model[-1]
    return {
        "user": turn.user if isinstance(turn.user, str) else _parts_json(user_message(turn)),
        "system": system_of(scenario, index),
        "settings": settings,
        "answer": last.text,
    }


def _parts_json(message: Message) -> list[JSON]:
    return [part.text if isinstance(part, Text) else {"kind": type(part).__name__.lower()} for part in message.parts]


def session_json(conversation: ServedSession, cell: CellResult) -> dict[str, JSON]:
    """Return the state of a session as JSON, including its tool calls with their results and the findings so far."""
    played, script = conversation.progress
    evidence = conversation.evidence(ended=False)
    answers = (
        (parsed.exchange.chat, parsed.answer)
        for parsed in evidence.parsed_exchanges
        if parsed.exchange.chat is not None
    )
    calls = [(at, call) for at, answer in answers if answer for call in answer.calls if call.malformed is None]
    return {
        "scenario": scenario_json(conversation.scenario),
        "session": conversation.name,
        "api": conversation.wire.name,
        "requests": conversation.request_count,
        "played": played,
        "script": script,
        "streamed": [{"request": number, "way": way} for number, way in conversation.ways.items()],
        "verdict": cell.verdict.value,
        "calls": [_call_json(conversation.scenario, call, at) for at, call in calls],
        "findings": [finding_json(finding) for finding in cell.findings],
    }


def finding_json(finding: Finding) -> dict[str, JSON]:
    """Return the fields of a finding that help to locate the error."""
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "request": finding.exchange,
        "pointer": finding.pointer,
        "actual": finding.actual,
        "expected": finding.expected,
    }


def _call_json(scenario: Scenario, call: CallView, at: int) -> dict[str, JSON]:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    result = result_json(scenario, ToolCall(call.id or "", call.name, arguments), at)
    return {"id": call.id, "name": call.name, "arguments": call.arguments, "result": result}


def result_json(scenario: Scenario, call: ToolCall, at: int) -> JSON:
    """Return the scenario's result for a call from script response `at`, or `None` if it has no result.

    The result has `content` (a JSON value) or `parts` (a list). If the tool fails, `raises` is its error message.
    """
    try:
        return _tool_result_json(answer(scenario, call, called_before(scenario, at)))
    except ToolFailure as raised:
        return {**_tool_result_json(failure(call, raised)), "raises": str(raised)}
    except (UnknownTool, MissingResult):
        return None


def _tool_result_json(result: ToolResult) -> dict[str, JSON]:
    if not isinstance(result.content, tuple):
        return {"content": result.content, "is_error": result.is_error}
    parts: list[JSON] = []
    for part in result.content:
        if isinstance(part, Text):
            parts.append({"text": part.text})
        elif isinstance(part, Image | File):
            parts.append({"media_type": part.media_type, "uri": part.uri})
    return {"parts": parts, "is_error": result.is_error}


ABOUT_SEGMENT = "_harness"
"""The first path segment of requests for information about scenarios and sessions."""

_CORS_HEADERS: Mapping[str, str] = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "*",
    "access-control-expose-headers": "*",
}
"""Headers that allow web pages of any origin to send requests, for example from a browser test."""

MAX_SESSIONS = 10_000
"""Maximum number of sessions that a server keeps."""

MAX_KEPT_BYTES = 1 << 29
"""Maximum total size of the requests and responses that a server keeps."""

Notify = Callable[[str], None]


class ServeRouter:
    """Responds to every request to the server, and keeps the sessions. `files` has the files of scenarios that are not
    shipped; `notify` gets a sentence about each request to an unknown path."""

    def __init__(
        self, scenarios: Sequence[Scenario], files: Mapping[str, str], terms: SessionOptions, notify: Notify
    ) -> None:
        self.origin = ""
        """The server's address. It is set once the server listens."""
        self._scenarios = {scenario.id: scenario for scenario in scenarios}
        self._files = files
        self._terms = terms
        self._notify = notify
        self._conversations: dict[tuple[str, str, str], ServedSession] = {}
        self._orders: dict[tuple[str, str], tuple[CallPositions, ReverseOrder]] = {}
        self._kept_bytes = 0
        self._lock = Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Respond to a request."""
        headers = {**_CORS_HEADERS}
        asked_for = request.headers.get("access-control-request-headers")
        if asked_for is not None:  # `*` does not include authorization
            headers["access-control-allow-headers"] = asked_for
        if request.method == "OPTIONS":
            return HttpResponse(HTTPStatus.NO_CONTENT, headers)
        response = self._response(request)
        return replace(response, headers={**headers, **response.headers})

    def _response(self, request: HttpRequest) -> HttpResponse:
        path = urlsplit(request.url.removeprefix(self.origin)).path
        segments = [unquote(each) for each in path.split("/")[1:]]
        if segments[0] == ABOUT_SEGMENT:
            return self._information(request, segments[1:])
        scenario, *rest = segments
        if scenario not in self._scenarios:
            close = difflib.get_close_matches(scenario, self._scenarios, n=1)
            guess = f" Did you mean {close[0]!r}?" if close else ""
            return self._not_found(request, f"no scenario {scenario!r} is served.{guess}")
        if not rest or not rest[0] or rest[0].startswith("v1"):
            return self._not_found(request, f"the base URL needs a session, as in {self.origin}/{scenario}/1")
        return self._to_conversation(request, self._scenarios[scenario], rest[0])

    def _to_conversation(self, request: HttpRequest, scenario: Scenario, session: str) -> HttpResponse:
        for wire in served_apis():
            if wire.recognises(replace(request, body=wire.least_body)):
                return self._response_for(scenario, session, wire, request)
        for wire in served_apis():
            response = wire.server_endpoints.respond(request, self._models(wire))
            if response is not None:
                if wire.server_endpoints.has_key(request):
                    return response
                return wire.fail(wire.server_endpoints.status_without_key, None, request.url)
        base = self._base_url(scenario, session)
        path = urlsplit(request.url).path.removeprefix(urlsplit(base).path)
        return self._not_found(request, f"no API has this path{_suggestion(path, base)}")

    def _response_for(self, scenario: Scenario, session: str, wire: Api, request: HttpRequest) -> HttpResponse:
        with self._lock:
            is_new = (scenario.id, session, wire.name) not in self._conversations
            if is_new and len(self._conversations) >= MAX_SESSIONS:
                return self._full(request, f"{MAX_SESSIONS} sessions have begun, and no more are kept")
            if self._kept_bytes + len(request.body) > MAX_KEPT_BYTES:
                return self._full(request, f"{MAX_KEPT_BYTES >> 20} MiB of requests and answers are kept, and no more")
        response = self.conversation(scenario, session, wire)(request)
        with self._lock:
            self._kept_bytes += len(request.body) + len(response.body)
        return response

    def _full(self, request: HttpRequest, why: str) -> HttpResponse:
        self._notify(f"{request.method} {urlsplit(request.url).path}: {why}. Start 'harness serve' again.")
        return _error(HTTPStatus.INSUFFICIENT_STORAGE, f"{why}: start 'harness serve' again")

    def conversation(self, scenario: Scenario, session: str, wire: Api) -> ServedSession:
        """Return the session of one API. The first call creates it."""
        with self._lock:
            key = (scenario.id, session, wire.name)
            if key not in self._conversations:
                base = self._base_url(scenario, session)
                known = frozenset(self._models(wire))
                self._conversations[key] = ServedSession(
                    scenario, wire, session, base, lambda model: _is_known(wire, known, model), self._terms
                )
            return self._conversations[key]

    def _base_url(self, scenario: Scenario, session: str) -> str:
        """Return the base URL of a session, without the API's version."""
        return f"{self.origin}/{scenario.id}/{session}"

    def _models(self, wire: Api) -> tuple[str, ...]:
        return (*_model_names(wire.name), *self._terms.models)

    def _information(self, request: HttpRequest, segments: Sequence[str]) -> HttpResponse:
        match segments:
            case ["scenarios"] if request.method == "GET":
                listed: list[JSON] = [
                    {**scenario_json(each), "base": f"{self.origin}/{each.id}/"} for each in self._scenarios.values()
                ]
                return json_response({"scenarios": listed})
            case [name, session] if name in self._scenarios and request.method == "GET":
                return self._session_response(self._scenarios[name], session)
            case [name, session, "call"] if name in self._scenarios and request.method == "POST":
                return self._run_tool(self._scenarios[name], session, request)
            case _:
                return self._not_found(
                    request,
                    f"there are GET /{ABOUT_SEGMENT}/scenarios, GET /{ABOUT_SEGMENT}/SCENARIO/SESSION and "
                    f"POST /{ABOUT_SEGMENT}/SCENARIO/SESSION/call",
                )

    def _session_response(self, scenario: Scenario, session: str) -> HttpResponse:
        found = self._session_conversations(scenario, session)
        sessions: list[JSON] = [session_json(each, each.result(each.wire.name, ended=False)) for each in found]
        if len(sessions) == 1 and isinstance(sessions[0], dict):
            return json_response(sessions[0])
        return json_response({"scenario": scenario_json(scenario), "session": session, "conversations": sessions})

    def _session_conversations(self, scenario: Scenario, session: str) -> list[ServedSession]:
        return [each for each in self.conversations() if each.scenario is scenario and each.name == session]

    def _run_tool(self, scenario: Scenario, session: str, request: HttpRequest) -> HttpResponse:
        """Run a tool of the scenario for a client whose tools send their calls to the server."""
        match loads_or_none(request.body):
            case {"name": str(name), "arguments": dict(arguments)}:
                call = ToolCall("", name, arguments)
                at = max((each.note_run(call) for each in self._session_conversations(scenario, session)), default=0)
                at = max(at - 1, 0)
                result = result_json(scenario, call, at)
                if result is not None:
                    placed = self._order_of(scenario, session)
                    if placed is None:
                        return self._full(request, f"{MAX_SESSIONS} sessions have begun, and no more are kept")
                    places, order = placed
                    order.wait(places.of(call, at))
                    return json_response({"result": result})
                return _error(HTTPStatus.NOT_FOUND, f"the scenario has no result of {name!r} for these arguments")
            case _:
                return _error(HTTPStatus.BAD_REQUEST, 'a call is {"name": "…", "arguments": {…}}')

    def _order_of(self, scenario: Scenario, session: str) -> tuple[CallPositions, ReverseOrder] | None:
        with self._lock:
            if (scenario.id, session) not in self._orders and len(self._orders) >= MAX_SESSIONS:
                return None
            return self._orders.setdefault((scenario.id, session), (CallPositions(scenario), ReverseOrder()))

    def _not_found(self, request: HttpRequest, why: str) -> HttpResponse:
        self._notify(f"{request.method} {urlsplit(request.url).path}: {why}")
        return _error(HTTPStatus.NOT_FOUND, why)

    def conversations(self) -> list[ServedSession]:
        """Return all sessions."""
        with self._lock:
            return list(self._conversations.values())

    def run(self, facts: tuple[str, ...] = (), *, shown: bool = False) -> RunResult:
        """Return the result of all sessions, ordered by scenario and session. Each session is a column. With `shown`,
        the cells include their exchanges.
        """
        order = list(self._scenarios)
        held = sorted(self.conversations(), key=lambda each: (order.index(each.scenario.id), each.name, each.wire.name))
        cells = tuple(each.result(f"{each.wire.name}/{each.name}", shown=shown) for each in held)
        columns: dict[str, tuple[str, ...]] = {cell.target: () for cell in cells}
        again = Invocation(("harness", "serve"), scenarios=self._files, targets=columns, show=())
        return RunResult("serve", cells, facts=facts, invocation=again)


def _suggestion(path: str, base: str) -> str:
    """Return a hint if the version seems to be missing from the client's base URL, else an empty string."""
    for wire in served_apis():
        version = missing_version(wire, path)
        if version is not None:
            return f". Is {version} missing at the end of the client's base URL? With {base}{version} it is {wire.name}"
    return ""


@cache
def _model_names(api: str) -> tuple[str, ...]:
    return tuple(model.id for model in models(api))


def _is_known(wire: Api, known: frozenset[str], model: str) -> bool:
    """Return whether the provider is known to have a model.

    That is the case if it is listed, if it has its own profile, or if it is a listed model with a suffix such as a
    date, `latest` or `preview`.
    """
    bare = model.removeprefix("models/")
    own = wire.profile_for(bare).name != wire.profiles[-1].name
    return own or bare in known or any(bare.startswith(f"{each}-") for each in known)


def served_apis() -> Iterator[Api]:
    """Yield the APIs that use HTTP."""
    return (api for api in registry.apis() if api.provider_url.startswith("http"))


def _error(status: int, why: str) -> HttpResponse:
    return json_response({"error": {"type": "harness", "message": f"harness: {why}"}}, status)
