"""One playing of a check: what it asks, what came back, and what it says of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import NoReturn, Protocol

from harness.apis.departure import CALL_ID, END, FIELDS, Departure
from harness.apis.eventstream import starts_as_one
from harness.apis.jsonvalue import loads
from harness.apis.questions import Answered, Body
from harness.apis.view import CallView, RequestView, ResponseView, WireError
from harness.checking.endpoints import legible
from harness.checking.servers.server import Line, Server, Unanswered
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON, ChatRequest, StopReason, Tool, Usage
from harness.results import Severity
from harness.scenarios.schema import HistoryMessage, StepSpec, Subject, Variant

_UNHELPFUL = (StopReason.MAX_TOKENS, StopReason.REFUSAL)
"""What an answer stops for that says nothing of what was asked: a model may think, or refuse, as it likes."""


class Inconclusive(Exception):
    """The model did not do what a check looks at, which is its own affair; the text says what it did."""


class Inapplicable(Exception):
    """The server is known to refuse what a check sends; the text says by which fact."""


class Ended(Exception):
    """The conversation cannot go on; why has been said."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. `view` is what the witness reads of it, and is missing where it cannot be read, of which `damage` says
    why. `departures` are what is wrong with it, whatever was asked."""

    body: Body
    request: HttpRequest
    response: HttpResponse
    view: ResponseView | None
    damage: str = ""
    departures: tuple[Departure, ...] = ()

    @property
    def words(self) -> str:
        """An error, as the server words it."""
        error = self.view.error if self.view is not None else None
        return error.message if error is not None and error.message else "no reason is given"


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong in an answer by what was asked."""

    message: str
    reply: Reply
    pointer: str = ""
    actual: JSON = None
    expected: JSON = None
    severity: Severity = Severity.ERROR


class Watch(Protocol):
    """Sees every answer, whatever it was asked for."""

    def __call__(self, check: str, reply: Reply, asked: RequestView | None) -> None:
        """Take note of an answer to a check, and of what is wrong with it."""
        ...


