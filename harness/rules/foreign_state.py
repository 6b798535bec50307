"""Rule about the state of other APIs in a history: their signatures and items are not sent to this API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from harness.apis.jsonvalue import parsed
from harness.apis.response_rules import Subject
from harness.equivalence.view_differences import json_pointer
from harness.model.messages import JSON, ChatRequest, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from harness.rules.evidence import Evidence
from harness.rules.rule import RuleTable, RuleViolation

_MIN_STATE_CHARACTERS = 12
"""Minimum length of a text that is unique enough to be recognised. Signatures and encrypted items are longer."""

RULES = RuleTable(Subject.HISTORY, "harness.model.messages: provider_metadata")


@RULES.add(
    "foreign-state-sent",
    "Signatures and other state of another API are not sent to this API.",
    because="the provider refuses a signature that it did not issue, or reads it as text of the conversation",
    remedy="send only the `provider_metadata` and `Opaque` parts of the API itself",
)
def _foreign_state_sent(evidence: Evidence) -> Iterator[RuleViolation]:
    for req in evidence.chat_exchanges[:1]:  # later requests contain texts that this API issued
        state = {text: api for api, text in foreign_state(req.chat.request)}
        for path, text in texts_of(parsed(req.reading.exchange.request.body)) if state else ():
            api = state.get(text, req.view.api)
            if api != req.view.api:
                message = f"state of {api} is sent to {req.view.api}, which did not issue it"
                yield req.reading.violation(message, json_pointer(path), text, None, case=api)


def foreign_state(request: ChatRequest) -> Iterator[tuple[str, str]]:
    """Yield the texts in wire fields and opaque parts of a history, each with its API. Texts with spaces are no state,
    nor are texts that the request contains in other places.
    """
    parts = [part for message in request.messages for part in message.parts]
    known = set(chain.from_iterable(map(_texts_of_part, parts)))
    for tool in request.tools:
        known |= {tool.name, *(text for _, text in texts_of(tool.parameters))}
    for part in parts:
        fields = {part.api: part.raw} if isinstance(part, Opaque) else part.provider_metadata
        for api, value in fields.items():
            for _, text in texts_of(value):
                if len(text) >= _MIN_STATE_CHARACTERS and text not in known and " " not in text:
                    yield api, text


def _texts_of_part(part: Part) -> Iterable[str]:
    match part:
        case Text() | Thinking():
            return [part.text]
        case ToolCall():
            return [part.id, part.name, *(text for _, text in texts_of(part.arguments))]
        case ToolResult():
            return [part.call_id]
        case _:
            return []


def texts_of(value: JSON, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each text in a JSON value with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from texts_of(each, (*path, key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from texts_of(each, (*path, place))
