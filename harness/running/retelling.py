"""Plays a streamed cell again with the same answers, told in another way: whole, or cut elsewhere.

The answers are those of the cell's own exchanges, from wherever they came, and go through the adapter: what it makes of
a stream must not depend on how the network cut it, nor differ from what it makes of the same answer as one body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from harness import catalog
from harness.apis.api import Api
from harness.contract.http import HttpRequest, HttpResponse
from harness.reference.session import exhausted
from harness.results import Retelling
from harness.rules.evidence import Evidence, Reading
from harness.running.stages import Cell, Stages
from harness.running.workers.pool import played
from harness.scenarios.schema import Variant
from harness.tape.recut import recut
from harness.tape.redact import REDACTED
from harness.tape.telling import asks_for_stream, one_body


def retellings(cell: Cell, evidence: Evidence, stages: Stages, recuts: int) -> Iterator[Retelling]:
    """A streamed cell as whole answers, if each of its streams amounts to one, and with `recuts` other cuts of them.

    Whole ones are told to an adapter that asks for them; who always asks for a stream gets the stream.

    Raises what connecting and closing the adapter's client raises, and what `harness.running.workers.pool.played` does.
    """
    if cell.variant != "stream":
        return
    answered = [reading for reading in evidence.readings if reading.exchange.response is not None]
    if not any(reading.response is not None and reading.response.streamed for reading in answered):
        return
    whole = [_whole(reading) for reading in answered]
    if None not in whole:
        streams = [*_responses(answered)]
        answers = [_Answer(one, stream) for one, stream in zip(whole, streams, strict=True) if one is not None]
        yield _retold(cell, stages, "as a whole body", "whole", answers)
    for number in range(recuts):
        told = [recut(response, number, _seed(cell)) for response in _responses(answered)]
        ways = dict.fromkeys(way for _, way in told)
        yield _retold(cell, stages, "; ".join(ways), "stream", [_Answer(response, response) for response, _ in told])


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer for a request that asks for no stream, and for one that does."""

    whole: HttpResponse
    streamed: HttpResponse


def _retold(cell: Cell, stages: Stages, way: str, variant: Variant, answers: Sequence[_Answer]) -> Retelling:
    with stages.endpoint(cell.target, _in_order(answers, catalog.api(cell.target.api))) as endpoint:
        playing = played(cell.scenario, cell.target, endpoint, _unnoticed, variant)
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
            return exhausted("the cell was played with fewer requests than it is retold with")
        if answer.whole == answer.streamed or not asks_for_stream(wire, request):
            return answer.whole
        return answer.streamed

    return handle


def _responses(answered: Sequence[Reading]) -> Iterator[HttpResponse]:
    for reading in answered:
        if reading.exchange.response is not None:
            yield reading.exchange.response


def _whole(reading: Reading) -> HttpResponse | None:
    """The response as one body; `None` for a stream that does not amount to one."""
    response, view = reading.exchange.response, reading.response
    if view is None or response is None or not view.streamed:
        return response and replace(response, headers=_known(response.headers))
    if view.error is not None or not view.complete or response.delivery.ending != "complete":
        return None
    return one_body(view)


def _known(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers whose values were kept; what stands for the others would be sent as theirs."""
    return {name: value for name, value in headers.items() if value != REDACTED}


def _seed(cell: Cell) -> str:
    return f"{cell.scenario.id}/{cell.target.name}"
