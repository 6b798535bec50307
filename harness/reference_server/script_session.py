"""A conversation with the reference server: each accepted request gets the next response of the script.

The session counts responses, so a tool loop that repeats itself does not get the first response forever. Rejected
requests do not consume a response. Neither does a request whose response is damaged by a fault, so the retry gets that
response. If the client instead continues with the calls of a truncated response, that response counts as sent.

Ids, usage and signatures depend only on the scenario and the conversation's name, so runs are reproducible. Cached
prompt tokens are computed from the requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus
from threading import Lock

from harness.apis.api import Api, EmbeddingFormat, endpoint_violation
from harness.apis.eventstream import separators_escaped
from harness.apis.jsonvalue import as_list, as_object, parsed_object, resolve
from harness.apis.limits import Violation
from harness.apis.prefix import CACHE_FIELDS, PrefixPiece, count_equal, prefix_pieces, tokens
from harness.apis.profiles import Profile, RuleSet
from harness.apis.view import CacheDiagnosis, ModelStep, Prefix, Provocation, RequestView, ResponseView, WireError
from harness.model.http import EXHAUSTED, Delivery, Ending, HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.model.protocols import Capability
from harness.scenarios.schema import FaultSpec, Scenario, StepSpec

_CACHE_LOOKBACK_BLOCKS = 20
"""Number of blocks before a cache mark in which Anthropic looks for a prefix that an earlier request wrote."""


class PrefixTracker:
    """Compares each request of a conversation with the earlier ones."""

    def __init__(self) -> None:
        self._earlier: list[tuple[tuple[PrefixPiece, ...], list[int]]] = []
        self._answered: dict[str, tuple[PrefixPiece, ...]] = {}

    def of(self, request: RequestView, body: JSON, profile: Profile) -> Prefix:
        """Return how much of the request a provider may have cached, in tokens, and remember the request."""
        pieces = prefix_pieces(request, body, settings=profile.prefix_settings, trailing=profile.trailing_places)
        equal = [(count_equal(pieces, each), written) for each, written in self._earlier]
        repeated = max((count for count, _ in equal), default=0)
        marked = [at for at, piece in enumerate(pieces, 1) if _is_cache_marked(piece.pointer, body)]
        written = {at for count, each in equal for at in each if at <= count}
        again = max(
            (at for at in written if any(0 <= mark - at < _CACHE_LOOKBACK_BLOCKS for mark in marked)), default=0
        )
        self._earlier.append((pieces, marked))
        return Prefix(tokens(pieces[:repeated]), tokens(pieces[: max(marked, default=0)]), tokens(pieces[:again]))

    def note(self, response_id: JSON) -> None:
        """Remember that this response answers the last request."""
        if isinstance(response_id, str):
            self._answered[response_id], _ = self._earlier[-1]

    def diagnosis(self, body: JSON, pointer: str) -> CacheDiagnosis | None:
        """Compare the last request with the earlier request whose response it names at `pointer`.

        The first request may have `null` there (anthropic-cache-diagnostics).
        """
        holder, _, key = pointer.rpartition("/")
        asked = as_object(resolve(body, holder))
        response_id = asked.get(key)
        if not isinstance(response_id, str):
            return CacheDiagnosis(is_known=False, is_named=False) if key and key in asked else None
        then, (now, _) = self._answered.get(response_id), self._earlier[-1]
        if then is None:
            return CacheDiagnosis(is_known=False)
        same = count_equal(then, now)
        if same == len(then):
            return CacheDiagnosis(is_known=True)
        piece = then[same]
        changed = piece.name if piece.section == "settings" else piece.section
        return CacheDiagnosis(is_known=True, changed=changed, tokens=tokens(then[same:]))


def _is_cache_marked(pointer: str, body: JSON) -> bool:
    """Return whether a part of a request, or anything that contains it, has a cache mark. A mark on the whole request
    applies up to its end.
    """
    block = resolve(body, pointer)
    if isinstance(block, dict) and any(block.get(field) is not None for field in CACHE_FIELDS):
        return True
    return bool(pointer) and _is_cache_marked(pointer.rpartition("/")[0], body)


MAX_ANSWERS = 8


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """The response to a request.

    `index` is the index of the script's response, or `None` if the request was rejected or the script is exhausted.
    `is_damaged` is set if a fault damaged the response; the client must send the request again.
    """

    response: HttpResponse
    index: int | None = None
    is_damaged: bool = False


class ScriptSession:
    """A request handler for one cell. Concurrent requests are handled in order.

    `origin` is the base URL of the API; without it, only the end of a path is matched. `rule_set` replaces the
    provider's rules by those of another server. `name` distinguishes conversations of one scenario. Named conversations
    echo request fields as the provider does. Requests that exceed only `tolerated` limits are not refused.
    """

    def __init__(  # noqa: PLR0913 - the settings of a session
        self,
        scenario: Scenario,
        wire: Api,
        model: str,
        profile: Profile,
        rule_set: RuleSet | None = None,
        *,
        name: str = "",
        origin: str | None = None,
        tolerated: frozenset[str] = frozenset(),
    ) -> None:
        self._scenario = scenario
        self._tolerated = tolerated
        self._wire = wire
        self._model = model
        self._profile = profile
        self._rule_set = rule_set or wire.services.provider_rules(profile, model)
        self._script = [step for turn in scenario.turns for step in turn.model]
        self._faults = {fault.answer: fault for fault in scenario.faults}
        self._origin = origin
        self._seed = f"{scenario.id}/{name}" if name else scenario.id
        self._echoes = bool(name)
        self._played = 0
        self._cut: tuple[ResponseView, int] | None = None
        """The truncated response, and the number of calls in the request that it belongs to."""
        self._lock = Lock()
        self._memory = wire.issued_state(foreign=bool(scenario.history), profile=profile)
        self._prefixes = PrefixTracker()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Respond to one request as the provider would."""
        return self.answer(request).response

    def answer(self, request: HttpRequest) -> ScriptedAnswer:
        """Respond to one request, and return the index of the script's response with it."""
        answer = self._answer_to(request)
        failed = answer.response.status >= HTTPStatus.BAD_REQUEST
        if not failed and not answer.is_damaged:
            return answer
        spoken = self._wire.error_as(answer.response, self._profile)
        return replace(answer, response=self._wire.error_for(spoken, request) if failed else spoken)

    def switch_model(self, model: str, profile: Profile) -> None:
        """Respond as another model from now on."""
        self._model, self._profile = model, profile
        self._memory.profile = profile
        self._rule_set = self._wire.services.provider_rules(profile, model)

    @property
    def script(self) -> int:
        """Number of responses in the script."""
        return len(self._script)

    @property
    def played(self) -> int:
        """Number of script responses sent."""
        return self._played

    def _answer_to(self, request: HttpRequest) -> ScriptedAnswer:
        embeddings = self._wire.embeddings if self._scenario.embeddings is not None else None
        lost = endpoint_violation(self._wire, request, embedded=embeddings is not None, origin=self._origin)
        if lost is not None:
            return ScriptedAnswer(self._wire.refuse(lost))
        if embeddings is not None:
            return ScriptedAnswer(self._embed(request, embeddings))
        with self._lock:
            return self._answer_chat(request)

    def _embed(self, request: HttpRequest, embeddings: EmbeddingFormat) -> HttpResponse:
        refused = [each for each in self._wire.judge_embeddings(request, self._rule_set) if each.severity == "error"]
        if refused:
            return self._wire.refuse(refused[0])
        try:
            body = embeddings.build(embeddings.view(request))
        except WireError as error:
            return _unread(error)
        if embeddings.numbered and Provocation.VECTORS_OUT_OF_ORDER in self._scenario.provocations:
            body[embeddings.numbered] = as_list(body[embeddings.numbered])[::-1]
        return _json_response(200, body)

    def _answer_chat(self, request: HttpRequest) -> ScriptedAnswer:
        try:
            view = self._judge(request)
        except WireError as error:
            return ScriptedAnswer(_unread(error))
        if isinstance(view, Violation):
            return ScriptedAnswer(self._wire.refuse(view))
        index = self._played
        if index == len(self._script):
            return ScriptedAnswer(
                exhausted_response(f"the script of scenario {self._scenario.id!r} has no answer {index + 1}")
            )
        seed = f"{self._seed}/{index}"
        response = self._answers(self._step(index, view, request), seed, view, request)
        fault = self._faults.pop(index, None)
        if fault is not None and fault.fails:
            self._cut = (self._wire.read(response), len(view.calls)) if fault.connection is not None else None
            return ScriptedAnswer(inject_fault(fault, self._wire, response, view, seed), index, is_damaged=True)
        self._played += 1
        read = self._wire.read(response)
        self._memory.note(read)
        self._prefixes.note(as_object(read.body).get("id"))
        return ScriptedAnswer(
            response if fault is None else inject_fault(fault, self._wire, response, view, seed), index
        )

    def _count_truncated_response(self, request: RequestView) -> None:
        """Count a truncated response as sent if this request continues with its calls."""
        if self._cut is not None and len(request.calls) > self._cut[1]:
            self._memory.note(self._cut[0])
            self._played += 1
        self._cut = None

    def _judge(self, request: HttpRequest) -> RequestView | Violation:
        """Return the request as the provider reads it, or the violation for which the provider rejects it. Raises
        `WireError`.
        """
        if (refusal := self._refusal(self._wire.judge(request, self._rule_set))) is not None:
            return refusal
        view = self._wire.view(request)
        self._count_truncated_response(view)
        self._memory.receive(view, request)
        objection = self._memory.objection(view)
        objections = self._wire.supported_by_facts([] if objection is None else [objection], self._rule_set)
        return self._refusal(objections) or view

    def _refusal(self, violations: Iterable[Violation]) -> Violation | None:
        refused = (each for each in violations if each.severity == "error" and each.rule not in self._tolerated)
        return next(refused, None)

    def _step(self, index: int, request: RequestView, sent: HttpRequest) -> ModelStep:
        step, api, body = self._script[index], self._wire.name, parsed_object(sent.body)
        prefix = self._prefixes.of(request, body, self._profile)
        names = request.renamed_tools(self._scenario.uncommon_names)
        return ModelStep(
            step.text,
            self._thinking(step, request),
            tuple((names.get(name, name), arguments) for name, arguments in step.named_calls),
            step.refusal,
            step.stop,
            tuple(step.raw.get(api, ())),
            step.truncated,
            frozenset(self._scenario.provocations),
            prefix,
            step.served,
            self._memory.reports(),
            step.call_fields.get(api, {}),
            self._prefixes.diagnosis(body, self._wire.server_endpoints.compared),
            request.included,
        )

    def _thinking(self, step: StepSpec, request: RequestView) -> str | None:
        """Return the reasoning of an answer. If the scenario does not enable reasoning, the request must enable it."""
        if self._scenario.settings.thinking is not None:
            return step.thinking
        if step.thinking is None and "thinking" not in request.settings:
            return None
        thought = None if Capability.THINKING in self._profile.lacks else _THOUGHT
        return (step.thinking or thought) if request.enables_reasoning else None

    def _answers(self, step: ModelStep, seed: str, view: RequestView, request: HttpRequest) -> HttpResponse:
        """Return the response. If the request asks for several and the API supports that, return them combined."""
        several, wanted = self._wire.server_endpoints.combine, view.settings.get("answers")
        count = wanted.value if wanted is not None and isinstance(wanted.value, int) else 1
        if several is None or not 1 < count <= MAX_ANSWERS:
            return self._answer(step, seed, view, request)
        seeds = (seed, *(f"{seed} {number}" for number in range(1, count)))
        return several([self._answer(step, each, view, request) for each in seeds])

    def _answer(self, step: ModelStep, seed: str, view: RequestView, request: HttpRequest) -> HttpResponse:
        wire, echo = self._wire, self._wire.server_endpoints.echo if self._echoes else None
        model = step.served or self._model
        if view.stream and (echo is None or step.provocations):  # provocations change single events
            response = wire.build_stream(step, seed, model, self._profile, view)
        else:
            body = wire.build(step, seed, model, self._profile)
            body = body if echo is None else echo(body, request)
            if not view.stream:
                return _json_response(200, body)
            response = wire.stream_of(body, seed, self._profile, view)
        if Provocation.RAW_LINE_SEPARATORS in step.provocations:
            return response
        return replace(response, body=separators_escaped(response.body))


