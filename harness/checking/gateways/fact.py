"""A fact that must be the same at both ends of a gateway, what became of it, and calls at both ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView, RequestView, ResponseView
from harness.checking.gateways.passage import Passage
from harness.contract.model import JSON
from harness.results import Fate, Severity


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
