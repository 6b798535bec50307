"""One session of a client with the reference server, and the cell that results from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, zip_longest
from threading import Condition, Lock
from time import sleep
from typing import TypeAlias
from urllib.parse import urlsplit

from harness import catalog
from harness.apis.api import Api, StreamShape
from harness.apis.fact_files import FactSelection
from harness.apis.jsonvalue import equal
from harness.contract.http import Delivery, HttpRequest, HttpResponse
from harness.contract.model import ToolCall
from harness.contract.protocols import Endpoint
from harness.reference.conversation_server import ConversationServer, Known
from harness.results import CellResult, Exchange, Provenance, ServedTranscript, ToolRun, TurnedAway, Verdict
from harness.rules.conversation import conversation, room
from harness.rules.evidence import Evidence
from harness.rules.retelling import is_unread
from harness.running.backends import NO_KEY, Stage
from harness.running.verdicts import Judge
from harness.scenarios.schema import Scenario, Variant
from harness.tape.cassette import REFERENCE_URL
from harness.tape.player import Tap
from harness.tape.recut import recut
from harness.tape.redact import Redactor

MAX_TOOL_RUNS = 1000
"""How many tools are run in one conversation. One without end is answered so fast that it hardly uses its time."""

_ARRIVAL_SECONDS = 0.15
"""How long a call waits for the next one to be run. A loop that runs its tools one after the other waits once."""

_FINISH_SECONDS = 1.0
"""How long a call waits for later ones that run: a bound, for those that never return."""

_HANDOVER_SECONDS = 0.05
"""How long a call stays behind later ones that have finished, so that the loop has their results first."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a call in an answer of the script: `index`, of `count` calls."""

    answer: int
    index: int
    count: int


class Places:
    """Finds the place of each call that is run. Each place is given out once."""

    def __init__(self, scenario: Scenario) -> None:
        self._steps = [step.whole_calls for turn in scenario.turns for step in turn.model]
        self._left: dict[int, list[int]] = {}
        self._lock = Lock()

    def of(self, call: ToolCall, answer: int) -> Place | None:
        """Return the place of a call in an answer of the script, or `None` if the answer has no such call left."""
        if not 0 <= answer < len(self._steps):
            return None
        calls = self._steps[answer]
        with self._lock:
            left = self._left.setdefault(answer, list(range(len(calls))))
            named = [index for index in left if calls[index][0] == call.name]
            exact = (index for index in named if equal(calls[index][1], call.arguments))
            index = next(exact, next(iter(named), None))
            if index is None:
                return None
            left.remove(index)
        return Place(answer, index, len(calls))


class ReverseOrder:
    """Delays the calls of one conversation so that those that run at the same time finish in reverse order."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._answer = -1
        self._running: set[int] = set()
        self._begun: set[int] = set()
        self._one_by_one = False

    def wait(self, place: Place | None) -> None:
        """Return when the call may finish: after the later calls of its answer that run at the same time."""
        if place is None or place.count == 1:
            return
        with self._changed:
            if place.answer != self._answer:
                self._answer, self._running, self._begun = place.answer, set(), set()
            self._running.add(place.index)
            self._begun.add(place.index)
            self._changed.notify_all()
            later = range(place.index + 1, place.count)
            behind = bool(later) and not self._one_by_one and self._is_behind(place, later)
        if behind:
            sleep(_HANDOVER_SECONDS)
        with self._changed:
            self._running.discard(place.index)
            self._changed.notify_all()

    def _is_behind(self, place: Place, later: range) -> bool:
        """Wait for the later calls that run at the same time. Return whether there are any."""
        self._changed.wait_for(lambda: place.index + 1 in self._begun or self._is_over(place), _ARRIVAL_SECONDS)
        if self._is_over(place):
            return False
        if self._running == {place.index} == self._begun:
            self._one_by_one = True
            return False
        self._changed.wait_for(
            lambda: self._is_over(place) or self._running.isdisjoint(later), _FINISH_SECONDS * place.count
        )
        return not self._begun.isdisjoint(later)

    def _is_over(self, place: Place) -> bool:
        return place.answer != self._answer


Way: TypeAlias = Callable[[HttpResponse, str], tuple[HttpResponse, str]]
"""Returns a stream sent in another way, and in words which; the same for the same stream and seed."""

Ways: TypeAlias = Callable[[Api], Sequence[Way]]
"""The ways for the streams of one conversation in an API, one after the other, and then again from the first."""


def cut(number: int) -> Way:
    """The way of `harness.tape.recut` with this number."""
    return lambda response, seed: recut(response, number, seed)


def _readable(wire: Api, number: int, response: HttpResponse, seed: str) -> tuple[HttpResponse, str]:
    """The cut with this number, or the first after it in a framing that the API's official SDK can read."""
    cuts = (recut(response, each, seed) for each in count(number))
    return next((told, way) for told, way in cuts if not is_unread(wire, way))


