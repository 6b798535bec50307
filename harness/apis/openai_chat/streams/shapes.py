"""The chunks in which compatible servers send the calls of a stream, for an answer that was streamed otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from harness.apis.api import StreamShape
from harness.apis.openai_chat.responses.dialects import DIALECTS, Dialect, call_as
from harness.apis.openai_chat.streams import fold
from harness.apis.openai_chat.streams.building import streamed
from harness.contract.model import JSON

_DOCUMENTED = (
    "arguments-in-opening-piece",
    "whole-calls",
    "repeated-ids",
    "empty-strings",
    "index-from-one",
    "empty-arguments",
)
_DEPARTING = ("early-usage", "no-index", "one-index", "id-per-piece")
"""Dialects that say the same in other chunks. Those that give no ids, or other ones, or count no tokens say less."""


def _shaped(dialect: Dialect, stream: bytes, seed: str) -> bytes:
    body, complete = fold(stream)
    choices = body.get("choices")
    if not complete or "error" in body or not isinstance(choices, list):
        return stream
    told: dict[str, JSON] = {**body, "choices": [_choice(dialect, choice) for choice in choices]}
    return streamed(told, seed, usage=body.get("usage") is not None, dialect=dialect)


def _choice(dialect: Dialect, choice: JSON) -> JSON:
    message = choice.get("message") if isinstance(choice, dict) else None
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict) or not isinstance(calls, list):
        return choice
    return {**choice, "message": {**message, "tool_calls": [call_as(dialect, call) for call in calls]}}


SHAPES: Mapping[str, StreamShape] = {
    name: StreamShape(partial(_shaped, DIALECTS[name]), departs=name in _DEPARTING)
    for name in (*_DOCUMENTED, *_DEPARTING)
}
"""By name."""