class Talk:
    """What a check asks, and what it finds. `stream`: the answers are to be streamed."""

    def __init__(self, check: str, server: Server, line: Line, watch: Watch, *, stream: bool) -> None:
        self.server = server
        self.stream = stream
        self.flaws: list[Flaw] = []
        self.tries: list[tuple[str, bool]] = []
        self.replies: list[Reply] = []
        self._check = check
        self._line = line
        self._watch = watch

    def ask(
        self,
        request: ChatRequest,
        *,
        refused: str | Callable[[], str] = "the request is refused",
        stream: bool | None = None,
        way: Iterable[str] = (),
    ) -> Reply:
        """Ask what is right, and get an answer. `refused` is what it means if there is none, or finds that out; `way`
        names switches of `Questions` that a body goes through.

        Raises:
            Inapplicable: the server is known to refuse it.
            Ended: there is no answer, which is said.
            Inconclusive: `refused` finds that this proves nothing.
        """
        bound = self.server.longest if request.max_tokens is None else request.max_tokens
        body = self.server.written(replace(request, model=self.server.model, max_tokens=bound))
        for name in way:
            body = getattr(self.server.questions, name)(body)
        streamed = self.stream if stream is None else stream
        for violation in self.server.api.judge(self.server.request(body, stream=streamed), self.server.law):
            if violation.severity == "error":
                raise Inapplicable(f"it is known to be refused: {violation.message} ({violation.source})")
        return self._answered(body, refused, streamed)

    def refuses(self, request: ChatRequest) -> bool:
        """Whether a request is answered with an error. Raises `Ended`: it is not answered at all."""
        body = self.server.written(replace(request, model=self.server.model, max_tokens=self.server.longest))
        view = self.send(body).view
        return view is not None and view.error is not None

    def go_on(self, reply: Reply, results: Sequence[Answered], *, refused: str) -> Reply:
        """Go on with an answer, as it came, and the results of its calls. What a server has issued it has to take back,
        whatever others would say to it.

        Raises:
            Ended: there is no answer, which is said.
            Inconclusive: what it has issued is nothing that could be taken back.
        """
        if any(call.malformed is not None for call, _ in results):
            raise Inconclusive("the arguments of a call are no JSON object, so that no result is asked for")
        answer = reply.view.body if reply.view is not None else None
        return self._answered(self.server.questions.goes_on(reply.body, answer, results), refused, self.stream)

    def say(self, reply: Reply, text: str, *, refused: str = "the conversation is refused") -> Reply:
        """Go on with an answer, as it came, and one more message of the user. Raises as `go_on` does."""
        answer = reply.view.body if reply.view is not None else None
        body = self.server.questions.says(self.server.questions.goes_on(reply.body, answer, ()), text)
        return self._answered(body, refused, self.stream)

    def send(self, body: Body | bytes, *, model: str | None = None) -> Reply:
        """Send what may be wrong, and get whatever comes. Raises `Ended`: nothing does."""
        request = self.server.request(body, stream=self.stream, model=model)
        return self._sent(request, {} if isinstance(body, bytes) else body)

    def calls(self, reply: Reply, count: int = 1) -> tuple[CallView, ...]:
        """The calls of an answer. Raises `Inconclusive`: there are fewer than `count`."""
        calls = reply.view.calls if reply.view is not None else ()
        if len(calls) < count:
            wanted = "called nothing" if count == 1 else f"made {len(calls)} calls where {count} were asked for"
            raise Inconclusive(f"the model {wanted}")
        return calls

    def flaw(  # noqa: PLR0913 - what a flaw is made of
        self,
        message: str,
        reply: Reply,
        pointer: str = "",
        *,
        actual: JSON = None,
        expected: JSON = None,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Say what is wrong."""
        self.flaws.append(Flaw(message, reply, pointer, actual, expected, severity))

    def count(self, name: str, *, came_out: bool) -> None:
        """Note something that a model does or does not do, of which only the share says anything."""
        self.tries.append((name, came_out))

    @property
    def usage(self) -> list[Usage]:
        """What the answers took, of those that were not refused."""
        return [each.view.usage for each in self.replies if each.view is not None and each.response.status < 400]

    def _answered(self, body: Body, refused: str | Callable[[], str], stream: bool) -> Reply:
        reply = self._sent(self.server.request(body, stream=stream), body)
        if reply.view is None:
            if reply.departures:
                raise Inconclusive(f"the answer cannot be read, as {reply.departures[0].promise.id} reports")
            self._end(f"the answer cannot be read: {reply.damage}", reply)
        if reply.view.error is not None:
            meaning = refused if isinstance(refused, str) else refused()
            self._end(f"{meaning}: HTTP {reply.response.status}: {reply.words}", reply)
        if reply.view.streamed and not reply.view.complete and not any(reply.departures):
            self._end("the stream breaks off", reply)
        return reply

    def _end(self, message: str, reply: Reply) -> NoReturn:
        self.flaw(message, reply)
        raise Ended

    def _sent(self, request: HttpRequest, body: Body) -> Reply:
        try:
            response = self._line(request)
        except Unanswered as reason:
            self._end(f"no answer came: {reason}", Reply(body, request, HttpResponse(0), None))
        view, damage = self._read(response)
        asked = self._view(request)
        found = () if asked is None else tuple(self._departures(response, asked, view))
        reply = Reply(body, request, response, view, damage, found)
        self._watch(self._check, reply, asked)
        self.replies.append(reply)
        return reply

    def _read(self, response: HttpResponse) -> tuple[ResponseView | None, str]:
        """The answer, or what can be read of it, and why the whole of it cannot be."""
        told, damage = _called_what_it_is(response), ""
        for part in (lambda: told, lambda: legible(told), lambda: legible(told, done=False)):
            try:
                return self.server.api.read(part()), damage
            except WireError as error:
                damage = damage or str(error)
        return None, damage

    def _view(self, request: HttpRequest) -> RequestView | None:
        """The request as the witness reads it; of one that is wrong on purpose, one that is not."""
        try:
            return self.server.api.view(request)
        except WireError:
            plain = self.server.written(ChatRequest(model=self.server.model, max_tokens=self.server.longest))
            return self.server.api.view(self.server.request(plain, stream=self.stream))

    def _departures(self, response: HttpResponse, asked: RequestView, view: ResponseView | None) -> Iterator[Departure]:
        if response.delivery.ending != "complete":
            yield END.broken("the connection is closed before the answer has ended")
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return  # which the check reports; the form of the error follows from it
        if view is not None and view.error is None and not asked.stream:
            try:
                loads(response.body)
            except WireError as damage:
                yield FIELDS.broken(f"the body cannot be parsed: {damage.reason}")
                response = replace(response, body=legible(response).body)
        yield from self.server.strictly(response, asked)
        known = {call.id for each in self.replies if each.view is not None for call in each.view.calls}
        sent = {call.id for call in asked.calls}
        for call in view.calls if view is not None else ():
            if call.id is not None and call.id in known & sent:
                said = "an earlier call of the same conversation has this id"
                yield CALL_ID.broken(said, call.id_pointer, actual=call.id)


def _called_what_it_is(response: HttpResponse) -> HttpResponse:
    """A stream under the content type of one. Another one is told for itself, and not once more for each thing that
    nobody finds in the stream for want of reading it."""
    if not starts_as_one(response.body):
        return response
    return replace(response, headers={**response.headers, "content-type": "text/event-stream"})


def helpful(reply: Reply) -> ResponseView:
    """The answer as the witness reads it. Raises `Inconclusive`: it says nothing of what was asked."""
    view = reply.view
    if view is None:
        raise Ended
    if view.stop_reason in _UNHELPFUL:
        raise Inconclusive(f"the answer stopped for {view.stop_reason.value}")
    return view


_STRICT: dict[str, JSON] = {api: {"strict": True} for api in ("anthropic", "openai-chat", "openai-responses")}
"""How a tool is marked whose arguments the server promises to keep to the schema; who has no mark ignores it."""


def _city(name: str, description: str) -> Tool:
    city: JSON = {"type": "string", "description": "The name of the city."}
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {"city": city},
        "required": ["city"],
        "additionalProperties": False,
    }
    return Tool(name, description, schema)


WEATHER = _city("get_weather", "The current weather in a city.")
TIME = _city("get_time", "The current local time in a city.")
PING = Tool("ping", "Says whether the service is up. It takes no arguments.", {"type": "object", "properties": {}})
ORDER = Tool(
    "find_order",
    "Finds an order by its number.",
    {
        "type": "object",
        "properties": {"number": {"type": "integer", "description": "The number, all digits of it."}},
        "required": ["number"],
        "additionalProperties": False,
    },
)
NOTE = Tool(
    "save_note",
    "Saves a note word for word.",
    {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text of the note, unchanged."}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
TABLE = Tool(
    "book_table",
    "Books a table.",
    {
        "type": "object",
        "properties": {
            "place": {"type": "string", "enum": ["garden", "hall"]},
            "meal": {"type": "string", "enum": ["lunch", "dinner"]},
            "guests": {"type": "integer"},
        },
        "required": ["place", "meal", "guests"],
        "additionalProperties": False,
    },
    _STRICT,
)


BOTH: tuple[Variant, ...] = ("whole", "stream")


def _anybody(_server: Server) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check with a stable kebab-case `id`.

    `promise` says in one sentence what has to hold, `source` where that comes from, and `because` what a breach costs.
    `sends` says what is asked. `prompt` is the first text of its user, by which the reference server knows the check,
    and `script` what a model answers that does as it is told: by it the cost is reckoned beforehand, and by it the
    checks themselves are tested. `history` is what of the conversation came from elsewhere.
    `play` asks and judges. `lacks(server)` says why it cannot be asked of a server.
    `never` is what is said if in no playing came out what is counted under `counted`: no single answer proves that.
    """

    id: str
    subject: Subject
    promise: str
    source: str
    because: str
    sends: str
    prompt: str
    script: tuple[StepSpec, ...]
    play: Callable[[Talk], None]
    history: tuple[HistoryMessage, ...] = ()
    variants: tuple[Variant, ...] = BOTH
    lacks: Callable[[Server], str | None] = _anybody
    counted: str = ""
    never: str = ""