def shaped(name: str, shape: StreamShape) -> Way:
    """The way that sends calls in the chunks of some servers; a stream that it does not change is cut elsewhere."""
    return partial(_shaped, name, shape)


def _shaped(name: str, shape: StreamShape, response: HttpResponse, seed: str) -> tuple[HttpResponse, str]:
    body = shape.respell(response.body, seed)
    if body == response.body or response.delivery.ending != "complete":
        return recut(response, 0, seed)
    told = HttpResponse(response.status, response.headers, body, Delivery((len(body),)))
    return told, f"in the chunks of some servers, {name}"


def shapes_and_cuts(cuts: int, wire: Api) -> Sequence[Way]:
    """Return the documented shapes of an API's streams, in turn with so many other cuts of the bytes."""
    shapes = [shaped(name, shape) for name, shape in wire.stream_shapes.items() if not shape.departs]
    pairs = zip_longest(shapes, [partial(_readable, wire, number) for number in range(cuts)])
    return [way for pair in pairs for way in pair if way is not None]


CLIENT = "client"
"""What stands in a report where a run has the name of an adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms all conversations are held: by which facts, with which models beside those that the API's provider
    is known to have, and how fast. With `ways` streams are sent in other ways."""

    edition: FactSelection
    models: tuple[str, ...] = ()
    pace: float = 0.0
    ways: Ways | None = None


