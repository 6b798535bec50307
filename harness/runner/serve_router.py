"""Routes the HTTP requests of `harness serve`.

Paths below `/{scenario}/{session}/` belong to a session. Paths below `/_harness/` return information about scenarios
and sessions. The first request creates a session. The path after the base URL identifies the API. A session that uses
several APIs has one conversation per API.

Programs that bring their own prompts and tools use an improvised router. It makes the script from a conversation's
first request. The model writes a text and calls the first declared tool twice in parallel, with different texts as
arguments. Then it calls the next tool once, and then answers. If the request allows one call at a time, the first tool
is also called once. Arguments are the simplest values that fit a tool's schema. Without tools, the model answers
immediately. The answer has the JSON format that the request asks for, if any.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from threading import Lock
from typing import Any, Literal, cast
from urllib.parse import unquote, urlsplit

from harness.apis import registry
from harness.apis.api import Api, missing_version
from harness.apis.jsonvalue import loads_or_none
from harness.apis.server import json_response
from harness.apis.view import CallView, Provocation, RequestView, TextView, ToolView, WireError
from harness.kit.thread import failure
from harness.model.http import SERVICE_HEADER, HttpRequest, HttpResponse
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


BASE_PATH = "/program/1"
"""Path of the base URL of all conversations."""

_MAX_DEPTH = 6
ANSWER = "Done. The answer is 42."
"""The model's final answer, if the request asks for no format."""

CUT_ANSWER = "Done. The answ"
"""The same answer, cut off by `max_tokens` inside a word."""

DIVIDED_ANSWER = ("It has been found.", " The answer is 42.")
"""The same answer in two parts, as text blocks of equal length."""

TEXT_BEFORE_CALLS = "Let me look."
"""Text of an answer with calls."""

_UNKNOWN_TOOL = "no_such_tool"

FIRST_QUESTION, SECOND_QUESTION = "What is the first one?", "And what is the second one?"
"""Questions of the user in a conversation of two turns."""

FirstAnswer = Literal[
    "two calls",
    "one call",
    "unknown tool",
    "cut call",
    "cut text",
    "divided text",
    "error",
    "stream error",
    "two turns",
]
"""Kind of the first answer of an improvised conversation with tools. With `cut text`, it has one call, and the final
answer is cut off. With `divided text`, it has one call, and each text has two parts. With `stream error`, it is the
final answer, and a stream of it ends with an error after a part of the text. With `two turns`, it has one call, and the
user asks `SECOND_QUESTION` after the final answer.
"""


