"""A request and its answer as the witness reads them at both ends, and facts that must be the same there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from harness.apis.api import Api
from harness.apis.frontage import json_response
from harness.apis.jsonvalue import equal
from harness.apis.view import CallView, ModelStep, RequestView, ResponseView, WireError
from harness.checking.endpoints import legible
from harness.contract.model import JSON
from harness.results import Exchange, Fate, Severity
from harness.rules.reading import read
from harness.scenarios.schema import Scenario, StepSpec


@dataclass(frozen=True, slots=True)
class Way:
    """From the API that the client speaks to the one that the upstream speaks, and back."""

    client: Api
    upstream: Api


@dataclass(frozen=True, slots=True)
class Side:
    """An exchange at one end. `unread` is the reason why the witness cannot read the request or the whole response,
    which then is `None`, or as much of it as can be read."""

    exchange: Exchange
    request: RequestView | None
    response: ResponseView | None
    unread: str | None = None

    @property
    def is_cut(self) -> bool:
        """The answer ends too early: on its connection, or as a stream without its end."""
        response, view = self.exchange.response, self.response
        broken = response is None or response.delivery.ending != "complete"
        return broken or (view is not None and not view.complete)

    @property
    def is_answer(self) -> bool:
        """A whole answer came that is no error."""
        return self.response is not None and self.response.error is None and not self.is_cut

    @property
    def is_refusal(self) -> bool:
        """The upstream refuses the request, and does not fail as the scenario has it fail."""
        response = self.response
        return response is not None and response.error is not None and self.exchange.chat is None


@dataclass(frozen=True, slots=True)
class Passage:
    """One request of the client: `client` is the exchange with the gateway, `upstream` those that the gateway had with
    the upstream for it, more than one where it asked again. `before` are the earlier passages of the conversation.

    `own` is the same answer as the client's API itself says it: what is not in there, the API has no field for.
    """

    way: Way
    number: int
    client: Side
    upstream: tuple[Side, ...] = ()
    before: tuple[Passage, ...] = field(default=(), repr=False)
    own: ResponseView | None = field(default=None, repr=False)

    @property
    def last(self) -> Side | None:
        """The exchange with the upstream that the client's answer was made of."""
        return self.upstream[-1] if self.upstream else None

    @property
    def asked(self) -> tuple[RequestView, RequestView] | None:
        """The request at both ends, where both can be read."""
        if self.last is None or self.client.request is None or self.last.request is None:
            return None
        return self.client.request, self.last.request

    @property
    def answered(self) -> tuple[ResponseView, ResponseView] | None:
        """The answer at both ends, the upstream's first, where it is whole at both."""
        if self.last is None or not (self.last.is_answer and self.client.is_answer):
            return None
        theirs, ours = self.last.response, self.client.response
        return None if theirs is None or ours is None else (theirs, ours)

    @property
    def is_refused(self) -> bool:
        """The client was told that its request cannot be: by the gateway, or by the upstream through it."""
        error = self.client.response.error if self.client.response is not None else None
        status = 0 if error is None else error.meant or error.status
        if self.last is None:
            return status in _NO
        return status in range(400, 500) and self.last.is_refusal


_NO = (400, 404, 405, 413, 415, 422, 501)
"""With what a request is refused for what it says; a key, a limit and an overload are none of its words."""


def side(api: Api, exchange: Exchange) -> Side:
    """An exchange as the witness of an API reads it."""
    reading = read(api, 0, exchange)
    return Side(exchange, reading.request, reading.response, reading.unread)


def client_side(api: Api, exchange: Exchange) -> Side:
    """An exchange of the client. What its answer has is judged even where the whole of it cannot be read."""
    found = side(api, exchange)
    if found.response is not None or exchange.response is None:
        return found
    for done in (True, False):
        with contextlib.suppress(WireError):
            return replace(found, response=api.read(legible(exchange.response, done=done)))
    return found