class Conversation:
    """A conversation of one scenario, in one API. `base` is the URL that a client sends its requests below."""

    def __init__(self, scenario: Scenario, wire: Api, name: str, base: str, known: Known, terms: Terms) -> None:  # noqa: PLR0913, PLR0917 - who talks, about what, where, on what terms
        self.scenario = scenario
        self.wire = wire
        self.name = name
        self._front = ConversationServer(
            scenario, wire, name, known=known, edition=terms.edition, pace=terms.pace, origin=REFERENCE_URL
        )
        self._edition = terms.edition
        self._ways: Sequence[Way] = [] if terms.ways is None else terms.ways(wire)
        self.ways: dict[int, str] = {}
        """In which other ways streams were sent, in words: by the number of the request, from 1."""
        self._tap = Tap(base, REFERENCE_URL)
        self._turned_away: list[TurnedAway] = []
        self._runs: list[ToolRun] = []
        self._beside = 0
        self._asked = 0
        self._streamed = False
        self._lock = Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer a chat, and note it."""
        public = self._with_one_version(self._tap.public(request))
        with self._lock:
            served = self._front.serve(public)
            self._tap.chat = served.index
            self._streamed |= served.response.headers.get("content-type", "").startswith("text/event-stream")
            self._asked += 1
            self._beside += served.beside
            if served.reason is not None:
                path = urlsplit(public.url).path.removeprefix(urlsplit(REFERENCE_URL).path)
                answer = self._refusal(served.response)
                self._turned_away.append(TurnedAway(f"{request.method} {path}", served.reason, answer))
            elif not served.again:
                # What is judged is what was said: how fast it came is no part of it.
                self._tap.note(served.request, replace(served.response, delivery=_unpaced(served.response)))
            return self._told(served.response)

    def _refusal(self, response: HttpResponse) -> str:
        error = self.wire.read(response).error
        return f"HTTP {response.status}: {error.message if error is not None else ''}"

    def _with_one_version(self, request: HttpRequest) -> HttpRequest:
        """Google's SDK adds the version to a base URL, and base URLs of other servers end in it."""
        version = self.wire.base_url_ending.removeprefix(self.wire.base_path)
        doubled = f"{REFERENCE_URL}{version}{version}/"
        if not version or not request.url.startswith(doubled):
            return request
        return replace(request, url=REFERENCE_URL + request.url.removeprefix(REFERENCE_URL + version))

    def _told(self, response: HttpResponse) -> HttpResponse:
        """The answer as it goes out: a stream comes in its events, or in the next of the other ways."""
        if not self._ways or not response.delivery.cuts:
            return response
        way = self._ways[len(self.ways) % len(self._ways)]
        told, self.ways[self._asked] = way(response, f"{self.scenario.id}/{self.name}")
        return told

    def note_run(self, call: ToolCall) -> int:
        """Note that the client ran a tool. Return how many answers of the script were given by then."""
        with self._lock:
            answers = self._front.played
            if len(self._runs) < MAX_TOOL_RUNS:
                self._runs.append(ToolRun(call.name, call.arguments, answers))
        return answers

    @property
    def asked(self) -> int:
        """How many requests came."""
        return self._asked

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """What was asked and answered, but for requests that were turned away, or sent again."""
        return tuple(self._tap.exchanges)

    @property
    def turned_away(self) -> tuple[TurnedAway, ...]:
        """The requests that were refused for what is around their chat."""
        return tuple(self._turned_away)

    @property
    def progress(self) -> tuple[int, int]:
        """How many answers of the script were given, and how many it has."""
        return self._front.played, self._front.script

    def evidence(self, *, ended: bool) -> Evidence:
        """What has happened, as the rules look at it. `ended`: nothing more will."""
        return Evidence(self.transcript(ended=ended))

    def transcript(self, *, ended: bool) -> ServedTranscript:
        """What has happened."""
        with self._lock:
            model = self._front.model or ""
            profile = self._front.profiles.get(model) or self.wire.profile_for(model, self._edition)
            return ServedTranscript(
                api=self.wire.name,
                model=model,
                profile=profile,
                exchanges=tuple(self._tap.exchanges),
                mode="serve",
                adapter=CLIENT,
                variant=self._variant,
                scenario=self.scenario,
                scripted=True,
                script=self._front.script,
                played=self._front.played,
                beside=self._beside,
                ended=ended,
                turned_away=tuple(self._turned_away),
                profiles=dict(self._front.profiles),
                runs=tuple(self._runs),
            )

    def result(self, target: str, *, ended: bool = True, shown: bool = False) -> CellResult:
        """What comes of it, in the column `target`; `shown` with its exchanges. Keys that a client sends are in
        headers, which nobody keeps."""
        evidence = self.evidence(ended=ended)
        covers = tuple(subject.value for subject in self.scenario.covers)
        cell = partial(CellResult, self.scenario.id, target, CLIENT, self.wire.name, self._variant)
        judge = Judge(catalog.rules(), (), strict=False)
        result = judge.judged(cell(Verdict.PASS, covers=covers), self.stage, evidence, Redactor())
        return replace(result, conversation=conversation(evidence, Redactor(), room(1))) if shown else result

    @property
    def stage(self) -> Stage:
        """What it was held on."""
        provenance = Provenance("reference", model_requested=self._front.model or None)
        return Stage(Endpoint(REFERENCE_URL, NO_KEY), self._tap, scripted=True, provenance=provenance)

    @property
    def _variant(self) -> Variant:
        return "stream" if self._streamed else "whole"


def _unpaced(response: HttpResponse) -> Delivery:
    delivery = response.delivery
    return replace(delivery, cuts=(), pause=0.0)