_THOUGHT = "The question needs a moment of thought."


def _unread(error: WireError) -> HttpResponse:
    return exhausted_response(f"the wire reader finds no fault in the request, but cannot read it: {error}")


def exhausted_response(reason: str) -> HttpResponse:
    """Return the response for an exhausted script or an unreadable request. A header marks it as made by harness."""
    response = _json_response(500, {"error": {"message": f"harness: {reason}", "type": "harness_exhausted"}})
    return HttpResponse(response.status, {**response.headers, EXHAUSTED: "1"}, response.body)


def _json_response(status: int, body: dict[str, JSON]) -> HttpResponse:
    return HttpResponse(
        status, {"content-type": "application/json"}, json.dumps(body, ensure_ascii=False, indent=2).encode()
    )


MAX_PIECES = 40
"""Maximum number of pieces of a slow body."""

PAUSE_SECONDS = 0.002
"""Delay between two pieces."""

_PAGE = b"""<!DOCTYPE html>
<html><head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center><hr><center>gateway</center></body></html>
"""
"""A typical error page of a proxy, which sometimes comes with HTTP 200."""

_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_OBJECT_END = re.compile(rb"\}(?=\s*\Z)")
_EVENT_OBJECT_END = re.compile(rb"\}(?=[ \t]*(?:\r\n\r\n|\n\n|\r\r))")
_BETWEEN_ELEMENTS = re.compile(r"[\s,[]*")

