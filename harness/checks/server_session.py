"""A server under test, the client that sends it requests, and the session of one check."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from http import HTTPStatus
from typing import Any, NoReturn, Protocol, Self

import httpx2
from pydantic import BaseModel, ConfigDict

from harness.apis.api import Api
from harness.apis.conversion import AnsweredCall, RequestBuilder, WireBody
from harness.apis.eventstream import looks_like_event_stream, without_invalid_json
from harness.apis.fact_files import SHIPPED, FactSelection
from harness.apis.jsonvalue import loads
from harness.apis.profiles import Profile, RuleSet
from harness.apis.response_rules import CALL_ID, END, FIELDS, ResponseCheck, ResponseViolation, Subject
from harness.apis.server import waiting_time
from harness.apis.view import CallView, RequestView, ResponseView, WireError
from harness.model.errors import UsageError
from harness.model.http import AT_ONCE, Delivery, HttpRequest, HttpResponse
from harness.model.messages import JSON, ChatRequest, Message, StopReason, Tool, Usage
from harness.results import Severity
from harness.scenarios.schema import HistoryMessage, StepSpec, Variant

DEFAULT_ANSWER_TOKENS = 1024
"""Default token limit of an answer. Reasoning models need more."""

NAME = "server"
"""Default target name of a check's cells."""


@dataclass(frozen=True, slots=True)
class ServerUnderTest:
    """A server at a base URL, with its API and one of its models.

    `name` is the target in reports. `bound` is the field that limits the length of an answer, by default to
    `max_answer_tokens` tokens.
    """

    api: Api
    model: str
    base_url: str
    profile: Profile
    rule_set: RuleSet
    request_builder: RequestBuilder
    strictly: ResponseCheck
    bound: str
    max_answer_tokens: int = DEFAULT_ANSWER_TOKENS
    name: str = NAME

    @staticmethod
    def of(
        api: Api,
        model: str,
        base_url: str,
        max_answer_tokens: int = DEFAULT_ANSWER_TOKENS,
        fact_selection: FactSelection = SHIPPED,
    ) -> ServerUnderTest:
        """Return the server at a base URL, with the facts that `fact_selection` selects.

        Raises:
            UsageError: the API has no request builder for server checks.
            FactsError: see `Api.profile_for`.
        """
        if api.request_builder is None or api.check_response is None or api.minimal_request is None:
            raise UsageError(f"--api {api.name}: 'harness check server' has no checks for this API.")
        profile = api.profile_for(model, fact_selection)
        rule_set = api.services.rules_at(profile, model, base_url)
        bounds = api.request_builder.bounds
        own = api.is_provider(base_url)
        bound = bounds[-1] if own else bounds[0]  # the newest is the provider's own, and others know the oldest
        root = _root(base_url, api.request_builder.path)
        return ServerUnderTest(
            api, model, root, profile, rule_set, api.request_builder, api.check_response, bound, max_answer_tokens
        )

    def sources(self, source: str) -> str:
        """Return the parts of a rule's source that concern this API, or all if none does."""
        own = [each for each in source.split(", ") if each.startswith(f"{self.api.name}-")]
        return ", ".join(own) or source

    def body_of(self, request: ChatRequest) -> WireBody:
        """Return the body of a request."""
        return self.request_builder.write(request, self.bound)

    def request(self, body: WireBody | bytes, *, stream: bool, model: str | None = None) -> HttpRequest:
        """Return the HTTP request for a body, without a key. Bytes are sent unchanged."""
        path = self.request_builder.stream_path if stream else self.request_builder.path
        url = self.base_url + path.format((model or self.model).removeprefix("models/"))
        headers = {
            "content-type": "application/json",
            **(self.api.minimal_request.headers if self.api.minimal_request else {}),
        }
        if isinstance(body, bytes):
            return HttpRequest("POST", url, headers, body)
        made: dict[str, Any] = copy.deepcopy(body)
        if stream:
            made |= self.request_builder.streaming
        return HttpRequest("POST", url, headers, json.dumps(made, ensure_ascii=False).encode())


