"""Plays a streamed cell again with the same answers, told in another way: whole, or cut elsewhere.

The answers are those of the cell's own exchanges, from wherever they came, and go through the adapter: what it makes of
a stream must not depend on how the network cut it, nor differ from what it makes of the same answer as one body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from threading import Lock

from harness import catalog
from harness.apis.api import Api, StreamShape
from harness.apis.jsonvalue import equal
from harness.apis.view import ResponseView
from harness.contract.http import Delivery, HttpRequest, HttpResponse
from harness.contract.model import JSON
from harness.reference.script_session import exhausted_response
from harness.results import Retelling
from harness.rules.evidence import Evidence
from harness.rules.reading import Reading
from harness.rules.retelling import is_same
from harness.running.backends import Stages
from harness.running.cells import Cell
from harness.running.tool_loop import play
from harness.scenarios.schema import Variant
from harness.tape.player import asks_for_stream, one_body
from harness.tape.recut import recut
from harness.tape.redact import REDACTED


def retellings(
    cell: Cell, evidence: Evidence, stages: Stages, recuts: int, beside: Evidence | None = None
) -> Iterator[Retelling]:
    """A streamed cell as whole answers, if each of its streams amounts to one, and with `recuts` other cuts of them.

    Whole ones are told to an adapter that asks for them; who always asks for a stream gets the stream. `beside` is the
    whole cell of the same scenario and target: if it was given the same answers, it is what they amount to, and nothing
    is played again for them. Nor is it where the whole ones have empty members that no stream has (`annotations` of
    Chat Completions), and the adapter has made the same of either.

    Raises what connecting and closing the adapter's client raises, and what `harness.running.tool_loop.play` does.
    """
    if cell.variant != "stream":
        return
    wire = catalog.api(cell.target.api)
    answered = [reading for reading in evidence.readings if reading.exchange.response is not None]
    if not any(reading.response is not None and reading.response.streamed for reading in answered):
        return
    if beside is not None and (
        _has_whole(beside, answered, equal)
        or (_has_whole(beside, answered, _adds_nothing) and is_same(evidence, beside.transcript.chats))
    ):
        yield Retelling(_WHOLE, "whole", beside.transcript.chats)
    elif None not in (whole := [_whole(wire, reading) for reading in answered]):
        streams = [*_responses(answered)]
        answers = [_Answer(one, stream) for one, stream in zip(whole, streams, strict=True) if one is not None]
        yield _retold(cell, stages, _WHOLE, "whole", answers)
    for number in range(recuts):
        told = [recut(response, number, _seed(cell)) for response in _responses(answered)]
        ways = dict.fromkeys(way for _, way in told)
        yield _retold(cell, stages, "; ".join(ways), "stream", [_Answer(response, response) for response, _ in told])
    if recuts:
        yield from _in_shapes(cell, answered, stages)


def _in_shapes(cell: Cell, answered: Sequence[Reading], stages: Stages) -> Iterator[Retelling]:
    """The cell in other chunks that servers of its API were seen to send, if it streams calls."""
    if not any(reading.response is not None and reading.response.calls for reading in answered):
        return
    for name, shape in catalog.api(cell.target.api).stream_shapes.items():
        told = [_shaped(reading, shape, _seed(cell)) for reading in answered]
        answers = [_Answer(response, response) for response in told if response is not None]
        if answers != [_Answer(response, response) for response in _responses(answered)]:
            yield replace(
                _retold(cell, stages, f"in the chunks of some servers, {name}", "stream", answers), shape=name
            )


def _shaped(reading: Reading, shape: StreamShape, seed: str) -> HttpResponse | None:
    response, view = reading.exchange.response, reading.response
    if response is None or view is None or not view.streamed or not _is_good(response, view):
        return response
    return replace(response, body=shape.respell(response.body, seed), delivery=Delivery())


_WHOLE = "as a whole body"
_JSON = "application/json"
_EMPTY: Sequence[JSON] = (None, [], {})


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer for a request that asks for no stream, and for one that does."""

    whole: HttpResponse
    streamed: HttpResponse