_ENDINGS: dict[str, Ending] = {"cut": "cut", "cut-clean": "complete", "reset": "reset"}


def inject_fault(fault: FaultSpec, wire: Api, response: HttpResponse, request: RequestView, seed: str) -> HttpResponse:
    """Return `response` as changed by a fault.

    If a streaming fault applies to a whole response, the nearest equivalent is used: an error status, or a body without
    its last byte.
    """
    if fault.status is not None:
        return wire.fail(fault.status, fault.retry_after, seed)
    if fault.stream_error is not None:
        if not request.stream:
            return wire.fail(fault.stream_error, None, seed)
        error = wire.stream_error(fault.stream_error, seed, request)
        begun = response.body[: _whole_events(response, request, _arrived_bytes(fault, wire, response, request))]
        if not begun and request.stream_format == "json-array":  # no element precedes the error
            begun, error = b"[", error.lstrip(b"\r\n,")
        return replace(response, body=begun + error)
    if fault.connection == "slow":
        step = max(1, -(-len(response.body) // MAX_PIECES))
        return replace(response, delivery=Delivery(tuple(range(step, len(response.body), step)), PAUSE_SECONDS))
    if fault.connection is not None:
        body = response.body[: _arrived_bytes(fault, wire, response, request)]
        return replace(response, body=body, delivery=Delivery(ending=_ENDINGS[fault.connection]))
    return _with_another_body(fault, response, request)


def _with_another_body(fault: FaultSpec, response: HttpResponse, request: RequestView) -> HttpResponse:
    match fault.body:
        case "empty":
            return replace(response, body=b"")
        case "invalid-json":
            return replace(response, body=_without_last_braces(response.body, request))
        case "html":
            return HttpResponse(200, {"content-type": "text/html; charset=utf-8"}, _PAGE)
        case _:
            return replace(response, headers={**response.headers, "content-type": "text/plain; charset=utf-8"})


def _without_last_braces(body: bytes, request: RequestView) -> bytes:
    """Remove the last brace of each event, or of the whole body. Clients must not repair such JSON."""
    if request.stream and request.stream_format == "events":
        return _EVENT_OBJECT_END.sub(b"", body)
    return _OBJECT_END.sub(b"", body.removesuffix(b"]").rstrip())


def _arrived_bytes(fault: FaultSpec, wire: Api, response: HttpResponse, request: RequestView) -> int:
    """Return the number of bytes of the response that arrive before the fault."""
    body = response.body
    if fault.at != "end":
        return int(len(body) * fault.at)
    if not request.stream:
        return len(body) - 1
    opened, closing = (1, b"]") if request.stream_format == "json-array" else (0, b"")
    for end in reversed(event_ends(body, request)):
        if not wire.read(replace(response, body=body[:end] + closing)).complete:
            return end
    return opened


def _whole_events(response: HttpResponse, request: RequestView, count: int) -> int:
    """Round `count` down to the end of an event."""
    return max((end for end in event_ends(response.body, request) if end <= count), default=0)


def event_ends(body: bytes, request: RequestView) -> list[int]:
    """Return the offsets of event ends, or of element ends in a JSON array."""
    if request.stream_format == "json-array":
        return [*_element_ends(body.decode())]
    return [end.end() for end in _EVENT_END.finditer(body)]


def _element_ends(array: str) -> Iterator[int]:
    decoder = json.JSONDecoder()
    end = offset = 0
    while between := _BETWEEN_ELEMENTS.match(array, end):
        start = between.end()
        if array[start : start + 1] in ("]", ""):
            return
        try:
            _, value_end = decoder.raw_decode(array, start)
        except ValueError:  # the response is cut inside this element
            return
        offset += len(array[end:value_end].encode())
        end = value_end
        yield offset