class ImprovisedRouter(ServeRouter):
    """Responds to every request below `BASE_PATH` with a script that fits its conversation.

    A conversation is recognised by its first user message, or by the stored answer that a request continues. `first` is
    the kind of its first answer.
    """

    def __init__(self, terms: SessionOptions, notify: Notify, first: FirstAnswer = "two calls") -> None:
        plain = improvised_scenario(0, None)
        self._first: FirstAnswer = first
        super().__init__([plain], {}, terms, notify)
        self._plain = plain
        self._improvised: dict[str, Scenario] = {}
        self._failures: dict[tuple[str, bytes], HttpResponse] = {}
        self._service_models: frozenset[str] = frozenset()
        self.first_request: HttpRequest | None = None
        self.has_redirected = False
        self.repeats = 0
        """Number of requests that repeat a failed one unchanged. They fail again."""

    def _response(self, request: HttpRequest) -> HttpResponse:
        base = self.origin + BASE_PATH
        if request.url.startswith(base):
            request = replace(request, url=base + _with_one_version(request.url.removeprefix(base)))
        for wire in served_apis():
            if wire.recognises(replace(request, body=wire.least_body)):
                return self._response_from(wire, request)
        return self._to_conversation(request, self._plain, "1")

    def _response_from(self, wire: Api, request: HttpRequest) -> HttpResponse:
        self.first_request = self.first_request or request
        request = self._without_redirection(wire, request)
        key = (request.url, request.body)
        if key in self._failures:
            self.repeats += 1
            return self._failures[key]
        response = self._response_for(self._scenario_for(wire, request), "1", wire, request)
        if self._first == "error" and response.status == HTTPStatus.BAD_REQUEST:
            self._failures[key] = response
        return response

    def _without_redirection(self, wire: Api, request: HttpRequest) -> HttpRequest:
        """Return a request as its service would get it, and note that the program's base URL is fixed, if it is.

        Other services than the provider's own have other models, and may have a header of their own for the key.
        """
        service = request.headers.get(SERVICE_HEADER)
        if service is None:
            return request
        self.has_redirected = True
        headers = {name: value for name, value in request.headers.items() if name != SERVICE_HEADER}
        if urlsplit(service).hostname != urlsplit(wire.provider_url).hostname:
            headers = {"authorization": "Bearer none", **headers}
            model = wire.model_of(request)
            self._service_models |= {model} if model else frozenset()
        return replace(request, headers=headers)

    def _scenario_for(self, wire: Api, request: HttpRequest) -> Scenario:
        try:
            view = wire.view(request)
        except WireError:
            return self._plain
        if view.continues is not None:
            for each in self.conversations():
                if each.wire is wire and each.has_stored(view.continues):
                    return each.scenario
        first = next((part.text for turn in view.turns for part in turn.parts if isinstance(part, TextView)), "")
        key = hashlib.sha256(f"{wire.name} {first}".encode()).hexdigest()
        with self._lock:
            if key not in self._improvised:
                try:
                    number = len(self._improvised) + 1
                    made = improvised_scenario(number, view, first, self._first)
                    if self._first == "divided text" and Provocation.TEXT_BLOCKS in wire.provocations:
                        made = made.model_copy(update={"provocations": [Provocation.TEXT_BLOCKS]})
                except (
                    ValueError,
                    TypeError,
                    LookupError,
                    AttributeError,
                ):  # no script fits such a tool
                    made = self._plain
                self._improvised[key] = self._scenarios[made.id] = made
            return self._improvised[key]

    @property
    def has_tools(self) -> bool:
        """Return whether a request declared tools."""
        return any(each.tools for each in self._improvised.values())

    @property
    def can_divide_texts(self) -> bool:
        """Return whether a conversation's API may divide a text into several parts."""
        return any(Provocation.TEXT_BLOCKS in each.wire.provocations for each in self.conversations())

    def _models(self, wire: Api) -> tuple[str, ...]:
        return (*super()._models(wire), *self._service_models)

    def _base_url(self, scenario: Scenario, session: str) -> str:  # noqa: ARG002 - all conversations share it
        return self.origin + BASE_PATH


def _with_one_version(path: str) -> str:
    """Return the path of an API for one that lacks the version, or has two of them: the program's base URL need not end
    as the one that it got.
    """
    bare, _, query = path.partition("?")
    for each in (bare, re.sub(r"^/v\d\w*(?=/)", "", bare)):
        for wire in served_apis():
            version = "" if wire.paths is not None and wire.paths.fullmatch(each) else missing_version(wire, each)
            if version is not None:
                return f"{version}{each}{'?' if query else ''}{query}"
    return path


