"""The limits of Relay: a table, and their checks."""

from __future__ import annotations

from collections.abc import Iterator

from harness.apis.jsonvalue import join, loads
from harness.apis.limits import Limit, Violation, limits_among
from harness.apis.profiles import RuleSet
from harness.apis.view import CallView, RequestView, ResultView, WireError
from harness.model.http import HttpRequest
from relay.requests import SETTINGS, view

_SOURCE = "the manual of Relay, 'Turns'"

VERSION = Limit("relay-version", "Every request has the header relay-version.", _SOURCE)
SHAPE = Limit("relay-shape", "A body is a JSON object with turns, parts and tools.", _SOURCE)
FIELD = Limit("relay-field-unknown", "A body has no fields that Relay does not know.", _SOURCE)
TURNS = Limit("relay-turns-missing", "A conversation has a turn, and each turn a part.", _SOURCE)
UNANSWERED = Limit("relay-call-unanswered", "Every call is answered in the turn behind it.", _SOURCE)
UNASKED = Limit("relay-result-unasked", "A result answers a call of the turn before it, once.", _SOURCE)

LIMITS = limits_among(globals())

_FIELDS = frozenset({"model", "system", "turns", "tools", "calling", "answer", "stream", *SETTINGS})


def header_violation(request: HttpRequest) -> Violation | None:
    """The version is not named."""
    return None if "relay-version" in request.headers else VERSION.make_violation("relay-version is missing", "")


def violations(request: HttpRequest, _rule_set: RuleSet) -> list[Violation]:
    """Everything that is refused."""
    try:
        body, seen = loads(request.body), view(request)
    except WireError as error:
        return [SHAPE.make_violation(error.reason, error.pointer)]
    unknown = sorted(body.keys() - _FIELDS) if isinstance(body, dict) else []
    return [*(FIELD.make_violation(f"unknown field {key}", join("", key)) for key in unknown), *_conversation(seen)]


def _conversation(seen: RequestView) -> Iterator[Violation]:
    if not seen.turns:
        yield TURNS.make_violation("no turns", "/turns")
    open_calls: dict[str | None, CallView] = {}
    for turn in seen.turns:
        if not turn.parts:
            yield TURNS.make_violation("a turn without parts", turn.pointer)
        for part in turn.parts:
            if isinstance(part, ResultView) and open_calls.pop(part.call_id, None) is None:
                yield UNASKED.make_violation(f"no open call {part.call_id}", part.id_pointer, actual=part.call_id)
        yield from (UNANSWERED.make_violation(f"the call {key} has no result", turn.pointer) for key in open_calls)
        open_calls = {part.id: part for part in turn.parts if isinstance(part, CallView)}
    if open_calls:
        yield UNANSWERED.make_violation("the last turn has calls", seen.turns[-1].pointer)
