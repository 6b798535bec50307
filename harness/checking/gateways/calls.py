"""Calls at both ends of a gateway, in a request or in an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.apis.jsonvalue import equal
from harness.apis.view import CallView
from harness.checking.gateways.fact import Fared, lost, told


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
