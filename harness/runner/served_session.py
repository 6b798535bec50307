"""A client's session with the reference server, and the cell result made from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, zip_longest
from threading import Condition, Lock
from time import sleep
from typing import TypeAlias
from urllib.parse import urlsplit

from harness.apis.api import Api, StreamShape
from harness.apis.fact_files import FactSelection
from harness.apis.jsonvalue import equal
from harness.cassettes.cassette import REFERENCE_URL
from harness.cassettes.player import ExchangeLog
from harness.cassettes.rechunk import recut
from harness.cassettes.redact import Redactor
from harness.model.http import Delivery, HttpRequest, HttpResponse
from harness.model.messages import ToolCall
from harness.model.protocols import Endpoint
from harness.reference_server.conversation_server import ConversationServer, IsKnownModel
from harness.results import CellResult, Exchange, Provenance, RejectedRequest, ServedTranscript, ToolRun, Verdict
from harness.rules.conversation_report import build_conversation, max_conversation_chars
from harness.rules.evidence import Evidence
from harness.rules.replays import is_unreadable_by_sdk
from harness.rules.rule import all_rules
from harness.runner.backends import NO_KEY, CellEnvironment
from harness.runner.verdicts import CellJudge
from harness.scenarios.schema import Scenario, Variant

MAX_TOOL_RUNS = 1000
"""Maximum number of tool runs that are recorded in a session. It bounds the memory that an endless loop can use."""

_ARRIVAL_SECONDS = 0.15
"""Time that a call waits for the next call to start. A loop that runs its tools sequentially waits only once."""

_FINISH_SECONDS = 1.0
"""Maximum time, per call in the response, that a call waits for later calls to finish."""

_HANDOVER_SECONDS = 0.05
"""Delay after the later calls have finished, so that the loop receives their results first."""


@dataclass(frozen=True, slots=True)
class CallPosition:
    """The position of a call in a script response: call `index` of `count`."""

    answer: int
    index: int
    count: int


class CallPositions:
    """Finds the position of each call that runs. Each position is returned only once."""

    def __init__(self, scenario: Scenario) -> None:
        self._steps = [step.whole_calls for turn in scenario.turns for step in turn.model]
        self._left: dict[int, list[int]] = {}
        self._lock = Lock()

    def of(self, call: ToolCall, answer: int) -> CallPosition | None:
        """Return the position of a call in script response `answer`, or `None` if no matching call is left."""
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
        return CallPosition(answer, index, len(calls))


class ReverseOrder:
    """Delays parallel calls of a session so that they finish in reverse order.

    A loop that matches results to calls by order of completion then fails on every run instead of occasionally.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._answer = -1
        self._running: set[int] = set()
        self._begun: set[int] = set()
        self._one_by_one = False

    def wait(self, place: CallPosition | None) -> None:
        """Block until the call may finish, which is after all later calls of the same response that run in parallel."""
        if place is None or place.count == 1:
            return
        with self._changed:
            if place.answer != self._answer:
                self._answer, self._running, self._begun = place.answer, set(), set()
            self._running.add(place.index)
            self._begun.add(place.index)
            self._changed.notify_all()
            later = range(place.index + 1, place.count)
            has_waited = bool(later) and not self._one_by_one and self._wait_for_later_calls(place, later)
        if has_waited:
            sleep(_HANDOVER_SECONDS)
        with self._changed:
            self._running.discard(place.index)
            self._changed.notify_all()

    def _wait_for_later_calls(self, place: CallPosition, later: range) -> bool:
        """Wait for the later calls that run in parallel. Return whether there are any."""
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

    def _is_over(self, place: CallPosition) -> bool:
        return place.answer != self._answer


StreamRewrite: TypeAlias = Callable[[HttpResponse, str], tuple[HttpResponse, str]]
"""Rewrites a stream, and returns it with a description of the change. The result depends only on the stream and the
seed.
"""

StreamRewrites: TypeAlias = Callable[[Api], Sequence[StreamRewrite]]
"""Returns the rewrites for one session's streams. They are used in rotation."""