def improvised_scenario(
    number: int, view: RequestView | None, user: str = "", first: FirstAnswer = "two calls"
) -> Scenario:
    """Return a scenario for a conversation that begins with this request, and with this kind of answer."""
    declared = [] if view is None else [each for each in view.tools if each.kind == "function"]
    declared.sort(key=lambda each: not _takes_text(each))  # two calls of the first one are to have different arguments
    faults: dict[FirstAnswer, JSON] = {"error": {"status": 400}, "stream error": {"stream_error": 503}}
    tools: list[JSON] = [
        {
            "name": each.name,
            "description": each.description or each.name,
            "parameters": each.parameters if isinstance(each.parameters, dict) else {"type": "object"},
            "answered_by": "client",
        }
        for each in declared
    ]
    calls: list[dict[str, JSON]] = [{each.name: example_value(each.parameters or {}, {})} for each in declared[:2]]
    calls = [] if first == "stream error" else calls
    one_call = first != "two calls" or (view is not None and "one_call" in view.settings)
    script: list[JSON] = [{"calls": [call]} for call in calls]
    if calls:
        other = {declared[0].name: example_value(declared[0].parameters or {}, {}, text=_OTHER_TEXT)}
        script[0] = {"text": TEXT_BEFORE_CALLS, "calls": [other] if one_call else [calls[0], other]}
    if calls and first == "unknown tool":
        script = [{"calls": [{_UNKNOWN_TOOL: {}}]}]
    if first == "cut call" and any(value for call in calls[:1] for value in call.values()):
        script = [{"calls": [calls[0]], "truncated": True}]
    final: dict[str, JSON] = {"text": ANSWER}
    if view is not None and view.response_format is not None:
        final = {"text": json.dumps(example_value(view.response_format.schema or {"type": "object"}, {}))}
    elif first == "cut text":
        final = {"text": CUT_ANSWER, "stop": "max_tokens"}
    elif first == "divided text":
        final = {"text": "".join(DIVIDED_ANSWER)}
    second: JSON = {"user": SECOND_QUESTION, "model": [final]}
    made = {
        "version": 1,
        "id": f"conversation-{number}",
        "title": "A conversation of the program",
        "covers": ["tools"],
        "requires": [*(["tools"] if calls else []), *(["parallel-tool-calls"] if calls and not one_call else [])],
        "scripted": first in ("cut call", "cut text", "divided text", *faults),
        "faults": [faults[first]] if first in faults else [],
        "system_from": "client",
        "tools": tools,
        "undeclared_tools": [_UNKNOWN_TOOL] if calls and first == "unknown tool" else [],
        "turns": [{"user": user or "Hello", "model": [*script, final]}, *([second] if first == "two turns" else [])],
    }
    return Scenario.model_validate_json(json.dumps(made))


_OTHER_TEXT = "exämple 2"


def _takes_text(tool: ToolView) -> bool:
    """Return whether two calls of a tool can differ in a text."""
    schema = tool.parameters or {}
    return example_value(schema, {}) != example_value(schema, {}, text=_OTHER_TEXT)


def example_value(schema: JSON, definitions: Mapping[str, JSON], depth: int = 0, text: str = "example") -> JSON:
    """Return a simple value that fits a schema, with `text` for strings. Only common keywords are considered."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return {}
    known: Mapping[str, JSON] = {**definitions, **cast("dict[str, JSON]", schema.get("$defs") or {})}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return example_value(known.get(reference.rpartition("/")[2], {}), known, depth + 1, text)
    given = [schema[key] for key in ("const", "default") if schema.get(key) is not None]
    listed = [values[0] for key in ("enum", "examples") if (values := cast("Sequence[JSON]", schema.get(key) or ()))]
    if given or listed:
        return [*given, *listed][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if choices := cast("Sequence[JSON]", schema.get(key) or ()):
            return example_value(choices[0], known, depth + 1, text)
    return _value_of_type(schema, known, depth, text)


def _value_of_type(schema: Mapping[str, Any], known: Mapping[str, JSON], depth: int, text: str) -> JSON:
    kind: Any = schema.get("type") or "object"
    word = str(kind if isinstance(kind, str) else kind[0]).lower()
    if word == "object":
        properties: Mapping[str, JSON] = schema.get("properties") or {}
        required: Sequence[str] = schema.get("required") or ()
        return {name: example_value(properties.get(name, {}), known, depth + 1, text) for name in required}
    if word == "array":
        return [example_value(schema.get("items") or {}, known, depth + 1, text)] * schema.get("minItems", 0)
    if word in ("integer", "number"):
        return schema.get("minimum", 1)
    if word == "string":
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
    return True if word == "boolean" else None