def passages(
    way: Way, scenario: Scenario, client: Sequence[Exchange], upstream: Sequence[tuple[int, Exchange]]
) -> tuple[Passage, ...]:
    """The passages of a conversation, in their order. Each exchange with the upstream comes with the number of the
    client's request during which it arrived; its `chat` is the index of the script's answer that it got."""
    script = [step for turn in scenario.turns for step in turn.model]
    found: list[Passage] = []
    for number, exchange in enumerate(client):
        sides = tuple(side(way.upstream, each) for during, each in upstream if during == number)
        step = sides[-1].exchange.chat if sides else None
        own = None if step is None else _own(way.client, scenario, script[step])
        found.append(Passage(way, number, client_side(way.client, exchange), sides, tuple(found), own))
    return tuple(found)


def _own(api: Api, scenario: Scenario, step: StepSpec) -> ResponseView | None:
    said = ModelStep(
        step.text, step.thinking, step.named_calls, step.refusal, step.stop, (), step.truncated
    )  # wire parts of one API are none of another's
    model = api.targets[0].model
    body = api.build(said, scenario.id, model, api.profile_for(model))
    try:
        return api.read(json_response(body))
    except WireError:
        return None


@dataclass(frozen=True, slots=True)
class Fared:
    """What became of a fact in one passage. Of one that was lost, `message` says how; `origin` leads into the body that
    said it, `pointer` into the one behind the gateway; `expected` is what was said, `actual` what arrives. `added`:
    nobody has said it, so that nothing is lost, and it arrives all the same."""

    fate: Fate
    message: str = ""
    origin: str = ""
    pointer: str = ""
    actual: JSON = None
    expected: JSON = None
    severity: Severity = Severity.ERROR
    added: bool = False


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact. Findings of its loss have the rule `id`; `name` is what tables call it, `requirement` what has to hold,
    `because` what a loss of it does. `of_answer`: the upstream says it, else the client.

    `check` gives nothing where a passage does not say it. `said` is what a request says of it, as far as requests that
    are refused have to be told from those that are taken by it; nothing, if it does not. `severity` is how bad a loss
    is at the worst.
    """

    id: str
    name: str
    requirement: str
    because: str
    check: Callable[[Passage], Iterable[Fared]]
    said: Callable[[RequestView], str | bool] = lambda _request: False
    of_answer: bool = False
    severity: Severity = Severity.ERROR


def of_request(check: Callable[[RequestView, RequestView], Iterable[Fared]]) -> Callable[[Passage], Iterable[Fared]]:
    """Check both ends of a request, where both can be read."""
    return lambda passage: check(*passage.asked) if passage.asked is not None else ()


def of_answer(check: Callable[[ResponseView, ResponseView], Iterable[Fared]]) -> Callable[[Passage], Iterable[Fared]]:
    """Check both ends of an answer, the upstream's first, where it is whole at both."""
    return lambda passage: check(*passage.answered) if passage.answered is not None else ()


def told(*, same: bool) -> Fared:
    """It arrives: in the same form, or in another."""
    return Fared(Fate.PRESERVED if same else Fate.TRANSLATED)


def lost(  # noqa: PLR0913, PLR0917 - a loss with its evidence
    message: str,
    origin: str = "",
    pointer: str = "",
    actual: JSON = None,
    expected: JSON = None,
    severity: Severity = Severity.ERROR,
) -> Fared:
    """It does not arrive, or something else does."""
    return Fared(Fate.LOST, message, origin, pointer, actual, expected, severity)


def added(message: str, pointer: str, actual: JSON, severity: Severity = Severity.ERROR) -> Fared:
    """Nobody has said it, and it arrives."""
    return Fared(Fate.LOST, message, "", pointer, actual, None, severity, added=True)


def matched(said: Iterable[CallView], found: Iterable[CallView]) -> Iterator[tuple[CallView, CallView]]:
    """Each call as it was said and as it arrives, as long as they are the same ones."""
    for call, there in zip(said, found, strict=False):
        if call.name != there.name:
            return
        yield call, there


def arguments(pairs: Iterable[tuple[CallView, CallView]]) -> Iterator[Fared]:
    """What became of the arguments of calls that were whole."""
    for call, found in pairs:
        if call.malformed is not None:
            continue
        if found.malformed is None and equal(call.arguments, found.arguments):
            yield told(same=True)
        else:
            actual = found.arguments if found.malformed is None else found.malformed
            message = f"the arguments of the call of {call.name} arrive changed"
            yield lost(message, call.arguments_pointer, found.arguments_pointer, actual, call.arguments)