def cut_rewrite(number: int) -> StreamRewrite:
    """Return the rewrite that splits a stream by variant `number` of `harness.cassettes.rechunk`."""
    return lambda response, seed: recut(response, number, seed)


def _readable(wire: Api, number: int, response: HttpResponse, seed: str) -> tuple[HttpResponse, str]:
    """Split a stream by variant `number`, or by the next variant whose framing the API's official SDK can read."""
    cuts = (recut(response, each, seed) for each in count(number))
    return next((rewritten, way) for rewritten, way in cuts if not is_unreadable_by_sdk(wire, way))


def shape_rewrite(name: str, shape: StreamShape) -> StreamRewrite:
    """Return a rewrite that splits tool calls into chunks as some servers do. A stream that this does not change is cut
    at other points instead.
    """
    return partial(_rewrite_shape, name, shape)


def _rewrite_shape(name: str, shape: StreamShape, response: HttpResponse, seed: str) -> tuple[HttpResponse, str]:
    body = shape.respell(response.body, seed)
    if body == response.body or response.delivery.ending != "complete":
        return recut(response, 0, seed)
    rewritten = HttpResponse(response.status, response.headers, body, Delivery((len(body),)))
    return rewritten, f"in the chunks of some servers, {name}"


def stream_rewrites(cuts: int, wire: Api) -> Sequence[StreamRewrite]:
    """Return the documented stream shapes of an API, alternating with `cuts` other ways to split streams."""
    shapes = [shape_rewrite(name, shape) for name, shape in wire.stream_shapes.items() if not shape.departs]
    pairs = zip_longest(shapes, [partial(_readable, wire, number) for number in range(cuts)])
    return [way for pair in pairs for way in pair if way is not None]