def _root(base_url: str, path: str) -> str:
    """Remove the API version from the end of a base URL, because `path` begins with it. Users write base URLs with or
    without the version.
    """
    return base_url.rstrip("/").removesuffix(f"/{path.split('/')[1]}")


_MAX_TRIES = 3

BUSY = frozenset({429, 503, 529})

_MAX_WAIT_SECONDS = 60.0

Send = Callable[[HttpRequest], HttpResponse]


class RequestLimitReached(Exception):
    """Raised when `--max-requests` is reached."""


class NoResponse(Exception):
    """Raised when no response was received. The message explains why."""


@dataclass
class RetryingClient:
    """Sends authorised requests with the user's `headers`, and retries while the server is busy.

    It sends at most `max_requests` requests, counted in `sent`. `send` replaces HTTP for an in-process server.
    """

    api: Api
    key: str
    max_requests: int | None = None
    _: KW_ONLY
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    send: Send | None = None
    wait: Callable[[float], None] = time.sleep
    sent: int = field(default=0, init=False)
    _client: httpx2.Client | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._client is not None:
            self._client.close()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Send a request, with retries while the server is busy.

        Raises:
            RequestLimitReached: the request may not be sent.
            NoResponse: no response arrived.
        """
        authorized = self.api.minimal_request.with_key(request, self.key) if self.api.minimal_request else request
        own = {name: value for name, value in authorized.headers.items() if name.lower() not in self.headers}
        authorized = replace(authorized, headers={**own, **self.headers})
        send = self.send or self._over_http
        for tries in range(1, _MAX_TRIES + 1):
            if self.sent == self.max_requests:
                raise RequestLimitReached
            self.sent += 1
            response = send(authorized)
            seconds = waiting_time(response.headers)
            pause = float(2**tries) if seconds is None else seconds
            if response.status not in BUSY or tries == _MAX_TRIES or pause > _MAX_WAIT_SECONDS:
                return response
            self.wait(pause)
        raise AssertionError("the last try returns")

    def _over_http(self, request: HttpRequest) -> HttpResponse:
        import httpx2  # noqa: PLC0415 - the checks are listed without a way to any server

        from harness.cassettes.transport import NO_KEEPALIVE  # noqa: PLC0415 - the same
        from harness.runner.backends import TIMEOUT_SECONDS  # noqa: PLC0415 - the same

        if self._client is None:
            transport = httpx2.HTTPTransport(trust_env=False, limits=NO_KEEPALIVE)
            self._client = httpx2.Client(transport=transport, trust_env=False, timeout=TIMEOUT_SECONDS)
        pieces: list[bytes] = []
        delivery = AT_ONCE
        try:
            with self._client.stream(
                request.method, request.url, headers=dict(request.headers), content=request.body
            ) as got:
                try:
                    pieces.extend(got.iter_bytes())
                except httpx2.TransportError:  # judge the part that was received
                    delivery = Delivery(ending="cut")
        except httpx2.TransportError as error:
            raise NoResponse(str(error) or type(error).__name__) from None
        return HttpResponse(got.status_code, dict(got.headers.items()), b"".join(pieces), delivery)


_INCONCLUSIVE_STOPS = (StopReason.MAX_TOKENS, StopReason.REFUSAL)
"""Stop reasons that make an answer inconclusive."""


class Inconclusive(Exception):
    """Raised when the model did not do what the check needs. The message describes what it did."""


class Inapplicable(Exception):
    """Raised when the server is known to refuse the check's request. The message names the fact."""


