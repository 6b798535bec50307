"""Repeats a streamed cell with its own responses, delivered as whole bodies or with other chunk boundaries.

An adapter's result must not depend on how the network splits a stream. It must also be the same as for the equivalent
whole response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from threading import Lock

from harness.apis import registry
from harness.apis.api import Api, StreamShape
from harness.apis.jsonvalue import equal
from harness.apis.profiles import server_of
from harness.apis.view import ResponseView
from harness.cassettes.player import asks_for_stream, one_body
from harness.cassettes.rechunk import recut
from harness.cassettes.redact import REDACTED
from harness.model.http import Delivery, HttpRequest, HttpResponse
from harness.model.messages import JSON
from harness.reference_server.script_session import exhausted_response
from harness.results import ReplayVariant
from harness.rules.evidence import Evidence, ParsedExchange
from harness.rules.replays import differs, is_same_answer, is_unreadable_variant
from harness.runner.backends import Backend
from harness.runner.cells import Cell
from harness.runner.tool_loop import run_scenario
from harness.scenarios.schema import Variant


def replay_variants(
    cell: Cell, evidence: Evidence, backend: Backend, recuts: Sequence[int], whole_run: Evidence | None = None
) -> Iterator[ReplayVariant]:
    """Repeat a streamed cell with equivalent whole responses, and with the variants `recuts` of its streams.

    Whole responses are skipped if a server would not send an equivalent of one of the streams. An adapter that always
    requests a stream gets the stream.

    `whole_run` is the run of the cell's whole variant. It is reused instead of another run if it received equivalent
    responses. It is also reused if its responses only add empty members, such as `annotations` in Chat Completions, and
    the adapter's results were the same.

    Exceptions from connecting or closing the adapter's client, and from `run_scenario`, are passed on.
    """
    if cell.variant != "stream":
        return
    wire = registry.api(cell.target.api)
    answered = [parsed for parsed in evidence.parsed_exchanges if parsed.exchange.response is not None]
    if not any(parsed.response is not None and parsed.response.streamed for parsed in answered):
        return
    if whole_run is not None and (
        _received_whole(whole_run, answered, equal)
        or (
            _received_whole(whole_run, answered, _adds_nothing) and is_same_answer(evidence, whole_run.transcript.chats)
        )
    ):
        yield ReplayVariant(_WHOLE, "whole", whole_run.transcript.chats)
    elif None not in (whole := [_whole_body(wire, parsed) for parsed in answered]):
        streams = [*_responses(answered)]
        answers = [_ResponsePair(one, stream) for one, stream in zip(whole, streams, strict=True) if one is not None]
        yield _replay(cell, backend, _WHOLE, "whole", answers)
    is_narrowed = False
    for number in recuts:
        rewritten = [recut(response, number, _seed(cell)) for response in _responses(answered)]
        ways = dict.fromkeys(way for _, way in rewritten)
        variant = _replay_stream(cell, backend, "; ".join(ways), [response for response, _ in rewritten])
        if not is_narrowed and differs(evidence, variant):
            variant = _Narrowing(cell, evidence, backend, [*_responses(answered)]).narrow(variant, rewritten)
            is_narrowed = not is_unreadable_variant(evidence, variant.way)
        yield variant
    if recuts:
        yield from _in_other_chunks(cell, answered, backend)


def _in_other_chunks(cell: Cell, answered: Sequence[ParsedExchange], backend: Backend) -> Iterator[ReplayVariant]:
    """Repeat a cell that streams tool calls with the chunk shapes that other servers of the API are known to send. A
    server whose streams were recorded sends only its own.
    """
    server = server_of(cell.target.api, cell.target.service)
    if server is not None and server.recorded is not None:
        return
    if not any(parsed.response is not None and parsed.response.calls for parsed in answered):
        return
    for name, shape in registry.api(cell.target.api).stream_shapes.items():
        rewritten = [_reshape(parsed, shape, _seed(cell)) for parsed in answered]
        answers = [response for response in rewritten if response is not None]
        if answers != [*_responses(answered)]:
            yield replace(_replay_stream(cell, backend, f"in the chunks of some servers, {name}", answers), shape=name)


def _reshape(parsed: ParsedExchange, shape: StreamShape, seed: str) -> HttpResponse | None:
    response, view = parsed.exchange.response, parsed.response
    if response is None or view is None or not view.streamed or not _is_complete_answer(response, view):
        return response
    return replace(response, body=shape.respell(response.body, seed), delivery=Delivery())


_WHOLE = "as a whole body"
_JSON = "application/json"
_EMPTY: Sequence[JSON] = (None, [], {})


@dataclass(frozen=True, slots=True)
class _ResponsePair:
    """A response in two forms: for requests without and with a stream."""

    whole: HttpResponse
    streamed: HttpResponse


def _replay(
    cell: Cell, backend: Backend, way: str, variant: Variant, answers: Sequence[_ResponsePair]
) -> ReplayVariant:
    with backend.endpoint(cell.target, _respond_in_order(answers, registry.api(cell.target.api))) as endpoint:
        outcome = run_scenario(cell.scenario, cell.target, endpoint, _ignore, variant)
    streams = tuple(answer.streamed for answer in answers) if variant == "stream" else ()
    return ReplayVariant(way, variant, outcome.chats, outcome.printed, responses=streams)


def _replay_stream(cell: Cell, backend: Backend, way: str, responses: Sequence[HttpResponse]) -> ReplayVariant:
    return _replay(cell, backend, way, "stream", [_ResponsePair(response, response) for response in responses])


@dataclass(frozen=True, slots=True)
class _Narrowing:
    """Search for the one response, spelling and cut that make a difference. `plain` are the responses as they came."""

    cell: Cell
    evidence: Evidence
    backend: Backend
    plain: Sequence[HttpResponse]

    def narrow(self, variant: ReplayVariant, rewritten: Sequence[tuple[HttpResponse, str]]) -> ReplayVariant:
        """Return the smallest variant that still differs."""
        for index, (response, way) in enumerate(rewritten):
            if found := self._replay(index, response, way):
                return self._with_fewest_cuts(index, response, way, found)
        return variant

    def _with_fewest_cuts(self, index: int, response: HttpResponse, way: str, variant: ReplayVariant) -> ReplayVariant:
        spelling, original = way.rpartition(", ")[0], self.plain[index]
        if found := self._replay(index, _with_cuts(response, ()), f"{spelling or way}, in one piece"):
            return found
        cuts = response.delivery.cuts
        if response.body == original.body:
            spelling = ""
        elif found := self._replay(index, every := _with_cuts(original, range(1, len(original.body))), way):
            variant, response, spelling, cuts = found, every, "", every.delivery.cuts
        while len(cuts) > 1:
            middle = len(cuts) // 2
            for half in (cuts[:middle], cuts[middle:]):
                first, *others = half
                words = f"cut {len(half)} times" if others else f"cut {_cut_text(response.body, first)}"
                words = f"{spelling}, {words}, answer {index}" if spelling else f"{words}, answer {index}"
                if found := self._replay(index, _with_cuts(response, half), words):
                    variant, cuts = found, half
                    break
            else:
                break
        return variant

    def _replay(self, index: int, response: HttpResponse, way: str) -> ReplayVariant | None:
        responses = [*self.plain[:index], response, *self.plain[index + 1 :]]
        variant = _replay_stream(self.cell, self.backend, way, responses)
        return variant if differs(self.evidence, variant) else None


def _with_cuts(response: HttpResponse, cuts: Iterable[int]) -> HttpResponse:
    return replace(response, delivery=replace(response.delivery, cuts=(*cuts,)))


_SHOWN_BYTES = 12


def _cut_text(body: bytes, cut: int) -> str:
    return f"after {body[max(0, cut - _SHOWN_BYTES) : cut]!r} at byte {cut}, before {body[cut : cut + _SHOWN_BYTES]!r}"


def _ignore(_chat: int) -> None:
    pass


def _respond_in_order(answers: Sequence[_ResponsePair], wire: Api) -> Callable[[HttpRequest], HttpResponse]:
    """Return a handler that sends the responses in order, regardless of the requests."""
    left = iter(answers)
    lock = Lock()

    def handle(request: HttpRequest) -> HttpResponse:
        with lock:
            answer = next(left, None)
        if answer is None:
            return exhausted_response("the recorded run of the cell sent fewer requests")
        if answer.whole == answer.streamed or not asks_for_stream(wire, request):
            return answer.whole
        return answer.streamed

    return handle


def _responses(answered: Sequence[ParsedExchange]) -> Iterator[HttpResponse]:
    for parsed in answered:
        if parsed.exchange.response is not None:
            yield parsed.exchange.response


def _whole_body(wire: Api, parsed: ParsedExchange) -> HttpResponse | None:
    """Return the response as one body, or `None` if a server would not send an equivalent of the stream."""
    response, view, request = parsed.exchange.response, parsed.response, parsed.request
    if view is None or response is None or not view.streamed:
        return response and replace(response, headers=_kept_headers(response.headers))
    if request is None or not _is_complete_answer(response, view):
        return None
    whole = one_body(view)
    departs = wire.check_response is not None and any(wire.check_response(whole, replace(request, stream=False)))
    return None if departs else whole


def _is_complete_answer(response: HttpResponse, view: ResponseView) -> bool:
    return view.error is None and view.complete and response.delivery.ending == "complete"


def _received_whole(
    whole_run: Evidence, answered: Sequence[ParsedExchange], alike: Callable[[JSON, JSON], bool]
) -> bool:
    """Return whether the whole variant received equivalents of these responses. `alike` compares each body with the
    body that the stream adds up to.
    """
    given = whole_run.parsed_exchanges
    return len(given) == len(answered) and all(
        _is_whole_of(whole, streamed, alike) for whole, streamed in zip(given, answered, strict=True)
    )


def _is_whole_of(given: ParsedExchange, streamed_exchange: ParsedExchange, alike: Callable[[JSON, JSON], bool]) -> bool:
    response, other = given.exchange.response, streamed_exchange.exchange.response
    view, streamed = given.response, streamed_exchange.response
    if response is None or other is None or view is None or streamed is None or view.streamed:
        return False
    if not streamed.streamed:
        return replace(response, headers=_kept_headers(response.headers)) == replace(
            other, headers=_kept_headers(other.headers)
        )
    is_body = response.status == HTTPStatus.OK and response.headers.get("content-type", "").startswith(_JSON)
    return (
        is_body
        and _is_complete_answer(response, view)
        and _is_complete_answer(other, streamed)
        and alike(view.body, streamed.body)
    )


def _adds_nothing(whole: JSON, streamed: JSON) -> bool:
    """Return whether `whole` equals `streamed` except for additional empty members."""
    if isinstance(whole, dict) and isinstance(streamed, dict):
        return streamed.keys() <= whole.keys() and all(
            _adds_nothing(value, streamed[key]) if key in streamed else value in _EMPTY for key, value in whole.items()
        )
    if isinstance(whole, list) and isinstance(streamed, list):
        return len(whole) == len(streamed) and all(map(_adds_nothing, whole, streamed))
    return equal(whole, streamed)


def _kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers whose values are not redacted."""
    return {name: value for name, value in headers.items() if value != REDACTED}


def _seed(cell: Cell) -> str:
    return f"{cell.scenario.id}/{cell.target.name}"