def _retold(cell: Cell, stages: Stages, way: str, variant: Variant, answers: Sequence[_Answer]) -> Retelling:
    with stages.endpoint(cell.target, _in_order(answers, catalog.api(cell.target.api))) as endpoint:
        playing = play(cell.scenario, cell.target, endpoint, _unnoticed, variant)
    return Retelling(way, variant, playing.chats, playing.printed)


def _unnoticed(_chat: int) -> None:
    pass


def _in_order(answers: Sequence[_Answer], wire: Api) -> Callable[[HttpRequest], HttpResponse]:
    """Answers one after another, whatever is asked: the requests follow from the answers, and say how they are told."""
    left = iter(answers)
    lock = Lock()

    def handle(request: HttpRequest) -> HttpResponse:
        with lock:
            answer = next(left, None)
        if answer is None:
            return exhausted_response("the cell was played with fewer requests than it is retold with")
        if answer.whole == answer.streamed or not asks_for_stream(wire, request):
            return answer.whole
        return answer.streamed

    return handle


def _responses(answered: Sequence[Reading]) -> Iterator[HttpResponse]:
    for reading in answered:
        if reading.exchange.response is not None:
            yield reading.exchange.response


def _whole(wire: Api, reading: Reading) -> HttpResponse | None:
    """The response as one body; `None` for a stream that does not amount to one that a server of the API gives."""
    response, view, asked = reading.exchange.response, reading.response, reading.request
    if view is None or response is None or not view.streamed:
        return response and replace(response, headers=_known(response.headers))
    if asked is None or not _is_good(response, view):
        return None
    whole = one_body(view)
    departs = wire.check_response is not None and any(wire.check_response(whole, replace(asked, stream=False)))
    return None if departs else whole


def _is_good(response: HttpResponse, view: ResponseView) -> bool:
    """The answer is there to its end, and no error."""
    return view.error is None and view.complete and response.delivery.ending == "complete"


def _has_whole(beside: Evidence, answered: Sequence[Reading], alike: Callable[[JSON, JSON], bool]) -> bool:
    """Whether the whole cell was given these answers: those of streams as bodies `alike` what they amount to."""
    given = beside.readings
    return len(given) == len(answered) and all(
        _is_whole_of(whole, told, alike) for whole, told in zip(given, answered, strict=True)
    )


def _is_whole_of(given: Reading, told: Reading, alike: Callable[[JSON, JSON], bool]) -> bool:
    response, other = given.exchange.response, told.exchange.response
    view, streamed = given.response, told.response
    if response is None or other is None or view is None or streamed is None or view.streamed:
        return False
    if not streamed.streamed:
        return replace(response, headers=_known(response.headers)) == replace(other, headers=_known(other.headers))
    is_body = response.status == HTTPStatus.OK and response.headers.get("content-type", "").startswith(_JSON)
    return is_body and _is_good(response, view) and _is_good(other, streamed) and alike(view.body, streamed.body)


def _adds_nothing(whole: JSON, streamed: JSON) -> bool:
    """Whether a body is another one, but for members of it that hold nothing."""
    if isinstance(whole, dict) and isinstance(streamed, dict):
        return streamed.keys() <= whole.keys() and all(
            _adds_nothing(value, streamed[key]) if key in streamed else value in _EMPTY for key, value in whole.items()
        )
    if isinstance(whole, list) and isinstance(streamed, list):
        return len(whole) == len(streamed) and all(map(_adds_nothing, whole, streamed))
    return equal(whole, streamed)


def _known(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers whose values were kept; what stands for the others would be sent as theirs."""
    return {name: value for name, value in headers.items() if value != REDACTED}


def _seed(cell: Cell) -> str:
    return f"{cell.scenario.id}/{cell.target.name}"