class SessionEnded(Exception):
    """Raised when the conversation cannot continue. The session has recorded the reason."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A response.

    `view` is `None` if the wire reader cannot read it; `damage` then explains why. `violations` are its violations of
    response rules, which apply to every answer.
    """

    body: WireBody
    request: HttpRequest
    response: HttpResponse
    view: ResponseView | None
    damage: str = ""
    violations: tuple[ResponseViolation, ...] = ()

    @property
    def words(self) -> str:
        """The error message of the server."""
        error = self.view.error if self.view is not None else None
        return error.message if error is not None and error.message else "no reason is given"


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A defect in a response, with its request."""

    message: str
    reply: Reply
    pointer: str = ""
    actual: JSON = None
    expected: JSON = None
    severity: Severity = Severity.ERROR


class ResponseObserver(Protocol):
    """Receives every response of a check."""

    def __call__(self, check: str, reply: Reply, request: RequestView | None) -> None:
        """Record a response and its defects."""
        ...


class CheckSession:
    """The requests of one attempt of a check and their findings. If `stream` is set, answers are streamed."""

    def __init__(
        self,
        check: ServerCheck,
        server: ServerUnderTest,
        line: RetryingClient,
        watch: ResponseObserver,
        *,
        stream: bool,
    ) -> None:
        self.prompt = check.prompt
        self.server = server
        self.stream = stream
        self.failures: list[CheckFailure] = []
        self.tries: list[tuple[str, bool]] = []
        self.replies: list[Reply] = []
        self._check = check.id
        self._line = line
        self._watch = watch

    def question(self, **settings: Any) -> ChatRequest:
        """Return a request with the check's prompt."""
        return ChatRequest(messages=[Message.user(self.prompt)], **settings)

    def ask(
        self,
        request: ChatRequest,
        *,
        refused: str | Callable[[], str] = "the server refuses the request",
        stream: bool | None = None,
        way: Iterable[str] = (),
    ) -> Reply:
        """Send a valid request and return the response.

        `refused` is the message if the server refuses the request, or a function that returns the message. `way` names
        methods of `RequestBuilder` that modify the body.

        Raises:
            Inapplicable: the server is known to refuse the request.
            SessionEnded: there is no usable response. The failure is recorded.
            Inconclusive: the answer cannot be read because it violates a response rule, or `refused` raises this.
        """
        bound = self.server.max_answer_tokens if request.max_tokens is None else request.max_tokens
        body = self.server.body_of(replace(request, model=self.server.model, max_tokens=bound))
        for name in way:
            body = getattr(self.server.request_builder, name)(body)
        streamed = self.stream if stream is None else stream
        for violation in self.server.api.judge(self.server.request(body, stream=streamed), self.server.rule_set):
            if violation.severity == "error":
                raise Inapplicable(f"the server is known to refuse it: {violation.message} ({violation.source})")
        return self._read_reply(body, refused, streamed)

    def refuses(self, request: ChatRequest) -> bool:
        """Return whether the server answers a request with an error. Raises `SessionEnded`."""
        body = self.server.body_of(replace(request, model=self.server.model, max_tokens=self.server.max_answer_tokens))
        view = self.send(body).view
        return view is not None and view.error is not None

    def send_results(self, reply: Reply, results: Sequence[AnsweredCall], *, refused: str) -> Reply:
        """Send the response back unchanged, with results of its calls.

        The server must accept what it issued itself, so known limits are not checked first.

        Raises:
            SessionEnded: there is no usable response. The failure is recorded.
            Inconclusive: the arguments of a call are not a JSON object, or the answer cannot be read because it
                violates a response rule.
        """
        if any(call.malformed is not None for call, _ in results):
            raise Inconclusive("the arguments of a call are not a JSON object, so the call has no result")
        answer = reply.view.body if reply.view is not None else None
        return self._read_reply(
            self.server.request_builder.append_answer(reply.body, answer, results), refused, self.stream
        )

    def send_text(self, reply: Reply, text: str, *, refused: str = "the conversation is refused") -> Reply:
        """Send the response back unchanged, with another user message. Raises the same exceptions as `send_results`."""
        answer = reply.view.body if reply.view is not None else None
        body = self.server.request_builder.append_text(
            self.server.request_builder.append_answer(reply.body, answer, ()), text
        )
        return self._read_reply(body, refused, self.stream)

    def send(self, body: WireBody | bytes, *, model: str | None = None) -> Reply:
        """Send a possibly invalid request and return any response. Raises `SessionEnded` if none arrives."""
        request = self.server.request(body, stream=self.stream, model=model)
        return self._send(request, {} if isinstance(body, bytes) else body)

    def calls(self, reply: Reply, count: int = 1) -> tuple[CallView, ...]:
        """Return the calls of a response. Raises `Inconclusive` if there are fewer than `count`."""
        calls = reply.view.calls if reply.view is not None else ()
        if len(calls) < count:
            wanted = "called nothing" if count == 1 else f"made {len(calls)} calls instead of {count}"
            raise Inconclusive(f"the model {wanted}")
        return calls

    def fail(  # noqa: PLR0913 - a failure with its evidence
        self,
        message: str,
        reply: Reply,
        pointer: str = "",
        *,
        actual: JSON = None,
        expected: JSON = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Record a failure."""
        self.failures.append(CheckFailure(message, reply, pointer, actual, expected, severity))

    def record_try(self, name: str, *, came_out: bool) -> None:
        """Record whether the model did something that can only be judged as a rate."""
        self.tries.append((name, came_out))

    @property
    def usage(self) -> list[Usage]:
        """Usage of all responses that are not refusals."""
        return [each.view.usage for each in self.replies if each.view is not None and each.response.status < 400]

    def _read_reply(self, body: WireBody, refused: str | Callable[[], str], stream: bool) -> Reply:
        reply = self._send(self.server.request(body, stream=stream), body)
        if reply.view is None:
            if reply.violations:
                raise Inconclusive(f"the answer cannot be read, as {reply.violations[0].rule.id} reports")
            self._end(f"the answer cannot be read: {reply.damage}", reply)
        if reply.view.error is not None:
            meaning = refused if isinstance(refused, str) else refused()
            self._end(f"{meaning}: HTTP {reply.response.status}: {reply.words}", reply)
        if reply.view.streamed and not reply.view.complete and not any(reply.violations):
            self._end("the stream breaks off", reply)
        return reply

    def _end(self, message: str, reply: Reply) -> NoReturn:
        self.fail(message, reply)
        raise SessionEnded

    def _send(self, request: HttpRequest, body: WireBody) -> Reply:
        try:
            response = self._line(request)
        except NoResponse as reason:
            self._end(f"no response arrived: {reason}", Reply(body, request, HttpResponse(0), None))
        view, damage = self._read(response)
        request_view = self._view(request)
        found = () if request_view is None else tuple(self._departures(response, request_view, view))
        reply = Reply(body, request, response, view, damage, found)
        self._watch(self._check, reply, request_view)
        self.replies.append(reply)
        return reply

    def _read(self, response: HttpResponse) -> tuple[ResponseView | None, str]:
        """Return the readable part of the response and the reason why the rest cannot be read."""
        typed, damage = _with_stream_type(response), ""
        for part in (
            lambda: typed,
            lambda: without_invalid_json(typed),
            lambda: without_invalid_json(typed, done=False),
        ):
            try:
                return self.server.api.read(part()), damage
            except WireError as error:
                damage = damage or str(error)
        return None, damage

    def _view(self, request: HttpRequest) -> RequestView | None:
        """Return the request as the wire reader sees it. For a deliberately invalid request, return a valid one
        instead.
        """
        try:
            return self.server.api.view(request)
        except WireError:
            plain = self.server.body_of(ChatRequest(model=self.server.model, max_tokens=self.server.max_answer_tokens))
            return self.server.api.view(self.server.request(plain, stream=self.stream))

    def _departures(
        self, response: HttpResponse, request: RequestView, view: ResponseView | None
    ) -> Iterator[ResponseViolation]:
        if response.delivery.ending != "complete":
            yield END.make_violation("the connection is closed before the answer has ended")
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return  # the check reports this status, which determines the error format
        if view is not None and view.error is None and not request.stream:
            try:
                loads(response.body)
            except WireError as damage:
                yield FIELDS.make_violation(f"the body cannot be parsed: {damage.reason}")
                response = replace(response, body=without_invalid_json(response).body)
        yield from self.server.strictly(response, request)
        known = {call.id for each in self.replies if each.view is not None for call in each.view.calls}
        sent = {call.id for call in request.calls}
        for call in view.calls if view is not None else ():
            if call.id is not None and call.id in known & sent:
                message = "an earlier call of the same conversation has this id"
                yield CALL_ID.make_violation(message, call.id_pointer, actual=call.id)


def _with_stream_type(response: HttpResponse) -> HttpResponse:
    """Return a stream with the correct content type.

    A wrong content type is reported once. Without this correction it would cause many findings.
    """
    if not looks_like_event_stream(response.body):
        return response
    return replace(response, headers={**response.headers, "content-type": "text/event-stream"})


def conclusive(reply: Reply) -> ResponseView:
    """Return the response as the wire reader sees it. Raises `Inconclusive` if the answer was truncated or the model
    refused.
    """
    view = reply.view
    if view is None:
        raise SessionEnded
    if view.stop_reason in _INCONCLUSIVE_STOPS:
        raise Inconclusive(f"the answer ended with the stop reason {view.stop_reason.value}")
    return view


def _tool(name: str, description: str, properties: dict[str, JSON], metadata: dict[str, JSON] | None = None) -> Tool:
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
    return Tool(name, description, schema, metadata or {})


_STRICT: dict[str, JSON] = {api: {"strict": True} for api in ("anthropic", "openai-chat", "openai-responses")}
"""Metadata that marks a strict tool. APIs without the mark ignore it."""

_CITY: dict[str, JSON] = {"city": {"type": "string", "description": "The name of the city."}}

WEATHER = _tool("get_weather", "The current weather in a city.", _CITY)
TIME = _tool("get_time", "The current local time in a city.", _CITY)
PING = Tool("ping", "Says whether the service is up. It takes no arguments.", {"type": "object", "properties": {}})
ORDER = _tool(
    "find_order",
    "Finds an order by its number.",
    {"number": {"type": "integer", "description": "The number, all digits of it."}},
)
NOTE = _tool(
    "save_note",
    "Saves a note word for word.",
    {"text": {"type": "string", "description": "The text of the note, unchanged."}},
)
TABLE = _tool(
    "book_table",
    "Books a table.",
    {
        "place": {"type": "string", "enum": ["garden", "hall"]},
        "meal": {"type": "string", "enum": ["lunch", "dinner"]},
        "guests": {"type": "integer"},
    },
    _STRICT,
)


BOTH: list[Variant] = ["whole", "stream"]


class ServerCheck(BaseModel):
    """A check with a stable kebab-case `id`.

    - `requirement` is a sentence, `source` its origin, and `because` the consequence of a violation.
    - `sends` describes the requests. `prompt` is the first user text, by which the scripted server identifies the
      check.
    - `script` has the answers of a model that follows instructions, for cost estimates and tests.
    - `history` is a conversation from another server.
    - `needs` names a value that the API's request builder must have. `lack` is the message if it does not.
    - `native` names features that the model's profile must support natively.
    - `counted` is the name of the recorded tries. `never` is the warning if none of them succeeds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    subject: Subject
    requirement: str
    source: str
    because: str
    sends: str
    prompt: str
    script: list[StepSpec]
    history: list[HistoryMessage] = []
    variants: list[Variant] = BOTH
    needs: str = ""
    lack: str = ""
    native: list[str] = []
    counted: str = ""
    never: str = ""

    def lacks(self, server: ServerUnderTest) -> str | None:
        """Return why the check does not apply to a server, or `None` if it does."""
        if self.needs and not getattr(server.request_builder, self.needs):
            return self.lack
        if any(getattr(server.profile, name) != "native" for name in self.native):
            return "the API does not have this for the model; adapters emulate it"
        return None


CHECK_FUNCTIONS: dict[str, Callable[[CheckSession], None]] = {}
"""Maps ids of checks to the functions that send the requests and record failures."""


def check_function(check: str) -> Callable[[Callable[[CheckSession], None]], Callable[[CheckSession], None]]:
    """Return a decorator that registers a function as the one that runs a check."""

    def register(function: Callable[[CheckSession], None]) -> Callable[[CheckSession], None]:
        CHECK_FUNCTIONS[check] = function
        return function

    return register
