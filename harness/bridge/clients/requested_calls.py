"""Calls that a client which keeps its history wants its caller to run: those that it returns or keeps in itself."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from harness.bridge.call_log import BoundMethod, call
from harness.bridge.clients.answer_fields import CALL_FIELDS, OwnCall, is_computed, own_calls
from harness.bridge.clients.methods import Method
from harness.bridge.clients.turns import EventList, Returned, plain_answer, read_returned
from harness.bridge.clients.values import items_of, plain_fields
from harness.model.messages import ChatRequest, Message


@dataclass(slots=True)
class RequestedCalls:
    """Reader of the calls that a client wants its caller to run. `methods` are those of the client."""

    client: object
    methods: Sequence[Method]
    api: str
    _read: list[OwnCall] = field(default_factory=list[OwnCall])

    def after(self, answer: Returned, turn: Message) -> list[OwnCall]:
        """Return the calls in the client's answer to `turn`, or else those that it keeps and that were not read yet."""
        found = _calls_in_events(answer, turn, self.api) if isinstance(answer, EventList) else []
        found = found or own_calls(plain_answer(answer)) or _calls_in_field(answer) or self._calls_in_client()
        self._read += found
        return found

    def _calls_in_client(self) -> list[OwnCall]:
        lists = map(own_calls, _kept_values(self.client, self.methods))
        known = [own for own, *_ in self._read]
        fresh = ([each for each in calls if not _is_in(known, each[0])] for calls in lists)
        return next(filter(None, fresh), list[OwnCall]())


def _is_in(known: Sequence[object], value: object) -> bool:
    return any(value is each for each in known)


def _calls_in_events(events: EventList, turn: Message, api: str) -> list[OwnCall]:
    """Return the calls that the events of a stream make up, each with the object that has its id, if there is one."""
    response = read_returned(events, ChatRequest("", (turn,)), api, "")
    calls = response.message.tool_calls if response is not None else ()
    objects = {made[1]: made[0] for each in events.items for made in _calls_in_event(each)}
    return [(objects.get(each.id, each), each.id, each.name, {**each.arguments}) for each in calls]


def _calls_in_field(answer: object) -> list[OwnCall]:
    """Return the calls of an object in a field of an answer, such as the action that it requires."""
    inner = (own_calls(each) for each in plain_fields(answer).values() if _has_calls(each))
    return next(filter(None, inner), list[OwnCall]())


def _calls_in_event(event: object) -> list[OwnCall]:
    """Return the whole calls in an event: those in its fields or members, or the event itself."""
    members = items_of(event) or [*plain_fields(event).values()]
    parts = [each for each in members if each is not None and not isinstance(each, str)]
    inside = (own_calls([each]) or own_calls(each) for each in parts)
    return next(filter(None, inside), None) or own_calls([event])


def _kept_values(client: object, methods: Sequence[Method]) -> Iterator[object]:
    """Yield what a client may keep its open calls in: an attribute, a property or a method whose name means them, or an
    attribute for its last answer.
    """
    fields = plain_fields(client)
    for name in dir(type(client)):
        if is_computed(client, name) and _OPEN_CALLS.search(name):
            with contextlib.suppress(Exception):  # a property of third-party code may fail in any way
                fields = {**fields, name: getattr(client, name)}
    for name, each in fields.items():
        if _OPEN_CALLS.search(name):
            yield [*cast("Mapping[str, object]", each).values()] if isinstance(each, Mapping) else each
    for each in methods:
        if each.required <= {"self"} and _OPEN_CALLS_METHODS.fullmatch(each.path[0]):
            with contextlib.suppress(Exception):  # third-party code may fail in any way
                yield call(BoundMethod(client, each.path))
    yield from (each for name, each in fields.items() if _LAST_ANSWERS.search(name) and _has_calls(each))


def _has_calls(value: object) -> bool:
    return any(name in plain_fields(value) or is_computed(value, name) for name in CALL_FIELDS)


_OPEN_CALLS = re.compile("pending|outstanding|unanswered|unresolved|requested|calls$")

_OPEN_CALLS_METHODS = re.compile(
    "(get_|list_)?(pending|open|outstanding|unanswered|unresolved|requested)(_\\w+)?|(get_)?(tool_|function_)?calls"
)

_LAST_ANSWERS = re.compile("last|latest|current|answer|response|reply|result|turn|completion|message")