CLIENT = "client"
"""The adapter name in reports about clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """Options shared by all sessions.

    `fact_selection` selects the facts. `models` are accepted in addition to those of the API's provider. `pace` sets
    the speed of streams. `ways` returns the rewrites for streams, or is `None` if streams are not rewritten. Requests
    that exceed only `tolerated` limits are not refused, but the limits are reported.
    """

    fact_selection: FactSelection
    models: tuple[str, ...] = ()
    pace: float = 0.0
    ways: StreamRewrites | None = None
    tolerated: frozenset[str] = frozenset()


class ServedSession:
    """A session of one scenario with one API. `base` is the base URL of the client's requests."""

    def __init__(  # noqa: PLR0913, PLR0917 - all are required
        self, scenario: Scenario, wire: Api, name: str, base: str, known: IsKnownModel, terms: SessionOptions
    ) -> None:
        self.scenario = scenario
        self.wire = wire
        self.name = name
        self._front = ConversationServer(
            scenario,
            wire,
            name,
            known=known,
            fact_selection=terms.fact_selection,
            pace=terms.pace,
            origin=REFERENCE_URL,
            tolerated=terms.tolerated,
        )
        self._fact_selection = terms.fact_selection
        self._ways: Sequence[StreamRewrite] = [] if terms.ways is None else terms.ways(wire)
        self.ways: dict[int, str] = {}
        """Descriptions of the rewritten streams, by number of the request (from 1)."""
        self._tap = ExchangeLog(base, REFERENCE_URL)
        self._rejected_requests: list[RejectedRequest] = []
        self._runs: list[ToolRun] = []
        self._beside = 0
        self._request_count = 0
        self._streamed = False
        self._lock = Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Respond to a request and record it."""
        public = self._with_one_version(self._tap.public(request))
        with self._lock:
            served = self._front.serve(public)
            self._tap.chat = served.index
            self._streamed |= served.response.headers.get("content-type", "").startswith("text/event-stream")
            self._request_count += 1
            self._beside += served.beside
            if served.reason is not None:
                path = urlsplit(public.url).path.removeprefix(urlsplit(REFERENCE_URL).path)
                answer = self._refusal(served.response)
                self._rejected_requests.append(RejectedRequest(f"{request.method} {path}", served.reason, answer))
            elif not served.again:
                unpaced = replace(
                    served.response.delivery, cuts=(), pause=0.0
                )  # rules judge the content, not the timing
                self._tap.note(served.request, replace(served.response, delivery=unpaced))
            return self._outgoing(served.response)

    def _refusal(self, response: HttpResponse) -> str:
        error = self.wire.read(response).error
        return f"HTTP {response.status}: {error.message if error is not None else ''}"

    def _with_one_version(self, request: HttpRequest) -> HttpRequest:
        """Remove the version of the base URL if another one follows.

        Google's SDK appends its version to the base URL, but base URLs of other servers already end in one.
        """
        version = self.wire.base_url_ending.removeprefix(self.wire.base_path)
        path = request.url.removeprefix(REFERENCE_URL + version)
        if not version or path == request.url or not re.match(r"/v\d\w*/", path):
            return request
        return replace(request, url=REFERENCE_URL + path)

    def _outgoing(self, response: HttpResponse) -> HttpResponse:
        """Return the response as it is sent to the client: unchanged, or as a rewritten stream."""
        if not self._ways or not response.delivery.cuts:
            return response
        way = self._ways[len(self.ways) % len(self._ways)]
        rewritten, self.ways[self._request_count] = way(response, f"{self.scenario.id}/{self.name}")
        return rewritten

    def has_stored(self, answer_id: str) -> bool:
        """Return whether the session stores the answer with this id, so that a request may continue it."""
        with self._lock:
            return self._front.has_stored(answer_id)

    def has_issued(self, call_ids: Collection[str | None]) -> bool:
        """Return whether one of these ids is that of a call in an answer of the session."""
        with self._lock:
            return self._front.has_issued(call_ids)

    def note_run(self, call: ToolCall) -> int:
        """Record that the client ran a tool. Return how many script responses had been sent by then."""
        with self._lock:
            answers = self._front.played
            if len(self._runs) < MAX_TOOL_RUNS:
                self._runs.append(ToolRun(call.name, call.arguments, answers))
        return answers

    @property
    def request_count(self) -> int:
        """The number of requests."""
        return self._request_count

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The recorded exchanges, without rejected and repeated requests."""
        return tuple(self._tap.exchanges)

    @property
    def rejected_requests(self) -> tuple[RejectedRequest, ...]:
        """The requests that were rejected for reasons unrelated to their chat, such as a missing key."""
        return tuple(self._rejected_requests)

    @property
    def progress(self) -> tuple[int, int]:
        """The number of script responses that were sent, and the length of the script."""
        return self._front.played, self._front.script

    def evidence(self, *, ended: bool) -> Evidence:
        """Return the session as evidence for rules. `ended` is set if no further requests will arrive."""
        return Evidence(self.transcript(ended=ended))

    def transcript(self, *, ended: bool) -> ServedTranscript:
        """Return the transcript so far."""
        with self._lock:
            model = self._front.model or ""
            profile = self._front.profiles.get(model) or self.wire.profile_for(model, self._fact_selection)
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
                rejected_requests=tuple(self._rejected_requests),
                profiles=dict(self._front.profiles),
                runs=tuple(self._runs),
            )

    def result(self, target: str, *, ended: bool = True, shown: bool = False) -> CellResult:
        """Return the session as a cell result for `target`. With `shown`, it includes the exchanges.

        Nothing is redacted, because clients send keys only in headers and these are not stored.
        """
        evidence = self.evidence(ended=ended)
        covers = tuple(subject.value for subject in self.scenario.covers)
        cell = partial(CellResult, self.scenario.id, target, CLIENT, self.wire.name, self._variant)
        judge = CellJudge(all_rules(), (), strict=False)
        result = judge.decide_verdict(cell(Verdict.PASS, covers=covers), self.environment, evidence, Redactor())
        return (
            replace(result, conversation=build_conversation(evidence, Redactor(), max_conversation_chars(1)))
            if shown
            else result
        )

    @property
    def environment(self) -> CellEnvironment:
        """The environment of the session."""
        provenance = Provenance("reference", model_requested=self._front.model or None)
        return CellEnvironment(Endpoint(REFERENCE_URL, NO_KEY), self._tap, scripted=True, provenance=provenance)

    @property
    def _variant(self) -> Variant:
        return "stream" if self._streamed else "whole"
