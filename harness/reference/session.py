"""One conversation with the reference server: the scenario's script, played an answer for each accepted request.

Answers are counted, not looked up: a tool loop that repeats itself cannot get the first answer for ever. A refused
request uses up no answer, nor does one that meets a fault of the scenario: asked again, the answer is given. Where the
client goes on with the calls of an answer that was cut, it has taken that for the answer. Ids, usage and signatures are
functions of the scenario and of the name of the conversation, if it has one, so that runs repeat; what of a prompt
comes out of a cache follows from the requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from itertools import takewhile
from threading import Lock

from harness.apis.api import Api
from harness.apis.embedding import EmbeddingFormat
from harness.apis.endpoint import turned_away
from harness.apis.eventstream import separators_escaped
from harness.apis.jsonvalue import canonical
from harness.apis.law import Law
from harness.apis.limit import Violation
from harness.apis.profile import Profile
from harness.apis.view import (
    CallView,
    JsonView,
    MediaView,
    ModelStep,
    OpaqueView,
    Prefix,
    RequestView,
    ResponseView,
    ResultView,
    TextView,
    WireError,
)
from harness.contract.http import EXHAUSTED, HttpRequest, HttpResponse
from harness.contract.model import JSON
from harness.reference.faults import injected
from harness.scenarios.schema import Provocation, Scenario

_CHARACTERS = 4
"""Of a token, in English text. The counts of the reference server are made up, and only have to be plausible."""


class Prefixes:
    """The requests of one conversation, each compared with the one before it."""

    def __init__(self) -> None:
        self._fixed: list[str] = []
        self._said: list[str] = []

    def of(self, request: RequestView) -> Prefix:
        """The prefix of the next request."""
        fixed = [*_fixed(request)]
        said = fixed + [canonical(_value(part)) for turn in request.turns for part in turn.parts]
        repeated = takewhile(lambda pair: pair[0] == pair[1], zip(said, self._said, strict=False))
        prefix = Prefix(
            repeated=_tokens([piece for piece, _ in repeated]),
            marked=_tokens(fixed) if request.cache_marks else 0,
            again=fixed == self._fixed,
        )
        self._fixed, self._said = fixed, said
        return prefix


def _tokens(pieces: list[str]) -> int:
    return sum(map(len, pieces)) // _CHARACTERS


def _fixed(request: RequestView) -> Iterator[str]:
    for tool in request.tools:
        yield canonical([tool.name, tool.description, tool.parameters])
    for system in request.system:
        yield system.text


def _value(part: object) -> JSON:
    match part:
        case TextView(text):
            return text
        case CallView():
            return [part.name, part.arguments]
        case ResultView():
            return [_value(each) for each in part.payload]
        case JsonView(value):
            return value
        case OpaqueView():
            return part.raw
        case MediaView():
            return part.uri or ""
        case _:
            return None


MOST_ANSWERS = 8
"""How many answers to one question are given at most."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request gets. `index` is that of the script's answer which it asked for; `None`: it was refused, or
    nothing was left. `spoilt`: it met a fault, and has to be asked again."""

    response: HttpResponse
    index: int | None = None
    spoilt: bool = False


class Session:
    """A handler of requests for one cell. Requests that overlap are answered one after the other.

    `origin` is the URL below which the API is; without one, only the end of a path counts.
    `law`: the rules of another server, in the place of the provider's own. `name` tells conversations of one scenario
    apart; in one that has a name, answers repeat what those of the provider do of their requests, which our adapters
    have no use for.
    """

    def __init__(  # noqa: PLR0913 - who answers, as what, by whose rules
        self,
        scenario: Scenario,
        wire: Api,
        model: str,
        profile: Profile,
        law: Law | None = None,
        *,
        name: str = "",
        origin: str | None = None,
    ) -> None:
        self._scenario = scenario
        self._wire = wire
        self._model = model
        self._profile = profile
        self._law = law or wire.services.provider_law(profile, model)
        self._script = [step for turn in scenario.turns for step in turn.model]
        self._faults = {fault.answer: fault for fault in scenario.faults}
        self._origin = origin
        self._seed = f"{scenario.id}/{name}" if name else scenario.id
        self._echoes = bool(name)
        self._played = 0
        self._cut: tuple[ResponseView, int] | None = None
        """The answer that was cut, and how many calls the request had that it answers."""
        self._lock = Lock()
        self._memory = wire.memory(foreign=bool(scenario.history))
        self._prefixes = Prefixes()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer one request as the provider would."""
        return self.answer(request).response

    def answer(self, request: HttpRequest) -> Answer:
        """Answer one request as the provider would, and say which of the script's answers it is."""
        answer = self._answer_to(request)
        if answer.response.status < HTTPStatus.BAD_REQUEST:
            return answer
        return replace(answer, response=self._wire.error_for(answer.response, request))

    def speak_as(self, model: str, profile: Profile) -> None:
        """Answer as another model from here on."""
        self._model, self._profile = model, profile
        self._law = self._wire.services.provider_law(profile, model)

    @property
    def script(self) -> int:
        """How many answers there are."""
        return len(self._script)

    @property
    def played(self) -> int:
        """How many of them were given."""
        return self._played

    def _answer_to(self, request: HttpRequest) -> Answer:
        embeddings = self._wire.embeddings if self._scenario.embeddings is not None else None
        lost = turned_away(self._wire, request, embedded=embeddings is not None, origin=self._origin)
        if lost is not None:
            return Answer(self._wire.refuse(lost))
        if embeddings is not None:
            return Answer(self._embedded(request, embeddings))
        with self._lock:
            return self._answered(request)

    def _embedded(self, request: HttpRequest, embeddings: EmbeddingFormat) -> HttpResponse:
        refused = [each for each in self._wire.judge_embeddings(request, self._law) if each.severity == "error"]
        if refused:
            return self._wire.refuse(refused[0])
        try:
            return _json_response(200, embeddings.build(embeddings.view(request)))
        except WireError as error:
            return _unread(error)

    def _answered(self, request: HttpRequest) -> Answer:
        try:
            asked = self._judged(request)
        except WireError as error:
            return Answer(_unread(error))
        if isinstance(asked, Violation):
            return Answer(self._wire.refuse(asked))
        index = self._played
        if index == len(self._script):
            return Answer(exhausted(f"the script of scenario {self._scenario.id!r} has no answer {index + 1}"))
        seed = f"{self._seed}/{index}"
        response = self._answers(self._step(index, asked), seed, asked, request)
        fault = self._faults.pop(index, None)
        if fault is not None and fault.fails:
            self._cut = (self._wire.read(response), len(asked.calls)) if fault.connection is not None else None
            return Answer(injected(fault, self._wire, response, asked, seed), index, spoilt=True)
        self._played += 1
        self._memory.note(self._wire.read(response))
        return Answer(response if fault is None else injected(fault, self._wire, response, asked, seed), index)

    def _go_on_behind_a_cut(self, request: RequestView) -> None:
        """The answer that was cut is the script's, if this request has its calls."""
        if self._cut is not None and len(request.calls) > self._cut[1]:
            self._memory.note(self._cut[0])
            self._played += 1
        self._cut = None

    def _judged(self, request: HttpRequest) -> RequestView | Violation:
        """The request as the provider understands it, or why it is refused. Raises `WireError`."""
        violations = self._wire.judge(request, self._law)
        refused = [violation for violation in violations if violation.severity == "error"]
        if refused:
            return refused[0]
        view = self._wire.view(request)
        self._go_on_behind_a_cut(view)
        objection = self._memory.objection(view)
        borne_out = self._wire.borne_out([] if objection is None else [objection], self._law)
        return borne_out[0] if borne_out and borne_out[0].severity == "error" else view

    def _step(self, index: int, request: RequestView) -> ModelStep:
        step, api = self._script[index], self._wire.name
        return ModelStep(
            step.text,
            step.thinking,
            step.named_calls,
            step.refusal,
            step.stop,
            tuple(step.raw.get(api, ())),
            step.truncated,
            frozenset(self._scenario.provocations),
            self._prefixes.of(request),
            step.served,
        )

    def _answers(self, step: ModelStep, seed: str, asked: RequestView, request: HttpRequest) -> HttpResponse:
        """The answer, or as many as the request wants of its question, if the API can tell them as one."""
        several, wanted = self._wire.frontage.several, asked.settings.get("answers")
        count = wanted.value if wanted is not None and isinstance(wanted.value, int) else 1
        if several is None or not 1 < count <= MOST_ANSWERS:
            return self._answer(step, seed, asked, request)
        seeds = (seed, *(f"{seed} {number}" for number in range(1, count)))
        return several([self._answer(step, each, asked, request) for each in seeds])

    def _answer(self, step: ModelStep, seed: str, asked: RequestView, request: HttpRequest) -> HttpResponse:
        wire, echo = self._wire, self._wire.frontage.echo if self._echoes else None
        model = step.served or self._model
        if asked.stream and (echo is None or step.provocations):  # what is provoked is made event by event
            response = wire.build_stream(step, seed, model, self._profile, asked)
        else:
            body = wire.build(step, seed, model, self._profile)
            body = body if echo is None else echo(body, request)
            if not asked.stream:
                return _json_response(200, body)
            response = wire.stream_of(body, seed, self._profile, asked)
        if Provocation.RAW_LINE_SEPARATORS in step.provocations:
            return response
        return replace(response, body=separators_escaped(response.body))


def _unread(error: WireError) -> HttpResponse:
    return exhausted(f"the witness has nothing against a request that it cannot read: {error}")


def exhausted(reason: str) -> HttpResponse:
    """The answer to a request that nothing is left for. The header says that it is the harness's, not a provider's."""
    response = _json_response(500, {"error": {"message": f"harness: {reason}", "type": "harness_exhausted"}})
    return HttpResponse(response.status, {**response.headers, EXHAUSTED: "1"}, response.body)


def _json_response(status: int, body: dict[str, JSON]) -> HttpResponse:
    return HttpResponse(
        status, {"content-type": "application/json"}, json.dumps(body, ensure_ascii=False, indent=2).encode()
    )
