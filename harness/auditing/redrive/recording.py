"""What a cassette holds of one API, read by the witness: the material that is driven again."""

from __future__ import annotations

from dataclasses import dataclass

from harness import catalog
from harness.apis.api import Api
from harness.apis.jsonvalue import loads
from harness.apis.lift import Lift
from harness.apis.view import RequestView, ResponseView, WireError
from harness.contract.http import HttpRequest, HttpResponse
from harness.contract.model import JSON
from harness.tape.cassette import Cassette


@dataclass(frozen=True, slots=True)
class Recorded:
    """One exchange whose request was accepted: `index` is its place in the cassette, `body` the request's JSON, and
    `answer` the response as it came."""

    index: int
    wire: Api
    http: HttpRequest
    body: JSON
    request: RequestView
    response: ResponseView
    answer: HttpResponse

    @property
    def model(self) -> str:
        """The model that the request names."""
        return self.wire.model_of(self.http) or ""

    @property
    def broken(self) -> bool:
        """The response has no end, or not the one that HTTP wants: an adapter has to raise."""
        return not self.response.complete or self.answer.delivery.ending != "complete"


def recorded(cassette: Cassette) -> dict[str, list[Recorded]]:
    """The accepted exchanges of each API, in their order. What the witness cannot read is left out: the audit counts
    that by itself."""
    found: dict[str, list[Recorded]] = {}
    for index, interaction in enumerate(cassette.interactions):
        exchange = _read(index, interaction.request, interaction.response)
        if exchange is not None:
            found.setdefault(exchange.wire.name, []).append(exchange)
    return found


def _read(index: int, request: HttpRequest, response: HttpResponse | None) -> Recorded | None:
    wire = next((wire for wire in catalog.apis() if wire.recognises(request)), None)
    if wire is None or response is None or not 200 <= response.status < 300:
        return None
    try:
        answer = wire.read(response)
        return (
            None
            if answer.error
            else Recorded(index, wire, request, loads(request.body), wire.view(request), answer, response)
        )
    except WireError:
        return None


def lifted(wire: Api, body: JSON, view: RequestView) -> Lift:
    """What reads canonical values off a request of an API that has a lift."""
    assert wire.lift is not None  # noqa: S101 - pairs of others are not driven
    return wire.lift(body, view)
